#include "store/space.h"

#include <algorithm>

#include "base/fault.h"

namespace dfkv::store {

using evict::Access;
using evict::EraseReason;
using evict::Handle;

Space::Space(const SizeClasses& classes, uint32_t extents, const SpaceOptions& options)
    : slots_(classes, extents), options_(options), states_(classes.count()) {}

uint64_t Space::CapacityOf(uint32_t size_class) const {
  const uint64_t extents = uint64_t{slots_.bound_extents(size_class)} + slots_.free_extents();
  return extents * classes().slots_per_extent(size_class);
}

evict::Policy& Space::PolicyOf(uint32_t size_class) {
  ClassState& state = states_[size_class];
  if (!state.policy) {
    const evict::Config config{CapacityOf(size_class), options_.policy_bytes_per_object};
    auto made = evict::MakePolicy(options_.policy, config);
    DFKV_CHECK(made.ok());  // the name was checked when the store was opened
    state.policy = std::move(*made);
  }
  return *state.policy;
}

void Space::SetCapacities() {
  for (uint32_t c = 0; c < states_.size(); ++c) {
    if (states_[c].policy) states_[c].policy->SetCapacity(CapacityOf(c));
  }
}

bool Space::BindFree(uint32_t size_class) {
  if (!slots_.BindFree(size_class)) return false;
  SetCapacities();
  return true;
}

void Space::Free(uint32_t unit) {
  const uint32_t before = slots_.free_extents();
  slots_.Free(unit);
  if (slots_.free_extents() != before) SetCapacities();
}

bool Space::Adopt(uint32_t unit, uint32_t size_class) {
  return slots_.Adopt(unit, size_class);
}

void Space::OnBatch(evict::RequestKind kind, uint64_t now, std::span<const Touch> chain) {
  now_ = std::max(now_, now);
  for (size_t first = 0; first < chain.size(); ++first) {
    const uint32_t size_class = chain[first].size_class;
    const bool seen = std::any_of(chain.begin(), chain.begin() + static_cast<ptrdiff_t>(first),
                                  [&](const Touch& touch) { return touch.size_class == size_class; });
    if (seen) continue;
    scratch_.clear();
    for (size_t i = first; i < chain.size(); ++i) {
      const Touch& touch = chain[i];
      if (touch.size_class != size_class) continue;
      scratch_.push_back({touch.id, Handle(touch.owner), touch.depth});
      if (touch.owner != kNoOwner) slots_.Touch(touch.unit, touch.owner, now_);
    }
    evict::Request request;
    request.kind = kind;
    request.now = now_;
    request.chain = scratch_;
    PolicyOf(size_class).OnRequest(request);
    states_[size_class].told = now_;
  }
}

void Space::Commit(uint32_t unit, uint32_t owner, uint64_t id, uint32_t depth) {
  const uint32_t size_class = slots_.extent(slots_.ExtentOf(unit)).size_class;
  slots_.Commit(unit, owner, now_);
  ClassState& state = states_[size_class];
  if (state.told < now_) {  // the batch may have gone to another class: its policy's clock stood still
    evict::Request request;
    request.kind = evict::RequestKind::kOther;
    request.now = state.told = now_;
    PolicyOf(size_class).OnRequest(request);
  }
  PolicyOf(size_class).Insert({id, Handle(owner), depth});
  ++state.live;
}

void Space::Uncommit(uint32_t unit, uint32_t owner, uint64_t id, EraseReason reason) {
  const uint32_t size_class = slots_.extent(slots_.ExtentOf(unit)).size_class;
  slots_.Uncommit(unit, now_);
  PolicyOf(size_class).Erase(id, Handle(owner), reason);
  --states_[size_class].live;
}

SpaceHooks::Evicted Space::EvictOwner(uint32_t unit, uint32_t owner, SpaceHooks& hooks) {
  uint64_t id = 0;
  const SpaceHooks::Evicted evicted = hooks.Evict(owner, unit, &id);
  if (evicted == SpaceHooks::Evicted::kRefused) return evicted;
  Uncommit(unit, owner, id, EraseReason::kEvicted);
  if (evicted == SpaceHooks::Evicted::kClearing) slots_.BeginClearing(unit);
  return evicted;
}

Space::Taken Space::TakeVictim(uint32_t size_class, SpaceHooks& hooks) {
  ClassState& state = states_[size_class];
  if (state.live == 0) return {};
  const auto may_evict = [&hooks](Handle handle) { return hooks.MayEvict(handle.value()); };
  for (uint32_t i = 0; i < kVictimTries; ++i) {
    const Handle victim = state.policy->Victim(may_evict);
    if (victim == evict::kNoHandle) continue;
    const uint32_t unit = hooks.UnitOf(victim.value());
    if (unit == kNoUnit) continue;
    // A victim of a draining extent frees its slot there, which does not help this class.
    const bool draining = slots_.extent(slots_.ExtentOf(unit)).state == ExtentAllocator::State::kDraining;
    const SpaceHooks::Evicted evicted = EvictOwner(unit, victim.value(), hooks);
    if (evicted == SpaceHooks::Evicted::kRefused) continue;
    if (draining) {
      if (evicted == SpaceHooks::Evicted::kNow) Free(unit);
      continue;
    }
    const bool clearing = evicted == SpaceHooks::Evicted::kClearing;
    if (clearing) slots_.EndClearing(unit);  // reserved for the caller from here on
    return {unit, clearing, false};
  }
  return {};
}

// Whether nothing in the extent is pinned or reserved.
bool Space::MayDrain(uint32_t index, SpaceHooks& hooks) const {
  const ExtentAllocator::Extent& extent = slots_.extent(index);
  if (extent.used > extent.live + extent.clearing) return false;
  for (const SlotEntry& slot : extent.slots) {
    if (slot.owner != kNoOwner && !hooks.MayEvict(slot.owner)) return false;
  }
  return true;
}

// Looks at a bounded number of slots of a draining extent; true when it holds no object and nothing reserved.
bool Space::Drain(uint32_t index, uint32_t evictions_max, SpaceHooks& hooks) {
  const ExtentAllocator::Extent& extent = slots_.extent(index);
  const uint32_t blocks = classes().slot_blocks(extent.size_class);
  const auto count = static_cast<uint32_t>(extent.slots.size());
  uint32_t evictions = 0;
  for (uint32_t looked = 0; looked < count && evictions < evictions_max; ++looked) {
    const uint32_t slot = slots_.NextToDrain(index);
    const uint32_t owner = extent.slots[slot].owner;
    if (owner == kNoOwner) continue;
    const uint32_t unit = index * classes().extent_blocks() + slot * blocks;
    const SpaceHooks::Evicted evicted = EvictOwner(unit, owner, hooks);
    if (evicted == SpaceHooks::Evicted::kRefused) continue;
    ++evictions;
    if (evicted == SpaceHooks::Evicted::kNow) Free(unit);
    if (extent.state == ExtentAllocator::State::kFree) return true;
  }
  return extent.used == extent.clearing;
}

bool Space::Steal(uint32_t index, uint32_t size_class, SpaceHooks& hooks, bool* rebound) {
  if (!MayDrain(index, hooks)) {
    DFKV_PROBE("space: an extent in use is passed over");
    return false;
  }
  const bool begun = slots_.extent(index).state == ExtentAllocator::State::kDraining;
  if (!begun) slots_.BeginDraining(index);
  if (!Drain(index, UINT32_MAX, hooks)) {
    DFKV_PROBE("space: an extent came into use");
    if (!begun) slots_.StopDraining(index);
    return false;
  }
  ++steals_;
  std::erase(draining_, index);
  if (slots_.extent(index).state == ExtentAllocator::State::kFree) return BindFree(size_class);
  slots_.Rebind(index, size_class);
  SetCapacities();
  *rebound = true;
  return true;
}

// The extent of another class with the oldest mean stamp, kNoExtent when there is none that could be emptied.
uint32_t Space::ColdestOther(uint32_t size_class, std::span<const uint32_t> except) const {
  uint32_t coldest = kNoExtent;
  for (uint32_t i = 0; i < slots_.extent_count(); ++i) {
    const ExtentAllocator::Extent& extent = slots_.extent(i);
    if (extent.state != ExtentAllocator::State::kBound || extent.size_class == size_class) continue;
    if (extent.used > extent.live + extent.clearing) continue;  // slots reserved: it could not be emptied
    if (std::find(except.begin(), except.end(), i) != except.end()) continue;
    if (coldest == kNoExtent || slots_.MeanStamp(i) < slots_.MeanStamp(coldest)) coldest = i;
  }
  return coldest;
}

bool Space::StealAny(uint32_t size_class, SpaceHooks& hooks, bool* rebound) {
  const std::vector<uint32_t> begun = draining_;
  for (const uint32_t index : begun) {
    if (slots_.extent(index).state != ExtentAllocator::State::kDraining) continue;
    if (Steal(index, size_class, hooks, rebound)) return true;
  }
  std::vector<uint32_t> tried;
  while (tried.size() < kVictimTries) {
    const uint32_t coldest = ColdestOther(size_class, tried);
    if (coldest == kNoExtent) return false;
    if (Steal(coldest, size_class, hooks, rebound)) return true;
    tried.push_back(coldest);
  }
  return false;
}

// Drains what is being drained a bounded step further, and decides whether to take from another class.
void Space::MakeRoom(uint32_t size_class, SpaceHooks& hooks) {
  const std::vector<uint32_t> begun = draining_;
  for (const uint32_t index : begun) {
    const ExtentAllocator::Extent& extent = slots_.extent(index);
    const auto draining = [&extent] { return extent.state == ExtentAllocator::State::kDraining; };
    if (draining()) Drain(index, kDrainPerTake, hooks);
    if (draining() && extent.passes >= kDrainPasses && extent.used > extent.clearing) {
      DFKV_PROBE("space: an extent that stays in use is not drained");
      slots_.StopDraining(index);
      SetCapacities();
    }
    if (!draining()) std::erase(draining_, index);
  }
  ClassState& state = states_[size_class];
  if (state.until_look > 0) {
    --state.until_look;
    return;
  }
  state.until_look = slots_.extent_count() / 64;
  if (draining_.size() >= kDrainingMax || state.live < kSmallClass) return;
  const uint32_t coldest = ColdestOther(size_class, {});
  if (coldest == kNoExtent || slots_.MeanStamp(coldest) >= state.policy->ColdestStamp()) return;
  DFKV_PROBE("space: an extent of a colder class is drained");
  ++steals_;
  slots_.BeginDraining(coldest);
  draining_.push_back(coldest);
  SetCapacities();
}

Result<Space::Taken> Space::Take(uint32_t size_class, SpaceHooks& hooks) {
  Taken taken;
  taken.unit = slots_.Take(size_class);
  if (taken.unit == kNoUnit && BindFree(size_class)) taken.unit = slots_.Take(size_class);
  if (taken.unit != kNoUnit) return taken;
  MakeRoom(size_class, hooks);
  if (BindFree(size_class)) {
    taken.unit = slots_.Take(size_class);
    return taken;
  }
  // A small class would evict what it has just written: it takes a whole extent, when one is colder.
  const ClassState& state = states_[size_class];
  if (state.live < kSmallClass) {
    const uint32_t coldest = ColdestOther(size_class, {});
    const bool colder =
        coldest != kNoExtent && (state.live == 0 || slots_.MeanStamp(coldest) < state.policy->ColdestStamp());
    if (colder && Steal(coldest, size_class, hooks, &taken.rebound)) {
      taken.unit = slots_.Take(size_class);
      return taken;
    }
  }
  taken = TakeVictim(size_class, hooks);
  if (taken.unit != kNoUnit) return taken;
  if (StealAny(size_class, hooks, &taken.rebound)) {
    taken.unit = slots_.Take(size_class);
    return taken;
  }
  DFKV_PROBE("space: nothing may be evicted");
  return Code::kBusy;
}

std::vector<ClassUse> Space::ClassUses() const {
  std::vector<ClassUse> uses;
  for (uint32_t c = 0; c < states_.size(); ++c) {
    const uint64_t extents = slots_.bound_extents(c);
    if (extents == 0 && states_[c].live == 0) continue;
    uses.push_back(
        {classes().slot_bytes(c), extents, extents * classes().slots_per_extent(c), states_[c].live});
  }
  return uses;
}

size_t Space::PolicyBytes() const {
  size_t bytes = 0;
  for (const ClassState& state : states_) bytes += state.policy ? state.policy->MemoryBytes() : 0;
  return bytes;
}

}  // namespace dfkv::store
