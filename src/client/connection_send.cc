// The sending half of Connection. One frame is in the queue at a time: the next is made when the socket has
// taken the last, so that the checks of a large batch are computed while the system sends.
#include <algorithm>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/text.h"
#include "client/connection.h"
#include "wire/encode.h"
#include "wire/options.h"

namespace dfkv::client {
namespace {

constexpr uint64_t kPutBytesPerRequest = 1 << 20;  // a request is closed once it carries this much
constexpr uint64_t kGetBytesPerRequest = 1 << 20;  // or once it asks for this much
// Values that wait in the sockets of both sides have left the caches by the time they are copied on, so no
// third request is sent while so much is to come.
constexpr uint64_t kGetBytesInFlight = 2 << 20;
constexpr uint32_t kIovPerSend = 1024;            // of the system
constexpr uint64_t kPingBit = uint64_t{1} << 63;  // in the ids of PINGs
// What this side accepts; the node's values are smaller.
constexpr uint32_t kItemsMax = 64 * 1024;
constexpr uint64_t kPayloadBytesMax = uint64_t{1} << 32;
constexpr uint32_t kRequestsInFlightMax = 64;

template <typename Span>
void AppendPieces(std::vector<iovec>& queue, std::span<const Span> pieces) {
  for (const Span& piece : pieces) {
    if (!piece.empty()) queue.push_back({const_cast<std::byte*>(piece.data()), piece.size()});
  }
}

uint32_t CrcOf(std::span<const ByteSpan> pieces) {
  uint32_t crc = 0;
  for (const ByteSpan& piece : pieces) crc = Crc32cExtend(crc, piece);
  return crc;
}

}  // namespace

void Connection::Pump() {
  if (state_ != State::kReady || send_busy_) return;
  if (queue_at_ == queue_.size()) {
    if (ping_wanted_) {
      QueuePing();
    } else if (!NextRequest()) {
      return EndShareIfComplete();
    }
  }
  StartSend();
}

// Puts the next request of the share into the queue; false when there is none, or none may be sent now.
bool Connection::NextRequest() {
  if (share_ == nullptr) return false;
  while (share_->next < share_->count && RefuseHere(batch_->order[share_->first + share_->next])) {
    ++share_->next;
  }
  if (share_->next == share_->count || requests_.size() >= agreed_.requests_in_flight_max) return false;
  uint32_t count = std::min(share_->count - share_->next, agreed_.items_max);
  uint64_t payload_bytes = 0;
  uint64_t expected_bytes = 0;
  if (batch_->op == wire::Op::kPut) count = ItemsOfPut(&payload_bytes);
  if (batch_->op == wire::Op::kGet || batch_->op == wire::Op::kGetRange) {
    count = ItemsOfGet(&expected_bytes);
    if (requests_.size() >= 2 && expected_bytes_ + expected_bytes > kGetBytesInFlight) return false;
  }
  const uint64_t id = id_next_++;
  EncodeRequest(id, count, payload_bytes);
  requests_.push_back({id, share_->next, count, 0, expected_bytes});
  expected_bytes_ += expected_bytes;
  share_->next += count;
  StartReceive();
  return true;
}

// Gives an item that no node would take its code. Such an item also ends a request, whose items are
// neighbours.
bool Connection::RefuseHere(uint32_t item) {
  if (batch_->op != wire::Op::kPut) return false;
  if (TotalBytes(batch_->puts[item].pieces) <= agreed_.object_bytes_max) return false;
  batch_->Answer(*share_, item, Code::kTooLarge, 0);
  return true;
}

// What a GET's item is likely to bring: the memory for it may be much larger than what is stored.
uint64_t Connection::ExpectedBytes(uint32_t item) const {
  const uint64_t room = std::min<uint64_t>(TotalBytes(batch_->gets[item].pieces), UINT32_MAX);
  return value_bytes_seen_ == 0 ? room : std::min(room, value_bytes_seen_);
}

uint32_t Connection::ItemsOfGet(uint64_t* expected_bytes) const {
  const uint32_t most = std::min(share_->count - share_->next, agreed_.items_max);
  uint32_t count = 0;
  while (count < most && *expected_bytes < kGetBytesPerRequest) {
    *expected_bytes += ExpectedBytes(batch_->order[share_->first + share_->next + count]);
    ++count;
  }
  return count;
}

uint32_t Connection::ItemsOfPut(uint64_t* payload_bytes) const {
  const uint32_t most = std::min(share_->count - share_->next, agreed_.items_max);
  uint32_t count = 0;
  while (count < most && *payload_bytes < kPutBytesPerRequest) {
    const uint32_t item = batch_->order[share_->first + share_->next + count];
    const uint64_t bytes = TotalBytes(batch_->puts[item].pieces);
    if (bytes > agreed_.object_bytes_max ||
        (count > 0 && *payload_bytes + bytes > agreed_.payload_bytes_max)) {
      break;
    }
    *payload_bytes += bytes;
    ++count;
  }
  return count;
}

void Connection::EncodeRequest(uint64_t id, uint32_t count, uint64_t payload_bytes) {
  const Nanos left = batch_->deadline - reactor_.Now();
  wire::RequestSpec spec;
  spec.op = batch_->op;
  spec.request_id = id;
  spec.tenant = batch_->tenant.value();
  spec.deadline_ms = static_cast<uint32_t>(std::clamp<Nanos>(left / kMillisecond, 1, UINT32_MAX));
  spec.payload_bytes = payload_bytes;
  const uint32_t* items = batch_->order.data() + share_->first + share_->next;
  if (batch_->op == wire::Op::kStats) {
    head_.resize(wire::RequestBytes(batch_->op, 0));
    return Queue(wire::EncodeRequest(head_, spec));
  }
  head_.resize(wire::RequestBytes(batch_->op, count));
  if (batch_->op == wire::Op::kPut) {
    put_items_.clear();
    for (uint32_t i = 0; i < count; ++i) {
      const ObjectId& id_of = batch_->ids[items[i]];
      const PutItem& put = batch_->puts[items[i]];
      put_items_.push_back({id_of.hi, id_of.lo, TotalBytes(put.pieces), CrcOf(put.pieces), put.depth});
    }
    Queue(wire::EncodeRequest(head_, spec, put_items_));
    for (uint32_t i = 0; i < count; ++i) AppendPieces(queue_, batch_->puts[items[i]].pieces);
  } else if (batch_->op == wire::Op::kGet || batch_->op == wire::Op::kGetRange) {
    uint64_t capacity = 0;
    get_items_.clear();
    for (uint32_t i = 0; i < count; ++i) {
      const ObjectId& id_of = batch_->ids[items[i]];
      const GetItem& get = batch_->gets[items[i]];
      const uint64_t bytes = TotalBytes(get.pieces);
      capacity += std::min<uint64_t>(bytes, UINT32_MAX);
      get_items_.push_back({id_of.hi, id_of.lo, get.range ? get.offset : 0, bytes});
    }
    direct_ = capacity / count >= kDirectBytesMin;
    Queue(wire::EncodeRequest(head_, spec, get_items_));
  } else {
    key_items_.clear();
    for (uint32_t i = 0; i < count; ++i) {
      key_items_.push_back({batch_->ids[items[i]].hi, batch_->ids[items[i]].lo});
    }
    direct_ = false;
    Queue(wire::EncodeRequest(head_, spec, key_items_));
  }
}

void Connection::QueueHello() {
  wire::HelloBody mine;
  mine.payload_bytes_max = kPayloadBytesMax;
  mine.object_bytes_max = kPayloadBytesMax;
  mine.items_max = kItemsMax;
  mine.requests_in_flight_max = kRequestsInFlightMax;
  agreed_ = mine;
  head_.resize(wire::kHeaderBytes + sizeof mine);
  Queue(wire::EncodeHello(head_, id_next_++, mine));
}

void Connection::QueuePing() {
  ping_wanted_ = false;
  wire::RequestSpec spec;
  spec.op = wire::Op::kPing;
  spec.request_id = kPingBit | id_next_++;
  head_.resize(wire::RequestBytes(spec.op, 0));
  Queue(wire::EncodeRequest(head_, spec));
}

void Connection::Queue(size_t head_bytes) {
  DFKV_CHECK(head_bytes != 0);
  queue_.clear();
  queue_at_ = 0;
  queue_.push_back({head_.data(), head_bytes});
}

void Connection::StartSend() {
  DFKV_CHECK(!send_busy_ && queue_at_ < queue_.size());
  send_op_.kind = io::Op::Kind::kSend;
  send_op_.fd = fd_.get();
  send_op_.iov = queue_.data() + queue_at_;
  send_op_.iov_count = static_cast<uint32_t>(std::min<size_t>(queue_.size() - queue_at_, kIovPerSend));
  send_busy_ = true;
  reactor_.Submit(&send_op_);
}

void Connection::OnSent(int64_t result) {
  if (result < 0) {
    return Fail(Status(Code::kUnavailable, Cat("send: ", ErrnoText(static_cast<int>(-result)))));
  }
  // Only a payload that moves is a sign of life: heads vanish in the socket's buffer at once.
  if (queue_.size() > 1 && queue_at_ > 0) {
    last_progress_ = reactor_.Now();
    pinged_at_ = 0;
  }
  auto taken = static_cast<uint64_t>(result);
  while (taken > 0) {
    iovec& front = queue_[queue_at_];
    const uint64_t step = std::min<uint64_t>(taken, front.iov_len);
    front.iov_base = static_cast<std::byte*>(front.iov_base) + step;
    front.iov_len -= step;
    taken -= step;
    if (front.iov_len == 0) ++queue_at_;
  }
  if (queue_at_ < queue_.size()) return StartSend();
  Pump();
}

}  // namespace dfkv::client
