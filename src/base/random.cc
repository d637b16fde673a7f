#include "base/random.h"

#include <sys/random.h>

#include <bit>

#include "base/check.h"

namespace dfkv {

Random::Random(uint64_t seed) {
  for (uint64_t& word : state_) word = seed = Mix64(seed);
}

uint64_t Random::Next() {
  const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  const uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

uint64_t Random::Below(uint64_t bound) {
  DFKV_CHECK(bound > 0);
  return static_cast<uint64_t>((static_cast<unsigned __int128>(Next()) * bound) >> 64);
}

double Random::Unit() {
  return static_cast<double>(Next() >> 11) * 0x1.0p-53;
}

void Random::Fill(MutableByteSpan bytes) {
  FillPattern(Next(), 0, bytes);
}

uint64_t SeedFromSystem() {
  uint64_t seed = 0;
  DFKV_CHECK(getrandom(&seed, sizeof seed, 0) == sizeof seed);
  return seed;
}

namespace {
// One multiply and two xors per word; the seed is mixed once. Adjacent words and adjacent seeds differ in
// many bits.
uint64_t PatternWord(uint64_t mixed_seed, uint64_t index) {
  uint64_t x = (index + mixed_seed) * 0x9E3779B97F4A7C15ull;
  return x ^ (x >> 29) ^ mixed_seed;
}
}  // namespace

void FillPattern(uint64_t seed, uint64_t at, MutableByteSpan bytes) {
  const uint64_t mixed = Mix64(seed);
  uint64_t index = at / 8;
  size_t done = 0;
  for (; done + 8 <= bytes.size(); done += 8) StoreLe(bytes.data() + done, PatternWord(mixed, index++));
  const uint64_t last = PatternWord(mixed, index);
  if (done < bytes.size()) std::memcpy(bytes.data() + done, &last, bytes.size() - done);
}

bool PatternMatches(uint64_t seed, uint64_t at, ByteSpan bytes) {
  const uint64_t mixed = Mix64(seed);
  uint64_t index = at / 8;
  uint64_t difference = 0;
  size_t done = 0;
  for (; done + 8 <= bytes.size(); done += 8) {
    difference |= LoadLe<uint64_t>(bytes.data() + done) ^ PatternWord(mixed, index++);
  }
  const uint64_t last = PatternWord(mixed, index);
  const bool tail_matches =
      done == bytes.size() || std::memcmp(bytes.data() + done, &last, bytes.size() - done) == 0;
  return difference == 0 && tail_matches;
}

}  // namespace dfkv
