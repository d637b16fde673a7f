// The ARC shadow: T1 holds ids accessed once lately, T2 those accessed again, B1 and B2 remember what left
// them; a hit in B1 or B2 moves the target for T1's share.
//
// Invariants: |T1| + |T2| <= capacity after Trim has caught up; |T1| + |B1| <= capacity, all four <= twice
// it.
#pragma once

#include <vector>

#include "store/evict/known.h"

namespace dfkv::store::evict {

class Arc {
 public:
  size_t size() const { return lists_[kArcT1].size() + lists_[kArcT2].size(); }
  size_t ghosts() const { return lists_[kArcB1].size() + lists_[kArcB2].size(); }
  static bool Holds(const Known& node) { return node.in_arc(); }

  // Requires that the id is a member.
  void Touch(KnownTable& table, Index i) { MoveTo(table, i, kArcT2); }
  // Keeps a member in its list, as its hottest.
  void Refresh(KnownTable& table, Index i) { MoveTo(table, i, static_cast<ArcList>(table[i].arc_list)); }

  // Requires that the id is no member and capacity > 0. What leaves T1 or T2 or is forgotten is appended to
  // `dropped`.
  void Insert(KnownTable& table, Index i, size_t capacity, std::vector<Index>& dropped);

  // The table has moved a node that is in one of the lists.
  void Follow(KnownTable& table, Index from, Index to) { lists_[table[to].arc_list].Follow(table, from, to); }

  // One step towards a smaller capacity; requires size() > 0.
  void Replace(KnownTable& table, bool hit_in_b2, size_t capacity, std::vector<Index>& dropped);
  // Forgets one remembered id; requires ghosts() > 0.
  void ForgetGhost(KnownTable& table, std::vector<Index>& dropped);

 private:
  using ArcLinks = List<Known, &Known::arc>;

  void MoveTo(KnownTable& table, Index i, ArcList to);
  void Forget(KnownTable& table, ArcList from, std::vector<Index>& dropped);
  bool InsertGhost(KnownTable& table, Index i, size_t capacity, std::vector<Index>& dropped);

  ArcLinks lists_[5];  // by ArcList; the first stays empty
  double target_ = 0;  // of T1's size
};

}  // namespace dfkv::store::evict
