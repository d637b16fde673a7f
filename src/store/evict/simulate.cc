#include "store/evict/simulate.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <unordered_map>

#include "base/check.h"
#include "base/clock.h"
#include "base/random.h"

namespace dfkv::store::evict {
namespace {

class Cache {
 public:
  Cache(std::unique_ptr<Policy> policy, const SimOptions& options)
      : policy_(std::move(policy)), options_(options) {}

  size_t LongestPrefix(std::span<const uint64_t> blocks) const {
    size_t hit = 0;
    while (hit < blocks.size() && live_.count(blocks[hit]) > 0) ++hit;
    return hit;
  }

  // The keys [begin, end) of a chain, in batches of at most batch_max.
  void Ask(RequestKind kind, std::span<const uint64_t> chain, size_t begin, size_t end) {
    const size_t step = options_.batch_max == 0 ? chain.size() : options_.batch_max;
    for (; begin < end; begin += step) {
      const size_t stop = std::min(end, begin + step);
      Batch(kind, chain, begin, stop);
      if (kind == RequestKind::kPut) Store(chain, begin, stop);
    }
  }

  // What a PUT does once the bytes are there: index 0 first, one by one.
  void Store(std::span<const uint64_t> chain, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const uint64_t id = Mix64(chain[i]);
      if (live_.count(chain[i]) > 0 || options_.capacity == 0) continue;
      while (live_.size() >= options_.capacity) EvictOne();
      const Handle handle = TakeHandle();
      live_[chain[i]] = handle;
      block_of_[handle.value()] = chain[i];
      Timed([&] { policy_->Insert({id, handle, static_cast<uint32_t>(i)}); });
    }
    bytes_max_ = std::max(bytes_max_, policy_->MemoryBytes());
  }

  SimResult Cost() const {
    SimResult result;
    result.ids = ids_;
    result.ns_per_id = ids_ == 0 ? 0 : static_cast<double>(spent_) / static_cast<double>(ids_);
    result.ns_max = static_cast<double>(spent_max_);
    result.bytes_per_object =
        options_.capacity == 0 ? 0 : static_cast<double>(bytes_max_) / static_cast<double>(options_.capacity);
    return result;
  }

 private:
  void Batch(RequestKind kind, std::span<const uint64_t> chain, size_t begin, size_t end) {
    batch_.clear();
    for (size_t i = begin; i < end; ++i) {
      auto at = live_.find(chain[i]);
      batch_.push_back(
          {Mix64(chain[i]), at == live_.end() ? kNoHandle : at->second, static_cast<uint32_t>(i)});
    }
    ids_ += batch_.size();
    Timed([&] { policy_->OnRequest({.kind = kind, .now = ++now_, .chain = batch_}); });
  }

  void EvictOne() {
    Handle victim = kNoHandle;
    Timed([&] { victim = policy_->Victim([](Handle) { return true; }); });
    DFKV_CHECK(victim != kNoHandle);
    const uint64_t block = block_of_[victim.value()];
    DFKV_CHECK(live_.erase(block) == 1);
    free_.push_back(victim);
    Timed([&] { policy_->Erase(Mix64(block), victim, EraseReason::kEvicted); });
  }

  Handle TakeHandle() {
    if (free_.empty()) {
      block_of_.push_back(0);
      return Handle(static_cast<uint32_t>(block_of_.size() - 1));
    }
    const Handle handle = free_.back();
    free_.pop_back();
    return handle;
  }

  // CPU time, so that a busy machine does not count; of one call in kSampled, since reading it costs a
  // syscall.
  template <typename F>
  void Timed(F call) {
    if (++calls_ % kSampled != 0) return call();
    const Nanos begin = ThreadCpuNow();
    call();
    const Nanos spent = std::max<Nanos>(0, ThreadCpuNow() - begin - reading_);
    spent_ += spent * kSampled;
    spent_max_ = std::max(spent_max_, spent);
  }

  static Nanos CostOfReading() {
    Nanos least = kSecond;
    for (int i = 0; i < 100; ++i) {
      const Nanos begin = ThreadCpuNow();
      least = std::min(least, ThreadCpuNow() - begin);
    }
    return least;
  }

  static constexpr int kSampled = 7;

  std::unique_ptr<Policy> policy_;
  SimOptions options_;
  std::unordered_map<uint64_t, Handle> live_;
  std::vector<uint64_t> block_of_;  // by handle
  std::vector<Handle> free_;
  std::vector<Access> batch_;
  uint64_t now_ = 0;
  uint64_t ids_ = 0;
  size_t bytes_max_ = 0;
  uint64_t calls_ = 0;
  const Nanos reading_ = CostOfReading();
  Nanos spent_ = 0;
  Nanos spent_max_ = 0;
};

// What one request asks before its PUT; the PUT starts at the index returned.
size_t AskBeforePut(Cache& cache, CallPattern pattern, std::span<const uint64_t> chain, size_t hit) {
  switch (pattern) {
    case CallPattern::kMatchGetPut:
    case CallPattern::kMatchGetPutAll:
      cache.Ask(RequestKind::kMatch, chain, 0, chain.size());
      cache.Ask(RequestKind::kGet, chain, 0, hit);
      return pattern == CallPattern::kMatchGetPut ? hit : 0;
    case CallPattern::kMatchPutAll:
      cache.Ask(RequestKind::kMatch, chain, 0, chain.size());
      return 0;
    case CallPattern::kOneBatch:
    case CallPattern::kGetAllPutRest:
      cache.Ask(RequestKind::kGet, chain, 0, chain.size());
      return hit;
    case CallPattern::kGetHitPutRest:
      cache.Ask(RequestKind::kGet, chain, 0, hit);
      return hit;
    case CallPattern::kPutAll:
      return 0;
  }
  return 0;
}

struct PendingPut {
  size_t request;
  size_t begin;
};

}  // namespace

Result<SimResult> Simulate(std::span<const TraceRequest> requests, const SimOptions& options) {
  Result<std::unique_ptr<Policy>> policy =
      MakePolicy(options.policy, Config{options.capacity, options.bytes_per_object_max});
  if (!policy.ok()) return policy.status();
  Cache cache(std::move(*policy), options);
  std::deque<PendingPut> pending;
  const auto finish_oldest = [&] {
    const PendingPut put = pending.front();
    pending.pop_front();
    const std::vector<uint64_t>& chain = requests[put.request].blocks;
    if (options.pattern == CallPattern::kOneBatch) {
      cache.Store(chain, put.begin, chain.size());
    } else {
      cache.Ask(RequestKind::kPut, chain, put.begin, chain.size());
    }
  };
  uint64_t hit_tokens = 0;
  uint64_t input_tokens = 0;
  for (size_t r = 0; r < requests.size(); ++r) {
    const size_t hit = cache.LongestPrefix(requests[r].blocks);
    hit_tokens += HitTokens(requests[r], hit);
    input_tokens += requests[r].input_tokens;
    pending.push_back({r, AskBeforePut(cache, options.pattern, requests[r].blocks, hit)});
    while (pending.size() >= std::max(options.in_flight, 1u)) finish_oldest();
  }
  while (!pending.empty()) finish_oldest();
  SimResult result = cache.Cost();
  result.token_hit_ratio =
      input_tokens == 0 ? 0 : static_cast<double>(hit_tokens) / static_cast<double>(input_tokens);
  return result;
}

}  // namespace dfkv::store::evict
