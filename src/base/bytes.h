// Byte spans, little-endian loads and stores, and bounds-checked reading and writing of byte strings.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace dfkv {

static_assert(std::endian::native == std::endian::little,
              "formats are little-endian; a big-endian port swaps here");

using ByteSpan = std::span<const std::byte>;
using MutableByteSpan = std::span<std::byte>;

inline ByteSpan AsBytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view AsText(ByteSpan bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template <typename T>
T LoadLe(const std::byte* from) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
template <typename T>
void StoreLe(std::byte* to, T value) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::memcpy(to, &value, sizeof value);
}

constexpr uint64_t AlignUp(uint64_t value, uint64_t alignment) {  // alignment: a power of two
  return (value + alignment - 1) & ~(alignment - 1);
}
constexpr uint64_t AlignDown(uint64_t value, uint64_t alignment) {
  return value & ~(alignment - 1);
}

// Reads fields from the front of a span. After a read past the end, ok() is false for good and reads give
// zeros.
class ByteReader {
 public:
  explicit ByteReader(ByteSpan bytes) : rest_(bytes) {}

  template <typename T>
  T Read() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    if (rest_.size() < sizeof value) {
      Fail();
      return value;
    }
    std::memcpy(static_cast<void*>(&value), rest_.data(), sizeof value);
    rest_ = rest_.subspan(sizeof value);
    return value;
  }
  // A view of the next `size` bytes (into the span that was given), empty on failure.
  ByteSpan ReadBytes(uint64_t size) {
    if (rest_.size() < size) {
      Fail();
      return {};
    }
    ByteSpan bytes = rest_.first(size);
    rest_ = rest_.subspan(size);
    return bytes;
  }
  bool ok() const { return ok_; }
  ByteSpan rest() const { return rest_; }

 private:
  void Fail() {
    ok_ = false;
    rest_ = {};
  }
  ByteSpan rest_;
  bool ok_ = true;
};

// Writes fields to the front of a span; ok() is false for good after a write that does not fit.
class ByteWriter {
 public:
  explicit ByteWriter(MutableByteSpan bytes) : all_(bytes) {}

  template <typename T>
  void Write(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    WriteBytes({reinterpret_cast<const std::byte*>(&value), sizeof value});
  }
  void WriteBytes(ByteSpan bytes) {
    if (!ok_ || all_.size() - used_ < bytes.size()) {
      ok_ = false;
      return;
    }
    if (!bytes.empty()) std::memcpy(all_.data() + used_, bytes.data(), bytes.size());
    used_ += bytes.size();
  }
  bool ok() const { return ok_; }
  size_t used() const { return used_; }

 private:
  MutableByteSpan all_;
  size_t used_ = 0;
  bool ok_ = true;
};

}  // namespace dfkv
