// SimDisk: a Disk in memory that fails as disks fail, under a seed. It stands for the medium: it outlives the
// crashes of the process that uses it, and a crash schedule is
//
//   SimDisk disk({.seed = seed});
//   disk.CrashAtWrite(n);       // the n-th write is torn, and from then on every op fails
//   ... run the code under test until disk.crashed(), then drop it ...
//   disk.Crash(CrashKind::kPowerCut);
//   ... open again over `disk`, and check what must have survived ...
//
// What it models: a write is volatile until a sync that began after it has ended. A process kill loses
// nothing that was written; a power cut drops, tears and reorders what was volatile, sector by sector. A
// write in flight at a crash may have reached the medium, or not, or in part. A file that was removed, or
// made without sync_entry, is back, or gone, after a power cut before its directory was synced. Directories,
// other names, sizes set by ResizeBlocking and reservations are durable at once, as the real disk syncs them.
// Direct I/O that is not aligned to kDiskBlock in offset, size and memory is refused, also where a real disk
// would be content with less.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/disk.h"

namespace dfkv::io {

struct SimDiskOptions {
  uint64_t seed = 1;
  uint64_t capacity = 1ull << 30;  // bytes of written and reserved blocks
  uint32_t sector = 4096;          // 4096 or 512: what a power cut keeps or loses as a whole
};

// Chances in [0, 1], drawn for every op, of blocking calls too.
struct SimFaults {
  double read_error = 0;      // EIO
  double write_error = 0;     // EIO, and any of the write's sectors may have been written; also for names
  double sync_error = 0;      // EIO, and nothing became durable
  double no_space = 0;        // writes: ENOSPC
  double lost_write = 0;      // the write succeeds and does nothing
  double short_transfer = 0;  // a transfer moves only some of its blocks
  double slow = 0;            // an asynchronous op takes slow_delay longer
  Nanos slow_delay = 100 * kMillisecond;
  Nanos delay_min = 0;  // every asynchronous op takes a time between these two
  Nanos delay_max = 0;
};

enum class CrashKind : uint8_t {
  kProcessKill,  // all that was written stays, volatile as before
  kPowerCut,     // what was not synced is dropped, torn, reordered, or there
};

enum class AfterCrash : uint8_t {
  kFail,  // ops fail with EIO
  kHang,  // asynchronous ops do not end before ReleaseHanging
};

// Any thread. Files and locks may outlive it.
class SimDisk final : public Disk {
 public:
  explicit SimDisk(const SimDiskOptions& options = {});
  ~SimDisk() override;

  Result<std::unique_ptr<File>> Open(const std::string& path, const OpenOptions& options) override;
  Status Remove(const std::string& path) override;
  Status Rename(const std::string& from, const std::string& to) override;
  Result<std::vector<std::string>> List(const std::string& directory) override;
  Status MakeDirectories(const std::string& path) override;
  Status SyncDirectoryBlocking(const std::string& path) override;
  Result<DiskSpace> Space(const std::string& directory) override;
  Result<std::unique_ptr<DirectoryLock>> Lock(const std::string& directory) override;

  // --- Faults ---
  void set_faults(const SimFaults& faults);
  // The nth op of that kind from now on (1: the next) fails with `error` (EIO, ENOSPC, ...). Several may
  // wait.
  void FailNth(Op::Kind kind, uint64_t nth, int error);
  // At the nth write from now on the process stands still: that write is torn and ends as `after` says, and
  // so does every op from then on, until Crash. A file that is made, renamed or removed counts as a write;
  // the one it stands still at has happened, or not.
  void CrashAtWrite(uint64_t nth, AfterCrash after = AfterCrash::kFail);
  bool crashed() const;
  // The process dies now, and starts anew: files opened before are dead (EIO for ever), locks are free, ops
  // in flight end with EIO, pending FailNth and CrashAtWrite are forgotten.
  void Crash(CrashKind kind);
  // Ends the ops that hang with EIO. On the thread of their reactor.
  void ReleaseHanging();

  // --- The medium itself: neither counted nor failing. NotFound: no such file. ---
  Status Peek(const std::string& path, uint64_t offset, MutableByteSpan into) const;
  Status Poke(const std::string& path, uint64_t offset, ByteSpan from);  // rot, swapped or stale sectors
  Status FlipBit(const std::string& path, uint64_t bit);

  // Ops so far of that kind, blocking calls too; for choosing crash points.
  uint64_t Count(Op::Kind kind) const;
  uint64_t in_flight() const;  // asynchronous ops that have not ended

 private:
  struct Medium;
  class SimFile;
  class SimLock;
  std::shared_ptr<Medium> medium_;
};

}  // namespace dfkv::io
