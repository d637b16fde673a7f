// The receiving half of TcpConnection: bytes into buffers and places, under absolute deadlines.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/fault.h"
#include "base/text.h"
#include "net/tcp/connection.h"

namespace dfkv::net {
namespace {

constexpr size_t kWindow = 64 * 1024;  // of a receive that expects small frames
constexpr size_t kSmallWindow = 512;   // after a PUT: little of the next value comes with its head
constexpr size_t kChunk = 512 * 1024;  // of a value per receive, so that its CRC is taken from the cache

}  // namespace

void TcpConnection::Consume(size_t bytes) {
  begin_ += bytes;
  DFKV_CHECK(begin_ <= end_);
  if (begin_ == end_) begin_ = end_ = 0;
}

void TcpConnection::EnsureBuffer() {
  if (buffer_ == nullptr) buffer_ = shard_->BorrowBuffer();
}

void TcpConnection::ReleaseBuffer() {
  if (buffer_ != nullptr) shard_->GiveBackBuffer(std::move(buffer_));
  begin_ = end_ = 0;
}

// Room for the bytes of heads that may come next: what the frame at hand lacks, or a window.
iovec TcpConnection::Window() {
  EnsureBuffer();
  if (begin_ > 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  size_t wanted = small_window_ ? kSmallWindow : kWindow;
  if (header_known_) wanted = std::max(wanted, wire::FrameBytes(header_) - end_);
  const size_t size = std::min(wanted, shared_.receive_buffer_bytes - end_);
  return {buffer_.get() + end_, size};
}

// The next byte has to be here by then: within stall_ms, and however many came before it, by the time that
// the slowest sender allowed would need. So a peer that sends a byte now and then is found out by the bytes
// it has sent, not at the end of what it announced.
Nanos TcpConnection::ByteDeadline() const {
  const TcpOptions& options = shared_.options;
  if (!greeted_) return accepted_at_ + Nanos{options.first_frame_ms} * kMillisecond;
  const Nanos stall = Nanos{options.stall_ms} * kMillisecond;
  return std::min(now_, frame_began_ + held_back_ + TransferTime(frame_bytes_ + 1, options.min_rate)) + stall;
}

// One receive. When the node itself was late, the time is not held against the peer: it looks once more.
// `iov` stays in place until it has ended; none at all: until bytes can be read.
io::Task<int64_t> TcpConnection::Receive(const iovec* iov, uint32_t count, Nanos deadline) {
  for (bool again = false;; again = true) {
    receive_op_ = io::Op{};
    receive_op_.kind = count == 0 ? io::Op::Kind::kReadable : io::Op::Kind::kRecv;
    receive_op_.fd = fd_;
    receive_op_.iov = iov;
    receive_op_.iov_count = count;
    receive_op_.deadline = deadline;
    receiving_ = true;
    const int64_t result = co_await reactor_.Await(&receive_op_);
    receiving_ = false;
    now_ = reactor_.Now();
    info_.last_active.store(now_, std::memory_order_relaxed);
    if (result > 0 && count > 0) {
      shared_.metrics.receives->Add();
      shared_.metrics.received_bytes->Add(static_cast<uint64_t>(result));
      frame_bytes_ += static_cast<uint64_t>(result);
    }
    if (result != -ETIME || again || ended_ || now_ - deadline < kNodeLate) co_return result;
    DFKV_PROBE("tcp.late");
    held_back_ += now_ - deadline + kNodeLate;
    deadline = now_ + kNodeLate;
  }
}

bool TcpConnection::ReceiveFailed(int64_t result) {
  if (ended_ || broken_) return false;  // evicted, or the send side failed
  if (result == 0) {
    return End(CloseReason::kBroken, Status(Code::kUnavailable, "closed within a frame"));
  }
  if (result == -ETIME) {
    const Status late(Code::kTimeout, greeted_ ? "a frame did not arrive in time" : "no hello in time");
    output_.AddError(header_.op & static_cast<uint8_t>(~wire::kAnswerBit),
                     header_known_ ? header_.request_id : 0, late);
    MarkDirty();
    linger_ = true;
    return End(CloseReason::kDeadline, late);
  }
  return End(CloseReason::kBroken, Status(Code::kUnavailable, ErrnoText(static_cast<int>(-result))));
}

// Receives the first bytes of a value, or of what follows, into the buffer: a place is asked for only when
// there are any. False: the connection ended.
io::Task<bool> TcpConnection::ReceiveHead() {
  small_window_ = true;
  const iovec iov = Window();
  const Nanos deadline = ByteDeadline();
  const int64_t got = co_await Receive(&iov, 1, deadline);
  if (got <= 0 || ended_) co_return ReceiveFailed(got);
  end_ += static_cast<size_t>(got);
  co_return true;
}

// Receives at least one byte into the buffer. Between frames an idle connection waits without one.
io::Task<bool> TcpConnection::FillBuffer() {
  const TcpOptions& options = shared_.options;
  const bool between = buffered().empty();
  if (between) {
    ReleaseBuffer();
    idle_ = true;
    UpdateEvictable();
    const Nanos until = greeted_ ? now_ + Nanos{options.idle_ms} * kMillisecond : ByteDeadline();
    const int64_t result = co_await Receive(nullptr, 0, until);
    idle_ = false;
    UpdateEvictable();
    if (ended_) co_return false;
    if (stopping_ && result < 0) co_return End(CloseReason::kStopped, Ok());
    if (result == -ETIME && greeted_) {
      if (calls_ > 0 || !output_.empty()) co_return true;  // the peer waits for us: not idle
      co_return End(CloseReason::kIdle, Ok());
    }
    if (result < 0) co_return ReceiveFailed(result);
    BeginFrame();
  }
  const iovec iov = Window();
  const Nanos deadline = ByteDeadline();
  const int64_t got = co_await Receive(&iov, 1, deadline);
  if (got == 0 && between) co_return End(CloseReason::kPeer, Ok());
  if (got <= 0 || ended_) co_return ReceiveFailed(got);
  end_ += static_cast<size_t>(got);
  co_return true;
}

void TcpConnection::Together::Add(const Place& place, uint64_t length, MutableByteSpan waste) {
  const bool received = place.kind == Place::Kind::kReceive;
  DFKV_CHECK(!received || place.buffer.size() == length);
  if (!received) discarded |= 1u << count;
  iov[count++] = {received ? place.buffer.data() : waste.data(), length};
  left += length;
}

// Receives the next value, or the next few together while they are small.
io::Task<bool> TcpConnection::ReceiveValues() {
  const uint64_t length = put_lengths_[put_next_];
  if (length > 0 && buffered().empty()) {
    const bool arrived = co_await ReceiveHead();
    if (!arrived) co_return false;
  }
  Place place = handler_.PlaceValue(put_call_, put_next_);
  while (place.kind == Place::Kind::kWait) {
    const Nanos since = now_;
    co_await reactor_.Until(place.again);
    now_ = reactor_.Now();
    held_back_ += now_ - since;
    if (ended_ || broken_) co_return false;
    place = handler_.PlaceValue(put_call_, put_next_);
  }
  bool received = false;
  if (length > kTogetherBytes) {
    received = co_await ReceiveLarge(place, length);
  } else {
    Together group;
    group.Add(place, length, shard_->discard_buffer());
    PlaceMore(&group);
    received = co_await ReceiveTogether(group);
  }
  co_return received;
}

// Takes the places of the values that can be received together with those of `group`.
void TcpConnection::PlaceMore(Together* group) {
  const auto first = put_lengths_.begin() + put_next_;
  while (group->count < Together::kValuesMax && first + group->count < put_lengths_.end()) {
    const uint64_t length = first[group->count];
    if (length > kTogetherBytes - group->left) return;
    const Place place = handler_.PlaceValue(put_call_, put_next_ + group->count);
    if (place.kind == Place::Kind::kWait) return;  // asked for again when its bytes are next
    group->Add(place, length, shard_->discard_buffer());
  }
}

io::Task<bool> TcpConnection::ReceiveTogether(Together group) {
  small_window_ = true;
  Arrived(&group, std::min<uint64_t>(buffered().size(), group.left), true);
  while (group.at < group.count) {
    group.iov[group.count] = Window();
    const uint32_t windows = group.iov[group.count].iov_len > 0 ? 1 : 0;
    const Nanos deadline = ByteDeadline();
    const int64_t result = co_await Receive(&group.iov[group.at], group.count - group.at + windows, deadline);
    if (result <= 0 || ended_) co_return ReceiveFailed(result);
    const uint64_t got = static_cast<uint64_t>(result);
    const uint64_t mine = std::min(got, group.left);
    end_ += got - mine;
    Arrived(&group, mine, false);
  }
  co_return true;
}

// The next `bytes` of the group are here: in place, or in the buffer.
void TcpConnection::Arrived(Together* group, uint64_t bytes, bool in_buffer) {
  group->left -= bytes;
  while (group->at < group->count) {
    iovec& lacks = group->iov[group->at];
    const bool discarded = (group->discarded >> group->at & 1) != 0;
    const size_t step = std::min<uint64_t>(lacks.iov_len, bytes);
    const MutableByteSpan place(static_cast<std::byte*>(lacks.iov_base), step);
    if (!discarded && in_buffer) {
      group->crc = Crc32cCopy(group->crc, place, buffered().first(step));
      shared_.metrics.copied_bytes->Add(step);
    } else if (!discarded) {
      group->crc = Crc32cExtend(group->crc, place);
    }
    if (in_buffer) Consume(step);
    lacks = {place.data() + step, lacks.iov_len - step};
    bytes -= step;
    if (lacks.iov_len > 0) return;
    ++group->at;
    handler_.OnValue(put_call_, put_next_++, discarded ? 0 : std::exchange(group->crc, 0));
  }
}

io::Task<bool> TcpConnection::ReceiveLarge(Place place, uint64_t length) {
  uint32_t crc = 0;
  bool received = false;
  if (place.kind == Place::Kind::kReceive) {
    DFKV_CHECK(place.buffer.size() == length);
    received = co_await ReceiveInto(place.buffer, &crc);
  } else {
    received = co_await Discard(length);
  }
  if (received) handler_.OnValue(put_call_, put_next_++, crc);
  co_return received;
}

io::Task<bool> TcpConnection::ReceiveInto(MutableByteSpan into, uint32_t* crc) {
  const size_t head = std::min(buffered().size(), into.size());
  *crc = Crc32cCopy(0, into.first(head), buffered().first(head));
  shared_.metrics.copied_bytes->Add(head);
  Consume(head);
  size_t have = head;
  small_window_ = true;
  while (have < into.size()) {
    const size_t wanted = std::min(into.size() - have, kChunk);
    std::array<iovec, 2> iov{};
    iov[0] = {into.data() + have, wanted};
    if (have + wanted == into.size()) iov[1] = Window();
    const uint32_t count = iov[1].iov_len > 0 ? 2 : 1;
    const Nanos deadline = ByteDeadline();
    const int64_t result = co_await Receive(iov.data(), count, deadline);
    if (result <= 0 || ended_) co_return ReceiveFailed(result);
    const size_t got = static_cast<size_t>(result);
    const size_t mine = std::min(got, wanted);
    *crc = Crc32cExtend(*crc, into.subspan(have, mine));
    have += mine;
    end_ += got - mine;
  }
  co_return true;
}

io::Task<bool> TcpConnection::Discard(uint64_t length) {
  const uint64_t head = std::min<uint64_t>(buffered().size(), length);
  Consume(head);
  uint64_t left = length - head;
  small_window_ = true;
  const MutableByteSpan waste = shard_->discard_buffer();
  while (left > 0) {
    const size_t wanted = std::min<uint64_t>(left, waste.size());
    std::array<iovec, 2> iov{};
    iov[0] = {waste.data(), wanted};
    if (wanted == left) iov[1] = Window();
    const uint32_t count = iov[1].iov_len > 0 ? 2 : 1;
    const Nanos deadline = ByteDeadline();
    const int64_t result = co_await Receive(iov.data(), count, deadline);
    if (result <= 0 || ended_) co_return ReceiveFailed(result);
    const uint64_t got = static_cast<uint64_t>(result);
    const uint64_t mine = std::min<uint64_t>(got, wanted);
    left -= mine;
    end_ += got - mine;
  }
  co_return true;
}

}  // namespace dfkv::net
