#include "tools/bench/latency.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace dfkv::tools {

size_t LatencyRecorder::BucketOf(Nanos latency) {
  const auto ns = static_cast<uint64_t>(std::clamp<Nanos>(latency, 0, (Nanos{1} << kTopBit) - 1));
  const int width = static_cast<int>(std::bit_width(ns));
  if (width <= kSubBits) return static_cast<size_t>(ns);
  const int shift = width - kSubBits - 1;
  // The leading bit selects the row, the next kSubBits bits the place in it.
  return (static_cast<size_t>(shift + 1) << kSubBits) + static_cast<size_t>((ns >> shift) - (1u << kSubBits));
}

Nanos LatencyRecorder::UpperBound(size_t bucket) {
  const size_t row = bucket >> kSubBits;
  const auto place = static_cast<Nanos>(bucket & ((1u << kSubBits) - 1));
  if (row == 0) return place;
  return ((place + (1 << kSubBits) + 1) << (row - 1)) - 1;
}

void LatencyRecorder::Add(Nanos latency) {
  latency = std::max<Nanos>(latency, 0);
  ++(*buckets_)[BucketOf(latency)];
  ++count_;
  sum_ += latency;
  max_ = std::max(max_, latency);
}

void LatencyRecorder::Merge(const LatencyRecorder& other) {
  for (size_t i = 0; i < kBuckets; ++i) (*buckets_)[i] += (*other.buckets_)[i];
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
}

Nanos LatencyRecorder::Quantile(double quantile) const {
  if (count_ == 0) return 0;
  const double wanted = std::ceil(std::clamp(quantile, 0.0, 1.0) * static_cast<double>(count_));
  const auto rank = std::max<uint64_t>(1, static_cast<uint64_t>(wanted));
  uint64_t seen = 0;
  for (size_t i = 0; i < kBuckets; ++i) {
    seen += (*buckets_)[i];
    if (seen >= rank) return std::min(UpperBound(i), max_);
  }
  return max_;
}

LatencySummary LatencyRecorder::Summary() const {
  const auto us = [](Nanos ns) { return static_cast<double>(ns) * 1e-3; };
  LatencySummary summary;
  summary.count = count_;
  if (count_ != 0) summary.mean_us = us(sum_) / static_cast<double>(count_);
  summary.p50_us = us(Quantile(0.5));
  summary.p90_us = us(Quantile(0.9));
  summary.p99_us = us(Quantile(0.99));
  summary.p999_us = us(Quantile(0.999));
  summary.max_us = us(max_);
  return summary;
}

}  // namespace dfkv::tools
