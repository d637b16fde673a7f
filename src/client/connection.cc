#include "client/connection.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/fault.h"
#include "base/text.h"
#include "io/socket.h"

namespace dfkv::client {

Connection::Connection(io::Reactor& reactor, Peer& peer, const ConnectionOptions& options,
                       ClientMetrics& metrics)
    : reactor_(reactor), peer_(peer), options_(options), metrics_(metrics) {
  send_op_.context = this;
  send_op_.on_done = [](io::Op* op) {
    auto* self = static_cast<Connection*>(op->context);
    self->send_busy_ = false;
    if (self->state_ == State::kClosing) return self->Closed();
    if (op->kind == io::Op::Kind::kConnect) return self->OnConnected(op->result);
    self->OnSent(op->result);
  };
  receive_op_.context = this;
  receive_op_.on_done = [](io::Op* op) {
    auto* self = static_cast<Connection*>(op->context);
    self->receive_busy_ = false;
    if (self->state_ == State::kClosing) return self->Closed();
    self->OnReceived(op->result);
  };
}

Connection::~Connection() {
  DFKV_CHECK(settled());
  if (fd_.valid()) metrics_.connections.Add(-1);
}

void Connection::Begin(Batch* batch, Share* share, bool probe) {
  DFKV_CHECK(share_ == nullptr);
  batch_ = batch;
  share_ = share;
  began_ = last_progress_ = reactor_.Now();
  pinged_at_ = 0;
  heard_ = false;
  end_code_ = Code::kUnavailable;
  pooled_ = state_ == State::kReady;
  if (probe && state_ != State::kClosed && state_ != State::kClosing) {
    reconnect_ = true;
    Shut();
  } else if (state_ == State::kClosed) {
    Connect();
  } else if (state_ == State::kReady) {
    Parse();  // what an earlier call left in the buffer: answers to PING
    if (share_ != nullptr) Pump();
  }
  // Otherwise an opening that an earlier call began goes on.
  if (state_ == State::kClosing) reconnect_ = true;
}

void Connection::Connect() {
  const io::SocketAddress& address = peer_.member().socket;
  reconnect_ = false;
  pooled_ = false;
  header_known_ = in_payload_ = false;
  begin_ = end_ = 0;
  queue_.clear();
  queue_at_ = 0;
  requests_.clear();
  expected_bytes_ = 0;
  parts_.clear();
  if (share_ != nullptr) share_->next = 0;
  Result<io::UniqueFd> fd = io::MakeStreamSocket(address.family());
  if (!fd.ok()) return Fail(Status(Code::kIoError, fd.status().message()));
  fd_ = std::move(*fd);
  metrics_.connections.Add(1);
  state_ = State::kConnecting;
  connect_until_ = reactor_.Now() + options_.connect;
  send_op_.kind = io::Op::Kind::kConnect;
  send_op_.fd = fd_.get();
  send_op_.address = address.get();
  send_op_.address_size = address.size;
  send_busy_ = true;
  reactor_.Submit(&send_op_);
}

void Connection::OnConnected(int64_t result) {
  if (result < 0) {
    return Fail(Status(Code::kUnavailable, Cat("connect: ", ErrnoText(static_cast<int>(-result)))));
  }
  state_ = State::kHello;
  QueueHello();
  StartSend();
  StartReceive();
}

void Connection::Fail(const Status& why) {
  if (state_ == State::kClosing) return;
  if (pooled_ && !heard_ && share_ != nullptr) {
    DFKV_PROBE("client.connection.stale");
    metrics_.stale_retries.Add();
    reconnect_ = true;
  } else {
    // A node that refuses by name is alive, and a failure of our own is not its fault: nothing to avoid.
    const bool avoid =
        why.code() != Code::kBusy && why.code() != Code::kDenied && why.code() != Code::kIoError;
    end_code_ = avoid ? Code::kUnavailable : why.code();
    if (avoid) peer_.ReportFailure(reactor_.Now(), why);
    if (share_ != nullptr) metrics_.io_errors.Add();
  }
  metrics_.retired_failed.Add();
  Shut();
}

void Connection::GiveUp(Nanos now) {
  DFKV_CHECK(share_ != nullptr);
  end_code_ = Code::kTimeout;
  reconnect_ = false;
  if (state_ == State::kClosing) return;  // ends by itself
  peer_.ReportSilence(last_progress_, now);
  metrics_.io_errors.Add();
  metrics_.retired_deadline.Add();
  Shut();
}

void Connection::Withdraw() {
  DFKV_CHECK(share_ != nullptr);
  end_code_ = Code::kCancelled;
  reconnect_ = false;
  if (state_ == State::kClosing) return;
  metrics_.retired_cancelled.Add();
  Shut();
}

void Connection::Detach() {
  DFKV_CHECK(share_ != nullptr && opening());
  end_code_ = Code::kUnavailable;
  EndShare();
}

void Connection::Close() {
  if (state_ == State::kClosed || state_ == State::kClosing) return;
  DFKV_CHECK(share_ == nullptr);
  Shut();
}

void Connection::Shut() {
  state_ = State::kClosing;
  if (second_) second_->Close();
  if (send_busy_) reactor_.Cancel(&send_op_);
  if (receive_busy_) reactor_.Cancel(&receive_op_);
  Closed();
}

// Runs after each operation that ends while closing; the last one finds everything at rest.
void Connection::Closed() {
  if (state_ != State::kClosing || send_busy_ || receive_busy_) return;
  if (fd_.valid()) {
    fd_.Reset();
    metrics_.connections.Add(-1);
  }
  state_ = State::kClosed;
  ping_wanted_ = false;
  if (reconnect_ && share_ != nullptr) return Connect();
  reconnect_ = false;
  if (share_ != nullptr) EndShare();
}

void Connection::EndShareIfComplete() {
  if (share_ == nullptr || state_ != State::kReady || in_payload_) return;
  if (share_->next != share_->count || !requests_.empty() || queue_at_ != queue_.size()) return;
  DFKV_CHECK(share_->open == 0);
  EndShare();
}

void Connection::EndShare() {
  batch_->AnswerRest(*share_, end_code_);
  last_used_ = reactor_.Now();
  if (heard_) peer_.metrics().latency->Observe(last_used_ - began_);
  if (second_) second_->Close();
  --batch_->shares_open;
  share_ = nullptr;
  batch_ = nullptr;
}

Nanos Connection::next_tick() const {
  if (state_ == State::kClosed || state_ == State::kClosing) return kNever;
  const Nanos dead = last_progress_ + options_.stall;
  if (state_ == State::kConnecting) return std::min(dead, connect_until_);
  if (state_ != State::kReady) return dead;
  // A peer is asked before it counts as dead, also by a caller that got no CPU for longer than the stall
  // time.
  if (pinged_at_ == 0) return last_progress_ + options_.stall / 2;
  return std::max(dead, pinged_at_ + options_.stall / 2);
}

void Connection::Tick(Nanos now) {
  if (now < next_tick()) return;
  if (state_ == State::kConnecting && now >= connect_until_) {
    return Fail(Status(Code::kTimeout, "connect: no answer"));
  }
  if (state_ == State::kReady && pinged_at_ == 0) return Ask(now);
  if (second_ && second_->state_ == State::kReady) {
    DFKV_PROBE("client.connection.second_answered");
    last_progress_ = now;
    pinged_at_ = 0;
    second_.reset();
    return;
  }
  DFKV_PROBE("client.connection.stalled");
  pooled_ = false;  // a fresh connection would wait as long again
  Fail(Status(Code::kTimeout,
              Cat("no byte and no answer to PING for ", (now - last_progress_) / kMillisecond, " ms")));
}

void Connection::Ask(Nanos now) {
  DFKV_PROBE("client.connection.ping");
  pinged_at_ = now;
  metrics_.health_checks.Add();
  if (batch_->op == wire::Op::kPut) {
    if (second_ && !second_->settled()) return;
    second_ = std::make_unique<Connection>(reactor_, peer_, options_, metrics_);
    second_->last_progress_ = now;
    second_->Connect();
  } else {
    ping_wanted_ = true;
    Pump();
  }
}

}  // namespace dfkv::client
