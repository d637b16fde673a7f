#include "store/evict/lru2.h"

namespace dfkv::store::evict {

void Lru2::Insert(KnownTable& table, Index i) {
  Known& node = table[i];
  node.in_lru2 = 1;
  ++size_;
  if (node.prev == 0) {
    node.in_heap = 0;
    queue_.push_back(i);
  } else {
    node.in_heap = 1;
    PushHeap({KeyOf(node), i});
  }
}

void Lru2::Touch(KnownTable& table, Index i) {
  Known& node = table[i];
  if (node.in_heap || node.prev == 0) return;
  node.in_heap = 1;
  PushHeap({KeyOf(node), i});
}

void Lru2::Follow(KnownTable& table, Index to) {
  if (table[to].in_heap) {
    PushHeap({KeyOf(table[to]), to});
  } else {
    queue_.push_back(to);
  }
}

bool Lru2::Queued(const KnownTable& table, Index i) {
  return table.InPool(i) && table[i].in_lru2 && !table[i].in_heap;
}

bool Lru2::Heaped(const KnownTable& table, Index i) {
  return table.InPool(i) && table[i].in_lru2 && table[i].in_heap;
}

Index Lru2::Evict(KnownTable& table) {
  const Index i = First(table);
  if (i == kNil) return kNil;
  table[i].in_lru2 = 0;
  table[i].in_heap = 0;
  --size_;
  return i;
}

Index Lru2::First(KnownTable& table) {
  for (int outdated = 0; outdated < kOutdatedMax; ++outdated) {
    if (!queue_.empty()) {
      const Index i = queue_.front();
      queue_.pop_front();
      if (Queued(table, i)) return i;
    } else if (heap_size_ > 0) {
      const Entry top = heap_[0];
      if (!Heaped(table, top.index)) {
        PopHeap();
        continue;
      }
      const uint64_t key = KeyOf(table[top.index]);
      if (top.key == key) {
        PopHeap();
        return top.index;
      }
      SiftDown({key, top.index});
    } else {
      return kNil;
    }
  }
  return kNil;
}

void Lru2::PushHeap(Entry entry) {
  if (heap_size_ == heap_.capacity()) heap_.AddChunk();
  size_t at = heap_size_++;
  while (at > 0) {
    const size_t parent = (at - 1) / 4;
    if (heap_[parent].key <= entry.key) break;
    heap_[at] = heap_[parent];
    at = parent;
  }
  heap_[at] = entry;
}

void Lru2::SiftDown(Entry entry) {
  size_t at = 0;
  for (;;) {
    const size_t first = 4 * at + 1;
    if (first >= heap_size_) break;
    size_t least = first;
    for (size_t child = first + 1; child < first + 4 && child < heap_size_; ++child) {
      if (heap_[child].key < heap_[least].key) least = child;
    }
    if (entry.key <= heap_[least].key) break;
    heap_[at] = heap_[least];
    at = least;
  }
  heap_[at] = entry;
}

void Lru2::PopHeap() {
  const Entry last = heap_[--heap_size_];
  if (heap_size_ > 0) SiftDown(last);
  if (heap_.capacity() >= heap_size_ + 3 * heap_.kChunk) heap_.RemoveChunk();
}

size_t Lru2::MemoryBytes() const {
  return heap_.MemoryBytes() + queue_.size() * sizeof(Index) + 576;
}

}  // namespace dfkv::store::evict
