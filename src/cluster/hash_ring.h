// HashRing: which member owns an object. A weighted Ketama ring: every member has points on a circle of 2^64
// positions, 160 for each unit of weight; an object belongs to the first point at or after its position. A
// member that joins or leaves moves only the objects that it gains or loses.
//
// The points come from the members' names and weights alone, so every client of one list agrees, whatever the
// order of the list. FROZEN: a changed point is a cache lost. Immutable once built; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace dfkv::cluster {

struct RingMember {
  std::string_view name;
  uint32_t weight = 1;
};

class HashRing {
 public:
  static constexpr uint32_t kPointsPerWeight = 160;

  HashRing() = default;  // empty: nothing may be looked up
  // The names are unique; only read here.
  explicit HashRing(std::span<const RingMember> members);

  // Index of the owner in the list that was given. The ring is not empty.
  uint32_t Lookup(const ObjectId& id) const { return members_ == 1 ? 0 : Find(id.hi); }
  bool empty() const { return members_ == 0; }
  size_t point_count() const { return positions_.size(); }

 private:
  uint32_t Find(uint64_t position) const;

  size_t members_ = 0;
  std::vector<uint64_t> positions_;  // sorted
  std::vector<uint32_t> owners_;     // beside positions_
  std::vector<uint32_t> first_;      // first_[p]: the first point whose top bits are >= p
  uint32_t shift_ = 63;
};

}  // namespace dfkv::cluster
