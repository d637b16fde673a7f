// What the eviction policies are told, and which disk a key goes to.
#include <cmath>

#include "store/store_impl.h"

namespace dfkv::store {
namespace {

evict::RequestKind KindOf(BatchKind kind) {
  switch (kind) {
    case BatchKind::kMatch:
      return evict::RequestKind::kMatch;
    case BatchKind::kPut:
      return evict::RequestKind::kPut;
    case BatchKind::kGet:
      break;
  }
  return evict::RequestKind::kGet;
}

constexpr size_t kPrefetchedKeys = 64;  // at once: their descriptors fit into the cache

struct Seen {
  uint64_t id = 0;
  Ref ref = kNoRef;
  uint32_t disk_unit = kNoUnit;
  uint32_t ram_unit = kNoUnit;
  uint32_t depth = UINT32_MAX;
  uint32_t length = 0;  // 0: absent and unknown
  uint8_t disk = kNoDisk;
};

// The length of an absent key is that of the nearest present one before it, else after it, else `otherwise`.
void FillLengths(std::vector<Seen>* seen, uint32_t otherwise) {
  uint32_t length = 0;
  for (const Seen& key : *seen) {
    if (length == 0) length = key.length;
  }
  if (length == 0) length = otherwise;
  for (Seen& key : *seen) {
    if (key.length == 0) {
      key.length = length;
    } else {
      length = key.length;
    }
  }
}

}  // namespace

// Weighted rendezvous: the disk with the greatest -weight / ln(hash) of those that work. Only what was on a
// disk that came or went changes its place; where an object is, the index knows.
DiskTier* StoreImpl::DiskFor(const ObjectKey& key) {
  if (disks_.size() == 1) return disks_[0]->failed() ? nullptr : disks_[0].get();
  const uint64_t hash = IndexShard::Hash(key);
  DiskTier* best = nullptr;
  double best_score = 0;
  for (const auto& disk : disks_) {
    if (disk->failed()) continue;
    const uint64_t mixed = Mix64(hash + disk->number() * 0x9E3779B97F4A7C15ull);
    const double unit = (static_cast<double>(mixed >> 11) + 0.5) * 0x1p-53;
    const double score = static_cast<double>(disk->weight()) / -std::log(unit);
    if (best == nullptr || score > best_score) {
      best = disk.get();
      best_score = score;
    }
  }
  return best;
}

// Of a batch, memory is waited for once, not once for every key.
void StoreImpl::PrefetchKeys(std::span<const ObjectKey> keys) {
  if (keys.size() < 4) return;
  for (const ObjectKey& key : keys) {
    IndexShard& shard = index_.ShardOf(key);
    MutexLock lock(shard.mutex);
    shard.PrefetchBucket(key);
  }
  for (const ObjectKey& key : keys) {
    IndexShard& shard = index_.ShardOf(key);
    MutexLock lock(shard.mutex);
    shard.PrefetchFirst(key);
  }
}

void StoreImpl::NoteBatch(BatchKind kind, std::span<const ObjectKey> keys,
                          std::span<const uint64_t> lengths) {
  if (keys.empty()) return;
  thread_local std::vector<Seen> seen;
  thread_local std::vector<Touch> chain;
  seen.clear();
  for (size_t i = 0; i < keys.size(); ++i) {
    if (i % kPrefetchedKeys == 0) PrefetchKeys(keys.subspan(i, std::min(kPrefetchedKeys, keys.size() - i)));
    const ObjectKey& key = keys[i];
    Seen entry;
    entry.id = HashOf(key);
    const uint64_t told = seen.size() < lengths.size() ? lengths[seen.size()] : 0;
    if (told <= max_object_bytes_) entry.length = static_cast<uint32_t>(told);
    IndexShard& shard = index_.ShardOf(key);
    MutexLock lock(shard.mutex);
    const Ref ref = shard.Find(key);
    if (ref != kNoRef && shard.At(ref).length <= ram_->classes().extent_bytes()) {
      const Descriptor& descriptor = shard.At(ref);
      entry.ref = ref;
      entry.length = descriptor.length;
      entry.depth = descriptor.depth;
      if (descriptor.state == Descriptor::State::kCommitted) {
        entry.disk_unit = descriptor.disk_unit;
        entry.disk = descriptor.disk;
      }
      if (descriptor.in_ram()) entry.ram_unit = descriptor.ram_unit;
    }
    seen.push_back(entry);
  }
  const size_t tenant = keys[0].tenant.value() % last_length_.size();
  FillLengths(&seen, last_length_[tenant].load(std::memory_order_relaxed));
  if (seen[0].length == 0) return;  // nothing is known about this tenant: no class to report it to
  const uint64_t now = batches_.fetch_add(1, std::memory_order_relaxed) + 1;
  chain.clear();
  for (const Seen& key : seen) {
    const uint32_t owner = key.ram_unit == kNoUnit ? kNoOwner : key.ref;
    chain.push_back({key.id, owner, key.ram_unit, key.depth, ram_->classes().ClassOf(key.length)});
  }
  bool drain = ram_->NoteTouches(KindOf(kind), now, chain);
  for (const auto& disk : disks_) {
    chain.clear();
    for (size_t i = 0; i < seen.size(); ++i) {
      const Seen& key = seen[i];
      const DiskTier* its = key.disk != kNoDisk ? disks_[key.disk].get() : DiskFor(keys[i]);
      if (its != disk.get() || key.length > disk->classes().extent_bytes()) continue;
      const uint32_t owner = key.disk_unit == kNoUnit ? kNoOwner : key.ref;
      chain.push_back({key.id, owner, key.disk_unit, key.depth, disk->classes().ClassOf(key.length)});
    }
    if (!chain.empty()) drain |= disk->NoteTouches(KindOf(kind), now, chain);
  }
  if (!drain) return;
  Drain& state = CurrentPort().drain;
  if (state == Drain::kNone) state = Drain::kWanted;
}

void StoreImpl::DrainTouches() {
  ram_->DrainTouches();
  for (const auto& disk : disks_) disk->DrainTouches();
}

}  // namespace dfkv::store
