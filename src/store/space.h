// Space: one slab's (or the arena's) slots with the policies that decide what leaves. Slots go to the class
// that asks; when none is free, the coldest of the class's own objects or a colder extent of another class
// gives way.
//
// Threads: none of its own; the owner serialises all calls with one mutex and never holds it over I/O. The
// owner's SpaceHooks are called under that mutex.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "store/evict/policy.h"
#include "store/extent_allocator.h"

namespace dfkv::store {

// What a Space needs to know of and do to the objects whose slots it takes.
class SpaceHooks {
 public:
  enum class Evicted : uint8_t {
    kRefused,   // in use after all
    kNow,       // the slot is the space's again
    kClearing,  // the slot's record is being cleared first; then EndClearing, Free
  };
  virtual ~SpaceHooks() = default;
  virtual bool MayEvict(uint32_t owner) = 0;
  virtual uint32_t UnitOf(uint32_t owner) = 0;  // its slot here; kNoUnit: it has none any more
  // The object gives up its slot. *id: what the policies know it by.
  virtual Evicted Evict(uint32_t owner, uint32_t unit, uint64_t* id) = 0;
};

struct SpaceOptions {
  std::string policy;
  uint32_t policy_bytes_per_object = 160;
};

// One key of a batch, as a Space sees it.
struct Touch {
  uint64_t id = 0;
  uint32_t owner = kNoOwner;  // kNoOwner: absent
  uint32_t unit = kNoUnit;
  uint32_t depth = UINT32_MAX;
  uint32_t size_class = 0;
};

// What one size class holds.
struct ClassUse {
  uint64_t slot_bytes = 0;
  uint64_t extents = 0;  // bound to it, without those that are being drained
  uint64_t slots = 0;    // of these extents
  uint64_t objects = 0;  // in whatever extent
};

class Space {
 public:
  static constexpr uint32_t kDrainPerTake = 256;  // objects evicted from a draining extent per call
  static constexpr uint32_t kSmallClass = 1024;   // a class with fewer objects takes a whole extent at once
  static constexpr uint32_t kVictimTries = 8;     // calls to a policy before a class counts as pinned

  struct Taken {
    uint32_t unit = kNoUnit;
    bool clearing = false;  // taken from an object whose record is being cleared
    bool rebound = false;   // its extent changed its class while records in it are being cleared
  };

  Space(const SizeClasses& classes, uint32_t extents, const SpaceOptions& options);

  ExtentAllocator& slots() { return slots_; }
  const SizeClasses& classes() const { return slots_.classes(); }

  // A slot of the class; Busy when nothing may be evicted. Bounded: at most one extent's objects leave.
  Result<Taken> Take(uint32_t size_class, SpaceHooks& hooks);
  // One batch, in the client's order. `now`: the store's count of batches.
  void OnBatch(evict::RequestKind kind, uint64_t now, std::span<const Touch> chain);
  // The slot's object is committed.
  void Commit(uint32_t unit, uint32_t owner, uint64_t id, uint32_t depth);
  // The committed object has gone; the slot stays used until Free or EndClearing.
  void Uncommit(uint32_t unit, uint32_t owner, uint64_t id, evict::EraseReason reason);
  void Free(uint32_t unit);
  // The slot's record is being cleared; until EndClearing the slot is neither free nor reserved, and does not
  // keep its extent from being given to another class.
  void BeginClearing(uint32_t unit) { slots_.BeginClearing(unit); }
  void EndClearing(uint32_t unit) { slots_.EndClearing(unit); }
  uint32_t EpochOf(uint32_t unit) const { return slots_.extent(slots_.ExtentOf(unit)).epoch; }

  bool Adopt(uint32_t unit, uint32_t size_class);  // recovery
  void SetCapacities();                            // after a run of Adopt

  size_t PolicyBytes() const;
  uint64_t now() const { return now_; }
  uint64_t steals() const { return steals_; }  // extents that changed their class
  uint64_t ClassLive(uint32_t size_class) const { return states_[size_class].live; }
  std::vector<ClassUse> ClassUses() const;  // of the classes in use

 private:
  static constexpr size_t kDrainingMax = 4;
  static constexpr uint32_t kDrainPasses = 2;  // over an extent, until it counts as in use
  struct ClassState {
    std::unique_ptr<evict::Policy> policy;  // made on first use
    uint64_t live = 0;
    uint64_t told = 0;        // the last batch that the policy knows of
    uint32_t until_look = 0;  // takes until other classes' extents are compared again
  };
  evict::Policy& PolicyOf(uint32_t size_class);
  uint64_t CapacityOf(uint32_t size_class) const;
  bool BindFree(uint32_t size_class);
  uint32_t ColdestOther(uint32_t size_class, std::span<const uint32_t> except) const;
  void MakeRoom(uint32_t size_class, SpaceHooks& hooks);
  bool StealAny(uint32_t size_class, SpaceHooks& hooks, bool* rebound);
  bool Steal(uint32_t extent, uint32_t size_class, SpaceHooks& hooks, bool* rebound);
  bool MayDrain(uint32_t extent, SpaceHooks& hooks) const;
  bool Drain(uint32_t extent, uint32_t evictions_max, SpaceHooks& hooks);
  Taken TakeVictim(uint32_t size_class, SpaceHooks& hooks);
  SpaceHooks::Evicted EvictOwner(uint32_t unit, uint32_t owner, SpaceHooks& hooks);

  ExtentAllocator slots_;
  SpaceOptions options_;
  std::vector<ClassState> states_;
  std::vector<uint32_t> draining_;
  std::vector<evict::Access> scratch_;
  uint64_t now_ = 0;
  uint64_t steals_ = 0;
};

}  // namespace dfkv::store
