// Disk and File: the only way to storage. Implementations: the real one (disk_posix) and a simulated one
// (disk_sim) that drops unsynced writes, tears, reorders, fails and fills up under a seed.
//
// Threads: a Disk and a File are used by any thread; an asynchronous transfer completes on the reactor it was
// given. Calls ending in Blocking are for start, stop and tools, never for a reactor thread that serves.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "io/reactor.h"

namespace dfkv::io {

constexpr uint64_t kDiskBlock = 4096;  // alignment of offsets, sizes and memory of direct I/O

struct DataRange {
  uint64_t begin = 0;
  uint64_t end = 0;  // exclusive
};

class File {
 public:
  explicit File(std::string path) : path_(std::move(path)) {}
  virtual ~File() = default;
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const std::string& path() const { return path_; }

  // kRead, kWrite or kSync; the file fills in `fd`. Completes as Reactor::Submit says: bytes moved or -errno.
  virtual void Submit(Reactor& reactor, Op* op) = 0;

  virtual Result<uint64_t> SizeBlocking() = 0;
  // Makes [0, size) belong to the file. reserve: with its disk space (fallocate), NoSpace when the disk lacks
  // it; otherwise sparse.
  virtual Status ResizeBlocking(uint64_t size, bool reserve) = 0;
  // Zeroes a range; gives its space back where the filesystem can.
  virtual Status PunchBlocking(uint64_t offset, uint64_t size) = 0;
  // Ranges that may hold other than zeros, in order (SEEK_DATA); the whole file where the system cannot tell.
  virtual Result<std::vector<DataRange>> DataRangesBlocking() = 0;

  // Full transfers in the calling thread: IoError when the system fails or the file ends before.
  virtual Status ReadBlocking(uint64_t offset, MutableByteSpan into) = 0;
  virtual Status WriteBlocking(uint64_t offset, ByteSpan from) = 0;
  virtual Status SyncBlocking() = 0;

 private:
  std::string path_;
};

// Full transfers on the calling coroutine's reactor. The memory stays in place until the task has ended.
// IoError (end of file too), NoSpace, Timeout.
Task<Status> ReadFull(File* file, uint64_t offset, MutableByteSpan into, Nanos deadline);
Task<Status> WriteFull(File* file, uint64_t offset, ByteSpan from, Nanos deadline);
// One gathered write of neighbouring ranges; at most 1024 pieces.
Task<Status> WriteGathered(File* file, uint64_t offset, std::vector<iovec> pieces, Nanos deadline);
Task<Status> SyncFile(File* file);

struct OpenOptions {
  bool create = false;
  bool direct = false;  // O_DIRECT; buffered where the filesystem refuses it, said once in the log
  bool read_only = false;
  bool sync_entry = true;  // a created file's name survives a power cut; else after SyncDirectoryBlocking
};

struct DiskSpace {
  uint64_t total = 0;
  uint64_t available = 0;  // to this process
};

// Held while a process uses a directory; released on destruction and when the process dies.
class DirectoryLock {
 public:
  virtual ~DirectoryLock() = default;
};

class Disk {
 public:
  virtual ~Disk() = default;
  virtual Result<std::unique_ptr<File>> Open(const std::string& path, const OpenOptions& options) = 0;
  virtual Status Remove(const std::string& path) = 0;
  // Atomic; the directory is synced.
  virtual Status Rename(const std::string& from, const std::string& to) = 0;
  virtual Result<std::vector<std::string>> List(const std::string& directory) = 0;  // names, sorted
  virtual Status MakeDirectories(const std::string& path) = 0;        // IoError names path and reason
  virtual Status SyncDirectoryBlocking(const std::string& path) = 0;  // the names in it
  virtual Result<DiskSpace> Space(const std::string& directory) = 0;
  // Locked: another process (or this one) holds it; the text names the holder's pid.
  virtual Result<std::unique_ptr<DirectoryLock>> Lock(const std::string& directory) = 0;
};

Disk& PosixDisk();

}  // namespace dfkv::io
