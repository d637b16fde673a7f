// RamTier: the arena. Payloads are received into it, read from disk into it and sent from it; what it keeps
// is a copy of what a disk holds, or, in a store without disks, the object itself.
//
// A slot is reserved by a PUT or a read, then installed: from then on it is the object's RAM copy, found
// through its descriptor, and may be given up when the object is committed and has no pins.
//
// Threads: any. mutex_ guards slots and policies; shards' mutexes are taken inside it.
#pragma once

#include <atomic>
#include <memory>
#include <span>

#include "base/metric.h"
#include "io/region.h"
#include "store/index.h"
#include "store/media.h"
#include "store/metrics.h"
#include "store/space.h"
#include "store/tier_parts.h"
#include "store/touch_queue.h"

namespace dfkv::store {

class RamTier final : private SpaceHooks {
 public:
  // `only`: there is no disk below; what leaves the arena is gone.
  RamTier(io::Region arena, const SizeClasses& classes, const SpaceOptions& options, bool only,
          const TierParts& parts);

  const SizeClasses& classes() const { return classes_; }
  uint64_t capacity_bytes() const { return uint64_t{extents_} * classes_.extent_bytes(); }
  Status PopulateBlocking() { return arena_.PopulateBlocking(); }  // at start
  uint64_t used_bytes();
  uint64_t objects() const { return objects_.load(std::memory_order_relaxed); }
  std::byte* DataOf(uint32_t unit) const { return arena_.data() + uint64_t{unit} * 4096; }

  // True when DrainTouches should be called before long.
  bool NoteTouches(evict::RequestKind kind, uint64_t now, std::span<const Touch> chain);
  void DrainTouches();  // unless somebody else is at work on the tier

  // A slot for `length` bytes, not yet anybody's copy. Busy.
  Result<uint32_t> Reserve(uint64_t length);
  // Gives a reserved slot back.
  void Release(uint32_t unit);
  // Makes reserved slots RAM copies. `install` is called under the mutex; it writes the descriptor, under its
  // shard's mutex, and returns whether the slot is wanted; an unwanted one stays reserved.
  template <typename Install>
  bool InstallWith(uint32_t unit, Ref ref, const Cell& object, const Install& install) {
    MutexLock lock(mutex_);
    touches_.Drain(space_);
    if (!install()) return false;
    space_.Commit(unit, ref, HashOf(object.key), object.depth);
    objects_.fetch_add(1, std::memory_order_relaxed);
    if (only_) tenants_.Add(object.key.tenant, SlotBytesOf(object.length));
    return true;
  }
  // Gives the object's RAM copy back unless it is pinned or the descriptor is another object's by now; frees
  // a ghost of which nothing else is left.
  void Drop(Ref ref, uint64_t generation, evict::EraseReason reason);

  size_t PolicyBytes();
  uint64_t SlotMapBytes();
  std::vector<ClassUse> ClassUses();

 private:
  bool MayEvict(uint32_t owner) override;
  uint32_t UnitOf(uint32_t owner) override;
  Evicted Evict(uint32_t owner, uint32_t unit, uint64_t* id) override;

  uint64_t SlotBytesOf(uint64_t length) const { return classes_.slot_bytes(classes_.ClassOf(length)); }

  const SizeClasses classes_;
  const uint32_t extents_;
  const bool only_;
  io::Region arena_;
  Index& index_;
  Tenants& tenants_;
  StoreMetrics& metrics_;
  TouchQueue touches_;
  Mutex mutex_;
  Space space_ GUARDED_BY(mutex_);
  std::atomic<uint64_t> objects_{0};
};

}  // namespace dfkv::store
