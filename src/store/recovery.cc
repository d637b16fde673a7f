// Start: locks and files of every disk, the arena, and what the slot tables say is stored.
#include <algorithm>
#include <bit>

#include "base/fault.h"
#include "base/log.h"
#include "base/text.h"
#include "store/file_media.h"
#include "store/slab_media.h"
#include "store/store_impl.h"

namespace dfkv::store {
namespace {

constexpr uint64_t kExtentBytesMin = 64 << 10;  // a choice; the default is at least 1 MiB on disk
constexpr uint64_t kExtentBytesMax = 64 << 20;

// Some 32 extents, so that several size classes find room, of 1 to 64 MiB.
uint64_t DefaultExtentBytes(uint64_t capacity_bytes) {
  return std::clamp<uint64_t>(std::bit_floor(capacity_bytes / 32), 1 << 20, kExtentBytesMax);
}

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
  region.populate = options_.populate;
  if (options_.populate) LogInfo("store: touching the ", FormatBytes(size), " of the RAM tier");
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

struct OpenedMedia {
  std::unique_ptr<Media> media;
  SizeClasses classes;
  uint32_t extents;
};

template <typename Kind, typename Options>
Result<OpenedMedia> OpenAs(io::Disk& disk, const Options& options) {
  auto opened = Kind::OpenBlocking(disk, options);
  if (!opened.ok()) return opened.status();
  const SizeClasses classes = (*opened)->classes();
  const uint32_t extents = (*opened)->extents();
  return OpenedMedia{std::move(*opened), classes, extents};
}

}  // namespace

Status StoreImpl::OpenDiskBlocking(io::Disk& disk, size_t i, uint64_t capacity_bytes) {
  const bool slab = options_.engine == EngineKind::kSlab;
  const uint64_t extent_bytes =
      options_.extent_bytes != 0 ? options_.extent_bytes : DefaultExtentBytes(capacity_bytes);
  const std::string& directory = options_.directories[i];
  auto media = slab ? OpenAs<SlabMedia>(disk, SlabOptions{directory, capacity_bytes, extent_bytes})
                    : OpenAs<FileMedia>(disk, FileOptions{directory, capacity_bytes, extent_bytes});
  if (!media.ok()) return media.status();
  DiskTierOptions tier;
  tier.number = static_cast<uint32_t>(disks_.size());
  tier.directory = directory;
  tier.weight = options_.disk_weights.empty() ? 1 : options_.disk_weights[i];
  tier.extents = media->extents;
  tier.merges = slab;
  tier.space.policy = options_.policy;
  tier.space.policy_bytes_per_object = options_.policy_bytes_per_object;
  const SizeClasses& classes = media->classes;
  const uint64_t used = uint64_t{tier.extents} * classes.extent_bytes();
  LogInfo(directory, slab ? ": slab of " : ": one file per object, ", FormatBytes(used), " in ", tier.extents,
          " extents of ", FormatBytes(classes.extent_bytes()),
          used < capacity_bytes ? Cat("; ", FormatBytes(capacity_bytes - used), " of the ",
                                      FormatBytes(capacity_bytes), " asked for make no whole extent")
                                : std::string());
  if (options_.extent_bytes != 0 && options_.extent_bytes != classes.extent_bytes()) {
    LogWarn(directory, ": keeps the extent size it was made with");
  }
  max_object_bytes_ = std::min(max_object_bytes_, classes.extent_bytes());
  DiskOwner& owner = *this;
  disks_.push_back(std::make_unique<DiskTier>(tier, std::move(media->media), classes, Parts(), owner));
  return Ok();
}

// A disk that does not open is left out, said once; the start is refused when none opens, or when the reason
// is one that the operator has to settle.
Status StoreImpl::OpenDisksBlocking(io::Disk& disk) {
  uint64_t weights = 0;
  for (size_t i = 0; i < options_.directories.size(); ++i) {
    weights += options_.disk_weights.empty() ? 1 : options_.disk_weights[i];
  }
  Status last;
  for (size_t i = 0; i < options_.directories.size(); ++i) {
    const uint64_t weight = options_.disk_weights.empty() ? 1 : options_.disk_weights[i];
    const auto share =
        static_cast<uint64_t>(static_cast<unsigned __int128>(options_.capacity_bytes) * weight / weights);
    const Status status = OpenDiskBlocking(disk, i, share);
    if (status.ok()) continue;
    if (!(status == Code::kIoError)) return status;
    DFKV_PROBE("recovery: a disk does not open");
    LogError(options_.directories[i], ": left out: ", status.ToString());
    last = status;
  }
  return disks_.empty() ? last : Ok();
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
  {
    MutexLock lock(shard.mutex);
    if (shard.Find(cell.key) != kNoRef) return kNoRef;
  }
  if (!disks_[found.disk]->Adopt(cell)) return kNoRef;
  MutexLock lock(shard.mutex);
  const Ref ref = shard.Add(cell.key);
  Descriptor& descriptor = shard.At(ref);
  descriptor.state = Descriptor::State::kCommitted;
  descriptor.generation = cell.generation;
  descriptor.length = cell.length;
  descriptor.crc = cell.crc;
  descriptor.depth = cell.depth;
  descriptor.disk_unit = cell.unit;
  descriptor.disk = static_cast<uint8_t>(found.disk);
  descriptor.Set(Descriptor::kRecorded);
  return ref;
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
  if (!found.empty()) generation_.store(found.front().cell.generation);
  std::vector<std::vector<Cell>> stale(disks_.size());
  std::vector<std::pair<Ref, size_t>> kept;
  kept.reserve(found.size());
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
    disks_[d]->SetCapacities();
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
  if (options_.engine != EngineKind::kRam) RecoverBlocking();
  RegisterGauges();
  RegisterTables();
  return Ok();
}

}  // namespace dfkv::store
