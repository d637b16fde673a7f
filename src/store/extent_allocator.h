// ExtentAllocator: which slots of one slab (or of the arena) are in use, and by whom.
//
// Invariants:
//  - An extent is free, or bound to one size class and cut into its slots, or draining: bound, but giving out
//    no more slots, until it is empty and becomes free.
//  - A slot is free (its bit is set) or used. A used slot has an owner, the descriptor of a committed object,
//    or none: reserved by a PUT or a read, or its record is being cleared.
//  - `live` counts the slots with an owner; `stamp_sum` is the sum of their stamps.
// Threads: none of its own; the owner serialises.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "store/size_classes.h"

namespace dfkv::store {

constexpr uint32_t kNoUnit = UINT32_MAX;   // a unit: the address of a slot, in blocks of 4096 bytes
constexpr uint32_t kNoOwner = UINT32_MAX;  // owners are descriptor references
constexpr uint32_t kNoExtent = UINT32_MAX;
constexpr uint32_t kNoClass = UINT32_MAX;

struct SlotEntry {
  uint32_t owner = kNoOwner;
  uint32_t stamp = 0;  // low half of the batch count at the last touch
};

class ExtentAllocator {
 public:
  enum class State : uint8_t { kFree, kBound, kDraining };
  struct Extent {
    State state = State::kFree;
    uint32_t size_class = kNoClass;
    uint32_t epoch = 0;     // counts bindings: tells a late Free from one of this binding
    uint32_t used = 0;      // slots that are not free
    uint32_t clearing = 0;  // of these, slots whose record is being cleared and that nobody has taken over
    uint32_t live = 0;
    uint32_t hint = 0;     // no free slot below this word of the bitmap
    uint32_t drained = 0;  // draining: slots before this one have been looked at in this pass
    uint32_t passes = 0;   // draining: over all slots
    uint64_t stamp_sum = 0;
    std::vector<uint64_t> free_bits;
    std::vector<SlotEntry> slots;
    uint32_t next = kNoExtent;  // list of the class's extents with free slots
    uint32_t prev = kNoExtent;
  };

  ExtentAllocator(const SizeClasses& classes, uint32_t extents);

  const SizeClasses& classes() const { return classes_; }
  uint32_t extent_count() const { return static_cast<uint32_t>(extents_.size()); }
  uint32_t free_extents() const { return static_cast<uint32_t>(free_.size()); }
  uint32_t bound_extents(uint32_t size_class) const { return bound_[size_class]; }
  const Extent& extent(uint32_t index) const { return extents_[index]; }
  uint32_t ExtentOf(uint32_t unit) const { return unit / classes_.extent_blocks(); }
  uint64_t used_blocks() const { return used_blocks_; }

  // A free slot of a bound extent of the class, the next after the last one given where there is one; kNoUnit
  // when all are used.
  uint32_t Take(uint32_t size_class);
  bool HasFree(uint32_t size_class) const { return partial_[size_class] != kNoExtent; }
  // Binds a free extent to the class; false when there is none.
  bool BindFree(uint32_t size_class);
  // The slot is free again. An extent left without used slots becomes free itself.
  void Free(uint32_t unit);

  uint32_t OwnerOf(uint32_t unit) const;                     // kNoOwner: none
  void Commit(uint32_t unit, uint32_t owner, uint64_t now);  // the slot, used, gets its owner
  void Uncommit(uint32_t unit, uint64_t now);                // the slot stays used, without owner
  void PrefetchTouch(uint32_t unit) const;                   // brings what Touch needs into the cache
  void Touch(uint32_t unit, uint32_t owner, uint64_t now);   // no effect unless it is the owner
  void BeginClearing(uint32_t unit);                         // used, no owner
  void EndClearing(uint32_t unit) { --extents_[ExtentOf(unit)].clearing; }

  // Gives out no more slots of it.
  void BeginDraining(uint32_t index);
  // The next slot to look at in a draining extent.
  uint32_t NextToDrain(uint32_t index);
  // A draining extent that cannot be emptied now is its class's again.
  void StopDraining(uint32_t index);
  // A draining extent that holds only slots being cleared changes to the class at once, all slots free.
  void Rebind(uint32_t index, uint32_t size_class);
  // Recovery: marks the slot used, binding its extent if that is free; false when it does not fit. After a
  // run of them, EndAdopting.
  bool Adopt(uint32_t unit, uint32_t size_class);
  void EndAdopting();

  uint64_t MemoryBytes() const;
  uint64_t MeanStamp(uint32_t index) const {
    const Extent& extent = extents_[index];
    return extent.live == 0 ? 0 : extent.stamp_sum / extent.live;
  }

 private:
  struct Place {
    uint32_t extent;
    uint32_t index;
  };
  Place PlaceOf(uint32_t unit) const;
  void Bind(uint32_t index, uint32_t size_class);
  void Unbind(uint32_t index);
  void Link(uint32_t index);
  void Unlink(uint32_t index);
  uint32_t TakeFrom(uint32_t index);

  SizeClasses classes_;
  std::vector<Extent> extents_;
  std::vector<uint32_t> free_;     // a stack; the lowest on top at first
  std::vector<uint32_t> partial_;  // per class: head of the list of extents with free slots
  std::vector<uint32_t> bound_;    // per class: extents in state kBound
  uint64_t used_blocks_ = 0;       // of slots that are used, rounded to their class
};

}  // namespace dfkv::store
