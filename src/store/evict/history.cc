#include "store/evict/history.h"

#include <algorithm>

namespace dfkv::store::evict {

void History::Put(uint64_t id, uint64_t time) {
  if (buckets_ == 0) return;
  PutPrint(PrintOf(id), static_cast<uint32_t>(time));
}

void History::PutPrint(uint32_t print, uint32_t time) {
  Bucket& bucket = all_[BucketOf(print)];
  size_t place = 0;
  while (place < kBucketEntries && bucket.print[place] != print && bucket.print[place] != 0) ++place;
  if (place == kBucketEntries) {
    RemoveAt(bucket, 0);
    place = kBucketEntries - 1;
  }
  if (bucket.print[place] == 0) ++size_;
  bucket.print[place] = print;
  bucket.time[place] = time;
}

void History::RemoveAt(Bucket& bucket, size_t place) {
  std::copy(bucket.print.begin() + place + 1, bucket.print.end(), bucket.print.begin() + place);
  std::copy(bucket.time.begin() + place + 1, bucket.time.end(), bucket.time.begin() + place);
  bucket.print.back() = 0;
  --size_;
}

uint64_t History::Take(uint64_t id, uint64_t now) {
  if (buckets_ == 0) return 0;
  const uint32_t print = PrintOf(id);
  Bucket& bucket = all_[BucketOf(print)];
  for (size_t i = 0; i < kBucketEntries && bucket.print[i] != 0; ++i) {
    if (bucket.print[i] != print) continue;
    const uint32_t age = static_cast<uint32_t>(now) - bucket.time[i];
    RemoveAt(bucket, i);
    return now > age ? now - age : 0;
  }
  return 0;
}

void History::AddBucket() {
  if (buckets_ == all_.capacity()) all_.AddChunk();
  all_[buckets_] = Bucket();
  if (buckets_ == 2 * half_) half_ = buckets_;
  const size_t split = buckets_ - half_;
  ++buckets_;
  if (buckets_ == 1) return;
  const Bucket old = all_[split];
  all_[split] = Bucket();
  for (size_t i = 0; i < kBucketEntries && old.print[i] != 0; ++i) {
    --size_;
    PutPrint(old.print[i], old.time[i]);
  }
}

void History::RemoveBucket() {
  DFKV_CHECK(buckets_ > 0);
  const Bucket old = all_[--buckets_];
  if (buckets_ == half_ && half_ > 1) half_ /= 2;
  for (size_t i = 0; i < kBucketEntries && old.print[i] != 0; ++i) {
    --size_;
    if (buckets_ > 0) PutPrint(old.print[i], old.time[i]);
  }
  // One chunk is kept in reserve, so that growing and shrinking in turn allocates nothing.
  if (all_.capacity() >= buckets_ + 2 * all_.kChunk) all_.RemoveChunk();
}

}  // namespace dfkv::store::evict
