// REMOVE: final against everything that is in flight, and after the death of the process.
#include <memory>

#include "base/fault.h"
#include "store/store_impl.h"

namespace dfkv::store {

using State = Descriptor::State;

StoreImpl::Doomed StoreImpl::DoomedOf(const Descriptor& descriptor, Ref ref) {
  Doomed doomed;
  doomed.ref = ref;
  if (descriptor.disk == kNoDisk) {
    doomed.cell.key = descriptor.key;
    doomed.cell.generation = descriptor.generation;
    return doomed;
  }
  doomed.disk = disks_[descriptor.disk].get();
  doomed.cell = CellOf(descriptor, doomed.disk->classes());
  return doomed;
}

std::shared_ptr<ClearBatch> StoreImpl::ClearDoomed(const Doomed& doomed) {
  std::shared_ptr<ClearBatch> batch;
  if (doomed.disk != nullptr) {
    batch = doomed.disk->BeginClear(doomed.cell, doomed.ref, true, evict::EraseReason::kRemoved);
  }
  ram_->Drop(doomed.ref, doomed.cell.generation, evict::EraseReason::kRemoved);
  return batch;
}

// Makes every object of the key that is not newer than `newest` invisible. *doomed: those that were
// committed. A PUT whose record is being written is *awaited through `waiter`; returns whether there is one.
bool StoreImpl::DoomAll(const ObjectKey& key, uint64_t newest, Waiter* waiter, PutOp** awaited,
                        std::vector<Doomed>* doomed) {
  IndexShard& shard = index_.ShardOf(key);
  MutexLock lock(shard.mutex);
  *awaited = nullptr;
  for (Ref ref = shard.FindAny(key, kNoRef); ref != kNoRef; ref = shard.FindAny(key, ref)) {
    Descriptor& descriptor = shard.At(ref);
    if (descriptor.generation > newest) continue;
    if (descriptor.state == State::kCommitted) {
      descriptor.state = State::kGhost;
      doomed->push_back(DoomedOf(descriptor, ref));
      continue;
    }
    if (descriptor.state != State::kWriting && descriptor.state != State::kDoomed) continue;
    PutOp* op = puts_.At(descriptor.disk_unit);
    op->doomed = true;
    descriptor.state = State::kDoomed;
    if (op->phase != PutOp::Phase::kRecording || *awaited != nullptr) continue;
    DFKV_PROBE("remove: waits for a record that is being written");
    op->waiters.Add(waiter);
    *awaited = op;
  }
  return *awaited != nullptr;
}

// Waits for the batch; false when the deadline passed first.
io::Task<bool> StoreImpl::AwaitBatch(std::shared_ptr<ClearBatch> batch, Nanos deadline) {
  if (deadline == kNever || batch->done.IsSet()) {
    co_await batch->done.Wait();
    co_return true;
  }
  struct Watch {
    io::Event either;
    static io::Task<void> Run(std::shared_ptr<ClearBatch> cleared, std::shared_ptr<Watch> watch) {
      co_await cleared->done.Wait();
      watch->either.Set();
    }
  };
  auto watch = std::make_shared<Watch>();
  Watch::Run(batch, watch).Spawn();
  io::Reactor* reactor = io::Reactor::Current();
  const uint64_t timer = reactor->AddTimer(deadline, [watch] { watch->either.Set(); });
  co_await watch->either.Wait();
  reactor->CancelTimer(timer);
  co_return batch->done.IsSet();
}

// Waits until no record of a gone object of this key is left on a disk.
io::Task<Status> StoreImpl::AwaitCleared(ObjectKey key, Nanos deadline) {
  io::Reactor* reactor = io::Reactor::Current();
  IndexShard& shard = index_.ShardOf(key);
  for (;;) {
    DiskTier* disk = nullptr;
    {
      MutexLock lock(shard.mutex);
      for (Ref ref = shard.FindAny(key, kNoRef); ref != kNoRef; ref = shard.FindAny(key, ref)) {
        const Descriptor& descriptor = shard.At(ref);
        const bool ghost = descriptor.state == State::kGhost && descriptor.Is(Descriptor::kRecorded);
        if (ghost) disk = disks_[descriptor.disk].get();
      }
    }
    if (disk == nullptr) co_return Ok();
    if (reactor->Now() >= deadline) co_return Status(Code::kTimeout);
    std::vector<std::shared_ptr<ClearBatch>> batches = disk->UnfinishedClears();
    if (batches.empty()) {  // a clearing that failed, or is about to be queued
      DFKV_PROBE("remove: tries a clearing again");
      disk->RetryClears();
      batches = disk->UnfinishedClears();  // awaited here: its failure is this REMOVE's
    }
    if (batches.empty()) {
      const Nanos soon = reactor->Now() + kMillisecond;
      co_await reactor->Until(soon);
      continue;
    }
    for (const std::shared_ptr<ClearBatch>& batch : batches) {
      const bool in_time = co_await AwaitBatch(batch, deadline);
      if (!in_time) co_return Status(Code::kTimeout);
      if (!batch->status.ok()) co_return batch->status;
    }
  }
}

io::Task<Status> StoreImpl::Remove(ObjectKey key, Nanos deadline) {
  if (!removed_.load(std::memory_order_relaxed)) removed_.store(true, std::memory_order_relaxed);
  const uint64_t newest = generation_.load(std::memory_order_relaxed);
  IndexShard& shard = index_.ShardOf(key);
  for (;;) {
    std::vector<Doomed> doomed;
    Waiter waiter;
    PutOp* awaited = nullptr;
    const bool waits = DoomAll(key, newest, &waiter, &awaited, &doomed);
    for (const Doomed& object : doomed) {
      metrics_.removes.Add();
      (void)ClearDoomed(object);
    }
    DFKV_SYNC_POINT("remove: doomed");
    if (!waits) break;
    co_await WaitFor(&waiter, deadline);
    MutexLock lock(shard.mutex);
    if (!waiter.linked) continue;
    awaited->waiters.Remove(&waiter);
    co_return Status(Code::kTimeout);
  }
  const Status cleared = co_await AwaitCleared(key, deadline);
  co_return cleared;
}

}  // namespace dfkv::store
