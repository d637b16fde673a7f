// GET: from the arena, or from a disk into the arena.
#include "base/crc32c.h"
#include "base/fault.h"
#include "base/log.h"
#include "store/store_impl.h"

namespace dfkv::store {

using State = Descriptor::State;

// False for an object that cannot be brought into RAM: a miss, until its disk works again or a restart with a
// larger arena.
bool StoreImpl::Reachable(const Descriptor& descriptor) const {
  if (!descriptor.served()) return false;
  if (descriptor.in_ram()) return true;
  return !disks_[descriptor.disk]->failed() && descriptor.length <= ram_->classes().extent_bytes();
}

// The caller holds the shard's mutex and found a RAM copy.
void StoreImpl::Pin(const Descriptor& descriptor, Ref ref, ReadPin* pin) {
  pin->owner_ = this;
  pin->handle_ = ref;
  pin->bytes_ = {ram_->DataOf(descriptor.ram_unit), descriptor.length};
  pin->crc_ = descriptor.crc;
}

void StoreImpl::ReleasePin(uint64_t handle) {
  const Ref ref = static_cast<Ref>(handle);
  uint64_t generation = 0;
  {
    IndexShard& shard = index_.ShardOf(ref);
    MutexLock lock(shard.mutex);
    Descriptor& descriptor = shard.At(ref);
    DFKV_CHECK(descriptor.pins > 0);
    if (--descriptor.pins > 0 || descriptor.state != State::kGhost) return;
    generation = descriptor.generation;
    if (!descriptor.in_ram()) {
      shard.MaybeFree(ref);
      return;
    }
  }
  DFKV_PROBE("get: the last pin of an object that is gone");
  ram_->Drop(ref, generation, evict::EraseReason::kRemoved);
}

Result<uint64_t> StoreImpl::Length(const ObjectKey& key) {
  IndexShard& shard = index_.ShardOf(key);
  MutexLock lock(shard.mutex);
  const Ref ref = shard.Find(key);
  if (ref == kNoRef || !Reachable(shard.At(ref))) return Code::kNotFound;
  return uint64_t{shard.At(ref).length};
}

Lookup StoreImpl::TryGet(const ObjectKey& key, ReadPin* pin) {
  ReadPin fresh;
  {
    IndexShard& shard = index_.ShardOf(key);
    MutexLock lock(shard.mutex);
    const Ref ref = shard.Find(key);
    if (ref == kNoRef || !Reachable(shard.At(ref))) return Lookup::kMiss;
    Descriptor& descriptor = shard.At(ref);
    if (!descriptor.in_ram()) return Lookup::kDisk;
    ++descriptor.pins;
    Pin(descriptor, ref, &fresh);
  }
  metrics_.ram_hits.Add();
  *pin = std::move(fresh);
  return Lookup::kRam;
}

io::Task<Result<ReadPin>> StoreImpl::Get(ObjectKey key, Nanos deadline) {
  IndexShard& shard = index_.ShardOf(key);
  Waiter waiter;
  ReadOp* op = nullptr;
  bool first = false;
  Ref ref = kNoRef;
  ReadPin pin;
  {
    MutexLock lock(shard.mutex);
    ref = shard.Find(key);
    if (ref == kNoRef || !Reachable(shard.At(ref))) co_return Code::kNotFound;
    Descriptor& descriptor = shard.At(ref);
    if (descriptor.in_ram()) {
      ++descriptor.pins;
      Pin(descriptor, ref, &pin);
      metrics_.ram_hits.Add();
      co_return std::move(pin);
    }
    if (descriptor.Is(Descriptor::kReading)) {
      op = reads_.At(descriptor.ram_unit);
      metrics_.reads_coalesced.Add();
    } else {
      const Cell cell = CellOf(descriptor, disks_[descriptor.disk]->classes());
      op = reads_.Add([&](ReadOp& added) {
        added.ref = ref;
        added.cell = cell;
      });
      op->disk = disks_[descriptor.disk].get();
      descriptor.ram_unit = op->number;
      descriptor.Set(Descriptor::kReading);
      first = true;
    }
    op->waiters.Add(&waiter);
  }
  metrics_.ram_misses.Add();
  // The read is nobody's own: it goes on when the first caller's deadline passes.
  if (first) ReadObject(op).Spawn();
  co_await WaitFor(&waiter, deadline);
  MutexLock lock(shard.mutex);
  if (waiter.linked) {
    DFKV_PROBE("get: the caller's deadline passed while it was read");
    op->waiters.Remove(&waiter);
    co_return Code::kTimeout;
  }
  if (!waiter.status.ok()) co_return waiter.status;
  Pin(shard.At(ref), ref, &pin);  // counted by FinishRead
  co_return std::move(pin);
}

io::Task<void> StoreImpl::ReadObject(ReadOp* op) {
  tasks_in_flight_.fetch_add(1, std::memory_order_acq_rel);
  const Result<uint32_t> unit = ram_->Reserve(op->cell.length);
  Status status = unit.ok() ? Ok() : unit.status();
  if (unit.ok()) {
    op->cell.data = ram_->DataOf(*unit);
    status = co_await op->disk->Read(op->cell);
    const ByteSpan bytes(op->cell.data, op->cell.length);
    DFKV_SYNC_POINT("get: read from disk");
    if (status.ok() && Crc32c(bytes) != op->cell.crc) status = Code::kCorrupt;
    if (!status.ok()) ram_->Release(*unit);
  }
  if (status.ok()) {
    FinishRead(op, *unit);
  } else {
    FailRead(op, status);
  }
  reads_.Free(op);
  tasks_in_flight_.fetch_sub(1, std::memory_order_acq_rel);
}

// The verified copy becomes the object's RAM copy, pinned once for each that waits.
void StoreImpl::FinishRead(ReadOp* op, uint32_t unit) {
  const auto install = [&] {
    IndexShard& shard = index_.ShardOf(op->ref);
    MutexLock lock(shard.mutex);
    Descriptor& descriptor = shard.At(op->ref);
    descriptor.Clear(Descriptor::kReading);
    descriptor.ram_unit = kNoUnit;
    if (descriptor.state != State::kCommitted) {
      DFKV_PROBE("get: removed while it was read");
      op->waiters.Finish(Code::kNotFound);
      shard.MaybeFree(op->ref);
      return false;
    }
    descriptor.ram_unit = unit;
    descriptor.pins += op->waiters.Finish(Ok());
    return true;
  };
  if (ram_->InstallWith(unit, op->ref, op->cell, install)) {
    metrics_.ram_promoted.Add();
  } else {
    ram_->Release(unit);
  }
}

void StoreImpl::FailRead(ReadOp* op, Status status) {
  bool drop = false;
  {
    IndexShard& shard = index_.ShardOf(op->ref);
    MutexLock lock(shard.mutex);
    Descriptor& descriptor = shard.At(op->ref);
    descriptor.Clear(Descriptor::kReading);
    descriptor.ram_unit = kNoUnit;
    if (descriptor.state != State::kCommitted) {
      status = Code::kNotFound;  // its slot may have been another object's by the time it was read
    } else if (status == Code::kCorrupt) {
      drop = true;
      descriptor.state = State::kGhost;
    }
    op->waiters.Finish(status);
    shard.MaybeFree(op->ref);
  }
  if (!drop) return;
  DFKV_PROBE("get: a payload failed its check");
  metrics_.corrupt.Add();
  if (corrupt_logged_.fetch_add(1) == 0) {
    LogError(op->disk->directory(), ": object ", op->cell.key.id.ToHex(), " of ", op->cell.length,
             " bytes failed its check and was dropped; further ones are only counted (dfkv_corrupt_total)");
  }
  (void)op->disk->BeginClear(op->cell, op->ref, true, evict::EraseReason::kRemoved);
}

}  // namespace dfkv::store
