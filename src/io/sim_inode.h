// SimInode: the bytes of one file of a simulated disk, with every version of a sector that a power cut may
// leave behind.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "io/disk.h"

namespace dfkv::io {

// How a power cut treats what was not synced.
struct PowerCut {
  enum class Kind : uint8_t {
    kNothing,    // all of it is lost
    kAll,        // all of it had reached the medium
    kPrefix,     // what was written up to some moment is there, nothing later
    kAnySector,  // any version of any sector: dropped, torn and reordered
  };
  Kind kind = Kind::kNothing;
  uint64_t prefix = 0;  // kPrefix: the last write that survives
};

// Counts its allocated blocks in `*used_blocks`, which outlives it. One thread at a time.
class SimInode {
 public:
  SimInode(uint32_t sector, uint64_t* used_blocks) : sector_(sector), used_blocks_(used_blocks) {}
  ~SimInode() { Resize(0); }
  SimInode(const SimInode&) = delete;
  SimInode& operator=(const SimInode&) = delete;

  uint64_t size() const { return size_; }
  uint32_t sector() const { return sector_; }
  void CountIn(uint64_t* used_blocks);                           // its blocks, from now on
  uint32_t open_files = 0;                                       // the owner's
  bool named = false;                                            // the owner's
  uint64_t MissingBlocks(uint64_t offset, uint64_t size) const;  // to be allocated before all of it is there

  void Read(uint64_t offset, MutableByteSpan into) const;  // zeros where nothing was written
  // `time`: increases with each change of the disk; a version is known by it.
  void Write(uint64_t offset, ByteSpan from, uint64_t time);
  void Punch(uint64_t offset, uint64_t size, uint64_t time);
  void Poke(uint64_t offset, ByteSpan from);  // changes the medium itself, in every version
  void Resize(uint64_t size);                 // durable at once
  void Reserve(uint64_t size);                // allocates [0, size)
  std::vector<DataRange> DataRanges() const;

  void Sync(uint64_t time);  // what was written up to `time` is durable
  void Lose(const PowerCut& cut, Random& random);

 private:
  static constexpr uint64_t kBlocksPerChunk = 256;
  using Bytes = std::unique_ptr<std::byte[]>;
  struct Chunk {
    std::array<Bytes, kBlocksPerChunk> blocks;  // null: zeros
    std::bitset<kBlocksPerChunk> allocated;
  };
  struct Version {
    uint64_t time;
    Bytes bytes;  // of one sector; null: zeros
  };
  // A sector that was written since it was last synced.
  struct Volatile {
    std::vector<Version> older;  // the first is the durable one
    uint64_t time = 0;           // of what stands there now
  };

  bool IsAllocated(uint64_t block) const;
  void Allocate(uint64_t block);
  void Free(uint64_t block);
  void Store(uint64_t offset, ByteSpan from);  // without versions
  Bytes TakeSector(uint64_t sector, bool whole);
  void KeepOlder(uint64_t offset, uint64_t size, uint64_t time);
  static uint64_t TimeAfter(const Volatile& kept, size_t version);

  const uint32_t sector_;
  uint64_t* used_blocks_;
  uint64_t size_ = 0;
  uint64_t durable_size_ = 0;
  std::map<uint64_t, Chunk> chunks_;
  std::map<uint64_t, Volatile> volatile_;  // by sector
};

}  // namespace dfkv::io
