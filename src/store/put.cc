// PUT: reserved, received, written, recorded, published.
#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "base/fault.h"
#include "base/text.h"
#include "store/record.h"
#include "store/store_impl.h"

namespace dfkv::store {

using State = Descriptor::State;

bool StoreImpl::TakeInflight(uint64_t bytes) {
  const uint64_t before = put_inflight_bytes_.fetch_add(bytes, std::memory_order_acq_rel);
  if (before == 0 || before + bytes <= options_.put_inflight_bytes) return true;
  put_inflight_bytes_.fetch_sub(bytes, std::memory_order_acq_rel);
  return false;
}

// A descriptor and an op for a key that has neither; null: *start says what is there already. *unreachable:
// an object out of reach, superseded; its record is to be cleared.
PutOp* StoreImpl::AddPut(const PutRequest& request, PutStart* start, Doomed* unreachable) {
  IndexShard& shard = index_.ShardOf(request.key);
  MutexLock lock(shard.mutex);
  const Ref found = shard.Find(request.key);
  if (found != kNoRef) {
    Descriptor& present = shard.At(found);
    if (present.state == State::kWriting || Reachable(present)) {
      start->outcome = present.served() ? PutStart::Outcome::kPresent : PutStart::Outcome::kInFlight;
      return nullptr;
    }
  }
  const uint64_t inflight = AlignUp(request.length, kBlockBytes);
  if (stopping_.load(std::memory_order_acquire) || !TakeInflight(inflight)) {
    metrics_.put_busy.Add();
    start->status = Code::kBusy;
    return nullptr;
  }
  if (found != kNoRef) {
    DFKV_PROBE("put: supersedes an object out of reach");
    shard.At(found).state = State::kGhost;
    *unreachable = DoomedOf(shard.At(found), found);
  }
  const Ref ref = shard.Add(request.key);
  Descriptor& descriptor = shard.At(ref);
  descriptor.state = State::kWriting;
  descriptor.generation = generation_.fetch_add(1, std::memory_order_relaxed) + 1;
  descriptor.length = static_cast<uint32_t>(request.length);
  descriptor.crc = request.crc;
  descriptor.depth = request.depth;
  io::Reactor* reactor = io::Reactor::Current();
  PutOp* op = puts_.Add([&](PutOp& added) {
    added.ref = ref;
    added.cell.key = request.key;
    added.cell.generation = descriptor.generation;
    added.cell.length = descriptor.length;
    added.cell.crc = descriptor.crc;
    added.cell.depth = descriptor.depth;
    added.inflight_bytes = inflight;
    added.expires_at = reactor->Now() + Nanos{options_.put_expiry_ms} * kMillisecond;
  });
  descriptor.disk_unit = op->number;
  return op;
}

// The places of the payload: in the arena and on a disk.
Status StoreImpl::ReservePut(PutOp* op) {
  const Result<uint32_t> unit = ram_->Reserve(op->cell.length);
  if (!unit.ok()) return unit.status();
  op->ram_unit = *unit;
  op->cell.data = ram_->DataOf(*unit);
  if (disks_.empty()) return Ok();
  DiskTier* disk = DiskFor(op->cell.key);
  if (disk == nullptr) return {Code::kIoError, "every disk has failed"};
  std::vector<Gone> gone;
  const Status status = disk->Reserve(op, &gone);
  DropRamCopies(gone, evict::EraseReason::kEvicted);
  return status;
}

void StoreImpl::DropRamCopies(const std::vector<Gone>& gone, evict::EraseReason reason) {
  for (const Gone& object : gone) ram_->Drop(object.ref, object.generation, reason);
}

PutStart StoreImpl::BeginPut(const PutRequest& request) {
  PutStart start;
  if (request.length == 0) {
    start.status = {Code::kInvalid, "an object has at least one byte"};
    return start;
  }
  if (request.length > max_object_bytes_) {
    start.status = {Code::kTooLarge, Cat("largest object: ", max_object_bytes_, " bytes")};
    return start;
  }
  Doomed unreachable;
  PutOp* op = AddPut(request, &start, &unreachable);
  if (unreachable.disk != nullptr) (void)ClearDoomed(unreachable);
  if (op == nullptr) return start;
  const Status reserved = ReservePut(op);
  if (!reserved.ok()) {
    if (reserved == Code::kBusy) metrics_.put_busy.Add();
    start.status = reserved;
    AbandonPut(op, reserved);
    return start;
  }
  last_length_[request.key.tenant.value() % last_length_.size()].store(op->cell.length,
                                                                       std::memory_order_relaxed);
  start.outcome = PutStart::Outcome::kReserved;
  start.ticket.owner_ = this;
  start.ticket.handle_ = op->number;
  start.ticket.buffer_ = {op->cell.data, op->cell.length};
  return start;
}

void StoreImpl::FreePut(PutOp* op) {
  put_inflight_bytes_.fetch_sub(op->inflight_bytes, std::memory_order_acq_rel);
  op->clears.clear();
  puts_.Free(op);
}

// Ends a PUT of which no record can be on disk.
void StoreImpl::AbandonPut(PutOp* op, const Status& status) {
  const bool installed = [&] {
    IndexShard& shard = index_.ShardOf(op->ref);
    MutexLock lock(shard.mutex);
    Descriptor& descriptor = shard.At(op->ref);
    descriptor.state = State::kGhost;
    descriptor.disk_unit = kNoUnit;
    op->waiters.Finish(status);
    shard.MaybeFree(op->ref);
    return op->installed;
  }();
  if (installed) {
    ram_->Drop(op->ref, op->cell.generation, evict::EraseReason::kRemoved);
  } else if (op->ram_unit != kNoUnit) {
    ram_->Release(op->ram_unit);
  }
  if (op->disk != nullptr) op->disk->Abandon(*op);
  FreePut(op);
}

// Ends a PUT whose record may be on disk, but whose object must not be: clears the record first.
void StoreImpl::FinishRecorded(PutOp* op, const Status& status) {
  const bool installed = [&] {
    IndexShard& shard = index_.ShardOf(op->ref);
    MutexLock lock(shard.mutex);
    Descriptor& descriptor = shard.At(op->ref);
    descriptor.state = State::kGhost;
    descriptor.disk_unit = op->cell.unit;
    descriptor.disk = static_cast<uint8_t>(op->disk->number());
    return op->installed;
  }();
  if (installed) {
    ram_->Drop(op->ref, op->cell.generation, evict::EraseReason::kRemoved);
  } else {
    ram_->Release(op->ram_unit);
  }
  auto batch = op->disk->BeginClear(op->cell, op->ref, false, evict::EraseReason::kRemoved);
  tasks_in_flight_.fetch_add(1, std::memory_order_acq_rel);
  FinishAfterClear(op, std::move(batch), status).Spawn();
}

io::Task<void> StoreImpl::FinishAfterClear(PutOp* op, std::shared_ptr<ClearBatch> batch, Status status) {
  co_await batch->done.Wait();
  if (status.ok()) status = batch->status;
  {
    IndexShard& shard = index_.ShardOf(op->ref);
    MutexLock lock(shard.mutex);
    op->waiters.Finish(status);
  }
  FreePut(op);
  tasks_in_flight_.fetch_sub(1, std::memory_order_acq_rel);
}

// The arena slot becomes the object's RAM copy; false when the PUT is doomed. visible: served from now on.
bool StoreImpl::InstallPut(PutOp* op, bool visible) {
  const auto install = [&] {
    IndexShard& shard = index_.ShardOf(op->ref);
    MutexLock lock(shard.mutex);
    if (op->doomed) return false;
    Descriptor& descriptor = shard.At(op->ref);
    descriptor.ram_unit = op->ram_unit;
    if (visible) descriptor.Set(Descriptor::kVisible);
    op->installed = true;
    return true;
  };
  return ram_->InstallWith(op->ram_unit, op->ref, op->cell, install);
}

// Under the disk's mutex: the object is served from now on; false when the PUT is doomed.
bool StoreImpl::PublishPut(PutOp* op) {
  IndexShard& shard = index_.ShardOf(op->ref);
  MutexLock lock(shard.mutex);
  if (op->doomed) return false;
  Descriptor& descriptor = shard.At(op->ref);
  descriptor.state = State::kCommitted;
  descriptor.Clear(Descriptor::kVisible);
  descriptor.disk_unit = op->cell.unit;
  descriptor.disk = static_cast<uint8_t>(op->disk->number());
  op->waiters.Finish(Ok());
  return true;
}

bool StoreImpl::MayRecord(PutOp* op) {
  IndexShard& shard = index_.ShardOf(op->ref);
  MutexLock lock(shard.mutex);
  if (op->doomed) return false;
  op->phase = PutOp::Phase::kRecording;
  shard.At(op->ref).Set(Descriptor::kRecorded);
  return true;
}

void StoreImpl::OnWritten(const std::vector<PutOp*>& ops, const Status& status) {
  std::vector<PutOp*> published;
  if (status.ok()) {
    for (PutOp* op : ops) {
      if (!op->installed) (void)InstallPut(op, false);
    }
    published.reserve(ops.size());
    ops.front()->disk->Commit(ops, [&](PutOp* op) {
      if (!PublishPut(op)) return false;
      published.push_back(op);
      return true;
    });
  }
  size_t next = 0;
  for (PutOp* op : ops) {
    if (next < published.size() && published[next] == op) {
      ++next;
      FreePut(op);
      continue;
    }
    DFKV_PROBE("put: ended without an object");
    const bool recorded = [&] {
      IndexShard& shard = index_.ShardOf(op->ref);
      MutexLock lock(shard.mutex);
      const Descriptor& descriptor = shard.At(op->ref);
      if (descriptor.Is(Descriptor::kVisible) && !op->doomed) metrics_.put_lost.Add();
      return descriptor.Is(Descriptor::kRecorded);
    }();
    if (recorded) {
      FinishRecorded(op, status);
    } else {
      AbandonPut(op, status);
    }
  }
}

// Without disks: the arena's copy is the object.
void StoreImpl::CommitInRam(PutOp* op) {
  const auto install = [&] {
    IndexShard& shard = index_.ShardOf(op->ref);
    MutexLock lock(shard.mutex);
    if (op->doomed) return false;
    Descriptor& descriptor = shard.At(op->ref);
    descriptor.state = State::kCommitted;
    descriptor.disk_unit = kNoUnit;
    descriptor.ram_unit = op->ram_unit;
    op->installed = true;
    op->waiters.Finish(Ok());
    return true;
  };
  const bool done = ram_->InstallWith(op->ram_unit, op->ref, op->cell, install);
  if (done) {
    FreePut(op);
  } else {
    AbandonPut(op, Ok());
  }
}

io::Task<Status> StoreImpl::CommitPut(PutTicket ticket, bool crc_verified, Nanos deadline) {
  PutOp* op = puts_.At(static_cast<uint32_t>(ticket.handle_));
  ticket.owner_ = nullptr;
  if (!crc_verified && Crc32c(ticket.buffer()) != op->cell.crc) {
    AbandonPut(op, Code::kCorrupt);
    co_return Status(Code::kCorrupt, "the payload is not what its CRC says");
  }
  const uint64_t padded = AlignUp(op->cell.length, kBlockBytes);
  std::memset(op->cell.data + op->cell.length, 0, padded - op->cell.length);
  const bool write_behind = options_.durability == Durability::kRam;
  IndexShard& shard = index_.ShardOf(op->ref);
  Waiter waiter;
  bool doomed = false;
  bool expired = false;
  {
    MutexLock lock(shard.mutex);
    doomed = op->doomed;
    expired = op->expired;
    op->phase = PutOp::Phase::kQueued;
    if (!doomed && op->disk != nullptr && !write_behind) op->waiters.Add(&waiter);
  }
  if (doomed) {
    const Status status = expired ? Status(Code::kTimeout, "the reservation expired") : Ok();
    AbandonPut(op, status);
    co_return status;
  }
  if (op->disk == nullptr) {
    CommitInRam(op);
    co_return Ok();
  }
  if (write_behind) {
    (void)InstallPut(op, true);
    op->disk->Enqueue(op);
    co_return Ok();
  }
  op->disk->Enqueue(op);
  co_await WaitFor(&waiter, deadline);
  MutexLock lock(shard.mutex);
  if (!waiter.linked) co_return waiter.status;
  DFKV_PROBE("put: the caller's deadline passed while it was written");
  op->waiters.Remove(&waiter);
  co_return Status(Code::kTimeout);
}

io::Task<Status> StoreImpl::JoinPut(ObjectKey key, Nanos deadline) {
  IndexShard& shard = index_.ShardOf(key);
  Waiter waiter;
  PutOp* op = nullptr;
  {
    MutexLock lock(shard.mutex);
    const Ref ref = shard.Find(key);
    if (ref == kNoRef) co_return Status(Code::kBusy);  // it ended without an object: try again
    if (shard.At(ref).served()) co_return Ok();
    op = puts_.At(shard.At(ref).disk_unit);
    op->waiters.Add(&waiter);
  }
  co_await WaitFor(&waiter, deadline);
  MutexLock lock(shard.mutex);
  if (!waiter.linked) co_return waiter.status;
  op->waiters.Remove(&waiter);
  co_return Status(Code::kTimeout);
}

void StoreImpl::DropTicket(uint64_t handle) {
  AbandonPut(puts_.At(static_cast<uint32_t>(handle)), Code::kBusy);
}

}  // namespace dfkv::store
