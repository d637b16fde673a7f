#include "store/evict/arc.h"

#include <algorithm>

namespace dfkv::store::evict {

void Arc::MoveTo(KnownTable& table, Index i, ArcList to) {
  const unsigned from = table[i].arc_list;
  if (from != kArcNone) lists_[from].Remove(table, i);
  table[i].arc_list = to & 7u;
  if (to != kArcNone) lists_[to].PushHot(table, i);
}

void Arc::Forget(KnownTable& table, ArcList from, std::vector<Index>& dropped) {
  const Index i = lists_[from].coldest();
  MoveTo(table, i, kArcNone);
  dropped.push_back(i);
}

void Arc::ForgetGhost(KnownTable& table, std::vector<Index>& dropped) {
  const bool from_b1 = lists_[kArcB1].size() >= lists_[kArcB2].size();
  Forget(table, from_b1 ? kArcB1 : kArcB2, dropped);
}

void Arc::Replace(KnownTable& table, bool hit_in_b2, size_t capacity, std::vector<Index>& dropped) {
  target_ = std::min(target_, static_cast<double>(capacity));
  const size_t t1 = lists_[kArcT1].size();
  const bool from_t1 =
      t1 > 0 && (static_cast<double>(t1) > target_ || (hit_in_b2 && t1 == static_cast<size_t>(target_)) ||
                 lists_[kArcT2].empty());
  const Index i = lists_[from_t1 ? kArcT1 : kArcT2].coldest();
  MoveTo(table, i, from_t1 ? kArcB1 : kArcB2);
  dropped.push_back(i);
}

// A hit in B1 or B2: the list it left too early gets more room. False when the id is in neither.
bool Arc::InsertGhost(KnownTable& table, Index i, size_t capacity, std::vector<Index>& dropped) {
  const unsigned from = table[i].arc_list;
  if (from != kArcB1 && from != kArcB2) return false;
  const auto b1 = static_cast<double>(lists_[kArcB1].size());
  const auto b2 = static_cast<double>(lists_[kArcB2].size());
  if (from == kArcB1) {
    target_ = std::min(static_cast<double>(capacity), target_ + std::max(1.0, b2 / b1));
  } else {
    target_ = std::max(0.0, target_ - std::max(1.0, b1 / b2));
  }
  MoveTo(table, i, kArcNone);
  if (size() >= capacity) Replace(table, from == kArcB2, capacity, dropped);
  MoveTo(table, i, kArcT2);
  return true;
}

void Arc::Insert(KnownTable& table, Index i, size_t capacity, std::vector<Index>& dropped) {
  if (InsertGhost(table, i, capacity, dropped)) return;
  const size_t t1 = lists_[kArcT1].size();
  if (t1 + lists_[kArcB1].size() >= capacity) {
    if (!lists_[kArcB1].empty()) {
      Forget(table, kArcB1, dropped);
      if (size() >= capacity) Replace(table, false, capacity, dropped);
    } else {
      Forget(table, kArcT1, dropped);
    }
  } else if (size() + ghosts() >= capacity) {
    // After the capacity has shrunk T2 alone may be this large: then Trim catches up.
    if (size() + ghosts() >= 2 * capacity && ghosts() > 0) {
      Forget(table, lists_[kArcB2].empty() ? kArcB1 : kArcB2, dropped);
    }
    if (size() >= capacity) Replace(table, false, capacity, dropped);
  }
  MoveTo(table, i, kArcT1);
}

}  // namespace dfkv::store::evict
