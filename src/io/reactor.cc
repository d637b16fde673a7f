// The part of a reactor that its implementations share: ready queue, timers, hooks, work from other threads,
// and the loop.
//
// Invariants:
// - A turn is: posted work, due timers, ready coroutines and completed ops (at most kTurnBudget), hooks; then
//   one poll, which waits only when nothing is ready.
// - Sleeping and posting meet in two sequentially consistent flags: the loop sets sleeping_, then looks at
//   posted_; a poster sets posted_, then looks at sleeping_. One of them sees the other.
#include "io/reactor.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <unordered_map>

#include "base/fault.h"
#include "base/text.h"
#include "io/deadline_wheel.h"
#include "io/op_list.h"

namespace dfkv::io {
namespace {

constexpr int kTurnBudget = 512;  // coroutines resumed before the loop polls again
constexpr int kHookRounds = 8;    // of ready coroutines and hooks in a turn

constexpr Nanos kYielded = 4'000;  // a yield that takes longer has let another thread run
constexpr int kLooksPerYield = 4;
constexpr Nanos kSpinPauseMin = kMillisecond / 10;
constexpr Nanos kSpinPauseMax = 64 * kMillisecond;

thread_local Reactor* current = nullptr;

struct Timer {
  Nanos at;
  uint64_t id;
  std::coroutine_handle<> handle;  // empty: a callback of that id
};
// For a heap whose front is the earliest; equal instants fire in the order they were added.
bool Later(const Timer& a, const Timer& b) {
  return a.at != b.at ? a.at > b.at : a.id > b.id;
}

struct Hook {
  uint64_t id;
  std::function<void()> call;  // empty: removed
};

}  // namespace

struct Reactor::Impl {
  // The reactor's own thread.
  DeadlineWheel deadlines;
  std::vector<Timer> timers;  // a heap; cancelled ones stay until they are due or outnumber the rest
  std::unordered_map<uint64_t, std::function<void()>> callbacks;
  size_t cancelled_timers = 0;
  uint64_t next_id = 1;
  std::vector<std::unique_ptr<Hook>> hooks;
  Nanos spin_budget = 0;
  Nanos spin_pause = 0;  // the last one's length; 0 once a spin was left alone
  Nanos spin_from = 0;   // no spinning before
  std::vector<std::function<void()>> work_now;
  std::vector<std::coroutine_handle<>> handles_now;

  // Any thread.
  std::atomic<bool> posted{false};
  std::atomic<bool> sleeping{false};
  std::atomic<bool> stop{false};
  Mutex mutex;
  std::vector<std::function<void()>> work GUARDED_BY(mutex);
  std::vector<std::coroutine_handle<>> handles GUARDED_BY(mutex);
  OpList completed GUARDED_BY(mutex);
};

// Marks the reactor as the calling thread's while it runs.
class Reactor::RunningGuard {
 public:
  explicit RunningGuard(Reactor* reactor) : previous_(current) {
    DFKV_CHECK(previous_ != reactor);  // a reactor runs once at a time
    current = reactor;
  }
  ~RunningGuard() { current = previous_; }
  RunningGuard(const RunningGuard&) = delete;
  RunningGuard& operator=(const RunningGuard&) = delete;

 private:
  Reactor* previous_;
};

Reactor::Reactor() : impl_(std::make_unique<Impl>()) {}
Reactor::~Reactor() = default;

Reactor* Reactor::Current() {
  return current;
}

void QueueReady(std::coroutine_handle<> handle) {
  DFKV_CHECK(current != nullptr);
  current->QueueReady(handle);
}

// --- Operations ---

bool Reactor::Begin(Op* op) {
  DFKV_CHECK(op->link.stage == Op::Stage::kIdle);
  op->link.stage = Op::Stage::kStarted;
  op->link.expired = false;
  op->link.cancelled = false;
  op->link.deadline_slot = 0;
  if (op->deadline > turn_now_) return true;
  Complete(op, -ETIME);
  return false;
}

void Reactor::ArmDeadline(Op* op) {
  if (op->deadline != kNever) impl_->deadlines.Add(op);
}

void Reactor::Complete(Op* op, int64_t result) {
  if (op->link.deadline_slot != 0) impl_->deadlines.Remove(op);
  op->result = result == -ECANCELED && op->link.expired ? -ETIME : result;
  op->link.stage = Op::Stage::kDone;
  op->link.next = nullptr;
  (done_tail_ != nullptr ? done_tail_->link.next : done_head_) = op;
  done_tail_ = op;
  ++stats_.completions;
}

void Reactor::CompleteFromAnyThread(Op* op, int64_t result) {
  op->result = result;
  {
    MutexLock lock(impl_->mutex);
    impl_->completed.PushBack(op);
  }
  Notify();
}

// --- Timers and hooks ---

void Reactor::TimerAwaiter::await_suspend(std::coroutine_handle<> handle) {
  Impl& impl = *reactor.impl_;
  impl.timers.push_back({until, impl.next_id++, handle});
  std::push_heap(impl.timers.begin(), impl.timers.end(), Later);
}

uint64_t Reactor::AddTimer(Nanos at, std::function<void()> callback) {
  const uint64_t id = impl_->next_id++;
  impl_->callbacks.emplace(id, std::move(callback));
  impl_->timers.push_back({at, id, {}});
  std::push_heap(impl_->timers.begin(), impl_->timers.end(), Later);
  return id;
}

void Reactor::CancelTimer(uint64_t id) {
  if (impl_->callbacks.erase(id) == 0) return;
  std::vector<Timer>& timers = impl_->timers;
  if (++impl_->cancelled_timers <= timers.size() / 2 + 16) return;
  std::erase_if(timers,
                [&](const Timer& timer) { return !timer.handle && !impl_->callbacks.contains(timer.id); });
  std::make_heap(timers.begin(), timers.end(), Later);
  impl_->cancelled_timers = 0;
}

void Reactor::FireTimers() {
  impl_->deadlines.Advance(turn_now_, [this](Op* op) {
    op->link.expired = true;
    Cancel(op);
  });
  std::vector<Timer>& timers = impl_->timers;
  const uint64_t first_new = impl_->next_id;  // what a callback adds waits for the next turn
  while (!timers.empty() && timers.front().at <= turn_now_ && timers.front().id < first_new) {
    const Timer timer = timers.front();
    std::pop_heap(timers.begin(), timers.end(), Later);
    timers.pop_back();
    if (timer.handle) {
      ready_.push_back(timer.handle);
      continue;
    }
    const auto found = impl_->callbacks.find(timer.id);
    if (found == impl_->callbacks.end()) {
      --impl_->cancelled_timers;
      continue;
    }
    const std::function<void()> callback = std::move(found->second);
    impl_->callbacks.erase(found);
    callback();
  }
}

Nanos Reactor::NextTimer() const {
  const Nanos deadline = impl_->deadlines.NextDue();
  return impl_->timers.empty() ? deadline : std::min(deadline, impl_->timers.front().at);
}

uint64_t Reactor::AddTurnHook(std::function<void()> hook) {
  const uint64_t id = impl_->next_id++;
  impl_->hooks.push_back(std::make_unique<Hook>(Hook{id, std::move(hook)}));
  return id;
}

void Reactor::RemoveTurnHook(uint64_t id) {
  for (const auto& hook : impl_->hooks) {
    if (hook->id == id) hook->id = 0;  // it may be the one that runs now; RunHooks drops it
  }
}

void Reactor::RunHooks() {
  bool removed = false;
  const size_t count = impl_->hooks.size();  // one that a hook adds waits for the next time
  for (size_t i = 0; i < count; ++i) {
    if (impl_->hooks[i]->id != 0) impl_->hooks[i]->call();
    removed |= impl_->hooks[i]->id == 0;
  }
  if (removed) std::erase_if(impl_->hooks, [](const auto& hook) { return hook->id == 0; });
}

// --- Any thread ---

void Reactor::Notify() {
  impl_->posted.store(true);
  if (impl_->sleeping.load() && impl_->sleeping.exchange(false)) Wake();
}

void Reactor::Post(std::function<void()> work) {
  {
    MutexLock lock(impl_->mutex);
    impl_->work.push_back(std::move(work));
  }
  Notify();
}

void Reactor::QueueFromAnyThread(std::coroutine_handle<> handle) {
  if (current == this) {
    ready_.push_back(handle);
    return;
  }
  {
    MutexLock lock(impl_->mutex);
    impl_->handles.push_back(handle);
  }
  Notify();
}

void Reactor::Stop() {
  impl_->stop.store(true);
  Notify();
}

void Reactor::DrainPosted() {
  if (!impl_->posted.load()) return;
  impl_->posted.store(false);  // before the lists are taken: what comes later sets it again
  OpList completed;
  {
    MutexLock lock(impl_->mutex);
    impl_->work_now.swap(impl_->work);
    impl_->handles_now.swap(impl_->handles);
    std::swap(completed, impl_->completed);
  }
  while (Op* op = completed.PopFront()) Complete(op, op->result);
  ready_.insert(ready_.end(), impl_->handles_now.begin(), impl_->handles_now.end());
  impl_->handles_now.clear();
  for (auto& work : impl_->work_now) work();
  impl_->work_now.clear();
}

// --- The loop ---

void Reactor::Dispatch(int* budget) {
  size_t next = 0;
  while (*budget > 0) {
    if (Op* op = done_head_) {
      done_head_ = op->link.next;
      if (done_head_ == nullptr) done_tail_ = nullptr;
      op->link.stage = Op::Stage::kIdle;
      if (op->on_done != nullptr) {
        op->on_done(op);
      } else {
        op->waiter.resume();
      }
    } else if (next < ready_.size()) {
      const std::coroutine_handle<> handle = ready_[next++];
      handle.resume();
    } else {
      break;
    }
    --*budget;
  }
  ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(next));
}

void Reactor::Work() {
  ++stats_.turns;
  turn_now_ = clock().Now();
  DrainPosted();
  if (!yielded_.empty()) {
    ready_.insert(ready_.end(), yielded_.begin(), yielded_.end());
    yielded_.clear();
  }
  FireTimers();
  int budget = kTurnBudget;
  for (int round = 0; round < kHookRounds; ++round) {
    Dispatch(&budget);
    RunHooks();
    if (budget <= 0 || (ready_.empty() && done_head_ == nullptr)) break;
  }
}

bool Reactor::HasWork() const {
  return done_head_ != nullptr || !ready_.empty() || !yielded_.empty() || impl_->posted.load();
}

void Reactor::Wait(Nanos limit) {
  if (HasWork()) {
    Poll(0);
    return;
  }
  const Nanos until = std::min(NextTimer(), limit);
  if (spin_.max <= 0) {
    Sleep(until);
    return;
  }
  // A wait that is shorter than the longest spin is worth spinning for; a longer one is not.
  const Nanos start = clock().Now();
  if (start < impl_->spin_from) {
    Sleep(until);
    return;
  }
  Nanos& budget = impl_->spin_budget;
  budget = std::min(budget, spin_.max);
  if (Spin(until, start)) return;
  Sleep(until);
  if (clock().Now() - start < spin_.max) {
    budget = spin_.max;
  } else {
    budget = budget > spin_.max / 8 ? budget / 2 : 0;
  }
}

bool Reactor::Spin(Nanos until, Nanos start) {
  const Nanos end = std::min(until, start + impl_->spin_budget);
  Nanos now = start;
  bool found = false;
  bool paused = false;
  int looks = 0;
  while (!paused && now < end) {
    Poll(0);
    found = HasWork();
    const Nanos polled = now = clock().Now();
    if (found) break;
    CpuRelax();
    if (++looks % kLooksPerYield != 0) continue;
    sched_yield();
    now = clock().Now();
    paused = now - polled > kYielded;
  }
  if (paused) PauseSpinning(now);
  if (found) impl_->spin_pause = 0;
  stats_.spin_ns += now - start;
  return found || now >= until;
}

// Another thread ran meanwhile: it has use for this CPU, perhaps to do what is waited for here.
void Reactor::PauseSpinning(Nanos now) {
  DFKV_PROBE("reactor.spin_paused");
  Nanos& pause = impl_->spin_pause;
  pause = std::clamp(2 * pause, kSpinPauseMin, kSpinPauseMax);
  impl_->spin_from = now + pause;
  ++stats_.spin_pauses;
}

void Reactor::Sleep(Nanos until) {
  impl_->sleeping.store(true);
  if (impl_->posted.load()) {
    impl_->sleeping.store(false);
    Poll(0);
    return;
  }
  DFKV_SYNC_POINT("reactor.sleep");
  ++stats_.sleeps;
  Poll(until);
  if (!impl_->sleeping.exchange(false)) ++stats_.wakes;
}

bool Reactor::Loop(const std::function<bool()>* done, Nanos deadline) {
  RunningGuard guard(this);
  for (;;) {
    Work();
    if (done != nullptr) {
      if ((*done)()) break;
      if (turn_now_ >= deadline) {
        Poll(0);  // so that a past deadline still takes what is there
        Work();
        break;
      }
    } else if (impl_->stop.exchange(false)) {
      break;
    }
    Wait(deadline);
  }
  Flush();
  return done != nullptr && (*done)();
}

void Reactor::Run() {
  Loop(nullptr, kNever);
}

bool Reactor::RunUntil(const std::function<bool()>& done, Nanos deadline) {
  if (done()) return true;
  return Loop(&done, deadline);
}

// --- Event ---

bool Event::IsSet() const {
  MutexLock lock(mutex_);
  return set_;
}

bool Event::AddWaiter(std::coroutine_handle<> handle) {
  Reactor* reactor = Reactor::Current();
  DFKV_CHECK(reactor != nullptr);
  MutexLock lock(mutex_);
  if (set_) return false;
  waiters_.push_back({reactor, handle});
  return true;
}

void Event::Set() {
  std::vector<Waiter> waiters;
  {
    MutexLock lock(mutex_);
    set_ = true;
    waiters.swap(waiters_);
  }
  for (const Waiter& waiter : waiters) waiter.reactor->QueueFromAnyThread(waiter.handle);
}

Result<ReactorKind> ParseReactorKind(std::string_view text) {
  const std::string lower = ToLower(text);
  if (lower == "auto") return ReactorKind::kAuto;
  if (lower == "uring") return ReactorKind::kUring;
  if (lower == "epoll") return ReactorKind::kEpoll;
  return Status(Code::kInvalid, Cat("'", text, "' is not one of auto, uring, epoll"));
}

}  // namespace dfkv::io
