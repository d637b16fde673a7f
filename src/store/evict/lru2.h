// The LRU-2 shadow: ids ordered by the time of the access before last, those accessed once first; among
// equals the deeper goes first.
//
// Ids accessed once leave in the order they came: a queue. The rest is in a heap. A key only grows while the
// id stays, so the heap is corrected when an outdated entry reaches its top, never on a touch.
//
// Invariants: a member (in_lru2) has one current entry, in the heap when in_heap, else in the queue; the
// queue may hold entries of ids that have moved to the heap since.
#pragma once

#include <deque>

#include "store/evict/known.h"

namespace dfkv::store::evict {

class Lru2 {
 public:
  size_t size() const { return size_; }
  static bool Holds(const Known& node) { return node.in_lru2; }

  // Requires that the id is no member. Uses node.prev: 0 sends it to the queue.
  void Insert(KnownTable& table, Index i);
  // The id's times have changed.
  void Touch(KnownTable& table, Index i);
  // The table has moved a member. One that was accessed once goes to the end of its queue.
  void Follow(KnownTable& table, Index to);
  // Drops the member that goes first. kNil when there is none, or when it lies behind more outdated entries
  // than one call passes; a later call gets there. Every touch outdates one entry at most, so a caller that
  // tries again now and then exceeds its capacity by little.
  Index Evict(KnownTable& table);

  size_t MemoryBytes() const;

 private:
  struct __attribute__((packed)) Entry {
    uint64_t key = 0;
    Index index = kNil;
  };
  static constexpr int kOutdatedMax = 64;  // entries passed in one call

  static uint64_t KeyOf(const Known& node) { return node.prev << 16 | (Known::kDepthMax - node.depth); }
  void PushHeap(Entry entry);
  void SiftDown(Entry entry);  // places `entry` from the top down
  void PopHeap();
  static bool Queued(const KnownTable& table, Index i);
  static bool Heaped(const KnownTable& table, Index i);
  Index First(KnownTable& table);

  std::deque<Index> queue_;
  ChunkedArray<Entry, 8> heap_;
  size_t heap_size_ = 0;
  size_t size_ = 0;
};

}  // namespace dfkv::store::evict
