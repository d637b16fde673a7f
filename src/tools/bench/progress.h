// Progress: one line on stderr that says how far a run is. On a terminal it is rewritten in place four times
// a second; otherwise a line is printed every five seconds, so that a log stays readable.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "base/sync.h"

namespace dfkv::tools {

enum class ProgressMode : uint8_t { kAuto, kOn, kOff };  // kOn: every second, terminal or not

// What a run's threads add to and the progress line reads.
struct LiveCounts {
  std::atomic<uint64_t> done{0};   // items or requests
  std::atomic<uint64_t> bytes{0};  // moved, right ones only
  std::atomic<uint64_t> hits{0};
  std::atomic<uint64_t> misses{0};
  std::atomic<uint64_t> errors{0};
};

// Starts a thread that prints what `line` returns; `line` is called on that thread. Finish (or destruction)
// ends it and clears the line of a terminal.
class Progress {
 public:
  Progress(ProgressMode mode, std::function<std::string()> line);
  ~Progress() { Finish(); }
  void Finish();

 private:
  void Run();
  std::function<std::string()> line_;
  bool terminal_ = false;
  int64_t period_ns_ = 0;
  Mutex mutex_;
  CondVar wake_;
  bool stop_ GUARDED_BY(mutex_) = false;
  Thread thread_;
};

// "1.24 GB/s" style rate of `bytes` in `seconds`; 0 when no time passed.
double GigabytesPerSecond(uint64_t bytes, double seconds);
std::string Fixed(double value, int decimals);
double Percent(uint64_t part, uint64_t whole);  // 0 of 0 is 0

}  // namespace dfkv::tools
