// SizeClasses: the slot sizes that an extent can be cut into. Geometric, four steps to the doubling (so a
// slot is at most a quarter larger than its object), widened to the largest slot of which as many fit, so
// that an extent is used to its end. A pure function of the extent size; part of the disk format, FROZEN.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace dfkv::store {

class SizeClasses {
 public:
  // `extent_bytes`: a power of two, at least 4096.
  explicit SizeClasses(uint64_t extent_bytes);

  uint64_t extent_bytes() const { return extent_bytes_; }
  uint32_t extent_blocks() const { return extent_blocks_; }
  uint32_t count() const { return static_cast<uint32_t>(blocks_.size()); }

  // The smallest class that holds `length` bytes. Requires 0 < length <= extent_bytes.
  uint32_t ClassOf(uint64_t length) const;
  // The class of exactly this slot size.
  std::optional<uint32_t> ClassOfSlot(uint64_t slot_bytes) const;

  uint32_t slot_blocks(uint32_t size_class) const { return blocks_[size_class]; }
  uint64_t slot_bytes(uint32_t size_class) const { return uint64_t{blocks_[size_class]} * 4096; }
  uint32_t slots_per_extent(uint32_t size_class) const { return extent_blocks_ / blocks_[size_class]; }

 private:
  uint64_t extent_bytes_;
  uint32_t extent_blocks_;
  std::vector<uint32_t> blocks_;  // slot sizes in blocks, ascending
};

}  // namespace dfkv::store
