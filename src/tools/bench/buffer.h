// PageBuffer: page-aligned bytes, touched when taken so that a measurement does not pay for the first touch.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/bytes.h"
#include "base/check.h"

namespace dfkv::tools {

class PageBuffer {
 public:
  explicit PageBuffer(uint64_t size_bytes) : size_(size_bytes) {
    const uint64_t rounded = AlignUp(size_bytes == 0 ? 1 : size_bytes, kPage);
    data_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, rounded)));
    DFKV_CHECK(data_ != nullptr);
    std::memset(data_.get(), 0xA5, rounded);
  }
  MutableByteSpan bytes() { return {data_.get(), size_}; }

 private:
  static constexpr uint64_t kPage = 4096;
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  uint64_t size_;
};

}  // namespace dfkv::tools
