// Region: memory taken at start for the data path, in a memfd so that it can be shared and registered as one
// piece.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "base/status.h"

namespace dfkv::io {

struct RegionOptions {
  bool huge_pages = true;  // asks for transparent huge pages; works without
  bool populate = true;    // touches every page now, so that no request pays for it
};

// Owns a mapping of a memfd; unmapped on destruction. Its bytes are shared by all threads under the owner's
// rules.
class Region {
 public:
  // NoSpace names the wanted and the available memory.
  static Result<Region> Make(const std::string& name, uint64_t size, const RegionOptions& options);
  Region() = default;
  Region(Region&& other) noexcept;
  Region& operator=(Region&& other) noexcept;
  ~Region();

  // What RegionOptions::populate does, for a region made without. NoSpace.
  Status PopulateBlocking();

  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }
  int fd() const { return fd_; }

 private:
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
  int fd_ = -1;
};

}  // namespace dfkv::io
