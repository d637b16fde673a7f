// The table of known ids: nodes in a chunked pool, named by 32-bit indices, found by id through a hash table
// that grows and shrinks one bucket at a time (linear hashing), and threaded into any number of lists.
// Nothing is ever moved or rehashed in bulk, so no call under the store's lock takes longer because the table
// is large; Compact gives memory back in small steps.
//
// Invariants: an index stays valid until Free or until Compact says it has moved; a node in use is in exactly
// one hash chain; a chunk is in the list of chunks with room when it has a free node.
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

// Node has `uint64_t id` and `Index hash_next`; a free node is as Node() leaves it.
template <typename Node>
class NodeTable {
 public:
  NodeTable() { GrowBuckets(); }

  Node& operator[](Index i) { return nodes_[i]; }
  const Node& operator[](Index i) const { return nodes_[i]; }
  size_t size() const { return size_; }
  bool InPool(Index i) const { return i < nodes_.capacity(); }  // an index kept across Compact may not be

  // The first node of this id whose index `accept` takes, or kNil.
  template <typename Accept>
  Index Find(uint64_t id, Accept accept) const {
    for (Index i = heads_[BucketOf(id)]; i != kNil; i = nodes_[i].hash_next) {
      if (nodes_[i].id == id && accept(i)) return i;
    }
    return kNil;
  }

  // Bring the head of the id's chain, then its first node, into the cache. First: that node, or kNil.
  void PrefetchHead(uint64_t id) const { __builtin_prefetch(&heads_[BucketOf(id)]); }
  void PrefetchNode(uint64_t id) const {
    const Index i = First(id);
    if (i != kNil) Prefetch(i);
  }
  void Prefetch(Index i) const { __builtin_prefetch(&nodes_[i], 1); }
  Index First(uint64_t id) const { return heads_[BucketOf(id)]; }

  // A node of this id, otherwise as Node() leaves it.
  Index Add(uint64_t id) {
    if (roomy_ == kNil) AddChunk();
    const Index i = TakeFrom(roomy_);
    nodes_[i].id = id;
    ++size_;
    if (size_ > buckets_) GrowBuckets();
    Index& head = heads_[BucketOf(id)];
    nodes_[i].hash_next = head;
    head = i;
    return i;
  }

  void Free(Index i) {
    *LinkTo(i) = nodes_[i].hash_next;
    GiveBack(i);
    --size_;
  }

  // Whether Compact has something to do: over an eighth of the pool, or with `strictly` over a chunk, is
  // free.
  bool Sparse(bool strictly) const {
    const size_t slack = strictly ? kChunk : size_ / 8 + 2 * kChunk;
    return nodes_.capacity() > size_ + slack + kChunk;
  }

  // Moves at most `steps` nodes out of the pool's last chunk, gives it back when it is empty, and shrinks the
  // hash table by twice as many buckets. Calls moved(from, to) for each node moved: the lists and whatever
  // else holds the index must follow. Requires Sparse.
  template <typename Moved>
  void Compact(size_t steps, Moved moved) {
    DFKV_CHECK(steps > 0);
    for (size_t n = 0; n < 2 * steps && buckets_ > size_ + size_ / 8 + 1; ++n) ShrinkBuckets();
    const auto last = static_cast<uint32_t>(nodes_.capacity() / kChunk - 1);
    if (chunks_[last].used < kChunk) UnlinkRoomy(last);  // a target must lie elsewhere
    for (; steps > 0 && chunks_[last].used > 0; --steps) {
      const Index from = FirstUsed(last);
      DFKV_CHECK(roomy_ != kNil);
      const Index to = TakeFrom(roomy_);
      *LinkTo(from) = to;
      nodes_[to] = nodes_[from];
      GiveBackHidden(from);
      moved(from, to);
    }
    if (chunks_[last].used > 0) {
      LinkRoomy(last);
    } else {
      nodes_.RemoveChunk();
      if (chunks_.capacity() >= last + 2 * chunks_.kChunk) chunks_.RemoveChunk();
    }
  }

  size_t MemoryBytes() const { return nodes_.MemoryBytes() + chunks_.MemoryBytes() + heads_.MemoryBytes(); }

 private:
  static constexpr size_t kChunk = 256;
  static constexpr size_t kWords = kChunk / 64;
  struct Chunk {
    uint64_t in_use[kWords] = {};
    uint32_t used = 0;
    uint32_t next = kNil;  // in the list of chunks with room
    uint32_t previous = kNil;
  };

  void AddChunk() {
    DFKV_CHECK(nodes_.capacity() + kChunk < kNil);
    const auto chunk = static_cast<uint32_t>(nodes_.capacity() / kChunk);
    nodes_.AddChunk();
    if (chunk == chunks_.capacity()) chunks_.AddChunk();
    chunks_[chunk] = Chunk();
    LinkRoomy(chunk);
  }

  void LinkRoomy(uint32_t chunk) {
    chunks_[chunk].next = roomy_;
    chunks_[chunk].previous = kNil;
    if (roomy_ != kNil) chunks_[roomy_].previous = chunk;
    roomy_ = chunk;
  }
  void UnlinkRoomy(uint32_t chunk) {
    const Chunk& links = chunks_[chunk];
    (links.previous == kNil ? roomy_ : chunks_[links.previous].next) = links.next;
    if (links.next != kNil) chunks_[links.next].previous = links.previous;
  }

  Index TakeFrom(uint32_t number) {
    Chunk& chunk = chunks_[number];
    size_t word = 0;
    while (chunk.in_use[word] == ~uint64_t{0}) ++word;
    const auto bit = static_cast<uint32_t>(__builtin_ctzll(~chunk.in_use[word]));
    chunk.in_use[word] |= uint64_t{1} << bit;
    if (++chunk.used == kChunk) UnlinkRoomy(number);
    return static_cast<Index>(number * kChunk + word * 64 + bit);
  }

  Index FirstUsed(uint32_t number) const {
    size_t word = 0;
    while (chunks_[number].in_use[word] == 0) ++word;
    const auto bit = static_cast<uint32_t>(__builtin_ctzll(chunks_[number].in_use[word]));
    return static_cast<Index>(number * kChunk + word * 64 + bit);
  }

  void GiveBackHidden(Index i) {
    Chunk& chunk = chunks_[i / kChunk];
    chunk.in_use[i % kChunk / 64] &= ~(uint64_t{1} << (i % 64));
    --chunk.used;
    nodes_[i] = Node();
  }
  void GiveBack(Index i) {
    GiveBackHidden(i);
    if (chunks_[i / kChunk].used == kChunk - 1) LinkRoomy(static_cast<uint32_t>(i / kChunk));
  }

  size_t BucketOf(uint64_t id) const {
    const uint64_t hash = Mix64(id);
    const size_t bucket = hash & (2 * half_ - 1);
    return bucket < buckets_ ? bucket : bucket - half_;
  }

  // The head or hash_next that names this node.
  Index* LinkTo(Index i) {
    Index* link = &heads_[BucketOf(nodes_[i].id)];
    while (*link != i) link = &nodes_[*link].hash_next;
    return link;
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

  // Joins the last bucket to the one it was split from; requires two buckets.
  void ShrinkBuckets() {
    Index* end = &heads_[buckets_ - 1 - half_];
    while (*end != kNil) end = &nodes_[*end].hash_next;
    *end = heads_[--buckets_];
    if (buckets_ == half_ && half_ > 1) half_ /= 2;
    if (heads_.capacity() >= buckets_ + 2 * heads_.kChunk) heads_.RemoveChunk();
  }

  ChunkedArray<Node, 8> nodes_;
  ChunkedArray<Chunk, 5> chunks_;
  ChunkedArray<Index, 10> heads_;
  size_t buckets_ = 0;
  size_t half_ = 1;  // buckets_ is in (half_, 2 * half_], or half_ == 1
  size_t size_ = 0;  // nodes in use
  uint32_t roomy_ = kNil;
};

struct Links {
  Index hotter = kNil;
  Index colder = kNil;
};

template <typename Node>
void PrefetchNeighbours(const NodeTable<Node>& table, const Links& links) {
  if (links.hotter != kNil) table.Prefetch(links.hotter);
  if (links.colder != kNil) table.Prefetch(links.colder);
}

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

  // Compact has moved the member `from` to `to`.
  void Follow(NodeTable<Node>& table, Index from, Index to) {
    const Links& links = table[to].*kLinks;
    (links.hotter == kNil ? hottest_ : (table[links.hotter].*kLinks).colder) = to;
    (links.colder == kNil ? coldest_ : (table[links.colder].*kLinks).hotter) = to;
    DFKV_CHECK(hottest_ != from && coldest_ != from);
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
