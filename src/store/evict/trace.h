// LLM-serving traces in Mooncake's format: one JSON object a line with `timestamp` (ms), `input_length`,
// `output_length` (tokens) and `hash_ids` (one per block of 512 tokens, the last block may be partial; equal
// ids mean equal prefixes).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace dfkv::store::evict {

inline constexpr uint64_t kTokensPerBlock = 512;

struct TraceRequest {
  uint64_t timestamp_ms = 0;
  uint64_t input_tokens = 0;
  uint64_t output_tokens = 0;
  std::vector<uint64_t> blocks;  // the prefix chain, index 0 first; never empty
};

// Tokens that a hit of the first `blocks` blocks saves: the last block may be partial.
uint64_t HitTokens(const TraceRequest& request, size_t blocks);

inline constexpr size_t kTraceLineBytesMax = size_t{16} << 20;

// One line, without or with its line break. The fields may come in any order; unknown ones are skipped where
// their value is a number, a string or an array of numbers. kInvalid names the column and what was expected:
// a missing or repeated field, no blocks, a number that is negative, fractional or above 2^63 - 1.
Result<TraceRequest> ParseTraceLine(std::string_view line);

// All requests of a file, gzip or plain; empty lines are skipped. kNotFound: no such file. kIoError: cannot
// be read. kInvalid: a bad line, named by its number, or one longer than kTraceLineBytesMax.
Result<std::vector<TraceRequest>> LoadTraceBlocking(const std::string& path);

// Distinct blocks: the size of a cache that never evicts.
uint64_t FootprintBlocks(std::span<const TraceRequest> requests);

}  // namespace dfkv::store::evict
