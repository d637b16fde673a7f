// The file `meta` of a data directory: which format, which disk, which geometry.
#pragma once

#include <memory>
#include <string>

#include "io/disk.h"
#include "store/media.h"
#include "store/record.h"

namespace dfkv::store {

struct OpenedDirectory {
  std::unique_ptr<io::DirectoryLock> lock;
  MetaBlock meta{};
  bool meta_to_write = false;  // the file lacks it
  uint32_t extents = 0;        // that the capacity allows
};

// Makes the directory where it is missing, locks it and reads its geometry: directory/meta; where that is
// missing or damaged, the copy that directory/table starts with, whatever the engine; where that fails too,
// makes up a new one (what the directory held is then void, since its records carry another salt). Locked;
// Unsupported: another format version or another engine's directory, or a block that is neither ours nor
// empty; Invalid: a capacity that cannot be.
Result<OpenedDirectory> OpenDirectoryBlocking(io::Disk& disk, uint32_t engine, const MediaOptions& options);
// Writes directory/meta, atomically.
Status WriteMetaBlocking(io::Disk& disk, const std::string& directory, const MetaBlock& meta);
Status WriteMetaCopyBlocking(io::File& file, const MetaBlock& meta);

}  // namespace dfkv::store
