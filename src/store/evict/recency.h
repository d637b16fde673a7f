// One list by recency for two uses: the LRU shadow, which is its hottest `lru_size()` ids, and the live
// objects, which it puts in order, from the coldest up.
//
// Invariants: an id is in the list when it is in the LRU shadow or live; the LRU shadow's ids come before all
// others; nothing colder than the cold cursor is live, unless a cursor has run off the list and starts again.
#pragma once

#include <vector>

#include "store/evict/known.h"

namespace dfkv::store::evict {

class Recency {
 public:
  size_t lru_size() const { return lru_size_; }
  static bool HoldsInLru(const Known& node) { return node.in_lru; }

  // The id becomes the hottest and a member of the LRU shadow.
  void Touch(KnownTable& table, Index i);
  // Drops the LRU shadow's coldest id; requires lru_size() > 0.
  Index DropFromLru(KnownTable& table);
  // The object has become live (its handle is set): places it by its last access where it is not listed yet.
  void AddLive(KnownTable& table, Index i);
  // The object is no longer live (its handle is cleared).
  void RemoveLive(KnownTable& table, Index i);

  // The table has moved a member.
  void Follow(KnownTable& table, Index from, Index to);

  // Moves the cold cursor up to the coldest live object, by at most `steps`. kNil: not reached, or none.
  Index ColdestLive(const KnownTable& table, size_t steps);

  // Two more cursors for walks from the cold end that take several calls. Next goes one step hotter; kNil at
  // the hot end. A cursor whose node leaves its place moves one step hotter.
  enum Cursor : unsigned { kCold = 0, kScan = 1, kRetry = 2, kLru = 3, kCursors = 4 };
  void Restart(Cursor cursor) { cursors_[cursor] = list_.coldest(); }
  void Stop(Cursor cursor) { cursors_[cursor] = kNil; }
  Index At(Cursor cursor) const { return cursors_[cursor]; }
  void Next(const KnownTable& table, Cursor cursor) {
    cursors_[cursor] = table[cursors_[cursor]].recency.hotter;
  }

 private:
  static constexpr int kPlaceStepsMax = 64;

  void Unlink(KnownTable& table, Index i);

  List<Known, &Known::recency> list_;
  Index cursors_[kCursors] = {kNil, kNil, kNil, kNil};  // kLru: the shadow's coldest
  size_t lru_size_ = 0;
};

}  // namespace dfkv::store::evict
