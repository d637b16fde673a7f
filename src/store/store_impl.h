// StoreImpl: the one implementation of Store. It joins the index, the arena and the disks; the engines differ
// in the media of their disks, or have none.
//
// put.cc, get.cc, remove.cc and background.cc hold the operations, recovery.cc the start.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "store/disk_tier.h"
#include "store/index.h"
#include "store/metrics.h"
#include "store/ops.h"
#include "store/ram_tier.h"
#include "store/runs_file.h"
#include "store/store.h"
#include "store/tenants.h"

namespace dfkv::store {

class StoreImpl final : public Store, private DiskOwner {
 public:
  StoreImpl(const StoreOptions& options, MetricRegistry& registry);
  ~StoreImpl() override;

  // Start: the arena, then the disks, then what they hold.
  Status StartBlocking(io::Disk& disk);

  using Store::NoteBatch;
  void NoteBatch(BatchKind kind, std::span<const ObjectKey> keys, std::span<const uint64_t> lengths) override;
  Result<uint64_t> Length(const ObjectKey& key) override;
  Lookup TryGet(const ObjectKey& key, ReadPin* pin) override;
  PutStart BeginPut(const PutRequest& request) override;
  io::Task<Result<ReadPin>> Get(ObjectKey key, Nanos deadline) override;
  io::Task<Status> CommitPut(PutTicket ticket, bool crc_verified, Nanos deadline) override;
  io::Task<Status> JoinPut(ObjectKey key, Nanos deadline) override;
  io::Task<Status> Remove(ObjectKey key, Nanos deadline) override;
  void StartBackground(io::Reactor& reactor) override;
  io::Task<Status> Stop(Nanos deadline) override;
  uint64_t max_object_bytes() const override { return max_object_bytes_; }
  uint64_t object_count() const override;
  bool healthy() const override;

  void ReleasePin(uint64_t handle);
  void DropTicket(uint64_t handle);

  // For tests and metrics.
  uint64_t IndexBytes();  // index and slot maps, without the policies
  uint64_t PolicyBytes();
  uint64_t FreeExtents();      // of all disks
  uint64_t in_flight() const;  // reads, writes and clearings that have begun and not ended

 private:
  // Of the touches that wait for the policies. It happens a round of hooks after it was asked for: once the
  // answers of the turn have been sent, wherever their hook stands, so that no answer waits for it.
  enum class Drain : uint8_t { kNone, kWanted, kDue };
  // What one reactor has queued; flushed by a hook at the end of its turn.
  struct Port {
    io::Reactor* reactor = nullptr;
    std::atomic<bool> alive{true};  // false: the reactor is gone
    bool queued = false;            // the reactor's own
    Drain drain = Drain::kNone;     // the reactor's own
    std::vector<DiskQueue> queues;  // one per disk; the reactor's own
    Mutex mutex;                    // against the store's end during a flush
    StoreImpl* store GUARDED_BY(mutex) = nullptr;
    void Flush();
  };
  struct PortGuard;
  static constexpr size_t kPortsMax = 256;
  Port& CurrentPort();
  Port* AddPort(io::Reactor* reactor);

  // --- start: disks.cc ---
  struct OpenedDisk;
  Status OpenDisksBlocking(io::Disk& disk);
  Result<OpenedDisk> OpenDiskBlocking(io::Disk& disk, size_t i, uint64_t capacity_bytes) const;
  Status JoinRunBlocking(std::vector<OpenedDisk>* opened);
  void AddDisk(OpenedDisk opened);
  uint32_t WeightOf(size_t i) const { return options_.disk_weights.empty() ? 1 : options_.disk_weights[i]; }
  io::Task<void> EndRun();

  // --- start: recovery.cc ---
  static constexpr uint64_t kRunGenerations = uint64_t{1} << 32;
  struct Found;
  Status OpenArena();
  Ref AddFound(const Found& found);
  void RecoverBlocking();
  void RegisterGauges();
  void RegisterTables();
  TierParts Parts() { return {index_, tenants_, metrics_}; }

  // --- DiskOwner ---
  bool MayRecord(PutOp* op) override;
  void OnWritten(const std::vector<PutOp*>& ops, const Status& status) override;
  DiskQueue& QueueOf(DiskTier& disk) override;

  // A committed object that became a ghost and whose slot is still to be given up.
  struct Doomed {
    Cell cell;
    Ref ref = kNoRef;
    DiskTier* disk = nullptr;  // null: it is on no disk
  };
  Doomed DoomedOf(const Descriptor& descriptor, Ref ref);
  std::shared_ptr<ClearBatch> ClearDoomed(const Doomed& doomed);

  // --- put.cc ---
  bool TakeInflight(uint64_t bytes);
  PutOp* AddPut(const PutRequest& request, PutStart* start, Doomed* unreachable);
  Status ReservePut(PutOp* op);
  void AbandonPut(PutOp* op, const Status& status);
  void FinishRecorded(PutOp* op, const Status& status);
  io::Task<void> FinishAfterClear(PutOp* op, std::shared_ptr<ClearBatch> batch, Status status);
  bool InstallPut(PutOp* op, bool visible);
  bool PublishPut(PutOp* op);
  void CommitInRam(PutOp* op);
  void FreePut(PutOp* op);
  void DropRamCopies(const std::vector<Gone>& gone, evict::EraseReason reason);

  // --- get.cc ---
  bool Reachable(const Descriptor& descriptor) const;
  void Pin(const Descriptor& descriptor, Ref ref, ReadPin* pin);
  io::Task<void> ReadObject(ReadOp* op);
  void FinishRead(ReadOp* op, uint32_t unit);
  void FailRead(ReadOp* op, Status status);

  // --- remove.cc ---
  bool DoomAll(const ObjectKey& key, uint64_t newest, Waiter* waiter, PutOp** awaited,
               std::vector<Doomed>* doomed);
  io::Task<Status> AwaitCleared(ObjectKey key, Nanos deadline);
  io::Task<bool> AwaitBatch(std::shared_ptr<ClearBatch> batch, Nanos deadline);

  // --- touch.cc ---
  void PrefetchKeys(std::span<const ObjectKey> keys);
  void DrainTouches();
  DiskTier* DiskFor(const ObjectKey& key);

  // --- background.cc ---
  void Tick();
  io::Task<void> SyncDisk(DiskTier* disk);
  io::Task<void> CareForDisk(DiskTier* disk);
  void ExpirePuts(Nanos now);
  void StopTicking();

  StoreOptions options_;
  uint64_t max_object_bytes_ = 0;
  MetricRegistry& registry_;
  StoreMetrics metrics_;
  Index index_;
  Tenants tenants_;
  OpTable<PutOp> puts_;
  OpTable<ReadOp> reads_;
  std::unique_ptr<RamTier> ram_;
  std::vector<std::unique_ptr<DiskTier>> disks_;
  std::vector<std::unique_ptr<RunsFile>> runs_;  // of disks_
  RunMark run_;                                  // this one, and the last before it that removed
  std::atomic<bool> removed_{false};             // in this run
  std::atomic<uint64_t> generation_{0};
  std::atomic<uint64_t> put_inflight_bytes_{0};
  std::atomic<uint64_t> batches_{0};
  std::atomic<uint64_t> tasks_in_flight_{0};             // spawned reads and finishes
  std::array<std::atomic<uint32_t>, 64> last_length_{};  // of a tenant's last PUT, by hash of the tenant
  std::atomic<uint64_t> corrupt_logged_{0};

  Mutex ports_mutex_;
  std::vector<std::shared_ptr<Port>> ports_owned_ GUARDED_BY(ports_mutex_);
  std::array<std::atomic<Port*>, kPortsMax> ports_{};
  std::atomic<size_t> ports_used_{0};

  // Background; of its reactor's thread.
  io::Reactor* background_ = nullptr;
  uint64_t timer_ = 0;
  uint64_t ticks_ = 0;
  bool ticked_ = false;
  std::atomic<bool> stopping_{false};

  struct Vital;  // lets a metric's callback outlive the store
  MetricRegistry::Collected CollectTenants(uint64_t (*read)(const Tenants::Usage&));
  MetricRegistry::Collected CollectClasses(uint64_t (*read)(const ClassUse&));
  std::shared_ptr<Vital> vital_;
};

}  // namespace dfkv::store
