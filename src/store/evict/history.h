// When ids that nothing else remembers were last accessed: eight bytes an id, in buckets of two cache lines
// that forget what was put first when they overflow. Grows and shrinks one bucket at a time (linear hashing),
// so it can give memory back without a pause.
//
// It errs rarely and harmlessly: two ids may share a fingerprint (the second then seems to have been seen),
// and times wrap after 2^32.
#pragma once

#include <array>

#include "store/evict/node_table.h"

namespace dfkv::store::evict {

class History {
 public:
  static constexpr size_t kBucketEntries = 16;

  size_t size() const { return size_; }
  size_t buckets() const { return buckets_; }

  // Remembers `time` (not 0) for the id. No effect without buckets.
  void Put(uint64_t id, uint64_t time);
  // Forgets the id; its time, the latest not after `now`, or 0 when it was not remembered.
  uint64_t Take(uint64_t id, uint64_t now);

  void AddBucket();
  // Merges the last bucket into its neighbour, which forgets its oldest; requires buckets() > 0.
  void RemoveBucket();

  size_t MemoryBytes() const { return all_.MemoryBytes(); }
  static constexpr size_t kBucketBytes = kBucketEntries * 8;

 private:
  struct Bucket {
    // In the order they were put, without gaps.
    std::array<uint32_t, kBucketEntries> print{};  // 0: empty
    std::array<uint32_t, kBucketEntries> time{};
  };
  static_assert(sizeof(Bucket) == kBucketBytes);

  static uint32_t PrintOf(uint64_t id) {
    const auto print = static_cast<uint32_t>(Mix64(id) >> 32);
    return print == 0 ? 1 : print;
  }
  size_t BucketOf(uint32_t print) const {
    const size_t bucket = print & (2 * half_ - 1);
    return bucket < buckets_ ? bucket : bucket - half_;
  }
  void PutPrint(uint32_t print, uint32_t time);
  void RemoveAt(Bucket& bucket, size_t place);

  ChunkedArray<Bucket, 6> all_;
  size_t buckets_ = 0;
  size_t half_ = 1;  // buckets_ is in (half_, 2 * half_], or half_ == 1
  size_t size_ = 0;
};

}  // namespace dfkv::store::evict
