#include "store/evict/tournament.h"

#include <algorithm>
#include <cmath>

#include "base/fault.h"
#include "store/evict/policies.h"

namespace dfkv::store::evict {
namespace {

// The tournament as requirements and measurements set it: half-lives of 300 to 3,000 requests stay within a
// point of token hit ratio.
const double kDecay = std::exp2(-1.0 / 1000);
constexpr double kLead = 1.01;
constexpr int kBeatenMax = 20;

constexpr size_t kHistoryPerObject = 4;
constexpr size_t kBytesFixed = 20480;  // of the 64 KiB; the rest is room for part-used chunks
constexpr size_t kScanStepsMax = 512;
constexpr size_t kColdStepsMax = 16384;
constexpr int kDropsPerInsertMax = 2;  // more than one, so that a shadow above its capacity comes down

}  // namespace

Tournament::Tournament(const Config& config)
    : capacity_(config.capacity_objects), bytes_per_object_max_(config.bytes_per_object_max) {}

bool Tournament::Holds(Shadow shadow, const Known& node) {
  switch (shadow) {
    case kLru:
      return Recency::HoldsInLru(node);
    case kLru2:
      return Lru2::Holds(node);
    default:
      return Arc::Holds(node);
  }
}

void Tournament::Prefetch(uint64_t id, int step) const {
  if (step == 0) return table_.PrefetchHead(id);
  if (step == 1) return table_.PrefetchNode(id);
  const Index i = table_.First(id);
  if (i == kNil) return;
  PrefetchNeighbours(table_, table_[i].recency);
  PrefetchNeighbours(table_, table_[i].arc);
}

// ---- requests ----

void Tournament::OnRequest(const Request& request) {
  time_ = std::max(time_, (request.now + 1) & kTimeMask);
  MakeRoom(request.chain.size());
  Resolve(request);
  if (BeginsRequest(table_, request.kind, time_, steps_)) Score();
  ApplySteps();
  Release();
  const size_t steps = 2 * request.chain.size() + 8;
  TrimShadows(steps);
  Compact(steps);
  FitHistory(steps);
}

// Finds the batch's nodes and adds the missing ones; kOther touches live objects alone.
void Tournament::Resolve(const Request& request) {
  steps_.clear();
  uint32_t place = 0;
  for (const Access& access : request.chain) {
    const uint32_t depth = std::min(access.depth == kNoDepth ? place : access.depth, Known::kDepthMax);
    ++place;
    if (request.kind == RequestKind::kOther && access.handle == kNoHandle) continue;
    const Index i = FindOrAdd(access.id, access.handle);
    steps_.push_back({i, depth});
    busy_.push_back(i);
    table_[i].busy = 1;
  }
}

// The node of this id and handle, else any of this id, else a new one with what history knows of it.
Index Tournament::FindOrAdd(uint64_t id, Handle handle) {
  Index any = kNil;
  const Index exact = table_.Find(id, [&](Index i) {
    any = i;
    return table_[i].handle == handle;
  });
  if (exact != kNil) return exact;
  return any != kNil ? any : Add(id);
}

Index Tournament::Add(uint64_t id) {
  const Index i = table_.Add(id);
  table_[i].known = 1;
  table_[i].last = history_.Take(id, time_) & kTimeMask;
  return i;
}

size_t Tournament::PrefixHeld(Shadow shadow) const {
  size_t held = 0;
  while (held < steps_.size() && Holds(shadow, table_[steps_[held].node])) ++held;
  return held;
}

void Tournament::Score() {
  for (unsigned s = 0; s < kShadows; ++s) {
    scores_[s] = scores_[s] * kDecay + static_cast<double>(PrefixHeld(static_cast<Shadow>(s)));
  }
  ChooseWinner();
}

void Tournament::ChooseWinner() {
  const auto best = static_cast<Shadow>(std::max_element(scores_, scores_ + kShadows) - scores_);
  if (best == winner_ || scores_[best] <= kLead * scores_[winner_]) {
    beaten_in_a_row_ = 0;
    return;
  }
  if (++beaten_in_a_row_ < kBeatenMax) return;
  DFKV_PROBE("evict.new_winner");
  beaten_in_a_row_ = 0;
  winner_ = best;
  winner_since_ = time_;
  recency_.Restart(Recency::kScan);
}

// Steps every shadow over steps_: hits first, then the missing, then the hits' order again, each deepest
// first.
void Tournament::ApplySteps() {
  if (steps_.empty()) return;
  for (unsigned s = 0; s < kShadows; ++s) prefix_held_[s] = PrefixHeld(static_cast<Shadow>(s));
  for (const Step& step : steps_) {
    Known& node = table_[step.node];
    if (node.last == time_) continue;
    node.prev = node.last;
    node.last = time_ & kTimeMask;
    node.depth = step.depth & Known::kDepthMax;
  }
  StepLru();
  TakeDropped(kLru);
  StepLru2(prefix_held_[kLru2]);
  TakeDropped(kLru2);
  StepArc(prefix_held_[kArc]);
  TakeDropped(kArc);
}

void Tournament::Release() {
  for (const Index i : busy_) {
    table_[i].busy = 0;
    FreeIfUnknown(i);
  }
  busy_.clear();
}

// ---- shadows ----

size_t Tournament::ShadowCapacity() const {
  return capacity_ - std::min(squeeze_, capacity_);
}

void Tournament::StepLru() {
  const size_t capacity = ShadowCapacity();
  for (size_t k = steps_.size(); k-- > 0;) {
    recency_.Touch(table_, steps_[k].node);
    for (int n = 0; n < kDropsPerInsertMax && recency_.lru_size() > capacity; ++n) {
      dropped_.push_back(recency_.DropFromLru(table_));
    }
  }
}

void Tournament::StepLru2(size_t hit) {
  const size_t capacity = ShadowCapacity();
  for (size_t k = hit; k-- > 0;) lru2_.Touch(table_, steps_[k].node);
  for (size_t k = steps_.size(); k-- > hit && capacity > 0;) {
    const Index i = steps_[k].node;
    if (Lru2::Holds(table_[i])) {
      lru2_.Touch(table_, i);
      continue;
    }
    for (int n = 0; n < kDropsPerInsertMax && lru2_.size() >= capacity; ++n) {
      if (const Index out = lru2_.Evict(table_); out != kNil) dropped_.push_back(out);
    }
    lru2_.Insert(table_, i);
  }
}

void Tournament::StepArc(size_t hit) {
  const size_t capacity = ShadowCapacity();
  for (size_t k = hit; k-- > 0;) arc_.Touch(table_, steps_[k].node);
  for (size_t k = steps_.size(); k-- > hit && capacity > 0;) {
    const Index i = steps_[k].node;
    if (Arc::Holds(table_[i])) {
      arc_.Touch(table_, i);
    } else {
      arc_.Insert(table_, i, capacity, dropped_);
    }
  }
  for (size_t k = hit; k-- > 0;) {
    if (Arc::Holds(table_[steps_[k].node])) arc_.Refresh(table_, steps_[k].node);
  }
}

// Brings shadows that are larger than the cache down by some steps.
void Tournament::TrimShadows(size_t steps) {
  const size_t capacity = ShadowCapacity();
  for (size_t n = 0; n < steps && recency_.lru_size() > capacity; ++n) {
    dropped_.push_back(recency_.DropFromLru(table_));
  }
  TakeDropped(kLru);
  for (size_t n = 0; n < steps && lru2_.size() > capacity; ++n) {
    if (const Index out = lru2_.Evict(table_); out != kNil) dropped_.push_back(out);
  }
  TakeDropped(kLru2);
  for (size_t n = 0; n < steps && arc_.size() > capacity; ++n) {
    arc_.Replace(table_, false, capacity, dropped_);
  }
  for (size_t n = 0; n < steps && arc_.size() + arc_.ghosts() > 2 * capacity && arc_.ghosts() > 0; ++n) {
    arc_.ForgetGhost(table_, dropped_);
  }
  TakeDropped(kArc);
}

// An id may be in dropped_ twice: when ARC evicts and forgets it in one step.
void Tournament::TakeDropped(Shadow shadow) {
  for (const Index i : dropped_) {
    if (shadow == winner_ && table_[i].live() && !WinnerHolds(table_[i])) Doom(i);
    FreeIfUnknown(i);
  }
  dropped_.clear();
}

void Tournament::FreeIfUnknown(Index i) {
  Known& node = table_[i];
  if (!node.known || node.busy || node.live() || node.in_lru || node.in_lru2 || node.arc_list != kArcNone)
    return;
  if (node.last != 0) history_.Put(node.id, node.last);
  node.known = 0;
  table_.Free(i);
}

// ---- live objects ----

void Tournament::Insert(const Access& object) {
  DFKV_CHECK(object.handle != kNoHandle);
  MakeRoom(1);
  Index i = FindOrAdd(object.id, object.handle);
  if (table_[i].handle == object.handle) return;
  if (table_[i].live()) i = Add(object.id);  // another object of equal id
  const bool named = table_[i].in_lru || table_[i].in_lru2 || table_[i].arc_list != kArcNone;
  AnswerByInsert(table_[i]);
  table_[i].handle = object.handle;
  ++live_;
  if (!named) {
    steps_.assign(1, {i, std::min(object.depth == kNoDepth ? 0 : object.depth, Known::kDepthMax)});
    ApplySteps();
  }
  recency_.AddLive(table_, i);
  if (!WinnerHolds(table_[i])) Doom(i);
  recency_.ColdestLive(table_, 8);
  FitHistory(4);
}

void Tournament::Erase(uint64_t id, Handle handle, EraseReason) {
  if (handle == kNoHandle) return;
  const Index i = table_.Find(id, [&](Index at) { return table_[at].handle == handle; });
  if (i == kNil) return;
  table_[i].handle = kNoHandle;
  --live_;
  recency_.RemoveLive(table_, i);
  FreeIfUnknown(i);
  recency_.ColdestLive(table_, 8);
}

void Tournament::SetCapacity(uint64_t objects) {
  capacity_ = objects;
  squeeze_ = std::min(squeeze_, objects);
}

uint64_t Tournament::ColdestStamp() const {
  if (live_ == 0) return kNoStamp;
  const Index cold = recency_.At(Recency::kCold);
  return cold == kNil ? 0 : table_[cold].last - 1;
}

// ---- victims ----

Handle Tournament::Victim(const MayEvict& may_evict) {
  if (live_ == 0) return kNoHandle;
  int refusals = 0;
  Index i = ScanForReject(may_evict, refusals);
  if (i == kNil) i = FrontOfDoomed(may_evict, refusals);
  if (i == kNil) i = ColdestAllowed(may_evict, refusals);
  return i == kNil ? kNoHandle : table_[i].handle;
}

void Tournament::Doom(Index i) {
  if (table_[i].in_doomed || doomed_.size() > capacity_ + 64) return;
  table_[i].in_doomed = 1;
  doomed_.push_back(i);
}

// After a change of winner: what it does not hold, from the cold end up, a part of the list each call.
Index Tournament::ScanForReject(const MayEvict& may_evict, int& refusals) {
  for (size_t step = 0; step < kScanStepsMax && refusals < kRefusalsMax; ++step) {
    const Index i = recency_.At(Recency::kScan);
    if (i == kNil) return kNil;
    if (table_[i].last > winner_since_) {
      recency_.Stop(Recency::kScan);
      return kNil;
    }
    if (table_[i].live() && !WinnerHolds(table_[i])) {
      if (may_evict(table_[i].handle)) return i;
      ++refusals;
      Doom(i);
    }
    recency_.Next(table_, Recency::kScan);
  }
  return kNil;
}

Index Tournament::FrontOfDoomed(const MayEvict& may_evict, int& refusals) {
  // Half of the refusals are left for the coldest.
  for (size_t n = doomed_.size(); n > 0 && refusals < kRefusalsMax / 2; --n) {
    const Index i = doomed_.front();
    if (!table_.InPool(i)) {
      doomed_.pop_front();
      continue;
    }
    Known& node = table_[i];
    const bool wanted = node.in_doomed && node.live() && !WinnerHolds(node);
    if (wanted && may_evict(node.handle)) return i;
    doomed_.pop_front();
    if (wanted) {
      ++refusals;
      doomed_.push_back(i);
    } else {
      node.in_doomed = 0;
    }
  }
  return kNil;
}

Index Tournament::ColdestAllowed(const MayEvict& may_evict, int& refusals) {
  const Index coldest = recency_.ColdestLive(table_, kColdStepsMax);
  if (coldest == kNil || refusals >= kRefusalsMax) return kNil;
  if (may_evict(table_[coldest].handle)) return coldest;
  ++refusals;
  DFKV_PROBE("evict.coldest_pinned");
  if (recency_.At(Recency::kRetry) == kNil) recency_.Restart(Recency::kRetry);
  for (size_t step = 0; step < kColdStepsMax && refusals < kRefusalsMax; ++step) {
    const Index i = recency_.At(Recency::kRetry);
    if (i == kNil) return kNil;
    if (i != coldest && table_[i].live()) {
      if (may_evict(table_[i].handle)) {
        recency_.Stop(Recency::kRetry);
        return i;
      }
      ++refusals;
    }
    recency_.Next(table_, Recency::kRetry);
  }
  return kNil;
}

// ---- memory ----

size_t Tournament::BytesWithoutHistory() const {
  return sizeof(*this) + table_.MemoryBytes() + lru2_.MemoryBytes() + doomed_.size() * sizeof(Index) +
         steps_.capacity() * sizeof(Step) + (busy_.capacity() + dropped_.capacity()) * sizeof(Index);
}

size_t Tournament::BytesMax() const {
  return capacity_ * bytes_per_object_max_ + kBytesFixed;
}

size_t Tournament::MemoryBytes() const {
  return BytesWithoutHistory() + history_.MemoryBytes();
}

// Frees nodes, as far as there are any but live ones, before this many more are asked for.
void Tournament::MakeRoom(size_t nodes) {
  const size_t rest = BytesWithoutHistory() - table_.MemoryBytes();
  const size_t bytes = BytesMax() - std::min(BytesMax(), rest);
  const size_t nodes_max = bytes / (sizeof(Known) + sizeof(Index));
  const size_t wanted = table_.size() + nodes;
  if (wanted <= nodes_max) {
    if (squeeze_ > 0 && wanted < nodes_max - nodes_max / 8) --squeeze_;
    return;
  }
  DFKV_PROBE("evict.squeeze");
  for (size_t n = 2 * nodes + 8; n > 0 && table_.size() + nodes > nodes_max && arc_.ghosts() > 0; --n) {
    arc_.ForgetGhost(table_, dropped_);
    TakeDropped(kArc);
  }
  if (table_.size() + nodes > nodes_max) {
    squeeze_ = std::min(squeeze_ + nodes, capacity_);
    TrimShadows(2 * nodes + 8);
  }
}

// Gives memory of nodes back after the capacity has shrunk.
void Tournament::Compact(size_t steps) {
  if (!table_.Sparse(BytesWithoutHistory() > BytesMax())) return;
  DFKV_PROBE("evict.compact");
  table_.Compact(steps, [this](Index from, Index to) {
    const Known& node = table_[to];
    if (node.in_recency) recency_.Follow(table_, from, to);
    if (node.arc_list != kArcNone) arc_.Follow(table_, from, to);
    if (node.in_lru2) lru2_.Follow(table_, to);
    if (node.in_doomed) doomed_.push_back(to);
  });
}

// The history takes what memory is left, up to its wanted length, and gives back what others need.
void Tournament::FitHistory(size_t steps) {
  const size_t others = BytesWithoutHistory();
  const size_t free = BytesMax() - std::min(BytesMax(), others);
  const size_t buckets_max = std::min(free, capacity_ * kHistoryPerObject * 10) / History::kBucketBytes;
  for (size_t n = 0; n < steps; ++n) {
    const size_t buckets = history_.buckets();
    if (buckets > buckets_max) {
      history_.RemoveBucket();
    } else if (buckets < buckets_max && history_.size() + 1 >= buckets * (History::kBucketEntries * 3 / 4)) {
      history_.AddBucket();
    } else {
      return;
    }
  }
}

std::unique_ptr<Policy> MakeTournament(const Config& config) {
  return std::make_unique<Tournament>(config);
}

}  // namespace dfkv::store::evict
