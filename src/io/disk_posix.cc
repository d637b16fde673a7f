// The real disk. A File has one descriptor and nothing else, so any number of threads may use it.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <filesystem>

#include "base/log.h"
#include "base/text.h"
#include "io/disk.h"
#include "io/fd.h"

namespace dfkv::io {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLockName = "LOCK";

Status Failure(const std::string& path, std::string_view what, int error) {
  const Code code = error == ENOENT   ? Code::kNotFound
                    : error == ENOSPC ? Code::kNoSpace
                    : error == EDQUOT ? Code::kNoSpace
                                      : Code::kIoError;
  return Status(code, Cat(path, ": ", what, ": ", ErrnoText(error)));
}

std::string DirectoryOf(const std::string& path) {
  const std::string directory = fs::path(path).parent_path().string();
  return directory.empty() ? "." : directory;
}

Status SyncDirectory(const std::string& directory) {
  const UniqueFd fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || (fsync(fd.get()) != 0 && errno != EINVAL)) {
    return Failure(directory, "syncing the directory", errno);
  }
  return Ok();
}

class PosixFile final : public File {
 public:
  PosixFile(std::string path, UniqueFd fd) : File(std::move(path)), fd_(std::move(fd)) {}

  void Submit(Reactor& reactor, Op* op) override {
    op->fd = fd_.get();
    reactor.Submit(op);
  }
  Result<uint64_t> SizeBlocking() override;
  Status ResizeBlocking(uint64_t size, bool reserve) override;
  Status PunchBlocking(uint64_t offset, uint64_t size) override;
  Result<std::vector<DataRange>> DataRangesBlocking() override;
  Status ReadBlocking(uint64_t offset, MutableByteSpan into) override;
  Status WriteBlocking(uint64_t offset, ByteSpan from) override;
  Status SyncBlocking() override;

 private:
  Status Reserve(uint64_t size, uint64_t size_before);
  Status WriteZeros(uint64_t offset, uint64_t size);

  UniqueFd fd_;
};

Result<uint64_t> PosixFile::SizeBlocking() {
  struct stat info {};
  if (fstat(fd_.get(), &info) != 0) return Failure(path(), "asking for the size", errno);
  return static_cast<uint64_t>(info.st_size);
}

Status PosixFile::ResizeBlocking(uint64_t size, bool reserve) {
  const Result<uint64_t> before = SizeBlocking();
  if (!before.ok()) return before.status();
  if (*before != size && ftruncate(fd_.get(), static_cast<off_t>(size)) != 0) {
    return Failure(path(), Cat("resizing to ", FormatBytes(size)), errno);
  }
  if (reserve) DFKV_RETURN_IF_ERROR(Reserve(size, *before));
  if (fsync(fd_.get()) != 0) return Failure(path(), "fsync", errno);
  return Ok();
}

// Asks for the free space first: where it cannot be enough, nothing is taken from others even for a moment.
Status PosixFile::Reserve(uint64_t size, uint64_t size_before) {
  if (size == 0) return Ok();
  struct stat info {};
  const uint64_t held = fstat(fd_.get(), &info) == 0 ? static_cast<uint64_t>(info.st_blocks) * 512 : 0;
  const Result<DiskSpace> space = PosixDisk().Space(DirectoryOf(path()));
  const uint64_t available = space.ok() ? space->available : 0;
  int error = available + held < size ? ENOSPC : EINTR;
  while (error == EINTR) error = fallocate(fd_.get(), 0, 0, static_cast<off_t>(size)) == 0 ? 0 : errno;
  if (error == 0) return Ok();
  if (error == EOPNOTSUPP) {
    LogWarn(path(), ": the filesystem cannot reserve space; the file is sparse");
    return Ok();
  }
  // Gives back what was reserved before the system gave up.
  (void)!ftruncate(fd_.get(), static_cast<off_t>(std::min(size, size_before)));
  const bool full = error == ENOSPC || error == EDQUOT;
  return Status(full ? Code::kNoSpace : Code::kIoError,
                Cat(path(), ": ", FormatBytes(size), " wanted, ", FormatBytes(available + held),
                    " available: ", ErrnoText(error)));
}

Status PosixFile::PunchBlocking(uint64_t offset, uint64_t size) {
  if (size == 0) return Ok();
  const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  if (fallocate(fd_.get(), mode, static_cast<off_t>(offset), static_cast<off_t>(size)) == 0) return Ok();
  if (errno != EOPNOTSUPP) return Failure(path(), "punching a hole", errno);
  const Result<uint64_t> end = SizeBlocking();
  if (!end.ok()) return end.status();
  return offset >= *end ? Ok() : WriteZeros(offset, std::min(size, *end - offset));
}

Status PosixFile::WriteZeros(uint64_t offset, uint64_t size) {
  alignas(kDiskBlock) static const std::byte kZeros[64 * 1024] = {};
  while (size > 0) {
    const uint64_t part = std::min<uint64_t>(size, sizeof kZeros);
    DFKV_RETURN_IF_ERROR(WriteBlocking(offset, {kZeros, part}));
    offset += part;
    size -= part;
  }
  return Ok();
}

Result<std::vector<DataRange>> PosixFile::DataRangesBlocking() {
  const Result<uint64_t> size = SizeBlocking();
  if (!size.ok()) return size.status();
  std::vector<DataRange> ranges;
  uint64_t at = 0;
  while (at < *size) {
    const off_t begin = lseek(fd_.get(), static_cast<off_t>(at), SEEK_DATA);
    if (begin < 0 && errno == ENXIO) break;  // no data from here on
    const off_t end = begin < 0 ? begin : lseek(fd_.get(), begin, SEEK_HOLE);
    if (end < 0) return std::vector<DataRange>{{0, *size}};  // the system cannot tell
    ranges.push_back({static_cast<uint64_t>(begin), std::min(static_cast<uint64_t>(end), *size)});
    at = static_cast<uint64_t>(end);
  }
  return ranges;
}

Status PosixFile::ReadBlocking(uint64_t offset, MutableByteSpan into) {
  while (!into.empty()) {
    const ssize_t moved = pread(fd_.get(), into.data(), into.size(), static_cast<off_t>(offset));
    if (moved < 0 && errno == EINTR) continue;
    const std::string_view verb = "reading";
    if (moved < 0) return Failure(path(), Cat(verb, " ", into.size(), " bytes at ", offset), errno);
    if (moved == 0)
      return Status(Code::kIoError, Cat(path(), ": the file ends before ", offset + into.size()));
    into = into.subspan(static_cast<size_t>(moved));
    offset += static_cast<uint64_t>(moved);
  }
  return Ok();
}

Status PosixFile::WriteBlocking(uint64_t offset, ByteSpan from) {
  while (!from.empty()) {
    const ssize_t moved = pwrite(fd_.get(), from.data(), from.size(), static_cast<off_t>(offset));
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) {
      return Failure(path(), Cat("writing ", from.size(), " bytes at ", offset), moved == 0 ? EIO : errno);
    }
    from = from.subspan(static_cast<size_t>(moved));
    offset += static_cast<uint64_t>(moved);
  }
  return Ok();
}

Status PosixFile::SyncBlocking() {
  if (fdatasync(fd_.get()) != 0) return Failure(path(), "fdatasync", errno);
  return Ok();
}

class PosixLock final : public DirectoryLock {
 public:
  PosixLock(UniqueFd directory, UniqueFd file) : directory_(std::move(directory)), file_(std::move(file)) {}
  ~PosixLock() override { (void)!ftruncate(file_.get(), 0); }

 private:
  UniqueFd directory_;
  UniqueFd file_;
};

class PosixDiskImpl final : public Disk {
 public:
  Result<std::unique_ptr<File>> Open(const std::string& path, const OpenOptions& options) override;
  Status Remove(const std::string& path) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Result<std::vector<std::string>> List(const std::string& directory) override;
  Status MakeDirectories(const std::string& path) override;
  Status SyncDirectoryBlocking(const std::string& path) override { return SyncDirectory(path); }
  Result<DiskSpace> Space(const std::string& directory) override;
  Result<std::unique_ptr<DirectoryLock>> Lock(const std::string& directory) override;
};

Result<std::unique_ptr<File>> PosixDiskImpl::Open(const std::string& path, const OpenOptions& options) {
  static std::atomic<bool> said_buffered{false};
  int flags = O_CLOEXEC | (options.read_only ? O_RDONLY : O_RDWR);
  const int direct = options.direct ? O_DIRECT : 0;
  UniqueFd fd(open(path.c_str(), flags | direct));
  bool created = false;
  if (!fd.valid() && errno == ENOENT && options.create) {
    flags |= O_CREAT;
    created = true;
    fd.Reset(open(path.c_str(), flags | direct, 0644));
  }
  if (!fd.valid() && errno == EINVAL && options.direct) {
    if (!said_buffered.exchange(true)) LogWarn(path, ": the filesystem refuses O_DIRECT; I/O is buffered");
    fd.Reset(open(path.c_str(), flags, 0644));
  }
  if (!fd.valid()) return Failure(path, created ? "creating" : "opening", errno);
  if (created && options.sync_entry) DFKV_RETURN_IF_ERROR(SyncDirectory(DirectoryOf(path)));
  return Result<std::unique_ptr<File>>(std::make_unique<PosixFile>(path, std::move(fd)));
}

Status PosixDiskImpl::Remove(const std::string& path) {
  if (std::remove(path.c_str()) != 0) return Failure(path, "removing", errno);
  return Ok();
}

Status PosixDiskImpl::Rename(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) return Failure(from, Cat("renaming to ", to), errno);
  return SyncDirectory(DirectoryOf(to));
}

Result<std::vector<std::string>> PosixDiskImpl::List(const std::string& directory) {
  std::error_code error;
  std::vector<std::string> names;
  fs::directory_iterator entry(directory, error);
  while (!error && entry != fs::directory_iterator()) {
    names.push_back(entry->path().filename().string());
    entry.increment(error);
  }
  if (error) return Failure(directory, "listing", error.value());
  std::sort(names.begin(), names.end());
  return names;
}

Status PosixDiskImpl::MakeDirectories(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return Status(Code::kIoError, Cat(path, ": making the directory: ", error.message()));
  if (!fs::is_directory(path, error)) return Status(Code::kIoError, Cat(path, ": is not a directory"));
  return Ok();
}

Result<DiskSpace> PosixDiskImpl::Space(const std::string& directory) {
  struct statvfs info {};
  if (statvfs(directory.c_str(), &info) != 0) return Failure(directory, "asking for free space", errno);
  return DiskSpace{info.f_blocks * info.f_frsize, info.f_bavail * info.f_frsize};
}

Status LockedBy(const std::string& directory, const UniqueFd& file) {
  char holder[32] = "";
  const ssize_t size = pread(file.get(), holder, sizeof holder - 1, 0);
  const std::string_view pid = TrimSpace({holder, static_cast<size_t>(std::max<ssize_t>(size, 0))});
  return Status(Code::kLocked, Cat(directory, ": in use by process ", pid.empty() ? "(unknown)" : pid));
}

// flock, since it belongs to the open file: it also keeps two nodes of one process apart, and the kernel
// releases it when the process dies. Both the lock file and the directory itself are locked: the file is what
// every filesystem can lock, the directory what nobody deletes by mistake. The file's text is for people
// only.
Result<std::unique_ptr<DirectoryLock>> PosixDiskImpl::Lock(const std::string& directory) {
  const std::string path = Cat(directory, "/", kLockName);
  UniqueFd fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!fd.valid()) {
    const int error = errno;
    return Status(Code::kIoError, Cat(path, ": opening the lock file: ", ErrnoText(error)));
  }
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return Failure(path, "locking", errno);
    return LockedBy(directory, fd);
  }
  UniqueFd whole(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (whole.valid() && flock(whole.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
    return LockedBy(directory, fd);
  }
  // A full filesystem is no reason to refuse: the lock holds without its text.
  const std::string pid = Cat(getpid(), "\n");
  (void)!ftruncate(fd.get(), 0);
  (void)!pwrite(fd.get(), pid.data(), pid.size(), 0);
  return Result<std::unique_ptr<DirectoryLock>>(std::make_unique<PosixLock>(std::move(whole), std::move(fd)));
}

}  // namespace

Disk& PosixDisk() {
  static PosixDiskImpl disk;
  return disk;
}

}  // namespace dfkv::io
