#include "store/evict/offline.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <vector>

namespace dfkv::store::evict {
namespace {

constexpr uint32_t kNotAgain = 0xffffffffu;

// When a cached block is used next and how deep it lies in that request. The block that sorts last goes
// first.
struct NextUse {
  uint32_t request = kNotAgain;
  uint32_t depth = 0;
  friend auto operator<=>(const NextUse&, const NextUse&) = default;
};

using NextUses = std::vector<std::vector<NextUse>>;  // by request, by place in the chain

NextUses FindNextUses(std::span<const TraceRequest> requests) {
  NextUses next(requests.size());
  std::unordered_map<uint64_t, NextUse> coming;
  for (size_t r = requests.size(); r-- > 0;) {
    const std::vector<uint64_t>& blocks = requests[r].blocks;
    for (uint64_t block : blocks) {
      auto at = coming.find(block);
      next[r].push_back(at == coming.end() ? NextUse{} : at->second);
    }
    for (size_t depth = blocks.size(); depth-- > 0;) {
      coming[blocks[depth]] = {static_cast<uint32_t>(r), static_cast<uint32_t>(depth)};
    }
  }
  return next;
}

// The blocks kept, and a heap of them by next use. A heap entry counts while it is the block's current one.
class Optimum {
 public:
  explicit Optimum(uint64_t capacity) : capacity_(capacity) {}

  size_t LongestPrefix(const std::vector<uint64_t>& blocks) const {
    size_t hit = 0;
    while (hit < blocks.size() && cached_.count(blocks[hit]) > 0) ++hit;
    return hit;
  }

  void Use(uint64_t block, NextUse next) {
    if (next.request == kNotAgain) {
      cached_.erase(block);
      return;
    }
    cached_[block] = next;
    heap_.emplace(next, block);
  }

  void Shrink() {
    while (cached_.size() > capacity_) {
      const auto [next, block] = heap_.top();
      heap_.pop();
      auto at = cached_.find(block);
      if (at != cached_.end() && at->second == next) cached_.erase(at);
    }
  }

 private:
  uint64_t capacity_;
  std::unordered_map<uint64_t, NextUse> cached_;
  std::priority_queue<std::pair<NextUse, uint64_t>> heap_;
};

}  // namespace

double OfflineTokenHitRatio(std::span<const TraceRequest> requests, uint64_t capacity_blocks) {
  const NextUses next = FindNextUses(requests);
  Optimum optimum(capacity_blocks);
  uint64_t hit_tokens = 0;
  uint64_t input_tokens = 0;
  for (size_t r = 0; r < requests.size(); ++r) {
    const TraceRequest& request = requests[r];
    hit_tokens += HitTokens(request, optimum.LongestPrefix(request.blocks));
    input_tokens += request.input_tokens;
    for (size_t i = 0; i < request.blocks.size(); ++i) optimum.Use(request.blocks[i], next[r][i]);
    optimum.Shrink();
  }
  return input_tokens == 0 ? 0 : static_cast<double>(hit_tokens) / static_cast<double>(input_tokens);
}

}  // namespace dfkv::store::evict
