// For the fuzzers of frames: the input is a frame; its first byte says whether the CRC is made right, since a
// fuzzer does not find one by itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/check.h"
#include "base/crc32c.h"
#include "wire/decode.h"

namespace dfkv::wire {

struct FuzzFrame {
  FrameHeader header;
  std::vector<std::byte> bytes;  // header and meta, exactly: a read past them is seen
};

// As a receiver would: header first, then the announced meta. Empty: refused, or cut short.
inline std::optional<FuzzFrame> TakeFrame(const uint8_t* data, size_t size) {
  constexpr FrameLimits kLimits{1 << 16, 64ull << 20, 4096};
  if (size < 1 + kHeaderBytes) return std::nullopt;
  const bool seal = (data[0] & 1) == 0;
  const bool first = (data[0] & 2) != 0;
  const ByteSpan input{reinterpret_cast<const std::byte*>(data) + 1, size - 1};
  const Result<FrameHeader> header = first ? DecodeHelloHeader(input) : DecodeHeader(input, kLimits);
  if (!header.ok()) {
    DFKV_CHECK(!header.status().message().empty());
    return std::nullopt;
  }
  if (FrameBytes(*header) > input.size()) return std::nullopt;
  const ByteSpan whole = input.first(FrameBytes(*header));
  FuzzFrame frame{*header, {whole.begin(), whole.end()}};
  if (seal) {
    StoreLe<uint32_t>(frame.bytes.data() + offsetof(FrameHeader, crc), 0);
    frame.header.crc = Crc32c(frame.bytes);
    StoreLe<uint32_t>(frame.bytes.data() + offsetof(FrameHeader, crc), frame.header.crc);
  }
  return frame;
}

}  // namespace dfkv::wire
