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
  return found;
}

MetaBlock NewMeta(const MetaRequest& request) {
  MetaBlock meta{};
  Random random(SeedFromSystem());
  random.Fill(meta.salt);
  meta.extent_bytes = request.extent_bytes;
  meta.engine = request.engine;
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

Result<OpenedMeta> OpenMetaBlocking(io::Disk& disk, const MetaRequest& request) {
  const std::string path = request.directory + "/meta";
  Found found = ReadBlock(disk, path);
  const bool damaged = found.state == MetaState::kDamaged;
  if (damaged && !request.copy.empty()) {
    const bool garbage = found.garbage;
    found = ReadBlock(disk, Cat(request.directory, "/", request.copy));
    if (found.state == MetaState::kValid) {
      DFKV_PROBE("meta: restored from its copy");
      LogWarn(path, ": missing or damaged; restored from the copy in ", request.copy);
    }
    found.garbage = garbage;
  }
  if (found.state == MetaState::kForeign) {
    return Status(
        Code::kUnsupported,
        Cat(path, ": format version is not ", kFormatVersion,
            ", the only one this program reads; use the program that wrote it, or another directory"));
  }
  if (found.state == MetaState::kDamaged && found.garbage) {
    return Status(Code::kUnsupported, Cat(path,
                                          ": not a meta block of this program; remove the directory's "
                                          "files to start empty, or use another directory"));
  }
  if (found.state == MetaState::kValid && found.meta.engine != request.engine) {
    return Status(Code::kUnsupported,
                  Cat(path, ": written by engine ", found.meta.engine == kEngineSlab ? "slab" : "file",
                      "; choose that engine or another directory"));
  }
  if (found.state == MetaState::kDamaged) {
    if (disk.List(request.directory).ok()) DFKV_PROBE("meta: a new one is made");
    found.meta = NewMeta(request);
  }
  return OpenedMeta{found.meta, damaged};
}

}  // namespace dfkv::store
