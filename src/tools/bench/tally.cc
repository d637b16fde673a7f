#include "tools/bench/tally.h"

#include <numeric>

#include "base/random.h"
#include "base/text.h"

namespace dfkv::tools {

void Tally::Merge(const Tally& other) {
  for (size_t i = 0; i < kCodes; ++i) by_code[i] += other.by_code[i];
  bytes += other.bytes;
  wrong += other.wrong;
}

uint64_t Tally::items() const {
  return std::accumulate(by_code.begin(), by_code.end(), uint64_t{0});
}

std::string Tally::ToText() const {
  std::string text;
  for (size_t i = 0; i < kCodes; ++i) {
    if (by_code[i] != 0)
      text += Cat(text.empty() ? "" : ", ", CodeName(static_cast<Code>(i)), ' ', by_code[i]);
  }
  return Cat(text.empty() ? "none" : text, ", wrong bytes ", wrong);
}

uint64_t ValueSeed(uint64_t key_seed, uint64_t index) {
  return Mix64(Mix64(key_seed) ^ index);
}

void Spoil(uint64_t seed, MutableByteSpan value) {
  constexpr size_t kStride = 4096;
  const auto spoil = [&](size_t at) {
    std::byte word[8];
    FillPattern(seed, at & ~size_t{7}, word);
    value[at] = ~word[at & 7];
  };
  for (size_t at = 0; at < value.size(); at += kStride) spoil(at);
  if (!value.empty()) spoil(value.size() - 1);
}

}  // namespace dfkv::tools
