// Decoders: bytes of a peer into views. Pure functions, any thread; views point into the caller's bytes.
//
// A frame is read in steps: DecodeHeader on its first 40 bytes (a peer that announces more than the limits is
// refused before anything is read or reserved), then DecodeRequest or DecodeAnswer on header and meta
// together, which check the CRC, every count, every length (sums do not wrap) and every option. What a view
// offers has been validated. Errors: Invalid (malformed), Unsupported (another version), TooLarge (past a
// limit), Corrupt (the CRC does not fit); the text says what was found and what is allowed.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/check.h"
#include "base/status.h"
#include "wire/frame.h"

namespace dfkv::wire {

constexpr size_t kHeaderBytes = sizeof(FrameHeader);

// What a side accepts from its peer.
struct FrameLimits {
  uint32_t meta_bytes_max = kMetaBytesMax;
  uint64_t payload_bytes_max = 0;
  uint32_t items_max = 0;
};
// What holds before HELLO was answered.
constexpr FrameLimits kHelloLimits{kHelloMetaBytesMax, 0, 0};

// `bytes` has at least kHeaderBytes. An op outside the table passes: its frame can be skipped and answered.
Result<FrameHeader> DecodeHeader(ByteSpan bytes, const FrameLimits& limits);

// The same for the first frame of a connection, under kHelloLimits.
Result<FrameHeader> DecodeHelloHeader(ByteSpan bytes);

inline bool IsAnswer(const FrameHeader& header) {
  return (header.op & kAnswerBit) != 0;
}
// Header and meta.
inline uint64_t FrameBytes(const FrameHeader& header) {
  return kHeaderBytes + header.meta_bytes;
}

struct RequestView {
  FrameHeader header;
  RequestPrefix prefix;  // zero for HELLO
  ByteSpan items;        // item_count of them
  ByteSpan options;      // checked

  Op op() const { return static_cast<Op>(header.op); }
  uint32_t item_count() const { return header.item_count; }
  // Item `i`, copied out: the bytes have no alignment. T is the op's item type (ops.h).
  template <typename T>
  T item(uint32_t i) const {
    DFKV_CHECK((i + uint64_t{1}) * sizeof(T) <= items.size());
    return LoadLe<T>(items.data() + uint64_t{i} * sizeof(T));
  }
};

// `frame`: header and meta, FrameBytes(header) long; `header` as DecodeHeader gave it. An op outside the
// table is Unsupported. HELLO is not a request here: see DecodeHello.
Result<RequestView> DecodeRequest(const FrameHeader& header, ByteSpan frame);

struct HelloView {
  HelloBody body;
  ByteSpan options;
};
// HELLO of either side; an answer must be Ok (see DecodeAnswer for one that is not).
Result<HelloView> DecodeHello(const FrameHeader& header, ByteSpan frame);

// What holds on a connection after both sides have spoken: the smaller of each value, the highest common
// version (in version_min and version_max), the features both have, the incarnation of either. Unsupported:
// no common version.
Result<HelloBody> Negotiate(const HelloBody& mine, const HelloBody& theirs);

struct AnswerView {
  FrameHeader header;
  Code code = Code::kOk;  // of the whole request
  bool more = false;
  ByteSpan items;     // item_count AnswerItems
  MatchAnswer match;  // MATCH
  ByteSpan options;   // checked

  Op op() const { return static_cast<Op>(header.op & ~kAnswerBit); }
  uint32_t item_count() const { return header.item_count; }
  AnswerItem item(uint32_t i) const {
    DFKV_CHECK((i + uint64_t{1}) * sizeof(AnswerItem) <= items.size());
    return LoadLe<AnswerItem>(items.data() + uint64_t{i} * sizeof(AnswerItem));
  }
  std::string_view message() const;  // of a failure; empty without one. As the peer sent it: PrintableText
};

// As DecodeRequest, for an answer of any op but a HELLO that is Ok. The items' payload lengths add up to the
// frame's. Whether an item's index belongs to the request, and its length to the caller's buffer, is the
// caller's to check.
Result<AnswerView> DecodeAnswer(const FrameHeader& header, ByteSpan frame);

}  // namespace dfkv::wire
