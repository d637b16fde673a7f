// The tournament: LRU, LRU-2 and ARC run beside the cache as shadows that hold ids alone, each as large as
// the cache. The one whose recent requests would have hit most is the winner; the cache gives up first what
// the winner would not hold, else its coldest, leaves first.
//
// Invariants: a node is known while it is live or a shadow refers to it, or, for one call, while it is busy;
// the history remembers the rest. Memory stays within the budget: first the history gives way, then what ARC
// remembers of evicted ids, then the shadows' size.
#pragma once

#include <deque>
#include <vector>

#include "store/evict/arc.h"
#include "store/evict/history.h"
#include "store/evict/known.h"
#include "store/evict/logical_request.h"
#include "store/evict/lru2.h"
#include "store/evict/policy.h"
#include "store/evict/recency.h"

namespace dfkv::store::evict {

class Tournament final : public Policy {
 public:
  explicit Tournament(const Config& config);

  void OnRequest(const Request& request) override;
  void Insert(const Access& object) override;
  void Erase(uint64_t id, Handle handle, EraseReason reason) override;
  Handle Victim(const MayEvict& may_evict) override;
  void SetCapacity(uint64_t objects) override;
  uint64_t ColdestStamp() const override;
  void Prefetch(uint64_t id, int step) const override;
  size_t MemoryBytes() const override;

 private:
  enum Shadow : unsigned { kLru = 0, kLru2 = 1, kArc = 2, kShadows = 3 };

  static bool Holds(Shadow shadow, const Known& node);
  bool WinnerHolds(const Known& node) const { return Holds(winner_, node); }

  // Requests.
  void Resolve(const Request& request);
  Index FindOrAdd(uint64_t id, Handle handle);
  Index Add(uint64_t id);
  void Score();
  void ChooseWinner();
  void ApplySteps();
  void Release();

  // Shadows.
  size_t ShadowCapacity() const;
  size_t PrefixHeld(Shadow shadow) const;
  void StepLru();
  void StepLru2(size_t hit);
  void StepArc(size_t hit);
  void TrimShadows(size_t steps);
  void TakeDropped(Shadow shadow);
  void FreeIfUnknown(Index i);

  // Victims.
  void Doom(Index i);
  Index ScanForReject(const MayEvict& may_evict, int& refusals);
  Index FrontOfDoomed(const MayEvict& may_evict, int& refusals);
  Index ColdestAllowed(const MayEvict& may_evict, int& refusals);

  // Memory.
  size_t BytesWithoutHistory() const;
  size_t BytesMax() const;
  void MakeRoom(size_t nodes);
  void Compact(size_t steps);
  void FitHistory(size_t steps);

  KnownTable table_;
  Recency recency_;
  Lru2 lru2_;
  Arc arc_;
  History history_;
  std::deque<Index> doomed_;  // live objects that the winner dropped, in that order; entries may be outdated

  std::vector<Step> steps_;     // the batch being worked on, index 0 first
  std::vector<Index> busy_;     // its nodes
  std::vector<Index> dropped_;  // by the shadow being stepped
  size_t prefix_held_[kShadows] = {};

  uint64_t capacity_ = 0;
  uint64_t squeeze_ = 0;  // the shadows are this much smaller than the cache, for want of memory
  uint32_t bytes_per_object_max_;
  uint64_t live_ = 0;
  uint64_t time_ = 1;  // Request::now + 1

  double scores_[kShadows] = {};
  Shadow winner_ = kLru;
  int beaten_in_a_row_ = 0;
  uint64_t winner_since_ = 0;
};

}  // namespace dfkv::store::evict
