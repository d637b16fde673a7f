// The file `meta` of a data directory: which format, which disk, which geometry.
#pragma once

#include <string>

#include "io/disk.h"
#include "store/record.h"

namespace dfkv::store {

struct MetaRequest {
  std::string directory;
  uint32_t engine = kEngineSlab;
  uint64_t extent_bytes = 0;  // for a directory that has no meta block yet
  std::string copy;           // name of the file that starts with a copy; empty: none
};

struct OpenedMeta {
  MetaBlock meta{};
  bool to_write = false;  // the file lacks it
};

// Reads directory/meta; where it is missing or damaged, the copy; where that fails too, makes up a new one
// (what the directory held is then void, since its records carry another salt). Unsupported: another format
// version or another engine's directory, or a block that is neither ours nor empty.
Result<OpenedMeta> OpenMetaBlocking(io::Disk& disk, const MetaRequest& request);
// Writes directory/meta, atomically.
Status WriteMetaBlocking(io::Disk& disk, const std::string& directory, const MetaBlock& meta);
Status WriteMetaCopyBlocking(io::File& file, const MetaBlock& meta);

}  // namespace dfkv::store
