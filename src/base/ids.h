// Strong types for ids, counters and addresses: a swap of two of them does not compile.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace dfkv {

// An integer with a meaning. Tag makes the type distinct; arithmetic goes through value().
template <typename Tag, typename T>
class StrongInt {
 public:
  constexpr StrongInt() = default;
  constexpr explicit StrongInt(T value) : value_(value) {}
  constexpr T value() const { return value_; }
  friend constexpr auto operator<=>(StrongInt, StrongInt) = default;

 private:
  T value_{};
};

using TenantHash = StrongInt<struct TenantHashTag, uint64_t>;    // who owns an object; CABI.md section 5
using Generation = StrongInt<struct GenerationTag, uint64_t>;    // a slot's reuse counter
using Incarnation = StrongInt<struct IncarnationTag, uint64_t>;  // a node's start counter
using Epoch = StrongInt<struct EpochTag, uint64_t>;              // a view's number

// The 128-bit digest of namespace and key. hi and lo are the first and second 8 bytes of the digest,
// big-endian.
struct ObjectId {
  uint64_t hi = 0;
  uint64_t lo = 0;
  friend constexpr auto operator<=>(const ObjectId&, const ObjectId&) = default;
  std::string ToHex() const;  // 32 digits
};

// What names an object everywhere inside dfkv.
struct ObjectKey {
  TenantHash tenant;
  ObjectId id;
  friend constexpr auto operator<=>(const ObjectKey&, const ObjectKey&) = default;
};

// The id is a cryptographic digest, so any of its words is a good hash; the tenant separates equal ids.
inline uint64_t HashOf(const ObjectKey& key) {
  return key.id.lo ^ (key.tenant.value() * 0x9E3779B97F4A7C15ull);
}

}  // namespace dfkv

template <>
struct std::hash<dfkv::ObjectKey> {
  size_t operator()(const dfkv::ObjectKey& key) const noexcept { return dfkv::HashOf(key); }
};
