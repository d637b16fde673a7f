#include "store/disk_tier.h"

#include <algorithm>

#include "base/fault.h"
#include "base/log.h"
#include "base/text.h"

namespace dfkv::store {

using evict::EraseReason;

DiskTier::DiskTier(const DiskTierOptions& options, std::unique_ptr<Media> media, const SizeClasses& classes,
                   const TierParts& parts, DiskOwner& owner)
    : options_(options),
      classes_(classes),
      media_(std::move(media)),
      index_(parts.index),
      owner_(owner),
      tenants_(parts.tenants),
      metrics_(parts.metrics),
      touches_(metrics_.touches_dropped),
      space_(classes, options.extents, options.space) {}

DiskTier::~DiskTier() = default;

void DiskTier::Count(const Cell& cell, bool added) {
  if (added) {
    used_bytes_.fetch_add(cell.slot_bytes, std::memory_order_relaxed);
    objects_.fetch_add(1, std::memory_order_relaxed);
    tenants_.Add(cell.key.tenant, cell.slot_bytes);
  } else {
    used_bytes_.fetch_sub(cell.slot_bytes, std::memory_order_relaxed);
    objects_.fetch_sub(1, std::memory_order_relaxed);
    tenants_.Remove(cell.key.tenant, cell.slot_bytes);
  }
}

// --- Start ---

bool DiskTier::Adopt(const Cell& cell) {
  const auto size_class = classes_.ClassOfSlot(cell.slot_bytes);
  MutexLock lock(mutex_);
  return size_class && space_.Adopt(cell.unit, *size_class);
}

void DiskTier::EndAdopting() {
  MutexLock lock(mutex_);
  space_.EndAdopting();
}

void DiskTier::CommitAdopted(const Cell& cell, Ref ref) {
  MutexLock lock(mutex_);
  space_.Commit(cell.unit, ref, HashOf(cell.key), cell.depth);
  Count(cell, true);
}

// --- Eviction ---

bool DiskTier::MayEvict(uint32_t owner) {
  IndexShard& shard = index_.ShardOf(owner);
  MutexLock lock(shard.mutex);
  const Descriptor& descriptor = shard.At(owner);
  return descriptor.state == Descriptor::State::kCommitted && descriptor.pins == 0 &&
         !descriptor.Is(Descriptor::kReading);
}

uint32_t DiskTier::UnitOf(uint32_t owner) {
  IndexShard& shard = index_.ShardOf(owner);
  MutexLock lock(shard.mutex);
  const Descriptor& descriptor = shard.At(owner);
  return descriptor.state == Descriptor::State::kCommitted ? descriptor.disk_unit : kNoUnit;
}

SpaceHooks::Evicted DiskTier::Evict(uint32_t owner, uint32_t unit, uint64_t* id) {
  Cell cell;
  bool in_ram = false;
  {
    IndexShard& shard = index_.ShardOf(owner);
    MutexLock lock(shard.mutex);
    Descriptor& descriptor = shard.At(owner);
    const bool idle = descriptor.pins == 0 && !descriptor.Is(Descriptor::kReading);
    if (descriptor.state != Descriptor::State::kCommitted || !idle || descriptor.disk_unit != unit) {
      DFKV_PROBE("disk: a victim came into use");
      return Evicted::kRefused;
    }
    descriptor.state = Descriptor::State::kGhost;
    cell = CellOf(descriptor, classes_);
    in_ram = descriptor.in_ram();
  }
  *id = HashOf(cell.key);
  metrics_.evictions.Add();
  metrics_.evicted_bytes.Add(cell.length);
  Count(cell, false);
  QueueClear(cell, owner);
  if (in_ram) current_gone_->push_back({owner, cell.generation});
  return Evicted::kClearing;
}

void DiskTier::QueueClear(const Cell& cell, Ref ref) {
  std::shared_ptr<ClearBatch>& batch = current_queue_->clears;
  if (!batch) {
    batch = std::make_shared<ClearBatch>();
    unfinished_.push_back(batch);
  }
  ClearItem item;
  item.cell = cell;
  item.ref = ref;
  item.epoch = space_.EpochOf(cell.unit);
  batch->items.push_back(item);
}

// --- Slots ---

bool DiskTier::NoteTouches(evict::RequestKind kind, uint64_t now, std::span<const Touch> chain) {
  const size_t waiting = touches_.Push(kind, now, chain);
  if (waiting >= TouchQueue::kDrainNow) DrainTouches();
  return waiting >= TouchQueue::kDrainSoon;
}

void DiskTier::DrainTouches() {
  if (!mutex_.TryLock()) return;
  touches_.Drain(space_);
  mutex_.Unlock();
}

Status DiskTier::Reserve(PutOp* op, std::vector<Gone>* gone) {
  if (failed()) return {Code::kIoError, Cat(options_.directory, ": out of use after repeated errors")};
  const uint32_t size_class = classes_.ClassOf(op->cell.length);
  DiskQueue& queue = owner_.QueueOf(*this);
  MutexLock lock(mutex_);
  touches_.Drain(space_);
  current_queue_ = &queue;
  current_gone_ = gone;
  const uint64_t steals = space_.steals();
  const Result<Space::Taken> taken = space_.Take(size_class, *this);
  metrics_.extent_steals.Add(space_.steals() - steals);
  current_queue_ = nullptr;
  current_gone_ = nullptr;
  for (const uint32_t extent : space_.TakeRebound()) {
    DFKV_PROBE("disk: an extent changed its class while it is cleared");
    rebinding_[extent] = unfinished_;
  }
  if (!taken.ok()) return taken.status();
  op->disk = this;
  op->cell.unit = taken->unit;
  op->cell.slot_bytes = static_cast<uint32_t>(classes_.slot_bytes(size_class));
  if (taken->clearing) {
    queue.clears->items.back().to_free = false;  // the victim's: the last one queued
    op->clears.push_back(queue.clears);
  }
  if (!rebinding_.empty()) {
    const auto found = rebinding_.find(taken->unit / classes_.extent_blocks());
    if (found != rebinding_.end()) {
      op->clears.insert(op->clears.end(), found->second.begin(), found->second.end());
    }
  }
  return Ok();
}

// Whether `item` is the clearing of the slot that `op` took over; if so, the slot is freed when it ends.
bool DiskTier::GiveBack(const PutOp& op, ClearItem* item) {
  if (item->cell.unit != op.cell.unit || item->to_free) return false;
  if (item->epoch != space_.EpochOf(op.cell.unit)) return false;
  item->to_free = true;
  if (!item->stuck) space_.BeginClearing(op.cell.unit);
  return true;
}

void DiskTier::Abandon(const PutOp& op) {
  MutexLock lock(mutex_);
  for (const std::shared_ptr<ClearBatch>& batch : op.clears) {
    if (batch->finished) continue;
    for (ClearItem& item : batch->items) {
      if (GiveBack(op, &item)) return;
    }
  }
  for (ClearItem& item : failed_clears_) {
    if (GiveBack(op, &item)) return;
  }
  space_.Free(op.cell.unit);
}

std::shared_ptr<ClearBatch> DiskTier::BeginClear(const Cell& cell, Ref ref, bool committed,
                                                 EraseReason reason) {
  DiskQueue& queue = owner_.QueueOf(*this);
  MutexLock lock(mutex_);
  if (committed) {
    space_.Uncommit(cell.unit, ref, HashOf(cell.key), reason);
    Count(cell, false);
  }
  space_.BeginClearing(cell.unit);
  current_queue_ = &queue;
  QueueClear(cell, ref);
  current_queue_ = nullptr;
  return queue.clears;
}

std::vector<std::shared_ptr<ClearBatch>> DiskTier::UnfinishedClears() {
  MutexLock lock(mutex_);
  return unfinished_;
}

void DiskTier::RetryClears() {
  DiskQueue& queue = owner_.QueueOf(*this);
  MutexLock lock(mutex_);
  if (failed_clears_.empty()) return;
  DFKV_PROBE("disk: failed clearings are tried again");
  std::shared_ptr<ClearBatch>& batch = queue.clears;
  if (!batch) {
    batch = std::make_shared<ClearBatch>();
    unfinished_.push_back(batch);
  }
  for (const ClearItem& item : failed_clears_) {
    batch->items.push_back(item);
    if (item.epoch == space_.EpochOf(item.cell.unit)) continue;
    rebinding_[item.cell.unit / classes_.extent_blocks()].push_back(batch);
  }
  failed_clears_.clear();
}

size_t DiskTier::PolicyBytes() {
  MutexLock lock(mutex_);
  return space_.PolicyBytes();
}

uint64_t DiskTier::free_extents() {
  MutexLock lock(mutex_);
  return space_.slots().free_extents();
}

uint64_t DiskTier::SlotMapBytes() {
  MutexLock lock(mutex_);
  return space_.slots().MemoryBytes();
}

std::vector<ClassUse> DiskTier::ClassUses() {
  MutexLock lock(mutex_);
  return space_.ClassUses();
}

}  // namespace dfkv::store
