// The reactor of simulations: virtual time, no descriptors, no system calls. Time stands still while anything
// is ready and then jumps to the next timer, so a run takes no longer than its work, and the same program
// with the same seeds runs the same way each time.
#pragma once

#include <atomic>

#include "base/sync.h"
#include "io/reactor.h"

namespace dfkv::io {

// Ops on descriptors end with -ENOTSUP; a simulated disk completes its own (Reactor::Complete). Where nothing
// is ready, no timer is set and no other thread posts for 30 real seconds, the program is stuck: fatal, with
// a text that says so.
class SimReactor final : public Reactor {
 public:
  SimReactor() = default;

  void Submit(Op* op) override;
  void Cancel(Op* /*op*/) override {}  // nothing is ever in flight here
  const Clock& clock() const override { return clock_; }
  std::string_view name() const override { return "sim"; }

 protected:
  void Poll(Nanos until) override;
  void Wake() override;

 private:
  class VirtualClock final : public Clock {
   public:
    Nanos Now() const override { return now_.load(std::memory_order_relaxed); }
    void Set(Nanos now) { now_.store(now, std::memory_order_relaxed); }

   private:
    std::atomic<Nanos> now_{kSecond};
  };

  VirtualClock clock_;
  Mutex mutex_;
  CondVar woken_;
  bool wake_ GUARDED_BY(mutex_) = false;
};

}  // namespace dfkv::io
