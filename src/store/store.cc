// Opening a store, its pins and tickets, and what it says about itself.
#include "store/store.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "base/text.h"
#include "store/store_impl.h"

namespace dfkv::store {
namespace {

constexpr size_t kTenantLabelsMax = 256;  // series of one metric; the help texts name it

}  // namespace

ReadPin::ReadPin(ReadPin&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)),
      handle_(other.handle_),
      bytes_(std::exchange(other.bytes_, {})),
      crc_(other.crc_) {}

ReadPin& ReadPin::operator=(ReadPin&& other) noexcept {
  if (this == &other) return *this;
  ReadPin old = std::move(*this);
  owner_ = std::exchange(other.owner_, nullptr);
  handle_ = other.handle_;
  bytes_ = std::exchange(other.bytes_, {});
  crc_ = other.crc_;
  return *this;
}

ReadPin::~ReadPin() {
  if (owner_ != nullptr) static_cast<StoreImpl*>(owner_)->ReleasePin(handle_);
}

PutTicket::PutTicket(PutTicket&& other) noexcept
    : owner_(std::exchange(other.owner_, nullptr)),
      handle_(other.handle_),
      buffer_(std::exchange(other.buffer_, {})) {}

PutTicket& PutTicket::operator=(PutTicket&& other) noexcept {
  if (this == &other) return *this;
  PutTicket old = std::move(*this);
  owner_ = std::exchange(other.owner_, nullptr);
  handle_ = other.handle_;
  buffer_ = std::exchange(other.buffer_, {});
  return *this;
}

PutTicket::~PutTicket() {
  if (owner_ != nullptr) static_cast<StoreImpl*>(owner_)->DropTicket(handle_);
}

Result<std::unique_ptr<Store>> Store::OpenBlocking(const StoreOptions& options, io::Disk& disk,
                                                   MetricRegistry& metrics) {
  auto store = std::make_unique<StoreImpl>(options, metrics);
  DFKV_RETURN_IF_ERROR(store->StartBlocking(disk));
  return std::unique_ptr<Store>(std::move(store));
}

// --- Ports ---

struct StoreImpl::PortGuard {
  std::shared_ptr<Port> port;
  ~PortGuard() { port->alive.store(false, std::memory_order_release); }
};

// For metric callbacks, which live as long as the registry.
struct StoreImpl::Vital {
  Mutex mutex;
  StoreImpl* store GUARDED_BY(mutex) = nullptr;
};

StoreImpl::StoreImpl(const StoreOptions& options, MetricRegistry& registry)
    : options_(options), registry_(registry), metrics_(registry), vital_(std::make_shared<Vital>()) {
  MutexLock lock(vital_->mutex);
  vital_->store = this;
}

StoreImpl::~StoreImpl() {
  {
    MutexLock lock(vital_->mutex);
    vital_->store = nullptr;
  }
  MutexLock lock(ports_mutex_);
  for (const std::shared_ptr<Port>& port : ports_owned_) {
    MutexLock port_lock(port->mutex);
    port->store = nullptr;
  }
}

void StoreImpl::Port::Flush() {
  const bool drains = drain == Drain::kDue;
  if (drain == Drain::kWanted) drain = Drain::kDue;
  if (!queued && !drains) return;
  MutexLock lock(mutex);
  if (store == nullptr) return;
  if (drains) {
    drain = Drain::kNone;
    store->DrainTouches();
  }
  if (!std::exchange(queued, false)) return;
  for (size_t i = 0; i < queues.size(); ++i) store->disks_[i]->Flush(&queues[i]);
}

StoreImpl::Port* StoreImpl::AddPort(io::Reactor* reactor) {
  auto port = std::make_shared<Port>();
  port->reactor = reactor;
  port->queues.resize(disks_.size());
  {
    MutexLock lock(port->mutex);
    port->store = this;
  }
  auto guard = std::make_shared<PortGuard>();
  guard->port = port;
  reactor->AddTurnHook([guard] { guard->port->Flush(); });
  MutexLock lock(ports_mutex_);
  ports_owned_.push_back(port);
  size_t slot = 0;
  const size_t used = ports_used_.load(std::memory_order_relaxed);
  while (slot < used && ports_[slot].load(std::memory_order_relaxed)->alive.load(std::memory_order_acquire)) {
    ++slot;
  }
  DFKV_CHECK(slot < kPortsMax);
  ports_[slot].store(port.get(), std::memory_order_release);
  if (slot == used) ports_used_.store(used + 1, std::memory_order_release);
  return port.get();
}

StoreImpl::Port& StoreImpl::CurrentPort() {
  io::Reactor* reactor = io::Reactor::Current();
  DFKV_CHECK(reactor != nullptr);  // store.h: functions are for reactor threads
  const size_t used = ports_used_.load(std::memory_order_acquire);
  for (size_t i = 0; i < used; ++i) {
    Port* port = ports_[i].load(std::memory_order_acquire);
    if (port->reactor == reactor && port->alive.load(std::memory_order_acquire)) return *port;
  }
  return *AddPort(reactor);
}

DiskQueue& StoreImpl::QueueOf(DiskTier& disk) {
  Port& port = CurrentPort();
  port.queued = true;
  return port.queues[disk.number()];
}

// --- What it says about itself ---

uint64_t StoreImpl::object_count() const {
  if (disks_.empty()) return ram_->objects();
  uint64_t count = 0;
  for (const auto& disk : disks_) count += disk->objects();
  return count;
}

bool StoreImpl::healthy() const {
  if (disks_.empty()) return true;
  for (const auto& disk : disks_) {
    if (!disk->failed()) return true;
  }
  return false;
}

uint64_t StoreImpl::IndexBytes() {
  uint64_t bytes = index_.MemoryBytes() + ram_->SlotMapBytes();
  for (const auto& disk : disks_) bytes += disk->SlotMapBytes();
  return bytes;
}

uint64_t StoreImpl::PolicyBytes() {
  uint64_t bytes = ram_->PolicyBytes();
  for (const auto& disk : disks_) bytes += disk->PolicyBytes();
  return bytes;
}

uint64_t StoreImpl::FreeExtents() {
  uint64_t extents = 0;
  for (const auto& disk : disks_) extents += disk->free_extents();
  return extents;
}

void StoreImpl::RegisterGauges() {
  const auto add = [&](const char* name, const char* help, Labels labels, double (*read)(StoreImpl&, size_t),
                       size_t i) {
    registry_.AddCallback(name, help, "gauge", std::move(labels), [vital = vital_, read, i] {
      MutexLock lock(vital->mutex);
      return vital->store == nullptr ? 0.0 : read(*vital->store, i);
    });
  };
  using S = StoreImpl;
  add(
      "dfkv_objects", "Objects stored.", {}, [](S& s, size_t) { return double(s.object_count()); }, 0);
  add(
      "dfkv_index_bytes", "Memory of the index and slot maps.", {},
      [](S& s, size_t) { return double(s.IndexBytes()); }, 0);
  add(
      "dfkv_policy_bytes", "Memory of the eviction policies.", {},
      [](S& s, size_t) { return double(s.PolicyBytes()); }, 0);
  add(
      "dfkv_put_inflight_bytes", "Bytes reserved by PUTs that have not committed.", {},
      [](S& s, size_t) { return double(s.put_inflight_bytes_.load()); }, 0);
  add(
      "dfkv_ram_arena_bytes", "Size of the RAM tier's arena.", {},
      [](S& s, size_t) { return double(s.ram_->capacity_bytes()); }, 0);
  add(
      "dfkv_ram_used_bytes", "Slots of the arena in use.", {},
      [](S& s, size_t) { return double(s.ram_->used_bytes()); }, 0);
  add(
      "dfkv_ram_objects", "Objects with a RAM copy.", {},
      [](S& s, size_t) { return double(s.ram_->objects()); }, 0);
  add(
      "dfkv_disks", "Disks configured.", {}, [](S& s, size_t) { return double(s.disks_.size()); }, 0);
  add(
      "dfkv_failed_disks", "Disks out of use after repeated errors.", {},
      [](S& s, size_t) {
        const auto failed = [](const auto& disk) { return disk->failed(); };
        return double(std::count_if(s.disks_.begin(), s.disks_.end(), failed));
      },
      0);
  add(
      "dfkv_storage_healthy", "1 unless every disk has failed.", {},
      [](S& s, size_t) { return s.healthy() ? 1.0 : 0.0; }, 0);
  add(
      "dfkv_capacity_bytes", "Size of all slabs.", {},
      [](S& s, size_t) {
        double bytes = s.disks_.empty() ? double(s.ram_->capacity_bytes()) : 0;
        for (const auto& disk : s.disks_) bytes += double(disk->capacity_bytes());
        return bytes;
      },
      0);
  add(
      "dfkv_used_bytes", "Slots of stored objects, all disks.", {},
      [](S& s, size_t) {
        double bytes = s.disks_.empty() ? double(s.ram_->used_bytes()) : 0;
        for (const auto& disk : s.disks_) bytes += double(disk->used_bytes());
        return bytes;
      },
      0);
  for (size_t i = 0; i < disks_.size(); ++i) {
    const Labels labels = {{"disk", disks_[i]->directory()}};
    add(
        "dfkv_disk_used_bytes", "Slots of stored objects.", labels,
        [](S& s, size_t d) { return double(s.disks_[d]->used_bytes()); }, i);
    add(
        "dfkv_disk_objects", "Objects stored.", labels,
        [](S& s, size_t d) { return double(s.disks_[d]->objects()); }, i);
    add(
        "dfkv_disk_failed", "1 while the disk is out of use.", labels,
        [](S& s, size_t d) { return s.disks_[d]->failed() ? 1.0 : 0.0; }, i);
  }
}

MetricRegistry::Collected StoreImpl::CollectTenants(uint64_t (*read)(const Tenants::Usage&)) {
  MetricRegistry::Collected series;
  Tenants::Usage rest;
  for (const Tenants::Usage& usage : tenants_.Largest(kTenantLabelsMax, &rest)) {
    series.push_back({{{"tenant_hash", Hex(usage.tenant.value(), 16)}}, static_cast<double>(read(usage))});
  }
  if (rest.objects > 0) series.push_back({{{"tenant_hash", "other"}}, static_cast<double>(read(rest))});
  return series;
}

// Classes of one slot size on all disks together; of the arena where there is no disk.
MetricRegistry::Collected StoreImpl::CollectClasses(uint64_t (*read)(const ClassUse&)) {
  std::map<uint64_t, uint64_t> sums;
  const auto add = [&](const std::vector<ClassUse>& uses) {
    for (const ClassUse& use : uses) sums[use.slot_bytes] += read(use);
  };
  if (disks_.empty()) add(ram_->ClassUses());
  for (const auto& disk : disks_) add(disk->ClassUses());
  MetricRegistry::Collected series;
  for (const auto& [slot_bytes, sum] : sums) {
    series.push_back({{{"slot_size", Cat(slot_bytes)}}, static_cast<double>(sum)});
  }
  return series;
}

void StoreImpl::RegisterTables() {
  using Collected = MetricRegistry::Collected;
  const auto add = [&](const char* name, const char* help, std::function<Collected(StoreImpl&)> collect) {
    registry_.AddCollector(name, help, "gauge", [vital = vital_, collect = std::move(collect)] {
      MutexLock lock(vital->mutex);
      return vital->store == nullptr ? Collected() : collect(*vital->store);
    });
  };
  using U = Tenants::Usage;
  add("dfkv_tenant_used_bytes", "Slots of a tenant's objects; beyond 256 tenants, the rest is `other`.",
      [](StoreImpl& s) { return s.CollectTenants([](const U& usage) { return usage.bytes; }); });
  add("dfkv_tenant_objects", "A tenant's objects; beyond 256 tenants, the rest is `other`.",
      [](StoreImpl& s) { return s.CollectTenants([](const U& usage) { return usage.objects; }); });
  using C = ClassUse;
  add("dfkv_class_extents", "Extents cut into slots of this size, without those that are being emptied.",
      [](StoreImpl& s) { return s.CollectClasses([](const C& use) { return use.extents; }); });
  add("dfkv_class_slots", "Slots of these extents.",
      [](StoreImpl& s) { return s.CollectClasses([](const C& use) { return use.slots; }); });
  add("dfkv_class_resident_objects", "Objects in slots of this size.",
      [](StoreImpl& s) { return s.CollectClasses([](const C& use) { return use.objects; }); });
  add("dfkv_class_allocated_bytes", "Slots of this size that hold an object.", [](StoreImpl& s) {
    return s.CollectClasses([](const C& use) { return use.objects * use.slot_bytes; });
  });
}

}  // namespace dfkv::store
