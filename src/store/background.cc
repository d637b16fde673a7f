// What happens without a request: group syncs, reservations that run out, failed disks and clearings.
#include "base/fault.h"
#include "base/log.h"
#include "store/store_impl.h"

namespace dfkv::store {
namespace {

constexpr Nanos kCarePeriod = kSecond;  // of expiry, probes of failed disks and clearings tried again

}  // namespace

void StoreImpl::StartBackground(io::Reactor& reactor) {
  DFKV_CHECK(background_ == nullptr);
  background_ = &reactor;
  if (io::Reactor::Current() == &reactor) {
    Tick();
  } else {
    reactor.Post([this] { Tick(); });
  }
}

// Twice per sync_ms, so that an acknowledged PUT reaches the medium within it.
void StoreImpl::Tick() {
  ticked_ = true;
  if (stopping_.load(std::memory_order_acquire)) return;
  const Nanos period = std::max<Nanos>(Nanos{options_.sync_ms} * kMillisecond / 2, kMillisecond);
  const auto care_every = static_cast<uint64_t>(std::max<Nanos>(kCarePeriod / period, 1));
  const bool care = ++ticks_ % care_every == 0;
  if (care) ExpirePuts(background_->Now());
  for (const auto& disk : disks_) {
    tasks_in_flight_.fetch_add(care ? 2 : 1, std::memory_order_acq_rel);
    SyncDisk(disk.get()).Spawn();
    if (care) CareForDisk(disk.get()).Spawn();
  }
  timer_ = background_->AddTimer(background_->Now() + period, [this] { Tick(); });
}

io::Task<void> StoreImpl::SyncDisk(DiskTier* disk) {
  (void)co_await disk->SyncIfDirty();
  tasks_in_flight_.fetch_sub(1, std::memory_order_acq_rel);
}

io::Task<void> StoreImpl::CareForDisk(DiskTier* disk) {
  co_await disk->ProbeIfFailed();
  if (!disk->failed()) disk->RetryClears();
  tasks_in_flight_.fetch_sub(1, std::memory_order_acq_rel);
}

// A reservation that ran out is no longer found: another PUT of the key can begin. Its places stay taken
// until the ticket goes, since the payload may still be on its way into them.
void StoreImpl::ExpirePuts(Nanos now) {
  std::vector<Gone> expired;
  puts_.ForEach([&](const PutOp& op) {
    if (op.expires_at <= now) expired.push_back({op.ref, op.cell.generation});
  });
  for (const Gone& gone : expired) {
    IndexShard& shard = index_.ShardOf(gone.ref);
    MutexLock lock(shard.mutex);
    Descriptor& descriptor = shard.At(gone.ref);
    if (descriptor.state != Descriptor::State::kWriting || descriptor.generation != gone.generation) continue;
    PutOp* op = puts_.At(descriptor.disk_unit);
    if (op->phase != PutOp::Phase::kReserved) continue;
    DFKV_PROBE("put: a reservation expired");
    metrics_.put_expired.Add();
    op->doomed = op->expired = true;
    descriptor.state = Descriptor::State::kDoomed;
    op->waiters.Finish(Code::kTimeout);
  }
}

void StoreImpl::StopTicking() {
  if (timer_ != 0) background_->CancelTimer(timer_);
  timer_ = 0;
}

uint64_t StoreImpl::in_flight() const {
  uint64_t busy = tasks_in_flight_.load(std::memory_order_acquire);
  for (const auto& disk : disks_) busy += disk->writes_in_flight();
  return busy;
}

io::Task<Status> StoreImpl::Stop(Nanos deadline) {
  stopping_.store(true, std::memory_order_release);
  io::Reactor* reactor = io::Reactor::Current();
  if (background_ == reactor) {
    while (!ticked_) co_await reactor->Yield();
    StopTicking();
  } else if (background_ != nullptr) {
    auto stopped = std::make_shared<io::Event>();
    background_->Post([this, stopped] {
      StopTicking();
      stopped->Set();
    });
    co_await stopped->Wait();
  }
  // What was acknowledged from RAM alone is written; what was begun ends. Reservations without a commit are
  // their tickets' business.
  for (;;) {
    const Port& port = CurrentPort();
    if (in_flight() == 0 && !port.queued) break;
    if (reactor->Now() >= deadline) co_return Status(Code::kTimeout, "the store did not stop in time");
    const Nanos soon = reactor->Now() + kMillisecond / 4;
    co_await reactor->Until(soon);
  }
  Status result;
  for (const auto& disk : disks_) {
    const Status synced = co_await disk->SyncIfDirty();
    if (!synced.ok()) result = synced;
  }
  co_await EndRun();
  co_return result;
}

}  // namespace dfkv::store
