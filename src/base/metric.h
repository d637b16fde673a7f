// Metrics: counters, gauges and latency histograms, and the Prometheus text they are exposed as.
//
// Threads: updates are relaxed atomics, any thread; registration and rendering take the registry's lock. A
// metric lives as long as its registry. Names follow Prometheus: dfkv_*, counters end in _total, seconds and
// bytes are base units.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/sync.h"

namespace dfkv {

class alignas(64) Counter {
 public:
  void Add(uint64_t by = 1) { value_.fetch_add(by, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

class alignas(64) Gauge {
 public:
  void Set(int64_t value) { value_.store(value, std::memory_order_relaxed); }
  void Add(int64_t by) { value_.fetch_add(by, std::memory_order_relaxed); }
  int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int64_t> value_{0};
};

// Latencies in buckets of powers of two from 1 microsecond to 33 seconds; a maximum that is exact.
class Histogram {
 public:
  static constexpr size_t kBuckets = 26;
  void Observe(Nanos latency);
  uint64_t count() const { return count_.load(std::memory_order_relaxed); }
  double sum_seconds() const { return static_cast<double>(sum_ns_.load(std::memory_order_relaxed)) * 1e-9; }
  double max_seconds() const { return static_cast<double>(max_ns_.load(std::memory_order_relaxed)) * 1e-9; }
  uint64_t bucket(size_t i) const { return buckets_[i].load(std::memory_order_relaxed); }
  static double UpperBoundSeconds(size_t bucket);

 private:
  std::array<std::atomic<uint64_t>, kBuckets> buckets_{};
  std::atomic<uint64_t> count_{0};
  std::atomic<int64_t> sum_ns_{0};
  std::atomic<int64_t> max_ns_{0};
};

using Labels = std::vector<std::pair<std::string, std::string>>;

class MetricRegistry {
 public:
  // The metric of that name and labels; made on first use. `help` is taken from the first registration of a
  // name.
  Counter& AddCounter(const std::string& name, const std::string& help, Labels labels = {});
  Gauge& AddGauge(const std::string& name, const std::string& help, Labels labels = {});
  Histogram& AddHistogram(const std::string& name, const std::string& help, Labels labels = {});
  // A value read when rendered. `type` is "gauge" or "counter". The callback may take locks, and is called
  // under the registry's.
  void AddCallback(const std::string& name, const std::string& help, const char* type, Labels labels,
                   std::function<double()> read);
  // Series that are made up anew at each rendering: for labels that come and go. Otherwise as AddCallback;
  // the caller bounds their number.
  using Collected = std::vector<std::pair<Labels, double>>;
  void AddCollector(const std::string& name, const std::string& help, const char* type,
                    std::function<Collected()> collect);

  // Prometheus text format 0.0.4.
  std::string Render() const;
  // Name, labels rendered as {a="b"}, value: for JSON views and tests. Histograms give _count and _sum.
  std::vector<std::pair<std::string, double>> Snapshot() const;
  // Names with type and help, sorted: the source of docs/METRICS.md.
  struct Description {
    std::string name, type, help;
  };
  std::vector<Description> Describe() const;

 private:
  struct Series {
    std::string labels;  // rendered, without braces
    Counter* counter = nullptr;
    Gauge* gauge = nullptr;
    Histogram* histogram = nullptr;
    std::function<double()> read;
  };
  struct Family {
    std::string help;
    std::string type;
    std::vector<Series> series;
    std::function<Collected()> collect;
  };
  Family& FamilyOf(const std::string& name, const std::string& help, const char* type) REQUIRES(mutex_);
  Series& Find(const std::string& name, const std::string& help, const char* type, const Labels& labels)
      REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::map<std::string, Family> families_ GUARDED_BY(mutex_);
  std::deque<Counter> counters_ GUARDED_BY(mutex_);
  std::deque<Gauge> gauges_ GUARDED_BY(mutex_);
  std::deque<Histogram> histograms_ GUARDED_BY(mutex_);
};

}  // namespace dfkv
