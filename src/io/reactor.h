// Reactor: one thread's event loop. Sockets, disk I/O, timers and coroutines of a thread all run on it.
//
// Implementations: uring (io_uring), epoll (with a small thread pool for disk I/O), sim (virtual time, no
// system calls). Threads: everything but Post, QueueFromAnyThread, CompleteFromAnyThread and Stop is for the
// reactor's own thread: the one that runs it. A reactor may be run by one thread after another; uring only
// while no operation is in flight.
// An Op belongs to its submitter and stays in place until its completion; the reactor never frees it. A
// descriptor is closed after its operations have completed, never before.
// Shutdown: Stop, then Run returns; destroy the reactor after its operations have ended.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <coroutine>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "base/sync.h"
#include "io/task.h"

namespace dfkv::io {

// One asynchronous operation. Fill the request part, submit, read `result` once completed.
struct Op {
  enum class Kind : uint8_t {
    kReadable,  // wait until fd can be read (or has hung up)
    kWritable,  // wait until fd can be written (or has failed)
    kRecv,      // receive at least one byte into iov; 0 at end of stream
    kSend,      // send some of iov (at least one byte); no SIGPIPE
    kAccept,    // result: a connected, non-blocking, close-on-exec descriptor
    kConnect,   // address, address_size
    kRead,      // pread into iov at offset (one transfer, may be short)
    kWrite,     // pwrite from iov at offset
    kSync,      // fdatasync
  };
  Kind kind = Kind::kReadable;
  int fd = -1;
  const iovec* iov = nullptr;
  uint32_t iov_count = 0;
  uint64_t offset = 0;
  const sockaddr* address = nullptr;
  socklen_t address_size = 0;
  // Absolute, on the reactor's clock; passing it ends the op with -ETIME, up to some 2 ms late. A disk op
  // that the system has begun runs to its end.
  Nanos deadline = kNever;
  // kRecv, kSend: the submitter knows that the first try would find nothing (it has just drained the socket),
  // so the reactor waits straight away.
  bool poll_first = false;

  int64_t result = 0;  // bytes or descriptor; a negative errno: -ETIME, -ECANCELED, -ECONNRESET, ...
  void (*on_done)(Op* op) = nullptr;  // called from the loop when set; otherwise `waiter` is queued
  void* context = nullptr;            // for on_done
  std::coroutine_handle<> waiter;

  // The reactor's, between submission and completion.
  enum class Stage : uint8_t { kIdle, kQueued, kStarted, kPolling, kDone };
  struct Link {
    Op* next = nullptr;  // in a list of the implementation, then of completed ops
    Op* prev = nullptr;
    Op* deadline_next = nullptr;  // in the deadline wheel
    Op* deadline_prev = nullptr;
    uint16_t deadline_slot = 0;  // 0: not in the wheel
    Stage stage = Stage::kIdle;
    bool expired = false;    // the deadline passed and cancelled it
    bool cancelled = false;  // an early end was asked for
    msghdr message;          // of a gathered socket transfer in flight
  } link;
};

// How long a reactor busy-polls before it sleeps. Waking an idle core costs some 40 microseconds, so a
// bounded, adaptive spin is the largest lever on latency; it costs CPU, so it is an option and its CPU is
// counted. It takes only CPU that nobody else wants: it offers the CPU to others all the time, and pauses
// when one takes it.
struct SpinOptions {
  Nanos max = 0;  // 0: never spin. Adapts between 0 and max, and shrinks when waits outlast it.
};

struct ReactorStats {
  uint64_t turns = 0;        // of the loop
  uint64_t sleeps = 0;       // turns that slept
  uint64_t completions = 0;  // operations completed
  uint64_t wakes = 0;        // sleeps that another thread ended
  Nanos spin_ns = 0;         // spent spinning
  uint64_t spin_pauses = 0;  // spins that another thread wanted the CPU of
};

class Reactor {
 public:
  virtual ~Reactor();
  Reactor(const Reactor&) = delete;
  Reactor& operator=(const Reactor&) = delete;

  // --- The seam ---
  // Starts `op`. It completes from the loop, never inside Submit. Errors of submission are completions too.
  virtual void Submit(Op* op) = 0;
  // Asks for an early end: the op completes with -ECANCELED, or as it would have. Disk ops may run to their
  // end.
  virtual void Cancel(Op* op) = 0;
  virtual const Clock& clock() const = 0;
  virtual std::string_view name() const = 0;  // "uring", "epoll", "sim"

  Nanos Now() const { return clock().Now(); }
  Nanos TurnNow() const { return turn_now_; }  // as read at the start of this turn; costs nothing

  // --- Coroutines ---
  struct OpAwaiter {
    Reactor& reactor;
    Op* op;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) {
      op->waiter = handle;
      reactor.Submit(op);
    }
    int64_t await_resume() const { return op->result; }
  };
  // co_await reactor.Await(&op): submits, resumes when done; the value is op.result.
  OpAwaiter Await(Op* op) { return {*this, op}; }

  struct TimerAwaiter {
    Reactor& reactor;
    Nanos until;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle);
    void await_resume() const {}
  };
  // co_await reactor.Until(instant): goes on at that instant.
  TimerAwaiter Until(Nanos instant) { return {*this, instant}; }

  struct YieldAwaiter {
    Reactor& reactor;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) { reactor.yielded_.push_back(handle); }
    void await_resume() const {}
  };
  // co_await reactor.Yield(): lets the other ready coroutines and the poll run first.
  YieldAwaiter Yield() { return {*this}; }

  void QueueReady(std::coroutine_handle<> handle) { ready_.push_back(handle); }

  // Ends an op: on_done is called, or the waiter resumed, from the loop. For what emulates operations (a
  // simulated disk) and for implementations; the op must be one that no implementation holds.
  void Complete(Op* op, int64_t result);

  // --- Timers and hooks ---
  // Calls `callback` from the loop at or after `at`. The id cancels it; ids are never reused, 0 is never
  // given.
  uint64_t AddTimer(Nanos at, std::function<void()> callback);
  void CancelTimer(uint64_t id);

  // Called each turn, after completions were handled and ready coroutines ran, before the loop polls
  // again: where the batched work of a wake-up leaves (answers in one vectored send, neighbouring disk writes
  // merged). In the order added. Coroutines that a hook makes ready run before the poll, and the hooks once
  // more.
  uint64_t AddTurnHook(std::function<void()> hook);
  void RemoveTurnHook(uint64_t id);

  // --- Any thread ---
  // Runs `work` on the reactor's thread. Unbounded: callers hold a bounded resource of their own.
  void Post(std::function<void()> work);
  // Queues a suspended coroutine that belongs to this reactor.
  void QueueFromAnyThread(std::coroutine_handle<> handle);
  void CompleteFromAnyThread(Op* op, int64_t result);  // Complete, from a helper thread
  void Stop();  // Run returns after the current turn; before Run: the next Run returns at once

  // --- Running ---
  void Run();  // until Stop
  // Until `done()` is true (asked each turn) or `deadline` has passed; returns done().
  bool RunUntil(const std::function<bool()>& done, Nanos deadline = kNever);
  // Runs one task to its end in the calling thread and returns its value.
  template <typename T>
  T RunTask(Task<T> task);

  static Reactor* Current();  // the reactor that runs on the calling thread, null when none does
  const ReactorStats& stats() const { return stats_; }
  void set_spin(SpinOptions spin) { spin_ = spin; }

 protected:
  Reactor();
  // Reaps completions; waits for one until `until` (kNever: for ever; 0: does not wait), or until Wake.
  virtual void Poll(Nanos until) = 0;
  // Interrupts a Poll that waits; any thread.
  virtual void Wake() = 0;
  // Hands over what Submit has only collected; called before RunUntil returns to its caller.
  virtual void Flush() {}

  // Where every Submit begins: false when the op is over already (its deadline has passed).
  bool Begin(Op* op);
  // For an op that has to wait: cancels it at its deadline.
  void ArmDeadline(Op* op);

  ReactorStats stats_;

 private:
  struct Impl;
  class RunningGuard;
  bool Loop(const std::function<bool()>* done, Nanos deadline);
  void Work();
  void Dispatch(int* budget);
  void RunHooks();
  void DrainPosted();
  void FireTimers();
  void Wait(Nanos limit);
  bool Spin(Nanos until, Nanos start);
  void PauseSpinning(Nanos now);
  void Sleep(Nanos until);
  bool HasWork() const;
  void Notify();
  Nanos NextTimer() const;

  std::vector<std::coroutine_handle<>> ready_;
  std::vector<std::coroutine_handle<>> yielded_;
  Op* done_head_ = nullptr;  // completed ops, in order
  Op* done_tail_ = nullptr;
  Nanos turn_now_ = 0;
  SpinOptions spin_;
  std::unique_ptr<Impl> impl_;
};

namespace reactor_internal {
template <typename T>
Task<void> Capture(Task<T> task, std::optional<T>* value, bool* done) {
  T result = co_await std::move(task);
  value->emplace(std::move(result));
  *done = true;
}
inline Task<void> CaptureVoid(Task<void> task, bool* done) {
  co_await std::move(task);
  *done = true;
}
}  // namespace reactor_internal

template <typename T>
T Reactor::RunTask(Task<T> task) {
  bool done = false;
  if constexpr (std::is_void_v<T>) {
    QueueReady(reactor_internal::CaptureVoid(std::move(task), &done).Release());
    RunUntil([&] { return done; });
  } else {
    std::optional<T> value;
    QueueReady(reactor_internal::Capture<T>(std::move(task), &value, &done).Release());
    RunUntil([&] { return done; });
    return std::move(*value);
  }
}

// A flag that coroutines of any reactors wait for; Set wakes them all, each on its own reactor. Any thread.
class Event {
 public:
  struct Awaiter {
    Event& event;
    bool await_ready() const { return event.IsSet(); }
    bool await_suspend(std::coroutine_handle<> handle) { return event.AddWaiter(handle); }
    void await_resume() const {}
  };
  // co_await event.Wait(): at once when set.
  Awaiter Wait() { return {*this}; }
  void Set();
  bool IsSet() const;

 private:
  bool AddWaiter(std::coroutine_handle<> handle);  // false: set meanwhile
  struct Waiter {
    Reactor* reactor;
    std::coroutine_handle<> handle;
  };
  mutable Mutex mutex_;
  bool set_ GUARDED_BY(mutex_) = false;
  std::vector<Waiter> waiters_ GUARDED_BY(mutex_);
};

enum class ReactorKind : uint8_t { kAuto, kUring, kEpoll };
Result<ReactorKind> ParseReactorKind(std::string_view text);  // auto, uring, epoll

struct ReactorOptions {
  ReactorKind kind = ReactorKind::kAuto;
  uint32_t depth = 1024;      // operations in flight in the ring; more wait in a queue
  uint32_t disk_threads = 4;  // epoll: threads for disk I/O, started on first use
  SpinOptions spin;
};
// kAuto tries io_uring, then epoll. Unavailable: io_uring was asked for by name and the system refuses it
// (the text says why).
Result<std::unique_ptr<Reactor>> MakeReactor(const ReactorOptions& options);

}  // namespace dfkv::io
