// The fast path runs three independent streams of the crc32 instruction (its latency is three cycles, its
// throughput one) and joins them by advancing a CRC over a fixed number of zero bytes with a table.
#include "base/crc32c.h"

#include <array>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace dfkv {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78u;  // reflected

// A linear map of 32-bit vectors over GF(2): column i is the image of bit i.
using Matrix = std::array<uint32_t, 32>;

constexpr uint32_t Times(const Matrix& matrix, uint32_t vector) {
  uint32_t sum = 0;
  for (size_t i = 0; vector != 0; ++i, vector >>= 1) {
    if (vector & 1) sum ^= matrix[i];
  }
  return sum;
}

constexpr Matrix Square(const Matrix& matrix) {
  Matrix out{};
  for (size_t i = 0; i < 32; ++i) out[i] = Times(matrix, matrix[i]);
  return out;
}

// powers[k] advances a CRC over 2^k zero bytes.
constexpr std::array<Matrix, 64> MakePowers() {
  Matrix bit{};  // one zero bit
  bit[0] = kPolynomial;
  for (size_t i = 1; i < 32; ++i) bit[i] = 1u << (i - 1);
  std::array<Matrix, 64> powers{};
  powers[0] = Square(Square(Square(bit)));
  for (size_t k = 1; k < 64; ++k) powers[k] = Square(powers[k - 1]);
  return powers;
}
constexpr std::array<Matrix, 64> kPowers = MakePowers();

uint32_t AdvanceZeros(uint32_t crc, uint64_t bytes) {
  for (size_t k = 0; bytes != 0; ++k, bytes >>= 1) {
    if (bytes & 1) crc = Times(kPowers[k], crc);
  }
  return crc;
}

using ByteTables = std::array<std::array<uint32_t, 256>, 4>;

constexpr ByteTables TablesOf(const Matrix& matrix) {
  ByteTables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    for (size_t lane = 0; lane < 4; ++lane) tables[lane][byte] = Times(matrix, byte << (8 * lane));
  }
  return tables;
}

constexpr std::array<uint32_t, 256> MakeByteTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int k = 0; k < 8; ++k) crc = crc & 1 ? crc >> 1 ^ kPolynomial : crc >> 1;
    table[i] = crc;
  }
  return table;
}

#if defined(__x86_64__)
constexpr size_t kLongLane = 4096;  // 2^12
constexpr size_t kShortLane = 256;  // 2^8
constexpr ByteTables kLongTables = TablesOf(kPowers[12]);
constexpr ByteTables kShortTables = TablesOf(kPowers[8]);

uint32_t Apply(const ByteTables& tables, uint32_t crc) {
  return tables[0][crc & 0xFF] ^ tables[1][crc >> 8 & 0xFF] ^ tables[2][crc >> 16 & 0xFF] ^
         tables[3][crc >> 24];
}

template <size_t kLane>
__attribute__((target("sse4.2"))) uint32_t ThreeLanes(uint32_t crc, const std::byte*& at, size_t& size,
                                                      const ByteTables& tables) {
  while (size >= 3 * kLane) {
    uint64_t a = crc;
    uint64_t b = 0;
    uint64_t c = 0;
    for (size_t i = 0; i < kLane; i += 8) {
      a = _mm_crc32_u64(a, LoadLe<uint64_t>(at + i));
      b = _mm_crc32_u64(b, LoadLe<uint64_t>(at + kLane + i));
      c = _mm_crc32_u64(c, LoadLe<uint64_t>(at + 2 * kLane + i));
    }
    crc = Apply(tables, static_cast<uint32_t>(a)) ^ static_cast<uint32_t>(b);
    crc = Apply(tables, crc) ^ static_cast<uint32_t>(c);
    at += 3 * kLane;
    size -= 3 * kLane;
  }
  return crc;
}

__attribute__((target("sse4.2"))) uint32_t ExtendSse42(uint32_t crc, ByteSpan bytes) {
  crc = ~crc;
  const std::byte* at = bytes.data();
  size_t size = bytes.size();
  crc = ThreeLanes<kLongLane>(crc, at, size, kLongTables);
  crc = ThreeLanes<kShortLane>(crc, at, size, kShortTables);
  uint64_t wide = crc;
  for (; size >= 8; size -= 8, at += 8) wide = _mm_crc32_u64(wide, LoadLe<uint64_t>(at));
  crc = static_cast<uint32_t>(wide);
  for (; size > 0; --size, ++at) crc = _mm_crc32_u8(crc, static_cast<uint8_t>(*at));
  return ~crc;
}
#endif

using ExtendFunction = uint32_t (*)(uint32_t, ByteSpan);

ExtendFunction Choose() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return ExtendSse42;
#endif
  return Crc32cExtendPortable;
}

}  // namespace

uint32_t Crc32cExtendPortable(uint32_t crc, ByteSpan bytes) {
  static constexpr std::array<uint32_t, 256> kTable = MakeByteTable();
  crc = ~crc;
  for (std::byte b : bytes) crc = kTable[(crc ^ static_cast<uint32_t>(b)) & 0xFF] ^ crc >> 8;
  return ~crc;
}

uint32_t Crc32cExtend(uint32_t crc, ByteSpan bytes) {
  static const ExtendFunction kExtend = Choose();
  return kExtend(crc, bytes);
}

uint32_t Crc32cConcat(uint32_t crc_a, uint32_t crc_b, uint64_t length_b) {
  return AdvanceZeros(crc_a, length_b) ^ crc_b;
}

uint32_t Crc32cCopy(uint32_t crc, MutableByteSpan to, ByteSpan from) {
  constexpr size_t kTile = 32768;
  for (size_t at = 0; at < from.size(); at += kTile) {
    const size_t size = std::min(kTile, from.size() - at);
    std::memcpy(to.data() + at, from.data() + at, size);
    crc = Crc32cExtend(crc, to.subspan(at, size));
  }
  return crc;
}

}  // namespace dfkv
