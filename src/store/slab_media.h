// SlabMedia: a preallocated slab file, a sparse slot table and a meta block in one directory.
// docs/DISK_FORMAT.md describes the files.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "base/bytes.h"
#include "io/disk.h"
#include "store/media.h"
#include "store/record.h"
#include "store/size_classes.h"

namespace dfkv::store {

class SlabMedia final : public Media {
 public:
  // Opens or makes the files; holds the directory's lock. Locked, NoSpace, IoError, Invalid, Unsupported.
  static Result<std::unique_ptr<SlabMedia>> OpenBlocking(io::Disk& disk, const MediaOptions& options);
  ~SlabMedia() override = default;

  const SizeClasses& classes() const { return classes_; }
  uint32_t extents() const { return extents_; }

  RecoveryCounts RecoverBlocking(const std::function<void(const Cell&)>& found) override;
  Status ClearBlocking(const std::vector<Cell>& cells) override;
  io::Task<Status> WritePayload(std::vector<Cell> cells) override;
  io::Task<Status> WriteRecords(std::vector<Cell> cells) override;
  io::Task<Status> Clear(std::vector<Cell> cells) override;
  io::Task<Status> Read(Cell cell) override;
  io::Task<Status> Sync() override;
  io::Task<Status> Probe() override;

 private:
  SlabMedia(const MetaBlock& meta, uint32_t extents);
  uint64_t RecordOffset(const Cell& cell) const;
  void DecodeRange(uint64_t offset, ByteSpan bytes, const std::function<void(const Cell&)>& found,
                   RecoveryCounts* counts);
  bool InPlace(const Record& record, uint64_t offset) const;

  std::string directory_;
  std::unique_ptr<io::DirectoryLock> lock_;  // released last
  MetaBlock meta_;
  SizeClasses classes_;
  uint32_t extents_;
  uint64_t region_bytes_;         // of the table, per extent
  uint64_t slab_bytes_kept_ = 0;  // of the slab as it was found: payloads beyond it are lost
  std::vector<Cell> lost_;        // start: objects whose payload is lost
  std::unique_ptr<io::File> slab_;
  std::unique_ptr<io::File> table_;
};

}  // namespace dfkv::store
