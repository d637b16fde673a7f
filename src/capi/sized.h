// Reading structs that start with struct_size, from callers compiled against an older or a newer header.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/status.h"
#include "base/text.h"

namespace dfkv::capi {

// Copies the caller's struct, of which the first struct_size bytes are there and no more are read. Fields
// that an older caller does not know become zero, which is their default. Invalid: the size is below
// `first_size_bytes`, that of the struct's first version; or a newer caller asks for something (bytes that
// are not zero) in fields that this library does not know. *out is written only on success.
template <typename T>
Status ReadSized(const T* given, size_t first_size_bytes, std::string_view name, T* out) {
  const uint32_t size = given->struct_size;
  if (size < first_size_bytes) return {Code::kInvalid, Cat("struct_size is smaller than ", name)};
  const auto* bytes = reinterpret_cast<const std::byte*>(given);
  const size_t known = std::min<size_t>(size, sizeof(T));
  if (std::any_of(bytes + known, bytes + size, [](std::byte b) { return b != std::byte{0}; })) {
    return {Code::kInvalid, Cat(name, " sets a field that this version of the library does not know")};
  }
  T copy;
  std::memset(&copy, 0, sizeof copy);
  std::memcpy(&copy, given, known);
  *out = copy;
  return Ok();
}

}  // namespace dfkv::capi
