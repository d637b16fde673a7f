// What the functions that end in 3 share: items and keys from C, results to C, the checks that come before a
// call, and how its end is told.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "capi/dfkv_c_api.h"
#include "capi/handle.h"
#include "client/client.h"

namespace dfkv::capi {

Status Bad(std::string_view what);  // Invalid
ByteSpan Bytes(const void* ptr, uint64_t len);

// Items with their buffers, which point into `spans`. An item whose buffers or flags cannot be used loses its
// key, which makes it Invalid.
struct Puts {
  explicit Puts(std::span<const dfkv_put_item3> from);
  std::vector<client::PutItem> items;
  std::vector<ByteSpan> spans;
};
struct Gets {
  explicit Gets(std::span<const dfkv_get_item3> from);
  std::vector<client::GetItem> items;
  std::vector<MutableByteSpan> spans;
};
std::vector<ByteSpan> NamesOf(std::span<const dfkv_key3> keys);

// Invalid: too many, or an array that is NULL although it has elements.
Status CheckArrays(const void* items, uint64_t count, const void* results);
void Zero(dfkv_result3* results, uint64_t count);  // where there are any, and not absurdly many
void Export(std::span<const client::ItemResult> from, dfkv_result3* to);

// Status to C: the text for dfkv_last_error goes along. A miss is no error.
int Told(const char* function, const Status& status);

// Runs a C function's body, which gives a Status.
template <typename Body>
int Run(const char* function, const Body& body) noexcept {
  return NoThrow<int>(DFKV_IO_ERROR, [&] { return Told(function, body()); });
}

// The same for a batch with one result for each item.
template <typename Body>
int RunBatch(const char* function, const void* items, uint64_t count, dfkv_result3* results,
             const Body& body) noexcept {
  Zero(results, count);
  return Run(function, [&]() -> Status {
    DFKV_RETURN_IF_ERROR(CheckArrays(items, count, results));
    return body();
  });
}

}  // namespace dfkv::capi
