// FileMedia: one file per object, a record and a payload behind it, in one directory tree. A choice for
// diagnosis: every object can be looked at, copied and removed with the tools of the system. It shares all
// that is above Media with the slab engine, slots and extents included, so that it evicts what slabs evict.
// docs/DISK_FORMAT.md describes the files.
//
// A file's name holds its slot and its generation: a slot's next object is another file, and clearing a
// record is removing exactly that object's file.
//
// Unlike slabs it makes and removes files, and syncs directories, in the reactor's thread, and takes memory
// as it goes. Threads: as Media says; mutex_ guards what waits for a sync and is never held over I/O.
#pragma once

#include <bitset>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/sync.h"
#include "io/disk.h"
#include "io/reactor.h"
#include "store/media.h"
#include "store/record.h"
#include "store/size_classes.h"

namespace dfkv::store {

// Admits so many at a time, first come first served. Any reactor.
class Turnstile {
 public:
  explicit Turnstile(uint32_t places) : free_(places) {}
  io::Task<void> Enter();
  void Leave();

 private:
  Mutex mutex_;
  uint32_t free_ GUARDED_BY(mutex_);
  std::deque<std::shared_ptr<io::Event>> waiting_ GUARDED_BY(mutex_);
};

class FileMedia final : public Media {
 public:
  static constexpr uint32_t kOpenFilesMax = 128;  // objects' files, of one directory

  // Opens or makes the directories; holds the directory's lock. Locked, NoSpace, IoError, Invalid,
  // Unsupported.
  static Result<std::unique_ptr<FileMedia>> OpenBlocking(io::Disk& disk, const MediaOptions& options);
  ~FileMedia() override = default;

  const SizeClasses& classes() const { return classes_; }
  uint32_t extents() const { return extents_; }

  // Removes the files that hold no whole object: what a stop in the middle of a PUT has left.
  RecoveryCounts RecoverBlocking(const std::function<void(const Cell&)>& found) override;
  Status ClearBlocking(const std::vector<Cell>& cells) override;
  // Writes nothing: a PUT that ends here has no file. WriteRecords writes the payload too.
  io::Task<Status> WritePayload(std::vector<Cell> cells) override;
  io::Task<Status> WriteRecords(std::vector<Cell> cells) override;
  io::Task<Status> Clear(std::vector<Cell> cells) override;
  // Corrupt: the file is missing or short.
  io::Task<Status> Read(Cell cell) override;
  io::Task<Status> Sync() override;
  io::Task<Status> Probe() override;

 private:
  struct Unsynced {
    std::map<uint64_t, uint32_t> files;  // generation and unit
    std::bitset<256> directories;
  };
  struct SyncRun;

  FileMedia(io::Disk& disk, const std::string& directory, const MetaBlock& meta, uint32_t extents);
  std::string DirectoryOf(uint32_t number) const;
  std::string PathOf(uint32_t unit, uint64_t generation) const;
  Status MakeDirectoriesBlocking();
  void RecoverFile(const std::string& directory, const std::string& name,
                   const std::function<void(const Cell&)>& found, RecoveryCounts* counts);
  bool InPlace(const Record& record) const;
  Status RemoveFile(const Cell& cell);
  io::Task<Status> WriteObject(Cell cell);
  io::Task<Status> ReadObject(Cell cell);
  io::Task<Status> SyncObject(uint32_t unit, uint64_t generation);
  io::Task<void> SyncSome(SyncRun* run);

  io::Disk& disk_;
  const std::string directory_;
  std::unique_ptr<io::DirectoryLock> lock_;  // released last
  const MetaBlock meta_;
  const SizeClasses classes_;
  const uint32_t extents_;
  std::unique_ptr<io::File> table_;  // the copy of the meta block
  Turnstile open_files_{kOpenFilesMax};

  Mutex mutex_;
  Unsynced unsynced_ GUARDED_BY(mutex_);
};

}  // namespace dfkv::store
