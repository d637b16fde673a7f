#include "store/index.h"

namespace dfkv::store {

IndexShard::IndexShard() {
  MutexLock lock(mutex);
  AddBucket();
}

uint64_t IndexShard::BucketOf(const ObjectKey& key) {
  const uint64_t bucket = Hash(key) & (2 * half_ - 1);
  return bucket < buckets_ ? bucket : bucket - half_;
}

void IndexShard::AddBucket() {
  if ((buckets_ >> kHeadChunkBits) == heads_.size()) {
    heads_.push_back(std::make_unique<uint32_t[]>(size_t{1} << kHeadChunkBits));
  }
  HeadOf(buckets_) = kNoRef;
  if (buckets_ == 2 * half_) half_ = buckets_;
  ++buckets_;
  if (buckets_ == 1) return;
  uint32_t* link = &HeadOf(buckets_ - 1 - half_);
  while (*link != kNoRef) {
    const Ref ref = *link;
    Descriptor& descriptor = At(ref);
    if (BucketOf(descriptor.key) != buckets_ - 1) {
      link = &descriptor.next;
      continue;
    }
    *link = descriptor.next;
    descriptor.next = HeadOf(buckets_ - 1);
    HeadOf(buckets_ - 1) = ref;
  }
}

void IndexShard::Reserve(uint64_t objects) {
  DFKV_CHECK(size_ == 0);
  while (buckets_ < objects) AddBucket();
}

Ref IndexShard::Find(const ObjectKey& key) {
  for (Ref ref = HeadOf(BucketOf(key)); ref != kNoRef; ref = At(ref).next) {
    const Descriptor& descriptor = At(ref);
    const bool found =
        descriptor.state == Descriptor::State::kCommitted || descriptor.state == Descriptor::State::kWriting;
    if (found && descriptor.key == key) return ref;
  }
  return kNoRef;
}

Ref IndexShard::FindAny(const ObjectKey& key, Ref after) {
  Ref ref = after == kNoRef ? HeadOf(BucketOf(key)) : At(after).next;
  while (ref != kNoRef && At(ref).key != key) ref = At(ref).next;
  return ref;
}

Ref IndexShard::Add(const ObjectKey& key) {
  Ref ref = free_;
  if (ref != kNoRef) {
    free_ = At(ref).next;
  } else {
    DFKV_CHECK(taken_ < (uint64_t{1} << (32 - kShardBits)) - 1);
    ref = static_cast<Ref>(taken_ << kShardBits) | number_;
    if (Chunk(ref) == chunks_.size()) {
      chunks_.push_back(std::make_unique<Descriptor[]>(size_t{1} << kChunkBits));
    }
    ++taken_;
  }
  ++size_;
  if (size_ > buckets_) AddBucket();
  Descriptor& descriptor = At(ref);
  descriptor = Descriptor();
  descriptor.key = key;
  uint32_t& head = HeadOf(BucketOf(key));
  descriptor.next = head;
  head = ref;
  return ref;
}

void IndexShard::Free(Ref ref) {
  Descriptor& descriptor = At(ref);
  DFKV_CHECK(descriptor.state != Descriptor::State::kFree);
  uint32_t* link = &HeadOf(BucketOf(descriptor.key));
  while (*link != ref) link = &At(*link).next;
  *link = descriptor.next;
  descriptor.state = Descriptor::State::kFree;
  descriptor.next = free_;
  free_ = ref;
  --size_;
}

void IndexShard::MaybeFree(Ref ref) {
  const Descriptor& descriptor = At(ref);
  const bool held = descriptor.Is(Descriptor::kReading) || descriptor.Is(Descriptor::kRecorded);
  if (descriptor.state != Descriptor::State::kGhost || held) return;
  if (descriptor.pins == 0 && descriptor.ram_unit == kNoUnit) Free(ref);
}

size_t IndexShard::MemoryBytes() {
  return chunks_.size() * (sizeof(Descriptor) << kChunkBits) + chunks_.capacity() * sizeof(chunks_[0]) +
         heads_.size() * (sizeof(uint32_t) << kHeadChunkBits) + heads_.capacity() * sizeof(heads_[0]);
}

void Index::Reserve(uint64_t objects) {
  for (IndexShard& shard : shards_) {
    MutexLock lock(shard.mutex);
    shard.Reserve(objects / IndexShard::kShards);
  }
}

size_t Index::MemoryBytes() {
  size_t bytes = sizeof(Index);
  for (IndexShard& shard : shards_) {
    MutexLock lock(shard.mutex);
    bytes += shard.MemoryBytes();
  }
  return bytes;
}

}  // namespace dfkv::store
