// The best any cache could have done on a trace, knowing the future.
#pragma once

#include <cstdint>
#include <span>

#include "store/evict/trace.h"

namespace dfkv::store::evict {

// Hit tokens over input tokens, 0 to 1, of the offline optimum at a cache of `capacity_blocks`: Belady's rule
// with bypass (of the blocks cached and the request's own, those used again soonest are kept) and deepest
// first among blocks whose next use is the same request, which keeps prefixes whole. A request's hit is the
// longest prefix of its chain that was cached before it. A block that comes twice in a chain counts at its
// first place. 0 for an empty trace.
double OfflineTokenHitRatio(std::span<const TraceRequest> requests, uint64_t capacity_blocks);

}  // namespace dfkv::store::evict
