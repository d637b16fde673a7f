// Options: typed, length-delimited fields at the end of a frame's meta. An unknown type is skipped.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "wire/frame.h"

namespace dfkv::wire {

// Before each option's bytes. `reserved` is zero when sent and ignored when received.
struct OptionHeader {
  uint16_t type = 0;
  uint16_t reserved = 0;
  uint32_t length = 0;
};
static_assert(sizeof(OptionHeader) == 8);

struct OptionView {
  OptionType type{};
  ByteSpan bytes;
};

// Bytes that an option of `length` takes, padding included.
constexpr uint64_t OptionBytes(uint64_t length) {
  return sizeof(OptionHeader) + AlignUp(length, 8);
}

// Walks a block of options. The block must have passed CheckOptions.
class OptionReader {
 public:
  explicit OptionReader(ByteSpan block) : rest_(block) {}
  bool Next(OptionView* option);  // false at the end

 private:
  ByteSpan rest_;
};

// Invalid when an option reaches past the block's end.
Status CheckOptions(ByteSpan block);

// The bytes of the first option of that type in a checked block.
std::optional<ByteSpan> FindOption(ByteSpan block, OptionType type);

// Builds a block in the caller's memory. Add returns false, and adds nothing, when it does not fit.
class OptionWriter {
 public:
  explicit OptionWriter(MutableByteSpan room) : room_(room) {}
  bool Add(OptionType type, ByteSpan bytes);
  ByteSpan block() const { return room_.first(used_); }

 private:
  MutableByteSpan room_;
  size_t used_ = 0;
};

// Text of a peer, made fit for a log line: what is not printable ASCII becomes '?', cut at `bytes_max`.
std::string PrintableText(ByteSpan bytes, size_t bytes_max = 256);

}  // namespace dfkv::wire
