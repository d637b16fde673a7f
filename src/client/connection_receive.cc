// The receiving half of Connection. Heads of frames go to buffer_; of a value, what came along with the head
// is copied (and checked in the same pass), the rest is received where the caller wants it.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/fault.h"
#include "base/text.h"
#include "client/connection.h"
#include "wire/ops.h"
#include "wire/options.h"

namespace dfkv::client {
namespace {

constexpr uint64_t kBufferBytes = 64 << 10;
constexpr uint64_t kHeadItemsMax = 1024;          // expected in one head
constexpr uint64_t kReceiveBytesMax = 1 << 20;    // to the caller in one go, so that it is checked in cache
constexpr size_t kReceiveIovMax = 512;            // of one receive
constexpr uint64_t kStatsBytesMax = 64ull << 20;  // of an answer to STATS

Status Malformed(std::string text) {
  return {Code::kInvalid, std::move(text)};
}

}  // namespace

bool Connection::wants_bytes() const {
  if (state_ == State::kHello) return true;
  return state_ == State::kReady && share_ != nullptr && !requests_.empty();
}

// The answer to a request that is in flight has begun.
bool Connection::answering() const {
  return std::any_of(requests_.begin(), requests_.end(), [](const Request& r) { return r.answered > 0; });
}

// How much to ask for when the head of a frame comes next.
uint64_t Connection::HeadBytesWanted() const {
  const uint64_t have = end_ - begin_;
  if (!direct_) return std::max(kBufferBytes, header_known_ ? wire::FrameBytes(header_) : 0) - have;
  if (header_known_) return wire::FrameBytes(header_) - have;
  const uint64_t open = requests_.empty() ? 1 : requests_.front().count - requests_.front().answered;
  const uint64_t items = std::clamp<uint64_t>(open, 1, kHeadItemsMax);
  return wire::kHeaderBytes + items * sizeof(wire::AnswerItem) - have;
}

void Connection::StartReceive() {
  if (receive_busy_ || parsing_ || !wants_bytes()) return;
  receive_iov_.clear();
  receive_direct_ = 0;
  uint64_t payload_left = 0;
  if (in_payload_) {
    AddCallerMemory();
    for (size_t i = cursor_.part; i < parts_.size(); ++i) payload_left += parts_[i].bytes;
    payload_left -= cursor_.done;
  }
  const bool head_follows = !in_payload_ || more_ || requests_.size() > 1;
  if (payload_left == receive_direct_ && head_follows) AddBuffer(HeadBytesWanted());
  receive_op_.kind = io::Op::Kind::kRecv;
  receive_op_.fd = fd_.get();
  receive_op_.iov = receive_iov_.data();
  receive_op_.iov_count = static_cast<uint32_t>(receive_iov_.size());
  // Right after a request was sent there is nothing to find.
  receive_op_.poll_first = !in_payload_ && begin_ == end_ && !answering();
  receive_busy_ = true;
  reactor_.Submit(&receive_op_);
}

void Connection::AddCallerMemory() {
  Cursor at = cursor_;
  while (at.part < parts_.size() && receive_iov_.size() < kReceiveIovMax &&
         receive_direct_ < kReceiveBytesMax) {
    MutableByteSpan span = SpanAt(at);
    span = span.first(std::min<uint64_t>(span.size(), kReceiveBytesMax - receive_direct_));
    receive_iov_.push_back({span.data(), span.size()});
    receive_direct_ += span.size();
    Step(at, span.size());
  }
}

void Connection::AddBuffer(uint64_t bytes) {
  if (begin_ == end_) begin_ = end_ = 0;
  if (begin_ > 0 && buffer_.size() - end_ < bytes) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() - end_ < bytes) buffer_.resize(std::max(kBufferBytes, end_ + bytes));
  receive_iov_.push_back({buffer_.data() + end_, bytes});
}

void Connection::OnReceived(int64_t result) {
  if (result <= 0) {
    const std::string what = result == 0 ? "closed by the peer" : ErrnoText(static_cast<int>(-result));
    return Fail(Status(Code::kUnavailable, Cat("receive: ", what)));
  }
  heard_ = true;
  last_progress_ = reactor_.Now();
  pinged_at_ = 0;
  if (state_ == State::kReady) peer_.ReportHeard(last_progress_);
  const auto bytes = static_cast<uint64_t>(result);
  const uint64_t direct = std::min(bytes, receive_direct_);
  end_ += bytes - direct;
  parsing_ = true;
  Received(direct);
  parsing_ = false;
  Parse();
}

void Connection::Parse() {
  parsing_ = true;
  while ((state_ == State::kHello || state_ == State::kReady) && ParseStep()) {
  }
  parsing_ = false;
  StartReceive();
}

// Uses what is in the buffer for the next step of the frame; false when more bytes are needed.
bool Connection::ParseStep() {
  if (in_payload_) {
    TakeFromBuffer();
    return !in_payload_;
  }
  const ByteSpan bytes(buffer_.data() + begin_, end_ - begin_);
  if (!header_known_) {
    if (bytes.size() < wire::kHeaderBytes) return false;
    wire::FrameLimits limits = wire::kHelloLimits;
    if (state_ == State::kReady) {
      limits = {wire::kMetaBytesMax, std::max(agreed_.payload_bytes_max, kStatsBytesMax), agreed_.items_max};
    }
    const Result<wire::FrameHeader> header = wire::DecodeHeader(bytes.first(wire::kHeaderBytes), limits);
    if (!header.ok()) {
      Fail(header.status());
      return false;
    }
    header_ = *header;
    header_known_ = true;
  }
  if (bytes.size() < wire::FrameBytes(header_)) return false;
  header_known_ = false;
  begin_ += wire::FrameBytes(header_);
  const ByteSpan frame = bytes.first(wire::FrameBytes(header_));
  if (state_ == State::kHello) {
    HandleHello(frame);
  } else {
    HandleAnswer(frame);
  }
  return true;
}

void Connection::HandleHello(ByteSpan frame) {
  if (header_.op != (static_cast<uint8_t>(wire::Op::kHello) | wire::kAnswerBit)) {
    return Fail(Malformed(Cat("HELLO was answered with ", wire::OpName(header_.op))));
  }
  if (header_.code != 0) {
    const Result<wire::AnswerView> refusal = wire::DecodeAnswer(header_, frame);
    if (!refusal.ok()) return Fail(refusal.status());
    peer_.ReportHeard(last_progress_);
    return Fail(
        Status(refusal->code, Cat("HELLO was refused: ", wire::PrintableText(AsBytes(refusal->message())))));
  }
  const Result<wire::HelloView> hello = wire::DecodeHello(header_, frame);
  if (!hello.ok()) return Fail(hello.status());
  const Result<wire::HelloBody> agreed = wire::Negotiate(agreed_, hello->body);
  if (!agreed.ok()) return Fail(agreed.status());
  if (agreed->items_max == 0 || agreed->requests_in_flight_max == 0 || agreed->payload_bytes_max == 0) {
    return Fail(Malformed("HELLO names a limit of 0"));
  }
  agreed_ = *agreed;
  agreed_.object_bytes_max = std::min(agreed_.object_bytes_max, agreed_.payload_bytes_max);
  state_ = State::kReady;
  peer_.ReportHeard(last_progress_);
  Pump();
}

Connection::Request* Connection::FindRequest(uint64_t id) {
  for (Request& request : requests_) {
    if (request.id == id) return &request;
  }
  return nullptr;
}

void Connection::HandleAnswer(ByteSpan frame) {
  const Result<wire::AnswerView> answer = wire::DecodeAnswer(header_, frame);
  if (!answer.ok()) return Fail(answer.status());
  if (answer->op() == wire::Op::kPing) return;  // it was heard, which is all that matters
  Request* request = FindRequest(header_.request_id);
  if (request == nullptr || share_ == nullptr || answer->op() != batch_->op) {
    return Fail(Malformed(Cat("an answer of ", wire::OpName(header_.op), " that nobody waits for")));
  }
  request_id_ = request->id;
  more_ = answer->more;
  parts_.clear();
  cursor_ = {};
  if (answer->code == Code::kOk) {
    HandleBody(*answer, *request);
  } else {  // the whole request failed
    more_ = false;
    for (uint32_t i = 0; i < request->count; ++i) {
      batch_->Answer(*share_, batch_->order[share_->first + request->first + i], answer->code, 0);
    }
    if (answer->code == Code::kBusy) metrics_.busy.Add(request->count);
    request->answered = request->count;
  }
  if (state_ != State::kReady) return;
  in_payload_ = !parts_.empty();
  if (!in_payload_) FrameDone();
}

void Connection::HandleBody(const wire::AnswerView& answer, Request& request) {
  if (answer.op() == wire::Op::kMatch) return HandleMatch(answer, request);
  if (answer.op() == wire::Op::kStats) return HandleStats(request);
  HandleItems(answer, request);
}

// Of a MATCH, items become Ok or NotFound one by one, so that the call can join what several nodes say.
void Connection::HandleMatch(const wire::AnswerView& answer, Request& request) {
  if (answer.match.present > request.count)
    return Fail(Malformed("MATCH names more keys than were asked for"));
  for (uint32_t i = 0; i < request.count; ++i) {
    const Code code = i < answer.match.present ? Code::kOk : Code::kNotFound;
    batch_->Answer(*share_, batch_->order[share_->first + request.first + i], code, 0);
  }
  request.answered = request.count;
}

void Connection::HandleStats(Request& request) {
  if (header_.payload_bytes > kStatsBytesMax) return Fail(Malformed("STATS is larger than 64 MiB"));
  const uint32_t item = batch_->order[share_->first];
  batch_->text.resize(header_.payload_bytes);
  batch_->text_room = {reinterpret_cast<std::byte*>(batch_->text.data()), batch_->text.size()};
  request.answered = request.count;
  if (header_.payload_bytes == 0) {
    batch_->Answer(*share_, item, Code::kOk, 0);
  } else {
    parts_.push_back({item, header_.payload_bytes, header_.payload_bytes, 0, 0});
  }
}

void Connection::HandleItems(const wire::AnswerView& answer, Request& request) {
  for (uint32_t i = 0; i < answer.item_count(); ++i) {
    const Status status = HandleItem(answer.item(i), request);
    if (!status.ok()) return Fail(status);
  }
}

Status Connection::HandleItem(const wire::AnswerItem& answer, Request& request) {
  if (answer.index >= request.count) return Malformed("an answer names an item beyond its request");
  const uint32_t item = batch_->order[share_->first + request.first + answer.index];
  if (batch_->answered[item] != 0) return Malformed("an item was answered twice");
  ++request.answered;
  const auto code = static_cast<Code>(answer.code);
  const bool reads = batch_->op == wire::Op::kGet || batch_->op == wire::Op::kGetRange;
  if (code != Code::kOk || !reads) {
    if (answer.payload_bytes != 0) return Malformed("an answer carries bytes that nobody asked for");
    if (code == Code::kBusy) metrics_.busy.Add();
    batch_->Answer(*share_, item, code, answer.stored_length);
    return Ok();
  }
  if (answer.payload_bytes > TotalBytes(batch_->gets[item].pieces)) {
    return Malformed("a value is larger than the memory for it");
  }
  if (batch_->op == wire::Op::kGet && answer.payload_bytes != answer.stored_length) {
    return Malformed("a value's length is not its stored length");
  }
  const Part part{item, answer.payload_bytes, answer.stored_length, 0, answer.crc};
  if (part.bytes == 0) {
    PartDone(part);
  } else {
    batch_->answered[item] = Batch::kArriving;
    value_bytes_seen_ = part.bytes;
    parts_.push_back(part);
  }
  return Ok();
}

void Connection::FrameDone() {
  in_payload_ = false;
  if (!more_) {
    const Request* request = FindRequest(request_id_);
    DFKV_CHECK(request != nullptr);
    if (request->answered != request->count) {
      return Fail(
          Malformed(Cat("an answer ended with ", request->count - request->answered, " items missing")));
    }
    expected_bytes_ -= request->bytes;
    requests_.erase(requests_.begin() + (request - requests_.data()));
  }
  Pump();
}

// The next stretch of caller memory at `cursor`, which moves past empty pieces.
MutableByteSpan Connection::SpanAt(Cursor& cursor) const {
  const Part& part = parts_[cursor.part];
  const std::span<const MutableByteSpan> pieces = batch_->PiecesOf(part.item);
  while (cursor.offset == pieces[cursor.piece].size()) {
    ++cursor.piece;
    cursor.offset = 0;
  }
  const MutableByteSpan rest = pieces[cursor.piece].subspan(cursor.offset);
  return rest.first(std::min<uint64_t>(rest.size(), part.bytes - cursor.done));
}

void Connection::Step(Cursor& cursor, uint64_t bytes) const {
  cursor.done += bytes;
  cursor.offset += bytes;
  if (cursor.done == parts_[cursor.part].bytes) cursor = {cursor.part + 1, 0, 0, 0};
}

// `bytes` have been received at cursor_.
void Connection::Received(uint64_t bytes) {
  while (bytes > 0) {
    const MutableByteSpan span = SpanAt(cursor_);
    const MutableByteSpan fresh = span.first(std::min<uint64_t>(span.size(), bytes));
    Part& part = parts_[cursor_.part];
    if (options_.verify) part.crc = Crc32cExtend(part.crc, fresh);
    bytes -= fresh.size();
    Step(cursor_, fresh.size());
    if (cursor_.done == 0) PartDone(part);
  }
  if (in_payload_ && cursor_.part == parts_.size()) FrameDone();
}

void Connection::TakeFromBuffer() {
  while (begin_ < end_ && cursor_.part < parts_.size()) {
    const MutableByteSpan span = SpanAt(cursor_);
    const MutableByteSpan to = span.first(std::min<uint64_t>(span.size(), end_ - begin_));
    const ByteSpan from(buffer_.data() + begin_, to.size());
    Part& part = parts_[cursor_.part];
    if (options_.verify) {
      part.crc = Crc32cCopy(part.crc, to, from);
    } else {
      std::memcpy(to.data(), from.data(), from.size());
    }
    begin_ += to.size();
    Step(cursor_, to.size());
    if (cursor_.done == 0) PartDone(part);
  }
  if (cursor_.part == parts_.size()) FrameDone();
}

void Connection::PartDone(const Part& part) {
  Code code = Code::kOk;
  uint64_t length = part.stored_length;
  if (batch_->op != wire::Op::kStats) {
    const GetItem& get = batch_->gets[part.item];
    if (get.range) length = part.bytes;
    if (options_.verify && part.crc != part.crc_expected) {
      DFKV_PROBE("client.connection.corrupt");
      metrics_.corrupt.Add();
      code = Code::kCorrupt;
    } else if (get.exact && part.stored_length != TotalBytes(get.pieces)) {
      code = Code::kNotFound;
    }
  }
  batch_->Answer(*share_, part.item, code, length);
}

}  // namespace dfkv::client
