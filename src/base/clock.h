// Time, through a seam. Product code that has a reactor asks the reactor; the rest takes a Clock.
#pragma once

#include <cstdint>

namespace dfkv {

using Nanos = int64_t;  // a duration or an instant of the monotonic clock, in nanoseconds

constexpr Nanos kMillisecond = 1'000'000;
constexpr Nanos kSecond = 1'000'000'000;
constexpr Nanos kNever = INT64_MAX;  // as a deadline: none

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Nanos Now() const = 0;  // monotonic; any thread
};

const Clock& SystemClock();  // CLOCK_MONOTONIC
int64_t WallMicros();        // since 1970, for log lines and file names only; it may step
Nanos ThreadCpuNow();        // CPU time of the calling thread, for metrics
Nanos ProcessCpuNow();       // CPU time of the process, for metrics

// A clock that a test moves.
class ManualClock final : public Clock {
 public:
  Nanos Now() const override { return now_; }
  void Advance(Nanos by) { now_ += by; }

 private:
  Nanos now_ = kSecond;
};

}  // namespace dfkv
