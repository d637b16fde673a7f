#include "io/disk_sim.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <list>
#include <map>
#include <set>

#include "base/random.h"
#include "base/sync.h"
#include "base/text.h"
#include "io/sim_inode.h"

namespace dfkv::io {
namespace {

constexpr int64_t kHangs = INT64_MIN;  // as a result: the op does not end

std::string Normal(const std::string& path) {
  const bool plain = path.size() > 1 && path[0] == '/' && path.back() != '/' &&
                     path.find("//") == std::string::npos && path.find("/.") == std::string::npos;
  if (plain) return path;
  std::string normal = std::filesystem::path(path).lexically_normal().string();
  while (normal.size() > 1 && normal.back() == '/') normal.pop_back();
  return normal.empty() ? "." : normal;
}
std::string ParentOf(const std::string& normal) {
  const size_t slash = normal.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : normal.substr(0, slash);
}

Status Failure(const std::string& path, std::string_view what, int error) {
  const Code code = error == ENOENT ? Code::kNotFound : error == ENOSPC ? Code::kNoSpace : Code::kIoError;
  return Status(code, Cat(path, ": ", what, ": ", ErrnoText(error), " (simulated)"));
}

// Where in its file a transfer goes, and from or to which memory.
struct Transfer {
  Op::Kind kind = Op::Kind::kRead;
  uint64_t offset = 0;
  const iovec* iov = nullptr;
  uint32_t iov_count = 0;
  bool direct = false;
  uint64_t life = 0;         // of the process that opened the file
  uint64_t submit_time = 0;  // a sync covers what was written before

  uint64_t size() const {
    uint64_t size = 0;
    for (uint32_t i = 0; i < iov_count; ++i) size += iov[i].iov_len;
    return size;
  }
  bool IsAligned() const {
    uint64_t bits = offset;
    for (uint32_t i = 0; i < iov_count; ++i) {
      bits |= reinterpret_cast<uintptr_t>(iov[i].iov_base) | iov[i].iov_len;
    }
    return bits % kDiskBlock == 0;
  }
};

}  // namespace

struct SimDisk::Medium {
  struct InFlight {
    Reactor* reactor;
    Op* op;
    std::shared_ptr<SimInode> inode;
    Transfer transfer;
  };
  struct NthFault {
    uint64_t at;  // the count of ops of that kind at which it strikes
    int error;
  };

  explicit Medium(const SimDiskOptions& options_in) : options(options_in), random(options.seed) {
    directories = {"/", "."};
  }

  int64_t Run(SimInode* inode, const Transfer& transfer) REQUIRES(mutex);
  int64_t Faults(SimInode* inode, const Transfer& transfer) REQUIRES(mutex);
  int64_t Read(const SimInode& inode, const Transfer& transfer) REQUIRES(mutex);
  int64_t Write(SimInode* inode, const Transfer& transfer) REQUIRES(mutex);
  void Tear(SimInode* inode, const Transfer& transfer) REQUIRES(mutex);
  uint64_t Shortened(uint64_t size) REQUIRES(mutex);
  int CheckAlive(uint64_t of_life) const REQUIRES(mutex) { return crash_stands || of_life != life ? EIO : 0; }
  bool Chance(double chance) REQUIRES(mutex) { return chance > 0 && random.Unit() < chance; }
  Nanos Delay() REQUIRES(mutex);
  PowerCut ChooseCut() REQUIRES(mutex);
  void StrikeInFlight() REQUIRES(mutex);
  uint64_t Available() const REQUIRES(mutex) {
    const uint64_t used = used_blocks * kDiskBlock;
    return options.capacity > used ? options.capacity - used : 0;
  }
  void EndDelayed(std::list<InFlight>::iterator it);
  int ChangeName(const std::string& name, const std::shared_ptr<SimInode>& inode, bool durable)
      REQUIRES(mutex);
  void SetName(const std::string& name, const std::shared_ptr<SimInode>& inode) REQUIRES(mutex);
  void CountRemoved(SimInode* inode) REQUIRES(mutex);
  void LoseNames(const PowerCut& cut) REQUIRES(mutex);
  bool StandsNow() REQUIRES(mutex) { return ++changes == crash_at_change; }

  const SimDiskOptions options;
  mutable Mutex mutex;
  Random random GUARDED_BY(mutex);
  SimFaults faults GUARDED_BY(mutex);
  uint64_t used_blocks GUARDED_BY(mutex) = 0;
  uint64_t removed_blocks GUARDED_BY(mutex) = 0;  // of files that a power cut may bring back
  std::map<std::string, std::shared_ptr<SimInode>> files GUARDED_BY(mutex);
  // What a name stood for when its directory was last synced; null: nothing.
  std::map<std::string, std::shared_ptr<SimInode>> volatile_names GUARDED_BY(mutex);
  std::set<std::string> directories GUARDED_BY(mutex);
  std::set<std::string> locked GUARDED_BY(mutex);
  std::map<Op::Kind, uint64_t> counts GUARDED_BY(mutex);
  std::map<Op::Kind, std::vector<NthFault>> nth_faults GUARDED_BY(mutex);
  std::list<InFlight> in_flight GUARDED_BY(mutex);
  std::list<InFlight> hanging GUARDED_BY(mutex);
  uint64_t time GUARDED_BY(mutex) = 1;
  uint64_t life GUARDED_BY(mutex) = 1;     // of the process; increases with each Crash
  uint64_t changes GUARDED_BY(mutex) = 0;  // writes, and names that came or went
  uint64_t crash_at_change GUARDED_BY(mutex) = 0;
  bool crash_stands GUARDED_BY(mutex) = false;
  AfterCrash after_crash GUARDED_BY(mutex) = AfterCrash::kFail;
};

// --- Carrying out an op ---

// Any subset of the sectors of a write reaches the medium.
void SimDisk::Medium::Tear(SimInode* inode, const Transfer& transfer) {
  uint64_t at = transfer.offset;
  for (uint32_t i = 0; i < transfer.iov_count; ++i) {
    ByteSpan rest{static_cast<const std::byte*>(transfer.iov[i].iov_base), transfer.iov[i].iov_len};
    while (!rest.empty()) {
      const uint64_t part = std::min<uint64_t>(rest.size(), options.sector - at % options.sector);
      const bool fits = used_blocks + inode->MissingBlocks(at, part) <= options.capacity / kDiskBlock;
      if (fits && random.OneIn(2)) inode->Write(at, rest.first(part), ++time);
      rest = rest.subspan(part);
      at += part;
    }
  }
}

// What the process had asked for when it died: not begun, torn or done. None of it is ever answered.
void SimDisk::Medium::StrikeInFlight() {
  for (const InFlight& flying : in_flight) {
    if (flying.transfer.kind != Op::Kind::kWrite || flying.transfer.life != life) continue;
    const uint64_t outcome = random.Below(3);
    if (outcome == 1) Tear(flying.inode.get(), flying.transfer);
    if (outcome == 2) (void)Write(flying.inode.get(), flying.transfer);
  }
}

uint64_t SimDisk::Medium::Shortened(uint64_t size) {
  if (size <= kDiskBlock || !Chance(faults.short_transfer)) return size;
  return kDiskBlock * (1 + random.Below((size - 1) / kDiskBlock));
}

int64_t SimDisk::Medium::Read(const SimInode& inode, const Transfer& transfer) {
  uint64_t size = Shortened(transfer.size());
  size = transfer.offset >= inode.size() ? 0 : std::min(size, inode.size() - transfer.offset);
  uint64_t moved = 0;
  for (uint32_t i = 0; i < transfer.iov_count && moved < size; ++i) {
    const uint64_t part = std::min<uint64_t>(transfer.iov[i].iov_len, size - moved);
    inode.Read(transfer.offset + moved, {static_cast<std::byte*>(transfer.iov[i].iov_base), part});
    moved += part;
  }
  return static_cast<int64_t>(moved);
}

int64_t SimDisk::Medium::Write(SimInode* inode, const Transfer& transfer) {
  const uint64_t size = Shortened(transfer.size());
  if (used_blocks + inode->MissingBlocks(transfer.offset, size) > options.capacity / kDiskBlock)
    return -ENOSPC;
  if (Chance(faults.lost_write)) return static_cast<int64_t>(size);
  ++time;
  uint64_t moved = 0;
  for (uint32_t i = 0; i < transfer.iov_count && moved < size; ++i) {
    const uint64_t part = std::min<uint64_t>(transfer.iov[i].iov_len, size - moved);
    inode->Write(transfer.offset + moved, {static_cast<const std::byte*>(transfer.iov[i].iov_base), part},
                 time);
    moved += part;
  }
  return static_cast<int64_t>(moved);
}

// 0, or what the op ends with instead of being carried out.
int64_t SimDisk::Medium::Faults(SimInode* inode, const Transfer& transfer) {
  const uint64_t count = ++counts[transfer.kind];
  const bool write = transfer.kind == Op::Kind::kWrite;
  if (write && StandsNow()) {
    Tear(inode, transfer);
    StrikeInFlight();
    crash_stands = true;
    return after_crash == AfterCrash::kHang ? kHangs : -EIO;
  }
  std::vector<NthFault>& nth = nth_faults[transfer.kind];
  const auto strikes =
      std::find_if(nth.begin(), nth.end(), [&](const NthFault& fault) { return fault.at == count; });
  if (strikes != nth.end()) {
    const int error = strikes->error;
    nth.erase(strikes);
    return -error;
  }
  if (write && Chance(faults.no_space)) return -ENOSPC;
  if (write && Chance(faults.write_error)) {
    Tear(inode, transfer);
    return -EIO;
  }
  if (transfer.kind == Op::Kind::kRead && Chance(faults.read_error)) return -EIO;
  if (transfer.kind == Op::Kind::kSync && Chance(faults.sync_error)) return -EIO;
  return 0;
}

int64_t SimDisk::Medium::Run(SimInode* inode, const Transfer& transfer) {
  if (transfer.life != life) return -EIO;
  if (crash_stands) return after_crash == AfterCrash::kHang ? kHangs : -EIO;
  if (transfer.direct && transfer.kind != Op::Kind::kSync && !transfer.IsAligned()) return -EINVAL;
  const int64_t fault = Faults(inode, transfer);
  if (fault != 0) return fault;
  if (transfer.kind == Op::Kind::kRead) return Read(*inode, transfer);
  if (transfer.kind == Op::Kind::kWrite) return Write(inode, transfer);
  inode->Sync(transfer.submit_time);
  return 0;
}

Nanos SimDisk::Medium::Delay() {
  Nanos delay = faults.delay_min;
  if (faults.delay_max > faults.delay_min) {
    delay += static_cast<Nanos>(random.Below(static_cast<uint64_t>(faults.delay_max - faults.delay_min) + 1));
  }
  return Chance(faults.slow) ? delay + faults.slow_delay : delay;
}

void SimDisk::Medium::EndDelayed(std::list<InFlight>::iterator it) {
  int64_t result = 0;
  InFlight ended{};
  {
    MutexLock lock(mutex);
    result = Run(it->inode.get(), it->transfer);
    ended = *it;
    if (result == kHangs) hanging.push_back(*it);
    in_flight.erase(it);
  }
  if (result != kHangs) ended.reactor->Complete(ended.op, result);
}

// --- Names ---

void SimDisk::Medium::SetName(const std::string& name, const std::shared_ptr<SimInode>& inode) {
  const auto found = files.find(name);
  if (found != files.end()) {
    const std::shared_ptr<SimInode> before = std::move(found->second);
    files.erase(found);
    before->named = false;
    CountRemoved(before.get());
  }
  if (inode == nullptr) return;
  inode->named = true;
  inode->CountIn(&used_blocks);
  files.emplace(name, inode);
}

// A file that has no name and is open nowhere takes no space, although a power cut may bring it back.
void SimDisk::Medium::CountRemoved(SimInode* inode) {
  if (!inode->named && inode->open_files == 0) inode->CountIn(&removed_blocks);
}

// The name stands for `inode` (null: for nothing) from now on; 0 or the error of an op that a fault struck,
// which may have been carried out all the same.
int SimDisk::Medium::ChangeName(const std::string& name, const std::shared_ptr<SimInode>& inode,
                                bool durable) {
  const bool stands = StandsNow();
  const bool fails = stands || Chance(faults.write_error);
  if (!fails || random.OneIn(2)) {
    const auto found = files.find(name);
    const std::shared_ptr<SimInode> before = found == files.end() ? nullptr : found->second;
    if (durable) {
      volatile_names.erase(name);
    } else {
      volatile_names.try_emplace(name, before);
    }
    SetName(name, inode);
  }
  if (stands) {
    StrikeInFlight();
    crash_stands = true;
  }
  return fails ? EIO : 0;
}

// A power cut undoes any of the changes of names since their directories were synced.
void SimDisk::Medium::LoseNames(const PowerCut& cut) {
  for (const auto& [name, before] : volatile_names) {
    const bool kept =
        cut.kind == PowerCut::Kind::kAll || (cut.kind != PowerCut::Kind::kNothing && random.OneIn(2));
    if (!kept) SetName(name, before);
  }
  volatile_names.clear();
}

// --- Files ---

class SimDisk::SimFile final : public File {
 public:
  SimFile(std::string path, std::shared_ptr<Medium> medium, std::shared_ptr<SimInode> inode, bool direct,
          bool read_only, uint64_t life)
      : File(std::move(path)),
        medium_(std::move(medium)),
        inode_(std::move(inode)),
        direct_(direct),
        read_only_(read_only),
        life_(life) {}
  ~SimFile() override {
    MutexLock lock(medium_->mutex);
    --inode_->open_files;
    medium_->CountRemoved(inode_.get());
    inode_.reset();  // frees the blocks of a file that nothing brings back
  }

  void Submit(Reactor& reactor, Op* op) override;
  Result<uint64_t> SizeBlocking() override;
  Status ResizeBlocking(uint64_t size, bool reserve) override;
  Status PunchBlocking(uint64_t offset, uint64_t size) override;
  Result<std::vector<DataRange>> DataRangesBlocking() override;
  Status ReadBlocking(uint64_t offset, MutableByteSpan into) override;
  Status WriteBlocking(uint64_t offset, ByteSpan from) override;
  Status SyncBlocking() override;

 private:
  Result<uint64_t> RunBlocking(Op::Kind kind, uint64_t offset, iovec piece, std::string_view what);

  const std::shared_ptr<Medium> medium_;
  std::shared_ptr<SimInode> inode_;
  const bool direct_;
  const bool read_only_;
  const uint64_t life_;
};

void SimDisk::SimFile::Submit(Reactor& reactor, Op* op) {
  int64_t result = kHangs;
  Nanos delay = 0;
  std::list<Medium::InFlight>::iterator delayed;
  if (op->deadline <= reactor.TurnNow()) {
    reactor.Complete(op, -ETIME);
    return;
  }
  {
    MutexLock lock(medium_->mutex);
    const Transfer transfer{op->kind, op->offset, op->iov, op->iov_count, direct_, life_, medium_->time};
    delay = medium_->Delay();
    if (read_only_ && op->kind == Op::Kind::kWrite) {
      result = -EBADF;
    } else if (delay > 0) {
      delayed = medium_->in_flight.insert(medium_->in_flight.end(), {&reactor, op, inode_, transfer});
    } else {
      result = medium_->Run(inode_.get(), transfer);
      if (result == kHangs) medium_->hanging.push_back({&reactor, op, inode_, transfer});
    }
  }
  if (result != kHangs) {
    reactor.Complete(op, result);
  } else if (delay > 0) {
    reactor.AddTimer(reactor.Now() + delay, [medium = medium_, delayed] { medium->EndDelayed(delayed); });
  }
}

Result<uint64_t> SimDisk::SimFile::SizeBlocking() {
  MutexLock lock(medium_->mutex);
  if (const int error = medium_->CheckAlive(life_)) return Failure(path(), "asking for the size", error);
  return inode_->size();
}

Status SimDisk::SimFile::ResizeBlocking(uint64_t size, bool reserve) {
  MutexLock lock(medium_->mutex);
  if (const int error = medium_->CheckAlive(life_)) return Failure(path(), "resizing", error);
  if (reserve) {
    const uint64_t available = medium_->Available();
    const bool fits =
        size <= medium_->options.capacity && inode_->MissingBlocks(0, size) <= available / kDiskBlock;
    if (!fits) {
      return Status(Code::kNoSpace, Cat(path(), ": ", FormatBytes(size), " wanted, ", FormatBytes(available),
                                        " available (simulated)"));
    }
  }
  inode_->Resize(size);
  if (reserve) inode_->Reserve(size);
  return Ok();
}

Status SimDisk::SimFile::PunchBlocking(uint64_t offset, uint64_t size) {
  MutexLock lock(medium_->mutex);
  if (const int error = medium_->CheckAlive(life_)) return Failure(path(), "punching a hole", error);
  inode_->Punch(offset, size, ++medium_->time);
  return Ok();
}

Result<std::vector<DataRange>> SimDisk::SimFile::DataRangesBlocking() {
  MutexLock lock(medium_->mutex);
  if (const int error = medium_->CheckAlive(life_)) return Failure(path(), "asking for data", error);
  return inode_->DataRanges();
}

Result<uint64_t> SimDisk::SimFile::RunBlocking(Op::Kind kind, uint64_t offset, iovec piece,
                                               std::string_view what) {
  MutexLock lock(medium_->mutex);
  const Transfer transfer{kind,    offset, &piece,       kind == Op::Kind::kSync ? 0u : 1u,
                          direct_, life_,  medium_->time};
  const bool refused = read_only_ && kind == Op::Kind::kWrite;
  const int64_t result = refused ? -EBADF : medium_->Run(inode_.get(), transfer);
  if (result == kHangs) return Failure(path(), what, EIO);
  if (result < 0) return Failure(path(), what, static_cast<int>(-result));
  return static_cast<uint64_t>(result);
}

Status SimDisk::SimFile::ReadBlocking(uint64_t offset, MutableByteSpan into) {
  while (!into.empty()) {
    const Result<uint64_t> moved =
        RunBlocking(Op::Kind::kRead, offset, {into.data(), into.size()}, "reading");
    if (!moved.ok()) return moved.status();
    if (*moved == 0)
      return Status(Code::kIoError, Cat(path(), ": the file ends before ", offset + into.size()));
    into = into.subspan(*moved);
    offset += *moved;
  }
  return Ok();
}

Status SimDisk::SimFile::WriteBlocking(uint64_t offset, ByteSpan from) {
  while (!from.empty()) {
    const iovec piece{const_cast<std::byte*>(from.data()), from.size()};
    const Result<uint64_t> moved = RunBlocking(Op::Kind::kWrite, offset, piece, "writing");
    if (!moved.ok()) return moved.status();
    from = from.subspan(*moved);
    offset += *moved;
  }
  return Ok();
}

Status SimDisk::SimFile::SyncBlocking() {
  return RunBlocking(Op::Kind::kSync, 0, {}, "fdatasync").status();
}

// --- The disk ---

class SimDisk::SimLock final : public DirectoryLock {
 public:
  SimLock(std::shared_ptr<Medium> medium, std::string directory, uint64_t life)
      : medium_(std::move(medium)), directory_(std::move(directory)), life_(life) {}
  ~SimLock() override {
    MutexLock lock(medium_->mutex);
    if (life_ == medium_->life) medium_->locked.erase(directory_);
  }

 private:
  const std::shared_ptr<Medium> medium_;
  const std::string directory_;
  const uint64_t life_;
};

SimDisk::SimDisk(const SimDiskOptions& options) : medium_(std::make_shared<Medium>(options)) {
  DFKV_CHECK(options.sector == 4096 || options.sector == 512);
}
SimDisk::~SimDisk() = default;

Result<std::unique_ptr<File>> SimDisk::Open(const std::string& path, const OpenOptions& options) {
  const std::string name = Normal(path);
  MutexLock lock(medium_->mutex);
  if (medium_->crash_stands) return Failure(path, "opening", EIO);
  std::shared_ptr<SimInode> inode;
  const auto found = medium_->files.find(name);
  if (found != medium_->files.end()) {
    inode = found->second;
  } else {
    const bool may_create = options.create && medium_->directories.contains(ParentOf(name));
    if (!may_create) return Failure(path, options.create ? "creating" : "opening", ENOENT);
    if (medium_->directories.contains(name)) return Failure(path, "creating", EISDIR);
    inode = std::make_shared<SimInode>(medium_->options.sector, &medium_->used_blocks);
    if (const int error = medium_->ChangeName(name, inode, options.sync_entry)) {
      return Failure(path, "creating", error);
    }
  }
  ++inode->open_files;
  return Result<std::unique_ptr<File>>(std::make_unique<SimFile>(
      path, medium_, std::move(inode), options.direct, options.read_only, medium_->life));
}

Status SimDisk::Remove(const std::string& path) {
  const std::string name = Normal(path);
  MutexLock lock(medium_->mutex);
  if (medium_->crash_stands) return Failure(path, "removing", EIO);
  if (medium_->directories.erase(name) > 0) return Ok();
  if (!medium_->files.contains(name)) return Failure(path, "removing", ENOENT);
  if (const int error = medium_->ChangeName(name, nullptr, false)) return Failure(path, "removing", error);
  return Ok();
}

Status SimDisk::SyncDirectoryBlocking(const std::string& path) {
  const std::string prefix = Normal(path) + "/";
  MutexLock lock(medium_->mutex);
  if (medium_->crash_stands || medium_->Chance(medium_->faults.sync_error)) {
    return Failure(path, "syncing the directory", EIO);
  }
  auto& names = medium_->volatile_names;
  for (auto it = names.lower_bound(prefix); it != names.end() && it->first.starts_with(prefix);) {
    it = it->first.find('/', prefix.size()) == std::string::npos ? names.erase(it) : std::next(it);
  }
  return Ok();
}

Status SimDisk::Rename(const std::string& from, const std::string& to) {
  MutexLock lock(medium_->mutex);
  if (medium_->crash_stands) return Failure(from, "renaming", EIO);
  const auto found = medium_->files.find(Normal(from));
  if (found == medium_->files.end() || !medium_->directories.contains(ParentOf(Normal(to)))) {
    return Failure(from, Cat("renaming to ", to), ENOENT);
  }
  const std::shared_ptr<SimInode> inode = found->second;
  const int error = medium_->ChangeName(Normal(to), inode, true);
  const auto renamed = medium_->files.find(Normal(to));
  if (renamed != medium_->files.end() && renamed->second == inode) {
    medium_->files.erase(Normal(from));
    medium_->volatile_names.erase(Normal(from));
  }
  return error == 0 ? Ok() : Failure(from, "renaming", error);
}

Result<std::vector<std::string>> SimDisk::List(const std::string& directory) {
  const std::string name = Normal(directory);
  MutexLock lock(medium_->mutex);
  if (medium_->crash_stands) return Failure(directory, "listing", EIO);
  if (!medium_->directories.contains(name)) return Failure(directory, "listing", ENOENT);
  std::set<std::string> names;
  const std::string prefix = name == "/" ? name : name + "/";
  const auto add = [&](const std::string& path) {
    const bool child = path.size() > prefix.size() && path.find('/', prefix.size()) == std::string::npos;
    if (child) names.insert(path.substr(prefix.size()));
  };
  const auto in = [&](const std::string& path) { return path.starts_with(prefix); };
  auto file = medium_->files.lower_bound(prefix);
  for (; file != medium_->files.end() && in(file->first); ++file) add(file->first);
  auto folder = medium_->directories.lower_bound(prefix);
  for (; folder != medium_->directories.end() && in(*folder); ++folder) add(*folder);
  return std::vector<std::string>(names.begin(), names.end());
}

Status SimDisk::MakeDirectories(const std::string& path) {
  MutexLock lock(medium_->mutex);
  if (medium_->crash_stands) return Failure(path, "making the directory", EIO);
  for (std::string name = Normal(path); medium_->directories.insert(name).second; name = ParentOf(name)) {
    if (medium_->files.contains(name)) {
      medium_->directories.erase(name);
      return Failure(path, "making the directory", ENOTDIR);
    }
  }
  return Ok();
}

Result<DiskSpace> SimDisk::Space(const std::string& directory) {
  MutexLock lock(medium_->mutex);
  if (medium_->crash_stands) return Failure(directory, "asking for free space", EIO);
  return DiskSpace{medium_->options.capacity, medium_->Available()};
}

Result<std::unique_ptr<DirectoryLock>> SimDisk::Lock(const std::string& directory) {
  const std::string name = Normal(directory);
  MutexLock lock(medium_->mutex);
  if (medium_->crash_stands) return Failure(directory, "locking", EIO);
  if (!medium_->directories.contains(name)) {
    return Status(Code::kIoError, Cat(directory, ": no such directory (simulated)"));
  }
  if (!medium_->locked.insert(name).second) {
    return Status(Code::kLocked, Cat(directory, ": in use by process ", getpid(), " (simulated)"));
  }
  return Result<std::unique_ptr<DirectoryLock>>(std::make_unique<SimLock>(medium_, name, medium_->life));
}

// --- Faults ---

void SimDisk::set_faults(const SimFaults& faults) {
  MutexLock lock(medium_->mutex);
  medium_->faults = faults;
}

void SimDisk::FailNth(Op::Kind kind, uint64_t nth, int error) {
  MutexLock lock(medium_->mutex);
  medium_->nth_faults[kind].push_back({medium_->counts[kind] + nth, error});
}

void SimDisk::CrashAtWrite(uint64_t nth, AfterCrash after) {
  MutexLock lock(medium_->mutex);
  medium_->crash_at_change = medium_->changes + nth;
  medium_->after_crash = after;
}

bool SimDisk::crashed() const {
  MutexLock lock(medium_->mutex);
  return medium_->crash_stands;
}

PowerCut SimDisk::Medium::ChooseCut() {
  PowerCut cut;
  cut.kind = static_cast<PowerCut::Kind>(random.Below(4));
  cut.prefix = random.Below(time + 1);
  return cut;
}

void SimDisk::Crash(CrashKind kind) {
  Medium& medium = *medium_;
  MutexLock lock(medium.mutex);
  if (!medium.crash_stands) medium.StrikeInFlight();
  if (kind == CrashKind::kPowerCut) {
    const PowerCut cut = medium.ChooseCut();
    medium.LoseNames(cut);
    for (const auto& [path, inode] : medium.files) inode->Lose(cut, medium.random);
  }
  ++medium.life;
  medium.locked.clear();
  medium.nth_faults.clear();
  medium.crash_at_change = 0;
  medium.crash_stands = false;
}

void SimDisk::ReleaseHanging() {
  std::list<Medium::InFlight> released;
  {
    MutexLock lock(medium_->mutex);
    released.swap(medium_->hanging);
  }
  for (const Medium::InFlight& flying : released) flying.reactor->Complete(flying.op, -EIO);
}

Status SimDisk::Peek(const std::string& path, uint64_t offset, MutableByteSpan into) const {
  MutexLock lock(medium_->mutex);
  const auto found = medium_->files.find(Normal(path));
  if (found == medium_->files.end()) return Failure(path, "peeking", ENOENT);
  found->second->Read(offset, into);
  return Ok();
}

Status SimDisk::Poke(const std::string& path, uint64_t offset, ByteSpan from) {
  MutexLock lock(medium_->mutex);
  const auto found = medium_->files.find(Normal(path));
  if (found == medium_->files.end()) return Failure(path, "poking", ENOENT);
  found->second->Poke(offset, from);
  return Ok();
}

Status SimDisk::FlipBit(const std::string& path, uint64_t bit) {
  std::array<std::byte, 1> byte;
  DFKV_RETURN_IF_ERROR(Peek(path, bit / 8, byte));
  byte[0] ^= std::byte{1} << (bit % 8);
  return Poke(path, bit / 8, byte);
}

uint64_t SimDisk::Count(Op::Kind kind) const {
  MutexLock lock(medium_->mutex);
  const auto found = medium_->counts.find(kind);
  return found == medium_->counts.end() ? 0 : found->second;
}

uint64_t SimDisk::in_flight() const {
  MutexLock lock(medium_->mutex);
  return medium_->in_flight.size() + medium_->hanging.size();
}

}  // namespace dfkv::io
