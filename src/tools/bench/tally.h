// Tally: what became of the items of a run, by code, and the synthetic value of a key.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/status.h"

namespace dfkv::tools {

// One thread adds; several are merged.
struct Tally {
  static constexpr size_t kCodes = static_cast<size_t>(Code::kDenied) + 1;

  std::array<uint64_t, kCodes> by_code{};  // items by the code the client gave
  uint64_t bytes = 0;                      // of the items that are right
  uint64_t wrong = 0;                      // items answered Ok whose bytes or length are not what was stored

  void Add(Code code) { ++by_code[static_cast<size_t>(code)]; }
  void Merge(const Tally& other);
  uint64_t of(Code code) const { return by_code[static_cast<size_t>(code)]; }
  uint64_t items() const;
  uint64_t good() const { return of(Code::kOk) - wrong; }
  // Absent, or dropped because its check failed: to the user a miss.
  uint64_t misses() const { return of(Code::kNotFound) + of(Code::kCorrupt); }
  uint64_t errors() const { return items() - good() - misses(); }  // wrong bytes included
  std::string ToText() const;                                      // "Ok 12, NotFound 3, wrong 0"
};

// The seed of the synthetic value of object `index` of a run seeded by `key_seed`.
uint64_t ValueSeed(uint64_t key_seed, uint64_t index);

// Makes sure that bytes left from an earlier GET cannot pass for an answer: one byte in every 4096, the first
// and the last are made wrong for the value of `seed`.
void Spoil(uint64_t seed, MutableByteSpan value);

}  // namespace dfkv::tools
