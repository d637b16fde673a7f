// The sending half of TcpConnection: answers of a turn leave in one vectored send.
#include <cerrno>

#include <algorithm>

#include "base/check.h"
#include "base/fault.h"
#include "base/text.h"
#include "net/tcp/connection.h"

namespace dfkv::net {

void TcpConnection::MarkDirty() {
  if (dirty_) return;
  dirty_ = true;
  shard_->MarkDirty(this);
}

void TcpConnection::Flush() {
  dirty_ = false;
  AccountOutput();
  if (!broken_ && !sending_ && !output_.empty()) Submit(SendDeadline());
  MaybeDestroy();
}

void TcpConnection::Submit(Nanos deadline) {
  const std::span<const iovec> next = output_.Next();
  send_op_ = io::Op{};
  send_op_.kind = io::Op::Kind::kSend;
  send_op_.fd = fd_;
  send_op_.iov = next.data();
  send_op_.iov_count = static_cast<uint32_t>(next.size());
  send_op_.deadline = deadline;
  send_op_.on_done = &TcpConnection::OnSent;
  send_op_.context = this;
  sending_ = true;
  shared_.metrics.sends->Add();
  reactor_.Submit(&send_op_);
}

// The peer takes a byte within write_stall_ms; and what was queued at some moment it takes within that time
// and the one that the slowest peer allowed would need, however it spreads its bytes. Then the next such
// stretch begins, with what is queued by then.
Nanos TcpConnection::SendDeadline() {
  const Nanos now = reactor_.Now();
  const Nanos stall = Nanos{shared_.options.write_stall_ms} * kMillisecond;
  if (sent_bytes_ >= sent_bytes_due_) {
    sent_bytes_due_ = sent_bytes_ + output_.bytes();
    send_due_ = now + stall + TransferTime(output_.bytes(), shared_.options.min_rate);
  }
  return std::min(now + stall, send_due_);
}

// After a deadline that has passed. True: the node itself was late, and looks once more.
bool TcpConnection::SendAgain() {
  const Nanos now = reactor_.Now();
  const Nanos late = now - send_op_.deadline;
  if (broken_ || send_late_ || late < kNodeLate) return false;
  DFKV_PROBE("tcp.late_send");
  send_late_ = true;
  send_due_ += late + kNodeLate;
  Submit(now + kNodeLate);
  return true;
}

void TcpConnection::OnSent(io::Op* op) {
  auto* self = static_cast<TcpConnection*>(op->context);
  self->sending_ = false;
  if (op->result <= 0) {
    const bool late = op->result == -ETIME;
    if (late && self->SendAgain()) return;
    self->Break(late ? CloseReason::kWriteStall : CloseReason::kBroken,
                Status(Code::kUnavailable,
                       late ? "the peer takes no answers" : ErrnoText(static_cast<int>(-op->result))));
  } else if (!self->broken_) {
    const auto taken = static_cast<uint64_t>(op->result);
    self->shared_.metrics.sent_bytes->Add(taken);
    self->sent_bytes_ += taken;
    self->send_late_ = false;
    self->output_.Taken(taken);
    if (!self->output_.empty()) self->Submit(self->SendDeadline());
    self->AccountOutput();
    self->Notify();
    self->UpdateEvictable();
  }
  if (self->broken_) self->output_.Clear();
  self->MaybeDestroy();
}

void TcpConnection::AccountOutput() {
  const uint64_t now = output_.bytes() + room_taken_;
  if (now == accounted_) return;
  shared_.output_bytes.fetch_add(now - accounted_, std::memory_order_relaxed);  // wraps to a subtraction
  shared_.metrics.output_bytes->Add(static_cast<int64_t>(now - accounted_));
  accounted_ = now;
}

// Wakes whoever waits for room, for calls to end, or for the end.
void TcpConnection::Notify() {
  for (std::coroutine_handle<> waiter : waiters_) reactor_.QueueReady(waiter);
  waiters_.clear();
}

// A connection that has not said hello yet may always make room for another.
void TcpConnection::UpdateEvictable() {
  const bool evictable = !ended_ && (!greeted_ || (idle_ && calls_ == 0 && output_.empty()));
  info_.evictable.store(evictable, std::memory_order_relaxed);
}

void TcpConnection::MaybeDestroy() {
  if (!serving_ && !sending_ && !dirty_ && calls_ == 0) shard_->Remove(this);
}

uint64_t TcpConnection::OutputRoom() const {
  const TcpOptions& options = shared_.options;
  if (shared_.output_bytes.load(std::memory_order_relaxed) >= options.output_bytes_total_max) return 0;
  return options.output_bytes_max - std::min(options.output_bytes_max, output_.bytes() + room_taken_);
}

// After something was queued for `call`; `last`: the call has ended.
void TcpConnection::AnswerCall(TcpCall* call, bool last) {
  if (broken_) {
    if (!sending_) output_.Clear();
  } else if (!output_.empty()) {
    MarkDirty();
  }
  if (!last) return;
  shard_->FreeCall(call);
  --calls_;
  if (!waiters_.empty()) Notify();
  UpdateEvictable();
  MaybeDestroy();
}

void TcpCall::Begin(TcpConnection* connection, const wire::FrameHeader& header) {
  connection_ = connection;
  op_ = static_cast<wire::Op>(header.op);
  request_id_ = header.request_id;
  state = nullptr;
  reactor = &connection->reactor_;
  lane = connection->shard_->index();
}

void TcpCall::Answer(std::span<const wire::AnswerItem> items, std::span<Value> values, bool last) {
  TcpConnection& c = *connection_;
  if (c.broken_) {
    for (Value& value : values) value.pin.Release();
  } else if (!items.empty() || last) {
    const AnswerFraming framing{op_, request_id_, c.answer_payload_max_};
    c.output_.AddAnswer(framing, items, values, last);
  }
  c.AnswerCall(this, last);
}

void TcpCall::AnswerMatch(uint32_t present) {
  if (!connection_->broken_) connection_->output_.AddMatch(request_id_, present);
  connection_->AnswerCall(this, true);
}

void TcpCall::AnswerText(std::string text) {
  if (!connection_->broken_) connection_->output_.AddText(op_, request_id_, std::move(text));
  connection_->AnswerCall(this, true);
}

void TcpCall::Fail(const Status& status) {
  if (!connection_->broken_) connection_->output_.AddError(static_cast<uint8_t>(op_), request_id_, status);
  connection_->AnswerCall(this, true);
}

uint64_t TcpCall::OutputRoom() const {
  return connection_->OutputRoom();
}

io::Task<Status> TcpCall::WaitForRoom(uint64_t bytes) {
  constexpr Nanos kPoll = kMillisecond;  // room that other connections give back is looked for this often
  TcpConnection& c = *connection_;
  const uint64_t wanted = std::min(bytes, c.shared_.options.output_bytes_max / 2);
  Status status;
  uint64_t timer = 0;
  while (!c.broken_ && c.OutputRoom() < wanted) {
    const Nanos now = c.reactor_.Now();
    if (now >= deadline) {
      DFKV_PROBE("tcp.no_room_in_time");
      status = Status(Code::kTimeout, "the answers before it were not taken in time");
      break;
    }
    if (c.output_.empty()) {
      co_await c.reactor_.Until(std::min(deadline, now + kPoll));
    } else {
      if (timer == 0) timer = c.reactor_.AddTimer(deadline, [&c] { c.Notify(); });
      TcpConnection::Signal signal{c};
      co_await signal;
    }
  }
  if (timer != 0) c.reactor_.CancelTimer(timer);
  if (c.broken_) co_return Code::kCancelled;
  if (!status.ok()) co_return status;
  c.room_taken_ += bytes;
  c.AccountOutput();
  co_return Ok();
}

void TcpCall::LeaveRoom(uint64_t bytes) {
  TcpConnection& c = *connection_;
  DFKV_CHECK(c.room_taken_ >= bytes);
  if (bytes == 0) return;
  c.room_taken_ -= bytes;
  c.AccountOutput();
  if (!c.waiters_.empty()) c.Notify();
}

}  // namespace dfkv::net
