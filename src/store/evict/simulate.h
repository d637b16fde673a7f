// A cache of equal objects without bytes: what a policy reaches on a trace. For evict_sim and the trace
// tests.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "store/evict/policy.h"
#include "store/evict/trace.h"

namespace dfkv::store::evict {

// How one logical request of a trace reaches the node.
enum class CallPattern : uint8_t {
  kOneBatch,        // one batch of all keys; the absent ones are then stored
  kMatchGetPut,     // MATCH of all, GET of the hit, PUT of the rest
  kGetAllPutRest,   // GET of all, PUT of what missed
  kGetHitPutRest,   // GET of the hit only, PUT of the rest
  kPutAll,          // PUT of all, the present ones are touches
  kMatchPutAll,     // MATCH of all, PUT of all
  kMatchGetPutAll,  // MATCH of all, GET of the hit, PUT of all
};
inline constexpr std::string_view kCallPatternNames[] = {
    "one-batch", "match-get-put", "get-all-put-rest",  "get-hit-put-rest",
    "put-all",   "match-put-all", "match-get-put-all",
};

struct SimOptions {
  std::string policy;
  uint64_t capacity = 0;  // objects
  CallPattern pattern = CallPattern::kOneBatch;
  uint32_t batch_max = 0;  // keys a batch; a longer chain comes as several; 0: no limit
  uint32_t in_flight = 1;  // requests whose PUTs are still to come when the next one asks
  uint32_t bytes_per_object_max = Config().bytes_per_object_max;
};

struct SimResult {
  double token_hit_ratio = 0;
  uint64_t ids = 0;             // keys given to the policy, over all batches
  double ns_per_id = 0;         // CPU time in the policy, all calls
  double ns_max = 0;            // the longest single call of those sampled
  double bytes_per_object = 0;  // of the policy's memory at its largest, by capacity
};

// kInvalid: unknown policy.
Result<SimResult> Simulate(std::span<const TraceRequest> requests, const SimOptions& options);

}  // namespace dfkv::store::evict
