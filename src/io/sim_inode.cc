// Invariants: a sector in volatile_ has at least two versions, in the order of their times; the last equals
// what Read gives, the first
// (of time 0) is what a power cut that loses everything leaves.
#include "io/sim_inode.h"

#include <algorithm>

namespace dfkv::io {

bool SimInode::IsAllocated(uint64_t block) const {
  const auto chunk = chunks_.find(block / kBlocksPerChunk);
  return chunk != chunks_.end() && chunk->second.allocated[block % kBlocksPerChunk];
}

void SimInode::Allocate(uint64_t block) {
  Chunk& chunk = chunks_[block / kBlocksPerChunk];
  if (chunk.allocated[block % kBlocksPerChunk]) return;
  chunk.allocated[block % kBlocksPerChunk] = true;
  ++*used_blocks_;
}

void SimInode::Free(uint64_t block) {
  const auto found = chunks_.find(block / kBlocksPerChunk);
  if (found == chunks_.end()) return;
  Chunk& chunk = found->second;
  if (chunk.allocated[block % kBlocksPerChunk]) --*used_blocks_;
  chunk.allocated[block % kBlocksPerChunk] = false;
  chunk.blocks[block % kBlocksPerChunk].reset();
}

uint64_t SimInode::MissingBlocks(uint64_t offset, uint64_t size) const {
  uint64_t missing = 0;
  for (uint64_t block = offset / kDiskBlock; size > 0 && block <= (offset + size - 1) / kDiskBlock; ++block) {
    if (!IsAllocated(block)) ++missing;
  }
  return missing;
}

void SimInode::Read(uint64_t offset, MutableByteSpan into) const {
  while (!into.empty()) {
    const uint64_t block = offset / kDiskBlock;
    const uint64_t within = offset % kDiskBlock;
    const MutableByteSpan part = into.first(std::min<uint64_t>(into.size(), kDiskBlock - within));
    const auto chunk = chunks_.find(block / kBlocksPerChunk);
    const Block* bytes =
        chunk == chunks_.end() ? nullptr : chunk->second.blocks[block % kBlocksPerChunk].get();
    if (bytes != nullptr) {
      std::copy_n(bytes->data() + within, part.size(), part.data());
    } else {
      std::fill(part.begin(), part.end(), std::byte{0});
    }
    into = into.subspan(part.size());
    offset += part.size();
  }
}

void SimInode::Store(uint64_t offset, ByteSpan from) {
  while (!from.empty()) {
    const uint64_t block = offset / kDiskBlock;
    const uint64_t within = offset % kDiskBlock;
    const ByteSpan part = from.first(std::min<uint64_t>(from.size(), kDiskBlock - within));
    Allocate(block);
    std::unique_ptr<Block>& bytes = chunks_[block / kBlocksPerChunk].blocks[block % kBlocksPerChunk];
    if (bytes == nullptr) bytes = std::make_unique<Block>();
    std::copy(part.begin(), part.end(), bytes->data() + within);
    from = from.subspan(part.size());
    offset += part.size();
  }
}

std::vector<std::byte> SimInode::SectorBytes(uint64_t sector) const {
  std::vector<std::byte> bytes(sector_);
  Read(sector * sector_, bytes);
  return bytes;
}

void SimInode::KeepBase(uint64_t offset, uint64_t size) {
  for (uint64_t sector = offset / sector_; sector * sector_ < offset + size; ++sector) {
    std::vector<Version>& versions = volatile_[sector];
    if (versions.empty()) versions.push_back({0, SectorBytes(sector)});
  }
}

void SimInode::KeepVersions(uint64_t offset, uint64_t size, uint64_t time) {
  for (uint64_t sector = offset / sector_; sector * sector_ < offset + size; ++sector) {
    std::vector<Version>& versions = volatile_[sector];
    if (versions.back().time == time) versions.pop_back();  // an earlier piece of the same write
    versions.push_back({time, SectorBytes(sector)});
  }
}

void SimInode::Write(uint64_t offset, ByteSpan from, uint64_t time) {
  if (from.empty()) return;
  KeepBase(offset, from.size());
  Store(offset, from);
  KeepVersions(offset, from.size(), time);
  size_ = std::max(size_, offset + from.size());
}

void SimInode::Punch(uint64_t offset, uint64_t size, uint64_t time) {
  size = offset >= size_ ? 0 : std::min(size, size_ - offset);
  if (size == 0) return;
  KeepBase(offset, size);
  const uint64_t end = offset + size;
  for (uint64_t at = offset; at < end;) {
    const uint64_t block_end = AlignDown(at, kDiskBlock) + kDiskBlock;
    const uint64_t part_end = std::min(end, block_end);
    if (at % kDiskBlock == 0 && part_end == block_end) {
      Free(at / kDiskBlock);
    } else if (IsAllocated(at / kDiskBlock)) {
      const std::vector<std::byte> zeros(part_end - at);
      Store(at, zeros);
    }
    at = part_end;
  }
  KeepVersions(offset, size, time);
}

void SimInode::Poke(uint64_t offset, ByteSpan from) {
  Store(offset, from);
  for (uint64_t i = 0; i < from.size(); ++i) {
    const auto found = volatile_.find((offset + i) / sector_);
    if (found == volatile_.end()) continue;
    for (Version& version : found->second) version.bytes[(offset + i) % sector_] = from[i];
  }
}

void SimInode::Resize(uint64_t size) {
  if (size < size_) {
    const uint64_t keep = AlignUp(size, kDiskBlock);
    if (size % kDiskBlock != 0 && IsAllocated(size / kDiskBlock)) {
      const std::vector<std::byte> zeros(keep - size);
      Store(size, zeros);
    }
    for (auto chunk = chunks_.lower_bound(keep / kDiskBlock / kBlocksPerChunk); chunk != chunks_.end();
         ++chunk) {
      const uint64_t first = chunk->first * kBlocksPerChunk;
      for (uint64_t i = 0; i < kBlocksPerChunk; ++i) {
        if ((first + i) * kDiskBlock >= keep) Free(first + i);
      }
    }
    volatile_.erase(volatile_.lower_bound(size / sector_), volatile_.end());
  }
  size_ = durable_size_ = size;
}

void SimInode::Reserve(uint64_t size) {
  for (uint64_t block = 0; block * kDiskBlock < size; ++block) Allocate(block);
}

std::vector<DataRange> SimInode::DataRanges() const {
  std::vector<DataRange> ranges;
  for (const auto& [index, chunk] : chunks_) {
    for (uint64_t i = 0; i < kBlocksPerChunk; ++i) {
      if (chunk.blocks[i] == nullptr) continue;
      const uint64_t begin = (index * kBlocksPerChunk + i) * kDiskBlock;
      const uint64_t end = std::min(begin + kDiskBlock, size_);
      if (begin >= end) continue;
      if (!ranges.empty() && ranges.back().end == begin) {
        ranges.back().end = end;
      } else {
        ranges.push_back({begin, end});
      }
    }
  }
  return ranges;
}

void SimInode::Sync(uint64_t time) {
  for (auto it = volatile_.begin(); it != volatile_.end();) {
    std::vector<Version>& versions = it->second;
    const auto later = std::find_if(versions.begin(), versions.end(),
                                    [&](const Version& version) { return version.time > time; });
    versions.erase(versions.begin(), later - 1);
    versions.front().time = 0;  // also for a sync that began earlier and ends later
    it = versions.size() == 1 ? volatile_.erase(it) : std::next(it);
  }
  durable_size_ = size_;
}

void SimInode::Lose(const PowerCut& cut, Random& random) {
  for (const auto& [sector, versions] : volatile_) {
    size_t survivor = 0;
    if (cut.kind == PowerCut::Kind::kAll) survivor = versions.size() - 1;
    if (cut.kind == PowerCut::Kind::kAnySector) survivor = random.Below(versions.size());
    if (cut.kind == PowerCut::Kind::kPrefix) {
      while (survivor + 1 < versions.size() && versions[survivor + 1].time <= cut.prefix) ++survivor;
    }
    Store(sector * sector_, versions[survivor].bytes);
  }
  volatile_.clear();
  const bool keeps_size =
      cut.kind == PowerCut::Kind::kAll || (cut.kind != PowerCut::Kind::kNothing && random.OneIn(2));
  const uint64_t size = keeps_size ? size_ : durable_size_;
  size_ = std::max(size_, size);
  Resize(size);
}

}  // namespace dfkv::io
