// CRC32C (Castagnoli, reflected, initial and final XOR 0xFFFFFFFF): the check of every payload, record and
// frame.
#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"

namespace dfkv {

// The CRC of `bytes` appended to data whose CRC is `crc` (0 for none). Uses the instructions the CPU has,
// chosen at run time; any thread.
uint32_t Crc32cExtend(uint32_t crc, ByteSpan bytes);
inline uint32_t Crc32c(ByteSpan bytes) {
  return Crc32cExtend(0, bytes);
}

// The CRC of A followed by B, from crc(A), crc(B) and the length of B.
uint32_t Crc32cConcat(uint32_t crc_a, uint32_t crc_b, uint64_t length_b);

// Copies and checks in one pass over cache-sized tiles; returns the extended CRC. Spans have equal size, no
// overlap.
uint32_t Crc32cCopy(uint32_t crc, MutableByteSpan to, ByteSpan from);

// The portable implementation, and all that this CPU can run, for tests.
uint32_t Crc32cExtendPortable(uint32_t crc, ByteSpan bytes);
using Crc32cFunction = uint32_t (*)(uint32_t crc, ByteSpan bytes);
std::vector<Crc32cFunction> Crc32cImplementations();

}  // namespace dfkv
