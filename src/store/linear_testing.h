// For linear_test.cc: whether a history of one key could have come from one register that is written once and
// then keeps its value until a REMOVE, or, where it may evict, until any moment.
//
// A history is linearizable when every operation can be given an instant between its begin and its end such
// that, carried out at once in that order, each gives the answer it gave. The search is that of Wing and
// Gong, with the states seen remembered (Lowe): a state is the set of operations carried out and the value
// left.
#pragma once

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace dfkv::store {

struct Operation {
  enum class Kind : uint8_t {
    kPut,     // value: stored, unless the key was present; nothing says which
    kGet,     // value: what was found
    kRemove,  // the key is absent after it
  };
  static constexpr uint64_t kAbsent = 0;
  Kind kind = Kind::kGet;
  uint64_t value = kAbsent;
  uint64_t began = 0;  // instants of one counter; no two are equal
  uint64_t ended = 0;
};

class LinearSearch {
 public:
  // At most kOperationsMax per key, so that a search ends.
  static constexpr size_t kOperationsMax = 4096;

  LinearSearch(std::vector<Operation> history, bool may_evict)
      : history_(std::move(history)), may_evict_(may_evict), done_((history_.size() + 63) / 64, 0) {
    std::sort(history_.begin(), history_.end(),
              [](const Operation& a, const Operation& b) { return a.began < b.began; });
  }

  bool Linearizable() { return history_.size() <= kOperationsMax && Search(); }

 private:
  // One operation carried out, and how to go back.
  struct Step {
    size_t operation;
    uint64_t value_before;
    size_t next;  // where to look for another one in its place: twice the number, plus the outcome
  };

  bool Done(size_t i) const { return (done_[i / 64] >> (i % 64) & 1) != 0; }
  void Flip(size_t i) { done_[i / 64] ^= uint64_t{1} << (i % 64); }

  // The value left by the operation's `outcome`-th possible effect; false: there is no such effect.
  bool Apply(const Operation& operation, int outcome, uint64_t value, uint64_t* after) const {
    if (outcome == 1) {  // what was there has been evicted just before
      if (!may_evict_ || value == Operation::kAbsent) return false;
      value = Operation::kAbsent;
    }
    switch (operation.kind) {
      case Operation::Kind::kPut:
        *after = value == Operation::kAbsent ? operation.value : value;
        return true;
      case Operation::Kind::kGet:
        *after = value;
        return operation.value == value;
      case Operation::Kind::kRemove:
        *after = Operation::kAbsent;
        return true;
    }
    return false;
  }

  // Without recursion: a history may be long.
  bool Search() {
    std::vector<Step> steps;
    uint64_t value = Operation::kAbsent;
    size_t first = 0;  // all before it are done
    size_t next = 0;
    for (;;) {
      while (first < history_.size() && Done(first)) ++first;
      if (first == history_.size()) return true;
      next = std::max(next, 2 * first);
      // An operation may come next when it began before each of those left has ended.
      uint64_t end = UINT64_MAX;
      bool taken = false;
      for (size_t i = first; i < history_.size() && history_[i].began < end; ++i) {
        if (Done(i)) continue;
        end = std::min(end, history_[i].ended);
        for (size_t at = std::max(next, 2 * i); at < 2 * i + 2 && !taken; ++at) {
          uint64_t after = 0;
          if (!Apply(history_[i], static_cast<int>(at % 2), value, &after)) continue;
          Flip(i);
          if (!seen_.insert({done_, after}).second) {
            Flip(i);
            continue;
          }
          steps.push_back({i, value, at + 1});
          value = after;
          taken = true;
        }
        if (taken) break;
      }
      if (taken) {
        next = 0;
        continue;
      }
      if (steps.empty()) return false;
      const Step back = steps.back();
      steps.pop_back();
      Flip(back.operation);
      value = back.value_before;
      first = std::min(first, back.operation);
      next = back.next;
    }
  }

  std::vector<Operation> history_;
  const bool may_evict_;
  std::vector<uint64_t> done_;
  std::set<std::pair<std::vector<uint64_t>, uint64_t>> seen_;
};

}  // namespace dfkv::store
