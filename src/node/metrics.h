// The node's own metrics, per operation. Names as docs/METRICS.md; any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/metric.h"
#include "base/status.h"
#include "wire/ops.h"

namespace dfkv::node {

class NodeMetrics {
 public:
  explicit NodeMetrics(MetricRegistry& registry);

  // Counts an item's failure; Ok and NotFound are not failures. Any thread; off the hot path.
  void CountError(wire::Op op, Code code);
  Histogram& latency(wire::Op op) { return *latency_[static_cast<size_t>(op)]; }
  MetricRegistry& registry() { return registry_; }

  Counter& puts;
  Counter& hits;
  Counter& misses;
  Counter& exist_hits;
  Counter& exist_misses;
  Counter& removes;
  Counter& remove_misses;
  Counter& written_bytes;
  Counter& read_bytes;
  Counter& put_busy;
  Counter& matches;
  Counter& match_keys;

 private:
  static constexpr size_t kOps = 16;
  static constexpr size_t kCodes = static_cast<size_t>(Code::kDenied) + 1;

  MetricRegistry& registry_;
  std::array<Histogram*, kOps> latency_{};
  std::array<std::array<std::atomic<Counter*>, kCodes>, kOps> errors_{};  // made on first use
};

}  // namespace dfkv::node
