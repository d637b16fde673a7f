// What the floors share: memory that is touched before it is timed, two processes on one loopback connection
// each, samples of time, and the JSON they print.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/option.h"

namespace dfkv::floor {

// Prints `what` and the text of `errno`, and ends the process with status 1: a floor has nothing to go on
// with.
[[noreturn]] void Fail(std::string_view what);
// The same, when a system call gave a negative value.
int64_t Must(int64_t result, std::string_view what);

// Anonymous memory, in huge pages where the system gives them, every page touched. Private to the process, or
// shared with the ones it forks.
class Memory {
 public:
  enum class Sharing : uint8_t { kPrivate, kShared };
  explicit Memory(uint64_t size_bytes, Sharing sharing = Sharing::kPrivate);
  Memory(Memory&& other) noexcept;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();
  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

// What the two processes of a network floor tell each other.
struct Shared {
  std::atomic<bool> go{false};    // warm-up is over: count from here
  std::atomic<bool> stop{false};  // no further requests
  std::atomic<int64_t> server_cpu_ns{0};
  std::atomic<uint64_t> server_sends{0};
};

// Runs `server` in a child process and `client` in this one, with `connections` established loopback
// connections between them (TCP_NODELAY, blocking). They are closed when `client` has returned; then `server`
// must return. Memory that the server reads is taken before, so that touching it takes none of the time.
using Side = std::function<void(const std::vector<int>& sockets, Shared& shared)>;
void RunPair(uint32_t connections, const Side& server, const Side& client, Shared& shared);
// A Shared in memory that a forked process shares too. Never freed: it lives as long as the program.
Shared& MakeShared();

// The CPU time that this process has used since one of its threads saw `go`.
class CpuMeter {
 public:
  void StartOnGo(const Shared& shared) {
    if (start_.load(std::memory_order_relaxed) != 0 || !shared.go.load(std::memory_order_acquire)) return;
    Nanos none = 0;
    start_.compare_exchange_strong(none, ProcessCpuNow());
  }
  Nanos Used() const { return start_ == 0 ? 0 : ProcessCpuNow() - start_; }

 private:
  std::atomic<Nanos> start_{0};
};

// Times of single calls; the median and the tail of them, in microseconds.
class Samples {
 public:
  Samples() { nanos_.reserve(kMax); }
  void Add(Nanos took) {
    if (nanos_.size() < kMax) nanos_.push_back(static_cast<uint32_t>(std::min<Nanos>(took, UINT32_MAX)));
  }
  void Merge(const Samples& other) { nanos_.insert(nanos_.end(), other.nanos_.begin(), other.nanos_.end()); }
  double Percentile(double percent);  // 0 without samples

 private:
  static constexpr size_t kMax = 1 << 18;  // of one thread
  std::vector<uint32_t> nanos_;
};

// {"name": value, ...}, printed as one line.
class Json {
 public:
  Json& Add(std::string_view name, std::string_view text);
  Json& Add(std::string_view name, double value);
  void Print() const;

 private:
  std::string text_;
};

// Every floor has --seconds, and --warm-up before them.
struct TimeOptions {
  double seconds = 1.0;
  double warm_up_seconds = 0.2;
};
void RegisterTime(OptionSet* set, TimeOptions* options);
// Waits for the warm-up, sets `go` and starts the meter, waits for the time, sets `stop`; returns the seconds
// between the two.
double KeepTime(const TimeOptions& options, Shared& shared, CpuMeter& meter);

}  // namespace dfkv::floor
