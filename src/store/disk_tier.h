// DiskTier: one disk. Gives out its slots, writes payloads and records in batches, clears the records of what
// leaves, reads objects back, and counts itself out while the disk fails.
//
// The life of a slot's record: empty; written when its object's payload is complete; cleared when the object
// leaves, before anybody else's record is written there. A slot whose record is being cleared may be given to
// a PUT at once: its payload may be written meanwhile, its record waits for the clearing. So whenever
// the process dies, a key that a caller was told is removed has no record, and a key that a caller was told
// is stored has one. Beside it there may be older ones, of an object of that key that is being cleared or
// that is out of reach: a start keeps the newest and clears the rest.
//
// Threads: any reactor. mutex_ guards slots and policies and is never held over I/O; shards' mutexes are
// taken inside it. What one reactor queues in a turn leaves at the end of that turn.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/metric.h"
#include "io/reactor.h"
#include "store/index.h"
#include "store/media.h"
#include "store/metrics.h"
#include "store/ops.h"
#include "store/space.h"
#include "store/tier_parts.h"
#include "store/touch_queue.h"

namespace dfkv::store {

// An object that lost its slot, named so that a reused descriptor is not mistaken for it.
struct Gone {
  Ref ref = kNoRef;
  uint64_t generation = 0;
};

struct ClearItem {
  Cell cell;
  Ref ref = kNoRef;     // the ghost that waits for it
  uint32_t epoch = 0;   // of the extent, when the clearing began; another by now: it changed its class since
  bool to_free = true;  // nobody has taken the slot over
  bool stuck = false;  // its clearing failed at least once: the slot keeps its extent from changing its class
};

// The records that one reactor clears at the end of one turn.
struct ClearBatch {
  std::vector<ClearItem> items;  // to_free: guarded by the disk's mutex
  bool finished = false;         // guarded by the disk's mutex
  Status status;                 // written before done is set
  io::Event done;
};

// What one reactor has queued for one disk since its turn began; that reactor's alone.
struct DiskQueue {
  std::vector<PutOp*> puts;
  std::shared_ptr<ClearBatch> clears;
};

// What a disk tells the store about its PUTs.
class DiskOwner {
 public:
  virtual ~DiskOwner() = default;
  // Called before the record is written; false: the PUT is doomed, no record.
  virtual bool MayRecord(PutOp* op) = 0;
  // The PUTs have ended: payload and record are on disk, or the status says why not. (Where MayRecord said
  // yes, a record may be there all the same and has to be cleared.)
  virtual void OnWritten(const std::vector<PutOp*>& ops, const Status& status) = 0;
  virtual DiskQueue& QueueOf(DiskTier& disk) = 0;  // of the calling reactor
};

struct DiskTierOptions {
  uint32_t number = 0;
  std::string directory;
  uint32_t weight = 1;
  uint32_t extents = 0;
  bool merges = true;  // the media takes runs of neighbours
  SpaceOptions space;
};

class DiskTier final : private SpaceHooks {
 public:
  static constexpr uint32_t kErrorsToFail = 8;  // in a row

  DiskTier(const DiskTierOptions& options, std::unique_ptr<Media> media, const SizeClasses& classes,
           const TierParts& parts, DiskOwner& owner);
  ~DiskTier() override;

  uint32_t number() const { return options_.number; }
  const std::string& directory() const { return options_.directory; }
  uint32_t weight() const { return options_.weight; }
  const SizeClasses& classes() const { return classes_; }
  uint64_t capacity_bytes() const { return uint64_t{options_.extents} * classes_.extent_bytes(); }
  uint64_t used_bytes() const { return used_bytes_.load(std::memory_order_relaxed); }  // slots of objects
  uint64_t objects() const { return objects_.load(std::memory_order_relaxed); }
  bool failed() const { return failed_.load(std::memory_order_relaxed); }

  // --- Start, one thread ---
  RecoveryCounts RecoverBlocking(const std::function<void(const Cell&)>& found) {
    return media_->RecoverBlocking(found);
  }
  Status ClearBlocking(const std::vector<Cell>& cells) { return media_->ClearBlocking(cells); }
  bool Adopt(const Cell& cell);  // marks the slot used
  void EndAdopting();
  void CommitAdopted(const Cell& cell, Ref ref);  // in order of generation, after EndAdopting

  // --- Plain ---
  // True when DrainTouches should be called before long.
  bool NoteTouches(evict::RequestKind kind, uint64_t now, std::span<const Touch> chain);
  void DrainTouches();  // unless somebody else is at work on the tier
  // A slot for op->cell.length bytes: fills in the cell's address and op->clears. *gone: objects that were
  // evicted; the caller gives their RAM copies back. Busy, IoError (the disk has failed).
  Status Reserve(PutOp* op, std::vector<Gone>* gone);
  // The slot of a PUT that ended without a record.
  void Abandon(const PutOp& op);
  // Publishes the objects to the policies; `publish` decides per op, under the disk's mutex, whether it is
  // still wanted.
  template <typename Publish>
  void Commit(const std::vector<PutOp*>& ops, const Publish& publish) {
    MutexLock lock(mutex_);
    touches_.Drain(space_);
    for (PutOp* op : ops) {
      if (!publish(op)) continue;
      space_.Commit(op->cell.unit, op->ref, HashOf(op->cell.key), op->cell.depth);
      Count(op->cell, true);
    }
  }
  // The object, a ghost by now, gives its slot up: its record is cleared with this turn's batch. `committed`:
  // it was published; otherwise it is a PUT whose record may have been written.
  std::shared_ptr<ClearBatch> BeginClear(const Cell& cell, Ref ref, bool committed,
                                         evict::EraseReason reason);
  // Batches that have not finished; awaited by a REMOVE that finds a ghost.
  std::vector<std::shared_ptr<ClearBatch>> UnfinishedClears();
  // Queues the PUT for the end of this reactor's turn.
  void Enqueue(PutOp* op) { owner_.QueueOf(*this).puts.push_back(op); }
  // Starts what a reactor has queued.
  void Flush(DiskQueue* queue);
  // Queues the clearings that failed once more.
  void RetryClears();

  // --- Tasks ---
  io::Task<Status> Read(Cell cell);
  // Syncs what was written since the last call.
  io::Task<Status> SyncIfDirty();
  io::Task<void> ProbeIfFailed();

  size_t writes_in_flight() const { return writes_in_flight_.load(std::memory_order_acquire); }
  size_t PolicyBytes();
  uint64_t SlotMapBytes();
  std::vector<ClassUse> ClassUses();
  uint64_t free_extents();

 private:
  // Called by space_, with mutex_ held.
  bool MayEvict(uint32_t owner) override;
  uint32_t UnitOf(uint32_t owner) override;
  Evicted Evict(uint32_t owner, uint32_t unit, uint64_t* id) override NO_THREAD_SAFETY_ANALYSIS;

  void QueueClear(const Cell& cell, Ref ref) REQUIRES(mutex_);
  io::Task<void> RunClears(std::shared_ptr<ClearBatch> batch);
  void FinishClears(const std::shared_ptr<ClearBatch>& batch, const Status& status);
  bool GiveBack(const PutOp& op, ClearItem* item) REQUIRES(mutex_);
  void EndClear(const ClearItem& item) REQUIRES(mutex_);
  void FailClear(ClearItem item) REQUIRES(mutex_);
  void ForgetRebinding() REQUIRES(mutex_);
  io::Task<void> WriteRun(std::vector<PutOp*> ops);
  io::Task<Status> WriteOnce(std::vector<PutOp*> ops);
  void NoteResult(const Status& status);
  void Count(const Cell& cell, bool added);  // of an object that came or went

  const DiskTierOptions options_;
  const SizeClasses classes_;
  std::unique_ptr<Media> media_;
  Index& index_;
  DiskOwner& owner_;
  Tenants& tenants_;
  StoreMetrics& metrics_;
  TouchQueue touches_;

  Mutex mutex_;
  Space space_ GUARDED_BY(mutex_);
  std::vector<std::shared_ptr<ClearBatch>> unfinished_ GUARDED_BY(mutex_);
  std::vector<ClearItem> failed_clears_ GUARDED_BY(mutex_);
  // Extents whose class changed while records in them were being cleared, with what to wait for.
  std::map<uint32_t, std::vector<std::shared_ptr<ClearBatch>>> rebinding_ GUARDED_BY(mutex_);
  // While mutex_ is held by Reserve or BeginClear: where clearings and evictions of the caller go.
  DiskQueue* current_queue_ GUARDED_BY(mutex_) = nullptr;
  std::vector<Gone>* current_gone_ GUARDED_BY(mutex_) = nullptr;

  std::atomic<uint64_t> used_bytes_{0};
  std::atomic<uint64_t> objects_{0};
  std::atomic<uint32_t> errors_in_a_row_{0};
  std::atomic<bool> failed_{false};
  // A predecessor that was killed may have left unsynced what it acknowledged: the first sync is never
  // skipped.
  std::atomic<bool> dirty_{true};
  std::atomic<size_t> writes_in_flight_{0};
};

}  // namespace dfkv::store
