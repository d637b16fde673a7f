#include "store/size_classes.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "store/record.h"

namespace dfkv::store {

SizeClasses::SizeClasses(uint64_t extent_bytes)
    : extent_bytes_(extent_bytes), extent_blocks_(static_cast<uint32_t>(extent_bytes / kBlockBytes)) {
  DFKV_CHECK(std::has_single_bit(extent_bytes) && extent_bytes >= kBlockBytes);
  DFKV_CHECK(extent_bytes <= kExtentBytesLimit);
  for (uint32_t base = 1; base <= extent_blocks_; base *= 2) {
    for (uint32_t quarter = 4; quarter < 8; ++quarter) {
      if (base * quarter % 4 != 0) continue;
      const uint32_t wanted = base * quarter / 4;
      if (wanted > extent_blocks_) break;
      const uint32_t widened = extent_blocks_ / (extent_blocks_ / wanted);
      if (blocks_.empty() || widened > blocks_.back()) blocks_.push_back(widened);
    }
  }
}

uint32_t SizeClasses::ClassOf(uint64_t length) const {
  DFKV_CHECK(length > 0 && length <= extent_bytes_);
  const auto wanted = static_cast<uint32_t>((length + kBlockBytes - 1) / kBlockBytes);
  return static_cast<uint32_t>(std::lower_bound(blocks_.begin(), blocks_.end(), wanted) - blocks_.begin());
}

std::optional<uint32_t> SizeClasses::ClassOfSlot(uint64_t slot_bytes) const {
  if (slot_bytes == 0 || slot_bytes > extent_bytes_ || slot_bytes % kBlockBytes != 0) return std::nullopt;
  const uint32_t found = ClassOf(slot_bytes);
  if (this->slot_bytes(found) != slot_bytes) return std::nullopt;
  return found;
}

}  // namespace dfkv::store
