// Index: where every object is. Sharded hash tables under short locks; an object is named by a 32-bit
// reference to its 64-byte descriptor. At most kIndexBytesPerObject in all, slot maps of the tiers included.
//
// One descriptor holds the address on disk and the address in RAM, so an object that moves between the tiers
// is never missed. A descriptor is in the table from BeginPut until nothing of the object is left: its record
// on disk cleared, its RAM copy given back, no pins.
//
// Threads: a descriptor is read and written under its shard's mutex. Lock order: a tier's mutex, then a
// shard's; never two shards, never a tier's inside a shard's.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/ids.h"
#include "base/random.h"
#include "base/sync.h"
#include "store/extent_allocator.h"

namespace dfkv::store {

using Ref = uint32_t;
constexpr Ref kNoRef = UINT32_MAX;
constexpr uint8_t kNoDisk = UINT8_MAX;
constexpr uint64_t kIndexBytesPerObject = 100;

struct Descriptor {
  enum class State : uint8_t {
    kFree,
    kWriting,    // a PUT is on its way; disk_unit holds the number of its PutOp
    kDoomed,     // the same, but removed or expired meanwhile: no longer found
    kCommitted,  // may be served
    kGhost,  // gone for every caller; waits until its record is cleared, its RAM copy and pins are given back
  };
  enum Flag : uint8_t {
    kReading = 1,   // a read from disk is on its way; ram_unit holds the number of its ReadOp
    kRecorded = 2,  // its record is on disk, or may be
    kVisible = 4,   // kWriting, and served from RAM already (durability ram)
  };

  ObjectKey key;
  uint64_t generation = 0;
  uint32_t length = 0;
  uint32_t crc = 0;
  uint32_t depth = UINT32_MAX;
  uint32_t disk_unit = kNoUnit;
  uint32_t ram_unit = kNoUnit;
  uint32_t next = kNoRef;  // in its hash chain, or in the list of free descriptors
  uint32_t pins = 0;
  State state = State::kFree;
  uint8_t flags = 0;
  uint8_t disk = kNoDisk;
  uint8_t spare = 0;

  bool Is(Flag flag) const { return (flags & flag) != 0; }
  void Set(Flag flag) { flags = static_cast<uint8_t>(flags | flag); }
  void Clear(Flag flag) { flags = static_cast<uint8_t>(flags & ~flag); }
  bool served() const { return state == State::kCommitted || (state == State::kWriting && Is(kVisible)); }
  bool in_ram() const { return ram_unit != kNoUnit && !Is(kReading); }
};
static_assert(sizeof(Descriptor) == 64);

class IndexShard {
 public:
  IndexShard();

  mutable Mutex mutex;  // guards the shard and its descriptors

  // The served or arriving object of that key, kNoRef when there is none.
  Ref Find(const ObjectKey& key) REQUIRES(mutex);
  // Bring what Find will look at into the cache: its bucket, then the first descriptor in that.
  void PrefetchBucket(const ObjectKey& key) REQUIRES(mutex) { __builtin_prefetch(&HeadOf(BucketOf(key))); }
  void PrefetchFirst(const ObjectKey& key) REQUIRES(mutex) {
    const Ref first = HeadOf(BucketOf(key));
    if (first != kNoRef) __builtin_prefetch(&At(first), 1);
  }
  // The next descriptor of the key after `after` (kNoRef: the first), whatever its state.
  Ref FindAny(const ObjectKey& key, Ref after) REQUIRES(mutex);
  // A new descriptor of the key, in the table; its other fields as Descriptor() leaves them.
  Ref Add(const ObjectKey& key) REQUIRES(mutex);
  // Takes it out of the table; the reference may be given again.
  void Free(Ref ref) REQUIRES(mutex);
  // Frees a ghost of which nothing is left.
  void MaybeFree(Ref ref) REQUIRES(mutex);
  Descriptor& At(Ref ref) REQUIRES(mutex) { return chunks_[Chunk(ref)][Within(ref)]; }
  size_t size() REQUIRES(mutex) { return size_; }
  void Reserve(uint64_t objects) REQUIRES(mutex);  // while it is empty
  size_t MemoryBytes() REQUIRES(mutex);

  static constexpr uint32_t kShardBits = 6;
  static constexpr uint32_t kShards = 1 << kShardBits;
  void set_number(uint32_t number) { number_ = number; }
  static uint64_t Hash(const ObjectKey& key) { return Mix64(HashOf(key) ^ Mix64(key.id.hi)); }

 private:
  static constexpr uint32_t kChunkBits = 7;  // descriptors and heads grow by 8 KiB, so no call moves a table
  static constexpr uint32_t kHeadChunkBits = 10;
  static uint32_t Chunk(Ref ref) { return ref >> (kShardBits + kChunkBits); }
  static uint32_t Within(Ref ref) { return (ref >> kShardBits) & ((1u << kChunkBits) - 1); }
  uint32_t& HeadOf(uint64_t bucket) REQUIRES(mutex) {
    return heads_[bucket >> kHeadChunkBits][bucket & ((1u << kHeadChunkBits) - 1)];
  }
  uint64_t BucketOf(const ObjectKey& key) REQUIRES(mutex);
  void AddBucket() REQUIRES(mutex);

  uint32_t number_ = 0;
  // Linear hashing: one bucket is split at a time, so growing never stalls a caller.
  uint64_t buckets_ GUARDED_BY(mutex) = 0;
  uint64_t half_ GUARDED_BY(mutex) = 1;  // buckets_ is in (half_, 2 * half_], or half_ == 1
  std::vector<std::unique_ptr<uint32_t[]>> heads_ GUARDED_BY(mutex);
  std::vector<std::unique_ptr<Descriptor[]>> chunks_ GUARDED_BY(mutex);
  Ref free_ GUARDED_BY(mutex) = kNoRef;
  uint64_t taken_ GUARDED_BY(mutex) = 0;  // descriptors ever made
  size_t size_ GUARDED_BY(mutex) = 0;
};

class Index {
 public:
  Index() {
    for (uint32_t i = 0; i < IndexShard::kShards; ++i) shards_[i].set_number(i);
  }
  IndexShard& ShardOf(const ObjectKey& key) {
    return shards_[IndexShard::Hash(key) >> (64 - IndexShard::kShardBits)];
  }
  IndexShard& ShardOf(Ref ref) { return shards_[ref & (IndexShard::kShards - 1)]; }
  size_t MemoryBytes();
  // Start: makes an empty index large enough for so many objects at once rather than step by step.
  void Reserve(uint64_t objects);

 private:
  std::array<IndexShard, IndexShard::kShards> shards_;
};

}  // namespace dfkv::store
