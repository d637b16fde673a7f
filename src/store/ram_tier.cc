#include "store/ram_tier.h"

#include "base/fault.h"

namespace dfkv::store {

using evict::EraseReason;

RamTier::RamTier(io::Region arena, const SizeClasses& classes, const SpaceOptions& options, bool only,
                 const TierParts& parts)
    : classes_(classes),
      extents_(static_cast<uint32_t>(arena.size() / classes.extent_bytes())),
      only_(only),
      arena_(std::move(arena)),
      index_(parts.index),
      tenants_(parts.tenants),
      metrics_(parts.metrics),
      touches_(metrics_.touches_dropped),
      space_(classes, extents_, options) {}

uint64_t RamTier::used_bytes() {
  MutexLock lock(mutex_);
  return space_.slots().used_blocks() * 4096;
}

bool RamTier::NoteTouches(evict::RequestKind kind, uint64_t now, std::span<const Touch> chain) {
  const size_t waiting = touches_.Push(kind, now, chain);
  if (waiting >= TouchQueue::kDrainNow) DrainTouches();
  return waiting >= TouchQueue::kDrainSoon;
}

void RamTier::DrainTouches() {
  if (!mutex_.TryLock()) return;
  touches_.Drain(space_);
  mutex_.Unlock();
}

Result<uint32_t> RamTier::Reserve(uint64_t length) {
  const uint32_t size_class = classes_.ClassOf(length);
  MutexLock lock(mutex_);
  touches_.Drain(space_);
  const Result<Space::Taken> taken = space_.Take(size_class, *this);
  if (!taken.ok()) return taken.status();
  return taken->unit;
}

void RamTier::Release(uint32_t unit) {
  MutexLock lock(mutex_);
  space_.Free(unit);
}

namespace {

// Whether the object's RAM copy can go: it is on a disk too (or may vanish), and nobody uses it.
bool Idle(const Descriptor& descriptor) {
  return descriptor.state == Descriptor::State::kCommitted && descriptor.in_ram() && descriptor.pins == 0;
}

}  // namespace

bool RamTier::MayEvict(uint32_t owner) {
  IndexShard& shard = index_.ShardOf(owner);
  MutexLock lock(shard.mutex);
  return Idle(shard.At(owner));
}

uint32_t RamTier::UnitOf(uint32_t owner) {
  IndexShard& shard = index_.ShardOf(owner);
  MutexLock lock(shard.mutex);
  const Descriptor& descriptor = shard.At(owner);
  return descriptor.in_ram() ? descriptor.ram_unit : kNoUnit;
}

SpaceHooks::Evicted RamTier::Evict(uint32_t owner, uint32_t unit, uint64_t* id) {
  IndexShard& shard = index_.ShardOf(owner);
  MutexLock lock(shard.mutex);
  Descriptor& descriptor = shard.At(owner);
  if (!Idle(descriptor) || descriptor.ram_unit != unit) {
    DFKV_PROBE("ram: a victim came into use");
    return Evicted::kRefused;
  }
  *id = HashOf(descriptor.key);
  descriptor.ram_unit = kNoUnit;
  objects_.fetch_sub(1, std::memory_order_relaxed);
  metrics_.ram_evictions.Add();
  if (only_) {
    metrics_.evictions.Add();
    metrics_.evicted_bytes.Add(descriptor.length);
    tenants_.Remove(descriptor.key.tenant, SlotBytesOf(descriptor.length));
    descriptor.state = Descriptor::State::kGhost;
    shard.MaybeFree(owner);
  }
  return Evicted::kNow;
}

void RamTier::Drop(Ref ref, uint64_t generation, EraseReason reason) {
  MutexLock lock(mutex_);
  uint32_t unit = kNoUnit;
  uint64_t id = 0;
  {
    IndexShard& shard = index_.ShardOf(ref);
    MutexLock shard_lock(shard.mutex);
    Descriptor& descriptor = shard.At(ref);
    if (descriptor.state == Descriptor::State::kFree || descriptor.generation != generation) return;
    if (!descriptor.in_ram() || descriptor.pins > 0) return;
    unit = std::exchange(descriptor.ram_unit, kNoUnit);
    id = HashOf(descriptor.key);
    if (only_) tenants_.Remove(descriptor.key.tenant, SlotBytesOf(descriptor.length));
    shard.MaybeFree(ref);
  }
  // The policy's handle is free for another object only after the descriptor was given again, which needs
  // this mutex to become a RAM copy: no mix-up.
  space_.Uncommit(unit, ref, id, reason);
  space_.Free(unit);
  objects_.fetch_sub(1, std::memory_order_relaxed);
}

size_t RamTier::PolicyBytes() {
  MutexLock lock(mutex_);
  return space_.PolicyBytes();
}

uint64_t RamTier::SlotMapBytes() {
  MutexLock lock(mutex_);
  return space_.slots().MemoryBytes();
}

std::vector<ClassUse> RamTier::ClassUses() {
  MutexLock lock(mutex_);
  return space_.ClassUses();
}

}  // namespace dfkv::store
