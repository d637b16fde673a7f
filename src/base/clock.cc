#include "base/clock.h"

#include <ctime>

namespace dfkv {
namespace {

Nanos Read(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return static_cast<Nanos>(now.tv_sec) * kSecond + now.tv_nsec;
}

class MonotonicClock final : public Clock {
 public:
  Nanos Now() const override { return Read(CLOCK_MONOTONIC); }
};

}  // namespace

const Clock& SystemClock() {
  static const MonotonicClock kClock;
  return kClock;
}
int64_t WallMicros() {
  return Read(CLOCK_REALTIME) / 1000;
}
Nanos ThreadCpuNow() {
  return Read(CLOCK_THREAD_CPUTIME_ID);
}
Nanos ProcessCpuNow() {
  return Read(CLOCK_PROCESS_CPUTIME_ID);
}

}  // namespace dfkv
