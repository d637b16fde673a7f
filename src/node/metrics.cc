#include "node/metrics.h"

#include <string>

namespace dfkv::node {

NodeMetrics::NodeMetrics(MetricRegistry& registry)
    : puts(registry.AddCounter("dfkv_cache_put_total", "Objects stored by PUT, present ones included.")),
      hits(registry.AddCounter("dfkv_cache_hit_total", "Objects asked for by GET and found.")),
      misses(registry.AddCounter("dfkv_cache_miss_total", "Objects asked for by GET and not found.")),
      exist_hits(
          registry.AddCounter("dfkv_exist_hit_total", "Keys asked for by EXIST or LOOKUP and present.")),
      exist_misses(
          registry.AddCounter("dfkv_exist_miss_total", "Keys asked for by EXIST or LOOKUP and absent.")),
      removes(registry.AddCounter("dfkv_remove_ok_total", "Objects removed.")),
      remove_misses(registry.AddCounter("dfkv_remove_miss_total", "Keys to remove that were absent.")),
      written_bytes(registry.AddCounter("dfkv_bytes_written_total", "Bytes of values stored by PUT.")),
      read_bytes(registry.AddCounter("dfkv_bytes_read_total", "Bytes of values answered to GET.")),
      put_busy(registry.AddCounter("dfkv_put_busy_total", "PUT items refused because the node had no room.")),
      matches(registry.AddCounter("dfkv_match_total", "MATCH requests.")),
      match_keys(registry.AddCounter("dfkv_match_present_total", "Leading keys found present by MATCH.")),
      registry_(registry) {
  for (const wire::OpInfo& row : wire::OpTable()) {
    latency_[static_cast<size_t>(row.op)] =
        &registry.AddHistogram("dfkv_op_latency_seconds", "From request to last answer; one request in 16.",
                               {{"op", std::string(row.name)}});
  }
}

void NodeMetrics::CountError(wire::Op op, Code code) {
  if (code == Code::kOk || code == Code::kNotFound) return;
  std::atomic<Counter*>& slot = errors_[static_cast<size_t>(op)][static_cast<size_t>(code)];
  Counter* counter = slot.load(std::memory_order_acquire);
  if (counter == nullptr) {
    counter = &registry_.AddCounter("dfkv_errors_total", "Items that failed, by operation and code.",
                                    {{"op", std::string(wire::OpName(static_cast<uint8_t>(op)))},
                                     {"status", std::string(CodeName(code))}});
    slot.store(counter, std::memory_order_release);
  }
  counter->Add();
}

}  // namespace dfkv::node
