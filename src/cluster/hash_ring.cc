#include "cluster/hash_ring.h"

#include <algorithm>
#include <bit>

#include "base/bytes.h"
#include "base/check.h"
#include "base/random.h"

namespace dfkv::cluster {
namespace {

constexpr uint32_t kBucketBitsMax = 16;  // of the table that shortens the search

// FNV-1a, 64 bits, then mixed: names differ in few bits. FROZEN.
uint64_t NameSeed(std::string_view name) {
  uint64_t hash = 0xCBF29CE484222325ull;
  for (const char c : name) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001B3ull;
  }
  return Mix64(hash);
}

// FROZEN.
uint64_t PointOf(uint64_t name_seed, uint64_t number) {
  return Mix64(name_seed ^ Mix64(number));
}

struct Point {
  uint64_t position;
  uint32_t owner;
};

}  // namespace

HashRing::HashRing(std::span<const RingMember> members) : members_(members.size()) {
  if (members.empty()) return;
  std::vector<Point> points;
  uint64_t count = 0;
  for (const RingMember& member : members) count += uint64_t{kPointsPerWeight} * member.weight;
  DFKV_CHECK(count > 0 && count <= UINT32_MAX);
  points.reserve(count);
  for (uint32_t owner = 0; owner < members.size(); ++owner) {
    const uint64_t seed = NameSeed(members[owner].name);
    const uint64_t mine = uint64_t{kPointsPerWeight} * members[owner].weight;
    for (uint64_t number = 0; number < mine; ++number) points.push_back({PointOf(seed, number), owner});
  }
  std::sort(points.begin(), points.end(), [&](const Point& a, const Point& b) {
    if (a.position != b.position) return a.position < b.position;
    return members[a.owner].name < members[b.owner].name;  // equal positions: not by order of the list
  });
  for (const Point& point : points) {
    positions_.push_back(point.position);
    owners_.push_back(point.owner);
  }
  const uint32_t bits =
      std::clamp<uint32_t>(static_cast<uint32_t>(std::bit_width(points.size())), 1, kBucketBitsMax);
  shift_ = 64 - bits;
  first_.resize((size_t{1} << bits) + 1);
  size_t at = 0;
  for (size_t bucket = 0; bucket < first_.size(); ++bucket) {
    while (at < points.size() && (positions_[at] >> shift_) < bucket) ++at;
    first_[bucket] = static_cast<uint32_t>(at);
  }
}

uint32_t HashRing::Find(uint64_t position) const {
  const uint64_t bucket = position >> shift_;
  const auto begin = positions_.begin() + first_[bucket];
  const auto end = positions_.begin() + first_[bucket + 1];
  const auto found = std::lower_bound(begin, end, position);
  const auto at = static_cast<size_t>(found - positions_.begin());
  return owners_[at == owners_.size() ? 0 : at];
}

}  // namespace dfkv::cluster
