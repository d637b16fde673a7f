// DiskTier's transfers: batches of payloads and records, clearings, reads, syncs, and the count of errors.
#include <algorithm>

#include "base/fault.h"
#include "base/log.h"
#include "store/disk_tier.h"

namespace dfkv::store {

void DiskTier::Flush(DiskQueue* queue) {
  if (queue->clears) {
    writes_in_flight_.fetch_add(1, std::memory_order_acq_rel);
    RunClears(std::exchange(queue->clears, nullptr)).Spawn();
  }
  if (queue->puts.empty()) return;
  std::sort(queue->puts.begin(), queue->puts.end(),
            [](const PutOp* a, const PutOp* b) { return a->cell.unit < b->cell.unit; });
  std::vector<Cell> cells;
  cells.reserve(queue->puts.size());
  for (const PutOp* op : queue->puts) cells.push_back(op->cell);
  for (size_t first = 0; first < cells.size();) {
    const size_t count = options_.merges ? MergedRun(cells, first, classes_.extent_bytes()) : 1;
    const auto begin = queue->puts.begin() + static_cast<ptrdiff_t>(first);
    std::vector<PutOp*> run(begin, begin + static_cast<ptrdiff_t>(count));
    if (count > 1) metrics_.batched_writes.Add();
    writes_in_flight_.fetch_add(1, std::memory_order_acq_rel);
    WriteRun(std::move(run)).Spawn();
    first += count;
  }
  queue->puts.clear();
}

// --- PUT ---

io::Task<Status> DiskTier::WriteOnce(std::vector<PutOp*> ops) {
  std::vector<Cell> cells;
  cells.reserve(ops.size());
  for (const PutOp* op : ops) cells.push_back(op->cell);
  Status status = co_await media_->WritePayload(std::move(cells));
  NoteResult(status);
  if (!status.ok()) co_return status;
  DFKV_SYNC_POINT("disk: payload written");
  for (const PutOp* op : ops) {
    for (const std::shared_ptr<ClearBatch>& batch : op->clears) {
      co_await batch->done.Wait();
      if (!batch->status.ok()) co_return batch->status;
    }
  }
  std::vector<Cell> records;
  records.reserve(ops.size());
  for (PutOp* op : ops) {
    if (owner_.MayRecord(op)) records.push_back(op->cell);
  }
  if (records.empty()) co_return Ok();
  metrics_.record_writes.Add(records.size());
  status = co_await media_->WriteRecords(std::move(records));
  dirty_.store(true, std::memory_order_release);
  NoteResult(status);
  DFKV_SYNC_POINT("disk: record written");
  co_return status;
}

io::Task<void> DiskTier::WriteRun(std::vector<PutOp*> ops) {
  const Status status = co_await WriteOnce(ops);
  if (status.ok() || ops.size() == 1) {
    owner_.OnWritten(ops, status);
  } else {
    DFKV_PROBE("disk: a merged write failed; each object is tried alone");
    for (PutOp* op : ops) {
      std::vector<PutOp*> single = {op};
      const Status one = co_await WriteOnce(single);
      owner_.OnWritten(single, one);
    }
  }
  writes_in_flight_.fetch_sub(1, std::memory_order_acq_rel);
}

// --- Clearing ---

io::Task<void> DiskTier::RunClears(std::shared_ptr<ClearBatch> batch) {
  std::vector<Cell> cells;
  cells.reserve(batch->items.size());
  for (const ClearItem& item : batch->items) cells.push_back(item.cell);
  const Status status = co_await media_->Clear(std::move(cells));
  dirty_.store(true, std::memory_order_release);
  NoteResult(status);
  FinishClears(batch, status);
  batch->status = status;
  batch->done.Set();
  writes_in_flight_.fetch_sub(1, std::memory_order_acq_rel);
}

void DiskTier::FinishClears(const std::shared_ptr<ClearBatch>& batch, const Status& status) {
  {
    MutexLock lock(mutex_);
    batch->finished = true;
    std::erase(unfinished_, batch);
    if (!status.ok()) {
      DFKV_PROBE("disk: clearing failed");
      metrics_.clear_failures.Add(batch->items.size());
      for (const ClearItem& item : batch->items) FailClear(item);
      return;
    }
    for (const ClearItem& item : batch->items) EndClear(item);
    ForgetRebinding();
  }
  metrics_.record_clears.Add(batch->items.size());
  for (const ClearItem& item : batch->items) {
    IndexShard& shard = index_.ShardOf(item.ref);
    MutexLock lock(shard.mutex);
    Descriptor& descriptor = shard.At(item.ref);
    DFKV_CHECK(descriptor.generation == item.cell.generation);
    descriptor.Clear(Descriptor::kRecorded);
    descriptor.disk_unit = kNoUnit;
    shard.MaybeFree(item.ref);
  }
}

void DiskTier::EndClear(const ClearItem& item) {
  if (!item.to_free || item.epoch != space_.EpochOf(item.cell.unit)) return;
  if (!item.stuck) space_.EndClearing(item.cell.unit);
  space_.Free(item.cell.unit);
}

// The slot stays taken, and its extent with it, until its record is cleared after all.
void DiskTier::FailClear(ClearItem item) {
  const bool current = item.epoch == space_.EpochOf(item.cell.unit);
  if (current && item.to_free && !item.stuck) space_.EndClearing(item.cell.unit);
  item.stuck = true;
  failed_clears_.push_back(item);
}

// An extent that changed its class is like any other once all records of its old class are cleared.
void DiskTier::ForgetRebinding() {
  for (auto entry = rebinding_.begin(); entry != rebinding_.end();) {
    bool cleared = true;
    for (const std::shared_ptr<ClearBatch>& batch : entry->second) cleared = cleared && batch->finished;
    for (const ClearItem& item : failed_clears_) {
      cleared = cleared && item.cell.unit / classes_.extent_blocks() != entry->first;
    }
    entry = cleared ? rebinding_.erase(entry) : std::next(entry);
  }
}

// --- Reads, syncs, health ---

io::Task<Status> DiskTier::Read(Cell cell) {
  if (failed()) co_return Status(Code::kIoError);
  const Status status = co_await media_->Read(cell);
  NoteResult(status);
  co_return status;
}

io::Task<Status> DiskTier::SyncIfDirty() {
  if (!dirty_.exchange(false, std::memory_order_acq_rel)) co_return Ok();
  const Status status = co_await media_->Sync();
  metrics_.table_syncs.Add();
  if (!status.ok()) dirty_.store(true, std::memory_order_release);
  NoteResult(status);
  co_return status;
}

void DiskTier::NoteResult(const Status& status) {
  if (status.ok()) {
    if (errors_in_a_row_.load(std::memory_order_relaxed) != 0) errors_in_a_row_.store(0);
    return;
  }
  metrics_.disk_errors.Add();
  if (!(status == Code::kIoError)) return;
  if (errors_in_a_row_.fetch_add(1) + 1 < kErrorsToFail || failed_.exchange(true)) return;
  metrics_.disk_failures.Add();
  LogError(options_.directory, ": taken out of use after ", kErrorsToFail,
           " errors in a row, the last: ", status.ToString(),
           "; its objects are misses until it answers again");
}

io::Task<void> DiskTier::ProbeIfFailed() {
  if (!failed()) co_return;
  const Status status = co_await media_->Probe();
  if (!status.ok()) co_return;
  DFKV_PROBE("disk: in use again");
  errors_in_a_row_.store(0);
  failed_.store(false);
  LogInfo(options_.directory, ": in use again");
}

}  // namespace dfkv::store
