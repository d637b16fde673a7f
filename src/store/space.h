// Space: one slab's (or the arena's) slots with the policies that decide what leaves. Slots go to the class
// that asks; when none is free, the coldest of the class's own objects or a colder extent of another class
// gives way.
//
// An extent of small objects holds thousands of them, and all have to leave before it changes its class. So
// it is emptied in steps: no call looks at more than kLooksPerTake slots or evicts more than kDrainPerTake
// objects; a class that can only wait for the extent gets Busy and asks again.
//
// Threads: none of its own; the owner serialises all calls with one mutex and never holds it over I/O. The
// owner's SpaceHooks are called under that mutex.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
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
  static constexpr uint32_t kLooksPerTake = 4096;  // slots of extents being emptied, per call
  static constexpr uint32_t kDrainPerTake = 256;   // objects evicted from such extents, per call
  static constexpr uint32_t kExtentLooks = 1024;   // extents compared for the coldest
  static constexpr uint32_t kSmallClass = 1024;    // a class with fewer objects waits for a colder extent
  static constexpr uint32_t kVictimTries = 8;  // calls to a policy, or extents, before all counts as pinned

  struct Taken {
    uint32_t unit = kNoUnit;
    bool clearing = false;  // taken from an object whose record is being cleared
  };

  Space(const SizeClasses& classes, uint32_t extents, const SpaceOptions& options);

  ExtentAllocator& slots() { return slots_; }
  const SizeClasses& classes() const { return slots_.classes(); }

  // A slot of the class; Busy when nothing may be evicted now, or when an extent is being emptied for the
  // class: asking again gets on with it.
  Result<Taken> Take(uint32_t size_class, SpaceHooks& hooks);
  // Extents that changed their class since the last call while records in them are being cleared.
  std::vector<uint32_t> TakeRebound() { return std::exchange(rebound_, {}); }
  // One batch, in the client's order. `now`: the store's count of batches.
  void OnBatch(evict::RequestKind kind, uint64_t now, std::span<const Touch> chain);
  // Says that `touch` will be in a batch soon; see evict::Policy::Prefetch.
  void Prefetch(const Touch& touch, int step) const;
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
  void EndAdopting();                              // after a run of Adopt

  size_t PolicyBytes() const;
  uint64_t now() const { return now_; }
  uint64_t steals() const { return steals_; }  // extents taken from a class
  uint64_t work() const { return work_; }      // slots looked at, objects evicted and extents compared so far
  uint64_t ClassLive(uint32_t size_class) const { return states_[size_class].live; }
  std::vector<ClassUse> ClassUses() const;  // of the classes in use

 private:
  static constexpr size_t kEmptyingMax = 4;
  static constexpr uint32_t kDrainPasses = 2;  // over an extent, until it counts as in use
  static constexpr uint32_t kKeptTakes = 64;   // an empty extent is kept for its class for so many of others'
  struct ClassState {
    std::unique_ptr<evict::Policy> policy;  // made on first use
    uint64_t live = 0;
    uint64_t told = 0;        // the last batch that the policy knows of
    uint32_t until_look = 0;  // takes until other classes' extents are compared again
  };
  // An extent that is being emptied: first looked at, whether anything in it is pinned, then drained.
  struct Emptying {
    uint32_t extent = kNoExtent;
    uint32_t epoch = 0;              // of the extent; another by now: it became free by itself
    uint32_t size_class = kNoClass;  // the class that waits for it; kNoClass: the first to come has it
    bool any = false;                // the class takes also what is not colder: it has nothing of its own
    uint32_t checked = 0;            // slots looked at
    uint32_t kept = 0;               // takes of others since it is empty
    std::vector<uint32_t> tried;     // extents that did not become empty
  };
  evict::Policy& PolicyOf(uint32_t size_class);
  uint64_t CapacityOf(uint32_t size_class) const;
  void SetCapacities();
  bool BindFree(uint32_t size_class);
  bool TakeFree(uint32_t size_class, Taken* taken);
  uint32_t KeptForOthers(uint32_t size_class) const;
  Emptying EmptyingOf(uint32_t extent, uint32_t size_class) const;
  uint32_t ColdestOther(uint32_t size_class, const Emptying* by);
  bool Colder(uint32_t extent, uint32_t size_class) const;
  void EmptySome(SpaceHooks& hooks);
  bool Advance(Emptying* emptying, SpaceHooks& hooks);
  bool Check(Emptying* emptying, SpaceHooks& hooks, bool* in_use);
  void Drain(uint32_t extent, SpaceHooks& hooks);
  bool PassOver(Emptying* emptying);
  bool HandOver(Emptying* emptying, bool gone);
  void DrainInBackground(uint32_t size_class);
  bool WaitForExtent(uint32_t size_class, bool any, SpaceHooks& hooks);
  bool InDraining(uint32_t unit) const;
  Taken TakeVictim(uint32_t size_class, SpaceHooks& hooks);
  SpaceHooks::Evicted EvictOwner(uint32_t unit, uint32_t owner, SpaceHooks& hooks);

  ExtentAllocator slots_;
  SpaceOptions options_;
  std::vector<ClassState> states_;
  std::vector<Emptying> emptying_;
  std::vector<uint32_t> rebound_;
  std::vector<evict::Access> scratch_;
  uint32_t next_look_ = 0;   // where the next comparison of extents begins
  uint32_t taker_ = 0;       // the class of this call
  uint32_t looks_left_ = 0;  // of this call
  uint32_t drains_left_ = 0;
  uint64_t now_ = 0;
  uint64_t steals_ = 0;
  uint64_t work_ = 0;
};

}  // namespace dfkv::store
