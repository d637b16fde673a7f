#include "net/tcp/connection.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

#include "base/check.h"
#include "base/text.h"
#include "wire/encode.h"
#include "wire/ops.h"
#include "wire/options.h"

namespace dfkv::net {

TcpConnection::TcpConnection(TcpShard* shard, int fd, uint64_t id, bool refused)
    : shard_(shard),
      shared_(shard->shared()),
      reactor_(shard->reactor()),
      handler_(*shard->shared().handler),
      fd_(fd),
      output_(&shard->blocks()) {
  info_.id = id;
  info_.shard = shard->index();
  info_.refused = refused;
  limits_ = wire::kHelloLimits;
  accepted_at_ = frame_began_ = now_ = reactor_.Now();
  info_.last_active.store(now_, std::memory_order_relaxed);
  shared_.table.Add(&info_);
  shared_.metrics.open->Add(1);
}

TcpConnection::~TcpConnection() {
  ReleaseBuffer();
  output_.Clear();
  AccountOutput();
  ::close(fd_);
  shared_.metrics.open->Add(-1);
  shared_.metrics.closed[static_cast<size_t>(reason_)]->Add();
  shared_.table.Remove(&info_);
}

void TcpConnection::Start() {
  serving_ = true;
  Serve().Spawn();
}

io::Task<void> TcpConnection::Serve() {
  if (info_.refused) {
    reason_ = CloseReason::kRefused;
    output_.AddError(static_cast<uint8_t>(wire::Op::kHello), 0,
                     Status(Code::kBusy, "all connections are in use"));
    MarkDirty();
    ended_ = linger_ = true;
  }
  while (!ended_) {
    const Step step = DrainBuffer();
    bool go_on = false;
    switch (step) {
      case Step::kNeedBytes:
        go_on = co_await FillBuffer();
        break;
      case Step::kPayload:
        go_on = co_await ReceivePayload();
        break;
      case Step::kBlocked: {
        const Nanos since = reactor_.Now();
        Signal signal{*this};
        co_await signal;
        now_ = reactor_.Now();
        held_back_ += now_ - since;
        go_on = !broken_;
        break;
      }
      case Step::kEnd:
        break;
    }
    if (!go_on) break;
  }
  co_await Finish();
  serving_ = false;
  MaybeDestroy();
}

// Handles what has arrived as far as possible without waiting.
TcpConnection::Step TcpConnection::DrainBuffer() {
  for (;;) {
    const ByteSpan have = buffered();
    if (!header_known_) {
      if (stopping_) {
        End(CloseReason::kStopped, Ok());
        return Step::kEnd;
      }
      if (have.size() < wire::kHeaderBytes) return Step::kNeedBytes;
      Result<wire::FrameHeader> header =
          greeted_ ? wire::DecodeHeader(have, limits_) : wire::DecodeHelloHeader(have);
      if (!header.ok()) {
        header_ = LoadLe<wire::FrameHeader>(have.data());
        Refuse(header.status());
        return Step::kEnd;
      }
      header_ = *header;
      header_known_ = true;
    }
    const uint64_t frame_bytes = wire::FrameBytes(header_);
    if (have.size() < frame_bytes) return Step::kNeedBytes;
    if (Blocked()) return Step::kBlocked;
    const ByteSpan frame = have.first(frame_bytes);
    const bool payload = header_.payload_bytes > 0 || header_.op == static_cast<uint8_t>(wire::Op::kPut);
    const bool good = !greeted_ ? HandleHello(frame) : (payload ? BeginPayload(frame) : HandleRequest(frame));
    if (!good) return Step::kEnd;
    header_known_ = false;
    Consume(frame_bytes);
    if (payload) return Step::kPayload;
    BeginFrame();
    small_window_ = false;
  }
}

bool TcpConnection::Blocked() const {
  return calls_ >= shared_.options.requests_in_flight_max ||
         output_.bytes() >= shared_.options.output_bytes_max;
}

bool TcpConnection::HandleHello(ByteSpan frame) {
  Result<wire::HelloView> hello =
      wire::IsAnswer(header_) ? Result<wire::HelloView>(Status(Code::kInvalid, "an answer was not asked for"))
                              : wire::DecodeHello(header_, frame);
  if (!hello.ok()) return Refuse(hello.status());
  Result<wire::HelloBody> both = wire::Negotiate(shared_.hello, hello->body);
  if (!both.ok()) return Refuse(both.status());
  if (auto name = wire::FindOption(hello->options, wire::OptionType::kPeerName)) {
    peer_ = wire::PrintableText(*name, 64);
  }
  limits_ = shared_.limits;
  limits_.items_max = both->items_max;
  limits_.payload_bytes_max = both->payload_bytes_max;
  answer_payload_max_ = std::min<uint64_t>(both->payload_bytes_max, UINT32_MAX);
  greeted_ = true;
  output_.AddHello(header_.request_id, shared_.hello);
  MarkDirty();
  return true;
}

TcpCall* TcpConnection::NewCall(const wire::FrameHeader& header, uint32_t deadline_ms) {
  TcpCall* call = shard_->NewCall();
  call->Begin(this, header);
  const TcpOptions& options = shared_.options;
  const uint32_t ms = std::min(deadline_ms != 0 ? deadline_ms : options.request_ms, options.request_ms_max);
  call->deadline = now_ + Nanos{ms} * kMillisecond;
  ++calls_;
  return call;
}

bool TcpConnection::HandleRequest(ByteSpan frame) {
  Result<wire::RequestView> request = wire::DecodeRequest(header_, frame);
  if (!request.ok()) {
    if (request.code() != Code::kUnsupported) return Refuse(request.status());
    output_.AddError(header_.op, header_.request_id, request.status());
    MarkDirty();
    return true;
  }
  TcpCall* call = NewCall(header_, request->prefix.deadline_ms);
  handler_.OnRequest(*request, call);
  return !broken_;
}

bool TcpConnection::BeginPayload(ByteSpan frame) {
  Result<wire::RequestView> request = wire::DecodeRequest(header_, frame);
  put_lengths_.clear();
  put_call_ = nullptr;
  if (!request.ok()) {
    if (request.code() != Code::kUnsupported) return Refuse(request.status());
    output_.AddError(header_.op, header_.request_id, request.status());
    MarkDirty();
    put_lengths_.push_back(header_.payload_bytes);  // skipped
    return true;
  }
  for (uint32_t i = 0; i < request->item_count(); ++i) {
    put_lengths_.push_back(request->item<wire::PutItem>(i).length);
  }
  put_call_ = NewCall(header_, request->prefix.deadline_ms);
  handler_.OnPut(*request, put_call_);
  return true;
}

io::Task<bool> TcpConnection::ReceivePayload() {
  receiving_payload_ = true;
  put_next_ = 0;
  while (put_next_ < put_lengths_.size()) {
    bool received = false;
    if (put_call_ == nullptr) {
      const uint64_t length = put_lengths_[put_next_++];
      received = co_await Discard(length);
    } else {
      received = co_await ReceiveValues();
    }
    if (!received) {
      if (put_call_ != nullptr) handler_.OnAbandoned(std::exchange(put_call_, nullptr), put_next_);
      co_return false;
    }
  }
  put_call_ = nullptr;
  receiving_payload_ = false;
  small_window_ = true;
  BeginFrame();
  co_return !broken_;
}

// What follows belongs to the next frame; some of it may be here.
void TcpConnection::BeginFrame() {
  frame_began_ = now_;
  frame_bytes_ = buffered().size();
  held_back_ = 0;
}

bool TcpConnection::End(CloseReason reason, Status status) {
  if (!ended_ && !broken_) {
    reason_ = reason;
    uint64_t suppressed = 0;
    if (!status.ok() && shared_.log.Allow(reactor_.Now(), &suppressed)) {
      LogWarn("tcp: connection ", info_.id, peer_.empty() ? "" : " of ", peer_, " closed (",
              CloseReasonName(reason), "): ", wire::PrintableText(AsBytes(status.ToString())),
              suppressed > 0 ? Cat(" (", suppressed, " lines like this left out)") : "");
    }
  }
  ended_ = true;
  return false;
}

// The stream cannot be trusted any more: says why, and closes.
bool TcpConnection::Refuse(const Status& status) {
  shared_.metrics.protocol_errors->Add();
  const bool ours = header_.magic == wire::kMagic;
  output_.AddError(ours ? header_.op & static_cast<uint8_t>(~wire::kAnswerBit) : 0,
                   ours ? header_.request_id : 0, status);
  MarkDirty();
  linger_ = true;
  return End(CloseReason::kProtocol, status);
}

// Lets requests in flight end and answers leave, then closes.
io::Task<void> TcpConnection::Finish() {
  ended_ = true;
  ReleaseBuffer();
  UpdateEvictable();
  Signal signal{*this};
  while (!broken_ && (calls_ > 0 || !output_.empty())) co_await signal;
  if (!broken_ && linger_) co_await Linger();
  broken_ = true;
  ::shutdown(fd_, SHUT_RDWR);
  Notify();
}

// Closing with unread bytes would reset the connection and take the reason with it: reads a bounded amount.
io::Task<void> TcpConnection::Linger() {
  constexpr uint64_t kBytesMax = 1 << 20;
  ::shutdown(fd_, SHUT_WR);
  const Nanos deadline = reactor_.Now() + Nanos{shared_.options.linger_ms} * kMillisecond;
  uint64_t read = 0;
  const MutableByteSpan waste = shard_->discard_buffer();
  while (read < kBytesMax && !broken_) {
    const iovec iov = {waste.data(), waste.size()};
    const int64_t got = co_await Receive(&iov, 1, deadline);
    if (got <= 0) break;
    read += static_cast<uint64_t>(got);
  }
}

void TcpConnection::Evict() {
  if (ended_ || (greeted_ && (!idle_ || calls_ > 0 || !output_.empty()))) {
    shared_.table.Keep(&info_);
    return;
  }
  shared_.metrics.evicted->Add();
  End(CloseReason::kEvicted, Ok());
  if (receiving_) reactor_.Cancel(&receive_op_);
}

void TcpConnection::StopReading() {
  stopping_ = true;
  if (idle_ && receiving_) reactor_.Cancel(&receive_op_);
}

void TcpConnection::Break(CloseReason reason, Status status) {
  if (broken_) return;
  End(reason, std::move(status));
  broken_ = true;
  ::shutdown(fd_, SHUT_RDWR);
  if (receiving_) reactor_.Cancel(&receive_op_);
  Notify();
}

}  // namespace dfkv::net
