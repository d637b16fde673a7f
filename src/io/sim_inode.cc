// Invariants: a sector in volatile_ has at least one older version, in the order of their times; the first
// (of time 0) is what a power cut that loses everything leaves. What Read gives is the newest and kept only
// once.
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

void SimInode::CountIn(uint64_t* used_blocks) {
  uint64_t blocks = 0;
  for (const auto& [index, chunk] : chunks_) blocks += chunk.allocated.count();
  *used_blocks_ -= blocks;
  *used_blocks += blocks;
  used_blocks_ = used_blocks;
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
    const std::byte* bytes =
        chunk == chunks_.end() ? nullptr : chunk->second.blocks[block % kBlocksPerChunk].get();
    if (bytes != nullptr) {
      std::copy_n(bytes + within, part.size(), part.data());
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
    Bytes& bytes = chunks_[block / kBlocksPerChunk].blocks[block % kBlocksPerChunk];
    if (bytes == nullptr && part.size() == kDiskBlock) {
      bytes = std::make_unique_for_overwrite<std::byte[]>(kDiskBlock);
    } else if (bytes == nullptr) {
      bytes = std::make_unique<std::byte[]>(kDiskBlock);
    }
    std::copy(part.begin(), part.end(), bytes.get() + within);
    from = from.subspan(part.size());
    offset += part.size();
  }
}

// What stands in the sector now; null: zeros. `whole`: it is about to be overwritten to its end.
SimInode::Bytes SimInode::TakeSector(uint64_t sector, bool whole) {
  const uint64_t block = sector * sector_ / kDiskBlock;
  const auto chunk = chunks_.find(block / kBlocksPerChunk);
  if (chunk == chunks_.end()) return nullptr;
  Bytes& bytes = chunk->second.blocks[block % kBlocksPerChunk];
  if (bytes == nullptr) return nullptr;
  if (whole && sector_ == kDiskBlock) return std::move(bytes);
  Bytes copy = std::make_unique_for_overwrite<std::byte[]>(sector_);
  std::copy_n(bytes.get() + sector * sector_ % kDiskBlock, sector_, copy.get());
  return copy;
}

// Before a change of `time`: keeps what stands there. An earlier piece of the same change kept it already.
void SimInode::KeepOlder(uint64_t offset, uint64_t size, uint64_t time) {
  for (uint64_t sector = offset / sector_; sector * sector_ < offset + size; ++sector) {
    Volatile& kept = volatile_[sector];
    if (kept.time == time) continue;
    const bool whole = sector * sector_ >= offset && (sector + 1) * sector_ <= offset + size;
    kept.older.push_back({kept.time, TakeSector(sector, whole)});
    kept.time = time;
  }
}

void SimInode::Write(uint64_t offset, ByteSpan from, uint64_t time) {
  if (from.empty()) return;
  KeepOlder(offset, from.size(), time);
  Store(offset, from);
  size_ = std::max(size_, offset + from.size());
}

void SimInode::Punch(uint64_t offset, uint64_t size, uint64_t time) {
  size = offset >= size_ ? 0 : std::min(size, size_ - offset);
  if (size == 0) return;
  KeepOlder(offset, size, time);
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
}

void SimInode::Poke(uint64_t offset, ByteSpan from) {
  Store(offset, from);
  for (uint64_t i = 0; i < from.size(); ++i) {
    const auto found = volatile_.find((offset + i) / sector_);
    if (found == volatile_.end()) continue;
    for (Version& version : found->second.older) {
      if (version.bytes == nullptr) version.bytes = std::make_unique<std::byte[]>(sector_);
      version.bytes[(offset + i) % sector_] = from[i];
    }
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
    Volatile& kept = it->second;
    if (kept.time <= time) {
      it = volatile_.erase(it);
      continue;
    }
    const auto later = std::find_if(kept.older.begin(), kept.older.end(),
                                    [&](const Version& version) { return version.time > time; });
    kept.older.erase(kept.older.begin(), later - 1);
    kept.older.front().time = 0;  // also for a sync that began earlier and ends later
    ++it;
  }
  durable_size_ = size_;
}

// The time of the version that followed the older one of that number.
uint64_t SimInode::TimeAfter(const Volatile& kept, size_t version) {
  return version + 1 < kept.older.size() ? kept.older[version + 1].time : kept.time;
}

void SimInode::Lose(const PowerCut& cut, Random& random) {
  const std::vector<std::byte> zeros(sector_);
  for (const auto& [sector, kept] : volatile_) {
    const std::vector<Version>& older = kept.older;
    size_t survivor = 0;  // older.size(): what stands there now
    if (cut.kind == PowerCut::Kind::kAll) survivor = older.size();
    if (cut.kind == PowerCut::Kind::kAnySector) survivor = random.Below(older.size() + 1);
    if (cut.kind == PowerCut::Kind::kPrefix) {
      while (survivor < older.size() && TimeAfter(kept, survivor) <= cut.prefix) ++survivor;
    }
    if (survivor == older.size()) continue;
    const std::byte* bytes = older[survivor].bytes == nullptr ? zeros.data() : older[survivor].bytes.get();
    Store(sector * sector_, {bytes, sector_});
  }
  volatile_.clear();
  const bool keeps_size =
      cut.kind == PowerCut::Kind::kAll || (cut.kind != PowerCut::Kind::kNothing && random.OneIn(2));
  const uint64_t size = keeps_size ? size_ : durable_size_;
  size_ = std::max(size_, size);
  Resize(size);
}

}  // namespace dfkv::io
