#include "io/reactor_sim.h"

#include <cerrno>

namespace dfkv::io {
namespace {

constexpr Nanos kStuckAfter = 30 * kSecond;  // of real time

}  // namespace

void SimReactor::Submit(Op* op) {
  if (Begin(op)) Complete(op, -ENOTSUP);
}

void SimReactor::Poll(Nanos until) {
  if (until != kNever) {
    if (until > clock_.Now()) clock_.Set(until);
    return;
  }
  // Only another thread can go on from here. A simulation has none: then this is a coroutine that waits for
  // what never comes.
  MutexLock lock(mutex_);
  while (!wake_) {
    const bool somebody_posts = woken_.WaitFor(mutex_, kStuckAfter) || wake_;
    DFKV_CHECK(somebody_posts);
  }
  wake_ = false;
}

void SimReactor::Wake() {
  {
    MutexLock lock(mutex_);
    wake_ = true;
  }
  woken_.NotifyOne();
}

}  // namespace dfkv::io
