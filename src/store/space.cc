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

void Space::EndAdopting() {
  slots_.EndAdopting();
  SetCapacities();
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

void Space::Prefetch(const Touch& touch, int step) const {
  if (step == 0 && touch.owner != kNoOwner) slots_.PrefetchTouch(touch.unit);
  const auto& policy = states_[touch.size_class].policy;
  if (policy) policy->Prefetch(touch.id, step);
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
  ++work_;
  Uncommit(unit, owner, id, EraseReason::kEvicted);
  if (evicted == SpaceHooks::Evicted::kClearing) slots_.BeginClearing(unit);
  return evicted;
}

bool Space::InDraining(uint32_t unit) const {
  return unit != kNoUnit && slots_.extent(slots_.ExtentOf(unit)).state == ExtentAllocator::State::kDraining;
}

Space::Taken Space::TakeVictim(uint32_t size_class, SpaceHooks& hooks) {
  ClassState& state = states_[size_class];
  if (state.live == 0) return {};
  // A victim in a draining extent leaves no slot that the class may take; it goes with its extent.
  uint32_t passed = 0;
  const auto may_evict = [&](Handle handle) {
    if (!emptying_.empty() && InDraining(hooks.UnitOf(handle.value()))) {
      ++passed;
      return false;
    }
    return hooks.MayEvict(handle.value());
  };
  for (uint32_t tries = 0; tries < kVictimTries;) {
    passed = 0;
    const Handle victim = state.policy->Victim(may_evict);
    work_ += passed;
    const bool looks_on = passed > 0 && looks_left_ > passed;
    looks_left_ -= std::min(looks_left_, passed);
    if (!looks_on) ++tries;
    if (victim == evict::kNoHandle) continue;
    const uint32_t unit = hooks.UnitOf(victim.value());
    if (unit == kNoUnit) continue;
    const SpaceHooks::Evicted evicted = EvictOwner(unit, victim.value(), hooks);
    if (evicted == SpaceHooks::Evicted::kRefused) continue;
    const bool clearing = evicted == SpaceHooks::Evicted::kClearing;
    if (clearing) slots_.EndClearing(unit);  // reserved for the caller from here on
    return {unit, clearing};
  }
  return {};
}

// --- Extents of other classes ---

// The extent of another class with the oldest mean stamp, kNoExtent when there is none that could be emptied.
// `by`: what it would be for, with the extents that it has tried.
uint32_t Space::ColdestOther(uint32_t size_class, const Emptying* by) {
  uint32_t coldest = kNoExtent;
  const uint32_t looks = std::min(slots_.extent_count(), kExtentLooks);
  work_ += looks;
  for (uint32_t n = 0; n < looks; ++n) {
    const uint32_t i = next_look_;
    next_look_ = i + 1 == slots_.extent_count() ? 0 : i + 1;
    const ExtentAllocator::Extent& extent = slots_.extent(i);
    if (extent.state != ExtentAllocator::State::kBound || extent.size_class == size_class) continue;
    if (extent.used > extent.live + extent.clearing) continue;  // slots reserved: it could not be emptied
    if (coldest != kNoExtent && slots_.MeanStamp(i) >= slots_.MeanStamp(coldest)) continue;
    if (by != nullptr && std::find(by->tried.begin(), by->tried.end(), i) != by->tried.end()) continue;
    const auto is_this = [i](const Emptying& emptying) { return emptying.extent == i; };
    if (std::any_of(emptying_.begin(), emptying_.end(), is_this)) continue;
    coldest = i;
  }
  return coldest;
}

bool Space::Colder(uint32_t extent, uint32_t size_class) const {
  const ClassState& state = states_[size_class];
  return state.live == 0 || slots_.MeanStamp(extent) < state.policy->ColdestStamp();
}

// Looks whether anything in the extent is pinned or reserved; false: not at its end yet, or *in_use.
bool Space::Check(Emptying* emptying, SpaceHooks& hooks, bool* in_use) {
  const ExtentAllocator::Extent& extent = slots_.extent(emptying->extent);
  *in_use = extent.used > extent.live + extent.clearing;
  while (!*in_use && emptying->checked < extent.slots.size()) {
    if (looks_left_ == 0) return false;
    --looks_left_;
    ++work_;
    const uint32_t owner = extent.slots[emptying->checked++].owner;
    *in_use = owner != kNoOwner && !hooks.MayEvict(owner);
  }
  return !*in_use;
}

// Evicts objects of a draining extent, as many as this call may.
void Space::Drain(uint32_t index, SpaceHooks& hooks) {
  const ExtentAllocator::Extent& extent = slots_.extent(index);
  const uint32_t blocks = classes().slot_blocks(extent.size_class);
  const auto count = static_cast<uint32_t>(extent.slots.size());
  for (uint32_t looked = 0; looked < count && looks_left_ > 0 && drains_left_ > 0; ++looked) {
    if (extent.used == extent.clearing) return;
    --looks_left_;
    ++work_;
    const uint32_t slot = slots_.NextToDrain(index);
    const uint32_t owner = extent.slots[slot].owner;
    if (owner == kNoOwner) continue;
    const uint32_t unit = index * classes().extent_blocks() + slot * blocks;
    const SpaceHooks::Evicted evicted = EvictOwner(unit, owner, hooks);
    if (evicted == SpaceHooks::Evicted::kRefused) continue;
    --drains_left_;
    if (evicted == SpaceHooks::Evicted::kNow) Free(unit);
    if (extent.state == ExtentAllocator::State::kFree) return;
  }
}

// The extent does not become empty: on to the next coldest. False: there is none to try.
bool Space::PassOver(Emptying* emptying) {
  if (slots_.extent(emptying->extent).state == ExtentAllocator::State::kDraining) {
    DFKV_PROBE("space: an extent that stays in use is not drained");
    slots_.StopDraining(emptying->extent);
    SetCapacities();
  }
  DFKV_PROBE("space: an extent in use is passed over");
  if (emptying->size_class == kNoClass) return false;
  emptying->tried.push_back(emptying->extent);
  if (emptying->tried.size() == kVictimTries) return false;
  const uint32_t next = ColdestOther(emptying->size_class, emptying);
  if (next == kNoExtent || !(emptying->any || Colder(next, emptying->size_class))) return false;
  emptying->extent = next;
  emptying->epoch = slots_.extent(next).epoch;
  emptying->checked = 0;
  return true;
}

// The extent is empty, but for slots that are being cleared; `gone`: it is free by now. It is kept for its
// class until that asks again. False: this is over.
bool Space::HandOver(Emptying* emptying, bool gone) {
  if (emptying->size_class == kNoClass) return !gone;
  if (emptying->size_class != taker_) {
    if (++emptying->kept < kKeptTakes) return true;
    DFKV_PROBE("space: nobody asks for an empty extent");
    emptying->size_class = kNoClass;
    return !gone;
  }
  if (gone) {
    (void)BindFree(taker_);
    return false;
  }
  slots_.Rebind(emptying->extent, taker_);
  rebound_.push_back(emptying->extent);
  SetCapacities();
  return false;
}

// A step towards an empty extent; false: this one is over, with or without success.
bool Space::Advance(Emptying* emptying, SpaceHooks& hooks) {
  for (;;) {
    const ExtentAllocator::Extent& extent = slots_.extent(emptying->extent);
    if (extent.epoch == emptying->epoch && extent.state == ExtentAllocator::State::kBound) {
      bool in_use = false;
      if (!Check(emptying, hooks, &in_use)) {
        if (!in_use) return true;
        if (!PassOver(emptying)) return false;
        continue;
      }
      ++steals_;
      slots_.BeginDraining(emptying->extent);
      SetCapacities();
    }
    if (extent.epoch == emptying->epoch) Drain(emptying->extent, hooks);
    const bool gone = extent.epoch != emptying->epoch;
    if (gone || extent.used == extent.clearing) return HandOver(emptying, gone);
    if (extent.passes < kDrainPasses) return true;
    if (!PassOver(emptying)) return false;
  }
}

// Goes on with what is being emptied, as far as this call may.
void Space::EmptySome(SpaceHooks& hooks) {
  for (size_t i = 0; i < emptying_.size();) {
    if (Advance(&emptying_[i], hooks)) {
      ++i;
    } else {
      emptying_.erase(emptying_.begin() + static_cast<ptrdiff_t>(i));
    }
  }
}

// Decides whether a large class, which evicts its own coldest meanwhile, takes an extent from another one.
void Space::DrainInBackground(uint32_t size_class) {
  ClassState& state = states_[size_class];
  if (state.until_look > 0) {
    --state.until_look;
    return;
  }
  state.until_look = slots_.extent_count() / 64;
  if (emptying_.size() >= kEmptyingMax) return;
  const uint32_t coldest = ColdestOther(size_class, nullptr);
  if (coldest == kNoExtent || !Colder(coldest, size_class)) return;
  DFKV_PROBE("space: an extent of a colder class is drained");
  ++steals_;
  slots_.BeginDraining(coldest);
  SetCapacities();
  emptying_.push_back(EmptyingOf(coldest, kNoClass));
}

// Has another class's extent emptied for this class, and looks how far that is; false: there is none.
// `any`: also one that is not colder.
bool Space::WaitForExtent(uint32_t size_class, bool any, SpaceHooks& hooks) {
  const auto waits = [size_class](const Emptying& emptying) { return emptying.size_class == size_class; };
  const auto waiting = std::find_if(emptying_.begin(), emptying_.end(), waits);
  if (waiting != emptying_.end()) {
    waiting->any = waiting->any || any;
    return true;  // EmptySome was here before
  }
  if (emptying_.size() >= kEmptyingMax) return false;
  const uint32_t coldest = ColdestOther(size_class, nullptr);
  if (coldest == kNoExtent || !(any || Colder(coldest, size_class))) return false;
  Emptying emptying = EmptyingOf(coldest, size_class);
  emptying.any = any;
  if (Advance(&emptying, hooks)) {
    DFKV_PROBE("space: an extent is emptied in steps");
    emptying_.push_back(std::move(emptying));
    return true;
  }
  return slots_.HasFree(size_class);
}

Space::Emptying Space::EmptyingOf(uint32_t extent, uint32_t size_class) const {
  Emptying emptying;
  emptying.extent = extent;
  emptying.epoch = slots_.extent(extent).epoch;
  emptying.size_class = size_class;
  return emptying;
}

// Free extents that were emptied for other classes.
uint32_t Space::KeptForOthers(uint32_t size_class) const {
  uint32_t kept = 0;
  for (const Emptying& emptying : emptying_) {
    const bool anybodys = emptying.size_class == kNoClass || emptying.size_class == size_class;
    if (!anybodys && slots_.extent(emptying.extent).epoch != emptying.epoch) ++kept;
  }
  return kept;
}

bool Space::TakeFree(uint32_t size_class, Taken* taken) {
  taken->unit = slots_.Take(size_class);
  if (taken->unit == kNoUnit && slots_.free_extents() > KeptForOthers(size_class) && BindFree(size_class)) {
    taken->unit = slots_.Take(size_class);
  }
  return taken->unit != kNoUnit;
}

Result<Space::Taken> Space::Take(uint32_t size_class, SpaceHooks& hooks) {
  Taken taken;
  if (TakeFree(size_class, &taken)) return taken;
  taker_ = size_class;
  looks_left_ = kLooksPerTake;
  drains_left_ = kDrainPerTake;
  EmptySome(hooks);
  if (TakeFree(size_class, &taken)) return taken;
  // A small class would evict what it has just written: it waits for a whole extent, when one is colder.
  if (states_[size_class].live >= kSmallClass) {
    DrainInBackground(size_class);
  } else if (WaitForExtent(size_class, false, hooks)) {
    if (TakeFree(size_class, &taken)) return taken;
    return Code::kBusy;
  }
  taken = TakeVictim(size_class, hooks);
  if (taken.unit != kNoUnit) return taken;
  if (WaitForExtent(size_class, true, hooks) && TakeFree(size_class, &taken)) return taken;
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
