// The table of known ids: nodes in a chunked pool, named by 32-bit indices, found by id through a hash table
// that grows one bucket at a time (linear hashing), and threaded into any number of lists. Nothing is ever
// moved or rehashed in bulk, so no call under the store's lock takes longer because the table is large.
//
// Invariants: an index stays valid until Free; a node in use is in exactly one hash chain; the number of
// buckets follows the number of nodes in use, so a chain holds one node on average.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/random.h"

namespace dfkv::store::evict {

using Index = uint32_t;
inline constexpr Index kNil = 0xffffffffu;

// An array of T that grows by chunks and never moves.
template <typename T, unsigned kChunkBits>
class ChunkedArray {
 public:
  static constexpr size_t kChunk = size_t{1} << kChunkBits;

  T& operator[](size_t i) { return chunks_[i >> kChunkBits][i & (kChunk - 1)]; }
  const T& operator[](size_t i) const { return chunks_[i >> kChunkBits][i & (kChunk - 1)]; }
  size_t capacity() const { return chunks_.size() << kChunkBits; }
  void AddChunk() { chunks_.push_back(std::make_unique<T[]>(kChunk)); }
  void RemoveChunk() { chunks_.pop_back(); }
  size_t MemoryBytes() const {
    return chunks_.size() * kChunk * sizeof(T) + chunks_.capacity() * sizeof(chunks_[0]);
  }

 private:
  std::vector<std::unique_ptr<T[]>> chunks_;
};

// Node has `uint64_t id` and `Index hash_next`.
template <typename Node>
class NodeTable {
 public:
  NodeTable() { GrowBuckets(); }

  Node& operator[](Index i) { return nodes_[i]; }
  const Node& operator[](Index i) const { return nodes_[i]; }
  size_t size() const { return size_; }

  // The first node of this id whose index `accept` takes, or kNil.
  template <typename Accept>
  Index Find(uint64_t id, Accept accept) const {
    for (Index i = heads_[BucketOf(id)]; i != kNil; i = nodes_[i].hash_next) {
      if (nodes_[i].id == id && accept(i)) return i;
    }
    return kNil;
  }

  // A node of this id, otherwise as Node() leaves it.
  Index Add(uint64_t id) {
    if (free_ == kNil) {
      DFKV_CHECK(used_ < kNil);
      if (used_ == nodes_.capacity()) nodes_.AddChunk();
      free_ = static_cast<Index>(used_++);
      nodes_[free_].hash_next = kNil;
    }
    const Index i = free_;
    free_ = nodes_[i].hash_next;
    nodes_[i] = Node();
    nodes_[i].id = id;
    ++size_;
    if (size_ > buckets_) GrowBuckets();
    Index& head = heads_[BucketOf(id)];
    nodes_[i].hash_next = head;
    head = i;
    return i;
  }

  void Free(Index i) {
    Index* link = &heads_[BucketOf(nodes_[i].id)];
    while (*link != i) link = &nodes_[*link].hash_next;
    *link = nodes_[i].hash_next;
    nodes_[i].hash_next = free_;
    free_ = i;
    --size_;
  }

  size_t MemoryBytes() const { return nodes_.MemoryBytes() + heads_.MemoryBytes(); }

 private:
  size_t BucketOf(uint64_t id) const {
    const uint64_t hash = Mix64(id);
    const size_t bucket = hash & (2 * half_ - 1);
    return bucket < buckets_ ? bucket : bucket - half_;
  }

  // Adds one bucket and moves to it what belongs there from the bucket it splits.
  void GrowBuckets() {
    if (buckets_ == heads_.capacity()) heads_.AddChunk();
    heads_[buckets_] = kNil;
    if (buckets_ == 2 * half_) half_ = buckets_;
    const size_t split = buckets_ - half_;
    ++buckets_;
    if (buckets_ == 1) return;
    Index* link = &heads_[split];
    while (*link != kNil) {
      const Index i = *link;
      if (BucketOf(nodes_[i].id) == split) {
        link = &nodes_[i].hash_next;
      } else {
        *link = nodes_[i].hash_next;
        nodes_[i].hash_next = heads_[buckets_ - 1];
        heads_[buckets_ - 1] = i;
      }
    }
  }

  ChunkedArray<Node, 8> nodes_;
  ChunkedArray<Index, 10> heads_;
  size_t buckets_ = 0;
  size_t half_ = 1;  // buckets_ is in (half_, 2 * half_], or half_ == 1
  size_t used_ = 0;  // nodes ever taken from the pool
  size_t size_ = 0;  // nodes in use
  Index free_ = kNil;
};

struct Links {
  Index hotter = kNil;
  Index colder = kNil;
};

// A doubly linked list through one Links member of the nodes; the table is passed in, not held.
template <typename Node, Links Node::*kLinks>
class List {
 public:
  Index hottest() const { return hottest_; }
  Index coldest() const { return coldest_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  void PushHot(NodeTable<Node>& table, Index i) {
    Links& links = table[i].*kLinks;
    links.hotter = kNil;
    links.colder = hottest_;
    (hottest_ == kNil ? coldest_ : (table[hottest_].*kLinks).hotter) = i;
    hottest_ = i;
    ++size_;
  }

  // Places i just colder than `at`, which is in the list.
  void InsertColder(NodeTable<Node>& table, Index i, Index at) {
    Links& links = table[i].*kLinks;
    Links& at_links = table[at].*kLinks;
    links.hotter = at;
    links.colder = at_links.colder;
    (links.colder == kNil ? coldest_ : (table[links.colder].*kLinks).hotter) = i;
    at_links.colder = i;
    ++size_;
  }

  void Remove(NodeTable<Node>& table, Index i) {
    Links& links = table[i].*kLinks;
    (links.hotter == kNil ? hottest_ : (table[links.hotter].*kLinks).colder) = links.colder;
    (links.colder == kNil ? coldest_ : (table[links.colder].*kLinks).hotter) = links.hotter;
    links = Links();
    --size_;
  }

  void MoveHot(NodeTable<Node>& table, Index i) {
    if (i == hottest_) return;
    Remove(table, i);
    PushHot(table, i);
  }

 private:
  Index hottest_ = kNil;
  Index coldest_ = kNil;
  size_t size_ = 0;
};

}  // namespace dfkv::store::evict
