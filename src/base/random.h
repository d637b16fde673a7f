// Random numbers, through a seam: a seed reproduces every sequence.
#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace dfkv {

// One step of SplitMix64: a good mixer of a counter or a hash.
constexpr uint64_t Mix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// xoshiro256**; one thread.
class Random {
 public:
  explicit Random(uint64_t seed);
  uint64_t Next();
  uint64_t Below(uint64_t bound);  // uniform in [0, bound); bound > 0
  bool OneIn(uint64_t n) { return Below(n) == 0; }
  double Unit();  // uniform in [0, 1)
  void Fill(MutableByteSpan bytes);

 private:
  uint64_t state_[4];
};

uint64_t SeedFromSystem();  // for production jitter and for tests, which print it

// The bytes of a synthetic object: a pure function of seed and position, 8 bytes per step, fast enough to
// check every byte of a replay. PatternMatches compares without a buffer. `at` (a multiple of 8) is the
// offset of `bytes` within the object.
void FillPattern(uint64_t seed, uint64_t at, MutableByteSpan bytes);
bool PatternMatches(uint64_t seed, uint64_t at, ByteSpan bytes);

}  // namespace dfkv
