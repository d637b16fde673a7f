// Encoders: frames into the caller's memory. Pure functions, any thread.
//
// Each returns the bytes written (header and meta), or 0 when `out` is too small; RequestBytes and
// AnswerBytes tell beforehand. The payload is not theirs: its owner sends it right after.
#pragma once

#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/status.h"
#include "wire/frame.h"

namespace dfkv::wire {

struct RequestSpec {
  Op op = Op::kPing;
  uint64_t request_id = 0;
  uint64_t tenant = 0;
  uint32_t deadline_ms = 0;
  uint64_t payload_bytes = 0;  // PUT: the sum of the items' lengths
};

struct AnswerSpec {
  Op op = Op::kPing;  // of the request
  uint64_t request_id = 0;
  bool more = false;
  uint64_t payload_bytes = 0;
};

// Header and meta of a request / of an answer whose code is Ok. `options_bytes`: a multiple of 8.
uint64_t RequestBytes(Op op, uint64_t item_count, uint64_t options_bytes = 0);
uint64_t AnswerBytes(Op op, uint64_t item_count, uint64_t options_bytes = 0);

// `options` is a block made by OptionWriter. The items' type is the op's (ops.h): anything else is our own
// bug, fatal.
size_t EncodeRequest(MutableByteSpan out, const RequestSpec& spec, ByteSpan options = {});  // PING, STATS
size_t EncodeRequest(MutableByteSpan out, const RequestSpec& spec, std::span<const KeyItem> items,
                     ByteSpan options = {});
size_t EncodeRequest(MutableByteSpan out, const RequestSpec& spec, std::span<const GetItem> items,
                     ByteSpan options = {});
size_t EncodeRequest(MutableByteSpan out, const RequestSpec& spec, std::span<const PutItem> items,
                     ByteSpan options = {});
size_t EncodeHello(MutableByteSpan out, uint64_t request_id, const HelloBody& body, ByteSpan options = {});

// Answers whose code is Ok. PING, STATS: no items.
size_t EncodeAnswer(MutableByteSpan out, const AnswerSpec& spec, std::span<const AnswerItem> items = {},
                    ByteSpan options = {});
size_t EncodeMatchAnswer(MutableByteSpan out, uint64_t request_id, const MatchAnswer& body);
size_t EncodeHelloAnswer(MutableByteSpan out, uint64_t request_id, const HelloBody& body,
                         ByteSpan options = {});

// Longest text that travels with a failure.
constexpr size_t kMessageBytesMax = 512;
constexpr size_t kErrorAnswerBytesMax = sizeof(FrameHeader) + 8 + kMessageBytesMax;
// The answer to a request that failed as a whole: `status` (not Ok) as code and text, no body. `op` is the
// request's, also where it is unknown.
size_t EncodeErrorAnswer(MutableByteSpan out, uint8_t op, uint64_t request_id, const Status& status);

}  // namespace dfkv::wire
