// Start: opens the disks, and takes them into this run of the store.
//
// What an operator has to settle refuses the start and names the directory: no space, a lock, a foreign
// format, a wrong size. A disk that answers with I/O errors is left out, said once, while another one opens.
#include <algorithm>
#include <bit>

#include "base/fault.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "store/file_media.h"
#include "store/slab_media.h"
#include "store/store_impl.h"

namespace dfkv::store {
namespace {

constexpr uint64_t kExtentBytesMax = 64 << 20;  // of a new directory

// Some 32 extents, so that several size classes find room, of 1 to 64 MiB.
uint64_t DefaultExtentBytes(uint64_t capacity_bytes) {
  return std::clamp<uint64_t>(std::bit_floor(capacity_bytes / 32), 1 << 20, kExtentBytesMax);
}

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

struct StoreImpl::OpenedDisk {
  size_t i = 0;  // in the options
  uint64_t capacity_bytes = 0;
  OpenedMedia media;
  std::unique_ptr<RunsFile> runs;
};

Result<StoreImpl::OpenedDisk> StoreImpl::OpenDiskBlocking(io::Disk& disk, size_t i,
                                                          uint64_t capacity_bytes) const {
  const bool slab = options_.engine == EngineKind::kSlab;
  const uint64_t extent_bytes =
      options_.extent_bytes != 0 ? options_.extent_bytes : DefaultExtentBytes(capacity_bytes);
  const std::string& directory = options_.directories[i];
  auto media = slab ? OpenAs<SlabMedia>(disk, MediaOptions{directory, capacity_bytes, extent_bytes})
                    : OpenAs<FileMedia>(disk, MediaOptions{directory, capacity_bytes, extent_bytes});
  if (!media.ok()) return media.status();
  auto runs = RunsFile::OpenBlocking(disk, directory);
  if (!runs.ok()) return runs.status();
  return OpenedDisk{i, capacity_bytes, std::move(*media), std::move(*runs)};
}

void StoreImpl::AddDisk(OpenedDisk opened) {
  const bool slab = options_.engine == EngineKind::kSlab;
  DiskTierOptions tier;
  tier.number = static_cast<uint32_t>(disks_.size());
  tier.directory = options_.directories[opened.i];
  tier.weight = WeightOf(opened.i);
  tier.extents = opened.media.extents;
  tier.merges = slab;
  tier.space.policy = options_.policy;
  tier.space.policy_bytes_per_object = options_.policy_bytes_per_object;
  const SizeClasses& classes = opened.media.classes;
  const uint64_t used = uint64_t{tier.extents} * classes.extent_bytes();
  LogInfo(tier.directory, slab ? ": slab of " : ": one file per object, ", FormatBytes(used), " in ",
          tier.extents, " extents of ", FormatBytes(classes.extent_bytes()),
          used < opened.capacity_bytes
              ? Cat("; ", FormatBytes(opened.capacity_bytes - used), " of the ",
                    FormatBytes(opened.capacity_bytes), " asked for make no whole extent")
              : std::string());
  if (options_.extent_bytes != 0 && options_.extent_bytes != classes.extent_bytes()) {
    LogWarn(tier.directory, ": keeps the extent size it was made with");
  }
  max_object_bytes_ = std::min(max_object_bytes_, classes.extent_bytes());
  DiskOwner& owner = *this;
  disks_.push_back(std::make_unique<DiskTier>(tier, std::move(opened.media.media), classes, Parts(), owner));
  runs_.push_back(std::move(opened.runs));
}

namespace {

// Drops what a disk holds that may have been removed while it was away.
Status EmptyBlocking(Media& media, const std::string& directory) {
  std::vector<Cell> cells;
  const RecoveryCounts counts = media.RecoverBlocking([&](const Cell& cell) { cells.push_back(cell); });
  if (counts.unreadable > 0) {
    return {Code::kIoError, Cat(directory, ": may hold removed objects, and not all of it can be read")};
  }
  if (cells.empty()) return Ok();
  DFKV_PROBE("disks: one that was away is emptied");
  LogWarn(directory, ": was not there in a run of this store that may have removed objects: its ",
          cells.size(), " objects are dropped");
  return media.ClearBlocking(cells);
}

}  // namespace

// Empties the disks that missed a removing run and numbers this run in all of them. First the number alone,
// in every directory, and only then that this run may remove: a start that dies in between makes no directory
// look as if it had missed something. A disk that fails meanwhile is left out, and since it may have got the
// number all the same, the others take the next one.
Status StoreImpl::JoinRunBlocking(std::vector<OpenedDisk>* opened) {
  std::vector<RunMark> marks;
  for (const OpenedDisk& disk : *opened) marks.push_back(disk.runs->found());
  const RunPlan plan = PlanRun(marks);
  run_ = {plan.store, plan.last_run, plan.removing_run};
  if (run_.store == Salt{}) Random(SeedFromSystem()).Fill(run_.store);
  const auto leave_out = [&](size_t at, const Status& status) {
    DFKV_PROBE("disks: one fails while it joins the run");
    LogError(options_.directories[(*opened)[at].i], ": left out: ", status.ToString());
    opened->erase(opened->begin() + static_cast<ptrdiff_t>(at));
  };
  Status status;
  for (size_t at = opened->size(); at-- > 0;) {
    const OpenedDisk& disk = (*opened)[at];
    if (plan.believed[at]) continue;
    status = EmptyBlocking(*disk.media.media, options_.directories[disk.i]);
    if (!status.ok()) leave_out(at, status);
  }
  for (bool joined = false; !joined && !opened->empty();) {
    joined = true;
    ++run_.run;
    for (size_t at = opened->size(); at-- > 0;) {
      status = (*opened)[at].runs->WriteBlocking(run_);
      if (status == Code::kNoSpace)
        return {status.code(), Cat(options_.directories[(*opened)[at].i], ": ", status.message())};
      if (status.ok()) continue;
      leave_out(at, status);
      joined = false;
    }
  }
  if (opened->empty()) return status;
  RunMark removing = run_;
  removing.removing_run = run_.run;
  for (const OpenedDisk& disk : *opened) DFKV_RETURN_IF_ERROR(disk.runs->WriteBlocking(removing));
  return Ok();
}

Status StoreImpl::OpenDisksBlocking(io::Disk& disk) {
  const size_t count = options_.directories.size();
  uint64_t weights = 0;
  for (size_t i = 0; i < count; ++i) weights += WeightOf(i);
  std::vector<OpenedDisk> opened;
  std::vector<std::pair<size_t, Status>> left_out;
  for (size_t i = 0; i < count; ++i) {
    const auto share = static_cast<uint64_t>(static_cast<unsigned __int128>(options_.capacity_bytes) *
                                             WeightOf(i) / weights);
    auto one = OpenDiskBlocking(disk, i, share);
    if (one.ok()) {
      opened.push_back(std::move(*one));
      continue;
    }
    if (!(one.status() == Code::kIoError)) return one.status();
    DFKV_PROBE("recovery: a disk does not open");
    left_out.emplace_back(i, one.status());
  }
  if (opened.empty()) return left_out.front().second;
  for (const auto& [i, status] : left_out) {
    LogError(options_.directories[i], ": left out: ", status.ToString());
  }
  DFKV_RETURN_IF_ERROR(JoinRunBlocking(&opened));
  for (OpenedDisk& one : opened) AddDisk(std::move(one));
  return Ok();
}

// After an orderly stop of a run without REMOVE a disk that was away in it has missed nothing.
io::Task<void> StoreImpl::EndRun() {
  if (removed_.load(std::memory_order_relaxed)) co_return;
  for (const auto& runs : runs_) {
    const Status status = co_await runs->Write(run_);
    if (!status.ok()) LogWarn("the end of this run could not be noted: ", status.ToString());
  }
}

}  // namespace dfkv::store
