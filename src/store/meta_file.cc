#include "store/meta_file.h"

#include <algorithm>
#include <vector>

#include "base/fault.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text.h"

namespace dfkv::store {
namespace {

struct Found {
  MetaState state = MetaState::kDamaged;
  bool garbage = false;  // a whole block that is neither ours nor zeros
  uint32_t version = 0;  // as it stands there
  MetaBlock meta{};
};

// What the first block of a file says; a file that is missing or too short is damaged.
Found ReadBlock(io::Disk& disk, const std::string& path) {
  Found found;
  io::OpenOptions open;
  open.read_only = true;
  auto file = disk.Open(path, open);
  if (!file.ok()) return found;
  std::vector<std::byte> block(sizeof(MetaBlock));
  if (!(*file)->ReadBlocking(0, block).ok()) return found;
  found.state = DecodeMeta(block, &found.meta);
  const bool ours = LoadLe<uint64_t>(block.data()) == kMetaMagic;
  const bool zeros = std::all_of(block.begin(), block.end(), [](std::byte b) { return b == std::byte{0}; });
  found.garbage = !ours && !zeros;
  found.version = LoadLe<uint32_t>(block.data() + offsetof(MetaBlock, version));
  return found;
}

MetaBlock NewMeta(uint32_t engine, uint64_t extent_bytes) {
  MetaBlock meta{};
  Random random(SeedFromSystem());
  random.Fill(meta.salt);
  meta.extent_bytes = extent_bytes;
  meta.engine = engine;
  SealMeta(&meta);
  return meta;
}

}  // namespace

Status WriteMetaBlocking(io::Disk& disk, const std::string& directory, const MetaBlock& meta) {
  const std::string path = directory + "/meta";
  const std::string next = path + ".new";
  io::OpenOptions open;
  open.create = true;
  auto file = disk.Open(next, open);
  if (!file.ok()) return file.status();
  DFKV_RETURN_IF_ERROR(WriteMetaCopyBlocking(**file, meta));
  DFKV_RETURN_IF_ERROR((*file)->SyncBlocking());
  return disk.Rename(next, path);
}

Status WriteMetaCopyBlocking(io::File& file, const MetaBlock& meta) {
  return file.WriteBlocking(0, {reinterpret_cast<const std::byte*>(&meta), sizeof meta});
}

namespace {

// The block of directory/meta, or of its copy where the first cannot be read. A foreign version counts only
// when the copy does not contradict it: a program that changes the format changes both, while damage hits
// one.
Found ReadEither(io::Disk& disk, const std::string& directory, const std::string& path, bool* from_copy) {
  Found found = ReadBlock(disk, path);
  *from_copy = false;
  if (found.state == MetaState::kValid) return found;
  Found copy = ReadBlock(disk, directory + "/table");
  if (copy.state == MetaState::kValid) {
    DFKV_PROBE("meta: restored from its copy");
    LogWarn(path, ": missing or damaged; restored from the copy in table");
    *from_copy = true;
    return copy;
  }
  if (found.state == MetaState::kForeign || copy.state == MetaState::kDamaged) return found;
  return copy;
}

Status ReadMeta(io::Disk& disk, uint32_t engine, const MediaOptions& options, OpenedDirectory* opened) {
  const std::string path = options.directory + "/meta";
  bool from_copy = false;
  Found found = ReadEither(disk, options.directory, path, &from_copy);
  if (found.state == MetaState::kForeign) {
    return Status(Code::kUnsupported,
                  Cat(path, ": format version ", found.version, "; this program reads version ",
                      kFormatVersion, " alone: use the program that wrote it, or another directory"));
  }
  if (found.state == MetaState::kDamaged && found.garbage) {
    return Status(Code::kUnsupported, Cat(path,
                                          ": not a meta block of this program; remove the directory's "
                                          "files to start empty, or use another directory"));
  }
  if (found.state == MetaState::kValid && found.meta.engine != engine) {
    return Status(Code::kUnsupported,
                  Cat(path, ": written by engine ", found.meta.engine == kEngineSlab ? "slab" : "file",
                      "; choose that engine or another directory"));
  }
  const bool made = found.state == MetaState::kDamaged;
  if (made) {
    if (disk.List(options.directory).ok()) DFKV_PROBE("meta: a new one is made");
    found.meta = NewMeta(engine, options.extent_bytes);
  }
  opened->meta = found.meta;
  opened->meta_to_write = made || from_copy;
  return Ok();
}

}  // namespace

Result<OpenedDirectory> OpenDirectoryBlocking(io::Disk& disk, uint32_t engine, const MediaOptions& options) {
  DFKV_RETURN_IF_ERROR(disk.MakeDirectories(options.directory));
  auto lock = disk.Lock(options.directory);
  if (!lock.ok()) return lock.status();
  OpenedDirectory opened;
  opened.lock = std::move(*lock);
  DFKV_RETURN_IF_ERROR(ReadMeta(disk, engine, options, &opened));
  const uint64_t extent_bytes = opened.meta.extent_bytes;
  const uint64_t extents = options.capacity_bytes / extent_bytes;
  if (extents == 0) {
    return Status(Code::kInvalid, Cat(options.directory, ": capacity ", FormatBytes(options.capacity_bytes),
                                      " is less than one extent of ", FormatBytes(extent_bytes)));
  }
  if (extents * (extent_bytes / kBlockBytes) >= UINT32_MAX) {
    return Status(Code::kInvalid, Cat(options.directory, ": at most 16 TiB per directory"));
  }
  opened.extents = static_cast<uint32_t>(extents);
  return opened;
}

}  // namespace dfkv::store
