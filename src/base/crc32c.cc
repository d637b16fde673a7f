// Two fast paths. With SSE 4.2 alone: three independent streams of the crc32 instruction (its latency is
// three cycles, its throughput one), joined by advancing a CRC over a fixed number of zero bytes with a
// table. With VPCLMULQDQ: carry-less multiplication folds 256 bytes onto the next 256.
//
// Polynomials are reflected throughout: of a register of n bits, bit i stands for x^(n-1-i), so the low half
// of a register holds the higher powers, and a carry-less product of two halves stands for their product
// times x.
#include "base/crc32c.h"

#include <array>

#if defined(__x86_64__)
#include <immintrin.h>
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

// x^n modulo the polynomial, in the upper half of 64 bits.
constexpr uint64_t PowerOfX(unsigned n) {
  uint32_t power = 0x80000000u;
  for (; n > 0; --n) power = power & 1 ? power >> 1 ^ kPolynomial : power >> 1;
  return uint64_t{power} << 32;
}

// What folds 16 bytes onto those that lie kBits further on: a factor for each half.
template <unsigned kBits>
struct Fold {
  static constexpr uint64_t kLow = PowerOfX(kBits + 64 - 1);
  static constexpr uint64_t kHigh = PowerOfX(kBits - 1);
};

#define DFKV_CRC_TARGET __attribute__((target("sse4.2,pclmul,avx512f,vpclmulqdq")))

template <unsigned kBits>
DFKV_CRC_TARGET inline __m512i FoldOnto(__m512i from, __m512i onto) {
  using F = Fold<kBits>;
  const auto low = static_cast<long long>(F::kLow);
  const auto high = static_cast<long long>(F::kHigh);
  const __m512i factors = _mm512_set_epi64(high, low, high, low, high, low, high, low);
  constexpr int kXor3 = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(from, factors, 0x00),
                                   _mm512_clmulepi64_epi128(from, factors, 0x11), onto, kXor3);
}

DFKV_CRC_TARGET inline __m128i FoldOnto128(__m128i from, __m128i onto) {
  using F = Fold<128>;
  const __m128i factors = _mm_set_epi64x(static_cast<long long>(F::kHigh), static_cast<long long>(F::kLow));
  const __m128i low = _mm_clmulepi64_si128(from, factors, 0x00);
  const __m128i high = _mm_clmulepi64_si128(from, factors, 0x11);
  return _mm_xor_si128(_mm_xor_si128(low, high), onto);
}

DFKV_CRC_TARGET uint32_t ExtendVpclmul(uint32_t crc, ByteSpan bytes) {
  constexpr size_t kStep = 256;
  if (bytes.size() < 2 * kStep) return ExtendSse42(crc, bytes);
  const std::byte* at = bytes.data();
  const std::byte* const end = at + bytes.size() / kStep * kStep;
  const __m512i start = _mm512_zextsi128_si512(_mm_cvtsi32_si128(static_cast<int>(~crc)));
  __m512i a = _mm512_xor_si512(_mm512_loadu_si512(at), start);
  __m512i b = _mm512_loadu_si512(at + 64);
  __m512i c = _mm512_loadu_si512(at + 128);
  __m512i d = _mm512_loadu_si512(at + 192);
  for (at += kStep; at < end; at += kStep) {
    a = FoldOnto<2048>(a, _mm512_loadu_si512(at));
    b = FoldOnto<2048>(b, _mm512_loadu_si512(at + 64));
    c = FoldOnto<2048>(c, _mm512_loadu_si512(at + 128));
    d = FoldOnto<2048>(d, _mm512_loadu_si512(at + 192));
  }
  d = FoldOnto<512>(FoldOnto<512>(FoldOnto<512>(a, b), c), d);
  alignas(64) __m128i quarters[4];
  _mm512_store_si512(quarters, d);
  __m128i rest = quarters[0];
  for (int i = 1; i < 4; ++i) rest = FoldOnto128(rest, quarters[i]);
  uint64_t wide = _mm_crc32_u64(0, static_cast<uint64_t>(_mm_cvtsi128_si64(rest)));
  wide = _mm_crc32_u64(wide, static_cast<uint64_t>(_mm_extract_epi64(rest, 1)));
  return ExtendSse42(~static_cast<uint32_t>(wide), bytes.subspan(bytes.size() / kStep * kStep));
}
#undef DFKV_CRC_TARGET
#endif

// The best is the last.
std::vector<Crc32cFunction> MakeImplementations() {
  std::vector<Crc32cFunction> all = {Crc32cExtendPortable};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) {
    all.push_back(ExtendSse42);
    const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
    if (wide && __builtin_cpu_supports("pclmul")) all.push_back(ExtendVpclmul);
  }
#endif
  return all;
}

}  // namespace

uint32_t Crc32cExtendPortable(uint32_t crc, ByteSpan bytes) {
  static constexpr std::array<uint32_t, 256> kTable = MakeByteTable();
  crc = ~crc;
  for (std::byte b : bytes) crc = kTable[(crc ^ static_cast<uint32_t>(b)) & 0xFF] ^ crc >> 8;
  return ~crc;
}

uint32_t Crc32cExtend(uint32_t crc, ByteSpan bytes) {
  static const Crc32cFunction kExtend = MakeImplementations().back();
  return kExtend(crc, bytes);
}

std::vector<Crc32cFunction> Crc32cImplementations() {
  return MakeImplementations();
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
