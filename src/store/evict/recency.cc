#include "store/evict/recency.h"

namespace dfkv::store::evict {

void Recency::Unlink(KnownTable& table, Index i) {
  for (Index& cursor : cursors_) {
    if (cursor == i) cursor = table[i].recency.hotter;
  }
  list_.Remove(table, i);
  table[i].in_recency = 0;
}

void Recency::Touch(KnownTable& table, Index i) {
  if (table[i].in_recency) Unlink(table, i);
  list_.PushHot(table, i);
  table[i].in_recency = 1;
  if (!table[i].in_lru) {
    table[i].in_lru = 1;
    ++lru_size_;
  }
  if (cursors_[kLru] == kNil) cursors_[kLru] = i;
}

Index Recency::DropFromLru(KnownTable& table) {
  const Index i = cursors_[kLru];
  table[i].in_lru = 0;
  --lru_size_;
  cursors_[kLru] = table[i].recency.hotter;
  if (!table[i].live()) Unlink(table, i);
  return i;
}

void Recency::AddLive(KnownTable& table, Index i) {
  const Index cold = cursors_[kCold];
  const auto colder_than = [&](const Known& a, const Known& b) {
    return a.last != b.last ? a.last < b.last : a.depth > b.depth;
  };
  if (table[i].in_recency) {
    if (cold != kNil && colder_than(table[i], table[cold])) cursors_[kCold] = i;
    return;
  }
  Index at = list_.coldest();
  bool passed_cold = cold == kNil;
  for (int step = 0; step < kPlaceStepsMax && at != kNil; ++step) {
    if (table[at].in_lru || !colder_than(table[at], table[i])) break;
    passed_cold |= at == cold;
    at = table[at].recency.hotter;
  }
  if (at == kNil) {
    list_.PushHot(table, i);
  } else {
    list_.InsertColder(table, i, at);
  }
  table[i].in_recency = 1;
  if (!passed_cold) cursors_[kCold] = i;
}

void Recency::RemoveLive(KnownTable& table, Index i) {
  if (!table[i].in_lru) Unlink(table, i);
}

void Recency::Follow(KnownTable& table, Index from, Index to) {
  list_.Follow(table, from, to);
  for (Index& cursor : cursors_) {
    if (cursor == from) cursor = to;
  }
}

Index Recency::ColdestLive(const KnownTable& table, size_t steps) {
  if (cursors_[kCold] == kNil) Restart(kCold);
  for (size_t step = 0; step <= steps && cursors_[kCold] != kNil; ++step) {
    if (table[cursors_[kCold]].live()) return cursors_[kCold];
    Next(table, kCold);
  }
  return kNil;
}

}  // namespace dfkv::store::evict
