// Start: locks and files of every disk, the arena, and what the slot tables say is stored.
#include <algorithm>
#include <bit>

#include "base/fault.h"
#include "base/log.h"
#include "base/sync.h"
#include "base/text.h"
#include "store/store_impl.h"

namespace dfkv::store {
namespace {

constexpr uint64_t kExtentBytesMin = 64 << 10;  // a choice; the default is at least 1 MiB on disk
constexpr uint64_t kExtentBytesMax = 64 << 20;

constexpr uint64_t kArenaExtents = 16;  // at least

uint64_t ArenaExtentBytes(uint64_t ram_bytes) {
  return std::clamp<uint64_t>(std::bit_floor(ram_bytes / kArenaExtents), kExtentBytesMin, kExtentBytesMax);
}

Status CheckOptions(const StoreOptions& options) {
  const auto invalid = [](std::string text) { return Status(Code::kInvalid, std::move(text)); };
  const bool ram_only = options.engine == EngineKind::kRam;
  if (options.ram_bytes < kExtentBytesMin) {
    return invalid(Cat("the RAM tier needs at least ", FormatBytes(kExtentBytesMin),
                       ": every payload passes through it"));
  }
  if (ram_only != options.directories.empty()) {
    return invalid(ram_only ? "the ram engine has no directories" : "at least one directory is needed");
  }
  if (options.directories.size() >= kNoDisk) return invalid("too many directories");
  if (!options.disk_weights.empty() && options.disk_weights.size() != options.directories.size()) {
    return invalid("one weight per directory, or none");
  }
  if (std::count(options.disk_weights.begin(), options.disk_weights.end(), 0u) > 0) {
    return invalid("a disk's weight is at least 1");
  }
  const bool power = std::has_single_bit(options.extent_bytes);
  if (options.extent_bytes != 0 &&
      (!power || options.extent_bytes < kExtentBytesMin || options.extent_bytes > kExtentBytesMax)) {
    return invalid(Cat("an extent is a power of two from ", FormatBytes(kExtentBytesMin), " to ",
                       FormatBytes(kExtentBytesMax)));
  }
  if (options.max_object_bytes == 0) return invalid("max_object_bytes is 0");
  for (const std::string& policy : {options.policy, options.ram_policy}) {
    const auto made = evict::MakePolicy(policy, {});
    if (!made.ok()) return made.status();
  }
  return Ok();
}

}  // namespace

// A record that survived, with the disk it is on.
struct StoreImpl::Found {
  Cell cell;
  uint32_t disk = 0;
};

Status StoreImpl::OpenArena() {
  const uint64_t extent_bytes = ArenaExtentBytes(options_.ram_bytes);
  const uint64_t size = AlignDown(options_.ram_bytes, extent_bytes);
  io::RegionOptions region;
  region.populate = false;  // StartBlocking does, beside the recovery
  auto arena = io::Region::Make("dfkv-arena", size, region);
  if (!arena.ok()) return arena.status();
  SpaceOptions space;
  const bool only = options_.engine == EngineKind::kRam;
  space.policy = only ? options_.policy : options_.ram_policy;
  space.policy_bytes_per_object = options_.policy_bytes_per_object;
  ram_ = std::make_unique<RamTier>(std::move(*arena), SizeClasses(extent_bytes), space, only, Parts());
  max_object_bytes_ = std::min(max_object_bytes_, extent_bytes);
  return Ok();
}

namespace {

struct Summary {
  uint64_t objects = 0;
  uint64_t superseded = 0;
  uint64_t too_large = 0;  // for the arena
  uint64_t largest = 0;    // of these
  RecoveryCounts counts;
};

void LogSummary(const std::string& directory, bool slab, const RecoveryCounts& counts) {
  if (counts.corrupt > 0 || counts.unreadable > 0) {
    LogWarn(directory, ": ", counts.corrupt, " records were not valid in their place and ", counts.unreadable,
            slab ? " blocks of the slot table" : " files or folders of objects",
            " could not be read; the rest is served");
  }
}

}  // namespace

// A descriptor for it; kNoRef when its key, its slot or its extent is a newer one's.
Ref StoreImpl::AddFound(const Found& found) {
  const Cell& cell = found.cell;
  IndexShard& shard = index_.ShardOf(cell.key);
  Ref ref = kNoRef;
  {
    MutexLock lock(shard.mutex);
    if (shard.Find(cell.key) != kNoRef) return kNoRef;
    ref = shard.Add(cell.key);
    Descriptor& descriptor = shard.At(ref);
    descriptor.state = Descriptor::State::kCommitted;
    descriptor.generation = cell.generation;
    descriptor.length = cell.length;
    descriptor.crc = cell.crc;
    descriptor.depth = cell.depth;
    descriptor.disk_unit = cell.unit;
    descriptor.disk = static_cast<uint8_t>(found.disk);
    descriptor.Set(Descriptor::kRecorded);
  }
  if (disks_[found.disk]->Adopt(cell)) return ref;
  MutexLock lock(shard.mutex);
  shard.Free(ref);
  return kNoRef;
}

void StoreImpl::RecoverBlocking() {
  std::vector<Found> found;
  Summary summary;
  for (uint32_t d = 0; d < disks_.size(); ++d) {
    const RecoveryCounts counts = disks_[d]->RecoverBlocking([&](const Cell& cell) {
      found.push_back({cell, d});
    });
    LogSummary(disks_[d]->directory(), options_.engine == EngineKind::kSlab, counts);
    summary.counts.corrupt += counts.corrupt;
    summary.counts.scanned_bytes += counts.scanned_bytes;
  }
  // Newest first: it takes its extent's class, its slot and its key; what does not fit beside it is stale.
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.cell.generation > b.cell.generation; });
  // A disk that is away may hold higher generations than those found here: none is given twice.
  const uint64_t newest = found.empty() ? 0 : found.front().cell.generation;
  generation_.store(std::max(newest, run_.run * kRunGenerations) + kRunGenerations);
  std::vector<std::vector<Cell>> stale(disks_.size());
  std::vector<std::pair<Ref, size_t>> kept;
  kept.reserve(found.size());
  index_.Reserve(found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    const Ref ref = AddFound(found[i]);
    if (ref == kNoRef) {
      stale[found[i].disk].push_back(found[i].cell);
      continue;
    }
    kept.push_back({ref, i});
    if (found[i].cell.length > ram_->classes().extent_bytes()) {
      ++summary.too_large;
      summary.largest = std::max<uint64_t>(summary.largest, found[i].cell.length);
    }
  }
  for (size_t d = 0; d < disks_.size(); ++d) {
    summary.superseded += stale[d].size();
    const Status cleared = disks_[d]->ClearBlocking(stale[d]);
    if (!cleared.ok()) {
      LogError(disks_[d]->directory(), ": stale records could not be cleared: ", cleared.ToString());
    }
    disks_[d]->EndAdopting();
  }
  for (auto entry = kept.rbegin(); entry != kept.rend(); ++entry) {  // oldest first, for the policies
    const Found& object = found[entry->second];
    disks_[object.disk]->CommitAdopted(object.cell, entry->first);
  }
  metrics_.rebuilt_objects.Set(static_cast<int64_t>(kept.size()));
  metrics_.rebuild_corrupt.Set(static_cast<int64_t>(summary.counts.corrupt));
  metrics_.rebuild_rejected.Set(static_cast<int64_t>(summary.superseded));
  metrics_.rebuild_scanned_bytes.Set(static_cast<int64_t>(summary.counts.scanned_bytes));
  LogInfo("store: ", kept.size(), " objects found, ", summary.superseded, " superseded records cleared");
  if (summary.too_large > 0) {
    LogWarn("store: ", summary.too_large, " objects of up to ", FormatBytes(summary.largest),
            " are kept but not served: a RAM tier of this size takes objects of up to ",
            FormatBytes(ram_->classes().extent_bytes()), "; it would take ",
            FormatBytes(kArenaExtents * std::bit_ceil(summary.largest)));
  }
}

Status StoreImpl::StartBlocking(io::Disk& disk) {
  DFKV_RETURN_IF_ERROR(CheckOptions(options_));
  max_object_bytes_ = options_.max_object_bytes;
  // The disks first: what an operator got wrong (a directory in use, a full filesystem) is said before the
  // arena's pages are touched, which takes seconds.
  if (options_.engine != EngineKind::kRam) DFKV_RETURN_IF_ERROR(OpenDisksBlocking(disk));
  DFKV_RETURN_IF_ERROR(OpenArena());
  if (max_object_bytes_ < options_.max_object_bytes) {
    LogInfo("store: the largest object is ", FormatBytes(max_object_bytes_), " rather than ",
            FormatBytes(options_.max_object_bytes), ": it has to fit an extent of disk and RAM tier");
  }
  Status populated;
  if (options_.populate)
    LogInfo("store: touching the ", FormatBytes(ram_->capacity_bytes()), " of the RAM tier");
  {
    Thread toucher;  // joined at the end of this block
    if (options_.populate) toucher = Thread("dfkv-touch", [&] { populated = ram_->PopulateBlocking(); });
    if (options_.engine != EngineKind::kRam) RecoverBlocking();
  }
  DFKV_RETURN_IF_ERROR(populated);
  RegisterGauges();
  RegisterTables();
  return Ok();
}

}  // namespace dfkv::store
