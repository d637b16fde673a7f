// The loop. A call is in exactly one place: submitted_ (mail), waiting_ (for a lane), or running_ (a lane
// carries its batch); calls_ owns it in the latter two. What ends a call is found after the reactor's turn,
// never in the middle of it: connections' callbacks only count down shares_open.
#include "client/async.h"

#include <algorithm>
#include <csignal>

#include "base/check.h"
#include "base/fault.h"

namespace dfkv::client {
namespace {

// A thread that is made meanwhile receives no signal: they are for the program's own threads.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

Result<std::unique_ptr<AsyncClient>> AsyncClient::Start(std::shared_ptr<Core> core) {
  io::ReactorOptions options;
  options.kind = io::ReactorKind::kEpoll;
  options.spin.max = core->lane_options().spin;
  Result<std::unique_ptr<io::Reactor>> reactor = io::MakeReactor(options);
  if (!reactor.ok()) return reactor.status();
  std::unique_ptr<AsyncClient> client(new AsyncClient(std::move(core), std::move(*reactor)));
  const SignalsBlocked blocked;
  client->thread_ = Thread("dfkv-async", [loop = client.get()] { loop->Loop(); });
  return client;
}

AsyncClient::AsyncClient(std::shared_ptr<Core> core, std::unique_ptr<io::Reactor> reactor)
    : core_(std::move(core)),
      reactor_(std::move(reactor)),
      lanes_(core_->peers(), core_->lane_options(), core_->lanes_max(), core_->metrics(), reactor_.get()) {}

AsyncClient::~AsyncClient() {
  stopping_ = true;
  Wake();
  thread_.Join();
}

void AsyncClient::Wake() {
  if (!mail_waits_.exchange(true)) reactor_->Post([] {});
}

void AsyncClient::Stamp(AsyncCall& call, uint64_t bytes, const CallOptions& options) {
  call.ticket_ = Ticket(ticket_next_.fetch_add(1));
  call.began_ = SystemClock().Now();
  call.batch_.deadline = core_->DeadlineOf(options, bytes);
}

Result<Ticket> AsyncClient::Enter(std::unique_ptr<AsyncCall> call) {
  if (calls_in_flight_.fetch_add(1) >= kCallsMax) {
    calls_in_flight_.fetch_sub(1);
    return Status(Code::kBusy, "too many asynchronous calls are in flight");
  }
  const Ticket ticket = call->ticket_;
  {
    MutexLock lock(mutex_);
    submitted_.push_back(std::move(call));
  }
  Wake();
  return ticket;
}

Result<Ticket> AsyncClient::SubmitPut(std::unique_ptr<AsyncCall> call, const CallOptions& options) {
  Stamp(*call, BytesOf<PutItem>(call->puts), options);
  call->results.assign(call->puts.size(), {});
  core_->PreparePut(call->puts, call->results, call->batch_);
  return Enter(std::move(call));
}

Result<Ticket> AsyncClient::SubmitGet(std::unique_ptr<AsyncCall> call, const CallOptions& options) {
  Stamp(*call, BytesOf<GetItem>(call->gets), options);
  call->results.assign(call->gets.size(), {});
  core_->PrepareGet(call->gets, call->results, call->batch_);
  return Enter(std::move(call));
}

Result<Ticket> AsyncClient::SubmitKeys(std::unique_ptr<AsyncCall> call, CallKind kind,
                                       std::span<const ByteSpan> keys, const CallOptions& options) {
  Stamp(*call, 0, options);
  call->results.assign(keys.size(), {});
  core_->PrepareKeys(kind, keys, call->results, call->batch_);
  return Enter(std::move(call));
}

void AsyncClient::SendCancel(const CancelRequest& request) {
  {
    MutexLock lock(mutex_);
    to_cancel_.push_back(request);
  }
  Wake();
}

// --- The loop's thread ---

void AsyncClient::Loop() {
  const std::function<bool()> due = [this] {
    return mail_waits_.load(std::memory_order_acquire) || SomethingEnded();
  };
  while (!stopping_ || !calls_.empty() || mail_waits_) {
    reactor_->RunUntil(due, NextTick());
    TakeMail();
    const Nanos now = reactor_->Now();
    do {
      Advance(now);  // may give lanes back
    } while (StartWaiting(now));
  }
}

bool AsyncClient::SomethingEnded() const {
  return std::any_of(running_.begin(), running_.end(),
                     [](const AsyncCall* call) { return call->batch_.shares_open == 0; });
}

Nanos AsyncClient::NextTick() const {
  Nanos next = waiting_until_;
  for (const AsyncCall* call : running_) next = std::min(next, call->lane_->NextTick());
  return next;
}

void AsyncClient::TakeMail() {
  if (!mail_waits_.exchange(false)) return;
  {
    MutexLock lock(mutex_);
    submitted_now_.swap(submitted_);
    to_cancel_now_.swap(to_cancel_);
  }
  for (std::unique_ptr<AsyncCall>& call : submitted_now_) {
    waiting_.push_back(call.get());
    waiting_until_ = std::min(waiting_until_, call->batch_.deadline);
    const Ticket ticket = call->ticket_;
    calls_.emplace(ticket, std::move(call));
  }
  submitted_now_.clear();
  for (const CancelRequest& request : to_cancel_now_) CancelMatching(request);
  to_cancel_now_.clear();
  if (!stopping_) return;
  for (auto call = calls_.begin(); call != calls_.end();) CancelCall((call++)->second.get());
}

void AsyncClient::CancelMatching(const CancelRequest& request) {
  if (request.ticket) {
    const auto found = calls_.find(*request.ticket);
    if (found != calls_.end() && found->second->group == request.group) CancelCall(found->second.get());
    return;
  }
  for (auto call = calls_.begin(); call != calls_.end();) {
    AsyncCall* candidate = (call++)->second.get();  // CancelCall may erase it
    if (candidate->group == request.group) CancelCall(candidate);
  }
}

void AsyncClient::CancelCall(AsyncCall* call) {
  if (call->lane_ == nullptr) {
    DFKV_PROBE("client.async.cancel_waiting");
    return Leave(call, Code::kCancelled);
  }
  DFKV_PROBE("client.async.cancel_running");
  call->cancelled_ = true;
  call->lane_->Cancel();  // the call ends when its last operation has
}

// Ticks what is due, and takes what has ended out: to its next pass or to its end.
void AsyncClient::Advance(Nanos now) {
  for (size_t i = 0; i < running_.size();) {
    AsyncCall* call = running_[i];
    if (call->batch_.shares_open > 0 && now >= call->lane_->NextTick()) call->lane_->Tick(now);
    while (call->batch_.shares_open == 0 && !call->cancelled_ && core_->NextPass(call->batch_)) {
      call->lane_->Begin(call->batch_);
    }
    if (call->batch_.shares_open > 0) {
      ++i;
      continue;
    }
    running_[i] = running_.back();
    running_.pop_back();
    Finish(call, call->cancelled_ ? Code::kCancelled : Code::kOk);
  }
}

// Ends those that waited too long, and gives lanes to the others; true when one got a lane.
bool AsyncClient::StartWaiting(Nanos now) {
  if (now >= waiting_until_) EndLate(now);
  const size_t running_before = running_.size();
  while (!waiting_.empty()) {
    Result<std::unique_ptr<Lane>> lane = lanes_.Take(now);  // does not wait
    if (!lane.ok()) break;
    AsyncCall* call = waiting_.front();
    waiting_.pop_front();
    call->lane_ = std::move(*lane);
    call->batch_.shares_open = 0;
    running_.push_back(call);
  }
  return running_.size() > running_before;
}

void AsyncClient::EndLate(Nanos now) {
  std::vector<AsyncCall*> late;
  waiting_until_ = kNever;
  for (AsyncCall* call : waiting_) {
    if (now >= call->batch_.deadline) {
      late.push_back(call);
    } else {
      waiting_until_ = std::min(waiting_until_, call->batch_.deadline);
    }
  }
  for (AsyncCall* call : late) {
    DFKV_PROBE("client.async.no_lane");
    Leave(call, Code::kBusy);
  }
}

// Out of the queue for lanes, with nothing done.
void AsyncClient::Leave(AsyncCall* call, Code code) {
  waiting_.erase(std::find(waiting_.begin(), waiting_.end(), call));
  Finish(call, code);
}

// Gives items that never took part the call's code, then tells.
void AsyncClient::Finish(AsyncCall* call, Code code) {
  for (size_t item = 0; item < call->results.size(); ++item) {
    if (call->batch_.answered[item] == Batch::kAnswered) continue;
    DFKV_CHECK(code != Code::kOk);
    call->results[item] = {code, 0};
  }
  if (call->lane_ != nullptr) {
    core_->Count(call->batch_, call->began_);
    lanes_.GiveBack(std::move(call->lane_));
  }
  const auto found = calls_.find(call->ticket_);
  const std::unique_ptr<AsyncCall> owned = std::move(found->second);
  calls_.erase(found);
  calls_in_flight_.fetch_sub(1);
  owned->Done(owned->ticket_, code);
}

}  // namespace dfkv::client
