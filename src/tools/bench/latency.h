// LatencyRecorder: every latency of a run in fixed memory, percentiles within 1 %.
//
// Log-linear buckets: 128 per power of two from 1 ns to 2^40 ns (18 minutes); longer ones count as that. The
// maximum and the mean are exact. One thread; recorders of several threads are merged at the end.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "base/clock.h"

namespace dfkv::tools {

// What is reported of a recorder, in microseconds.
struct LatencySummary {
  uint64_t count = 0;
  double mean_us = 0;
  double p50_us = 0;
  double p90_us = 0;
  double p99_us = 0;
  double p999_us = 0;
  double max_us = 0;
};

class LatencyRecorder {
 public:
  LatencyRecorder() : buckets_(std::make_unique<std::array<uint64_t, kBuckets>>()) {}

  void Add(Nanos latency);
  void Merge(const LatencyRecorder& other);
  uint64_t count() const { return count_; }
  // The smallest latency that a share `quantile` (0 to 1) of all stays at or below; 0 when there is none.
  Nanos Quantile(double quantile) const;
  LatencySummary Summary() const;

 private:
  static constexpr int kSubBits = 7;
  static constexpr int kTopBit = 40;
  static constexpr size_t kBuckets = static_cast<size_t>(kTopBit - kSubBits + 1) << kSubBits;
  static size_t BucketOf(Nanos latency);
  static Nanos UpperBound(size_t bucket);

  std::unique_ptr<std::array<uint64_t, kBuckets>> buckets_;
  uint64_t count_ = 0;
  Nanos sum_ = 0;
  Nanos max_ = 0;
};

}  // namespace dfkv::tools
