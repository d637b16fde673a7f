#include "store/extent_allocator.h"

#include <bit>

#include "base/check.h"

namespace dfkv::store {
namespace {

// The stamp whose low half is `low` and which is at most `now`.
uint64_t Unwrap(uint32_t low, uint64_t now) {
  const uint64_t age = static_cast<uint32_t>(static_cast<uint32_t>(now) - low);
  return age > now ? 0 : now - age;
}

}  // namespace

ExtentAllocator::ExtentAllocator(const SizeClasses& classes, uint32_t extents)
    : classes_(classes), extents_(extents), partial_(classes.count(), kNoExtent), bound_(classes.count(), 0) {
  free_.reserve(extents);
  for (uint32_t i = extents; i > 0; --i) free_.push_back(i - 1);
}

ExtentAllocator::Place ExtentAllocator::PlaceOf(uint32_t unit) const {
  const uint32_t index = unit / classes_.extent_blocks();
  const uint32_t within = unit % classes_.extent_blocks();
  DFKV_CHECK(index < extents_.size() && extents_[index].state != State::kFree);
  const uint32_t blocks = classes_.slot_blocks(extents_[index].size_class);
  DFKV_CHECK(within % blocks == 0);
  return {index, within / blocks};
}

uint32_t ExtentAllocator::OwnerOf(uint32_t unit) const {
  const Place place = PlaceOf(unit);
  return extents_[place.extent].slots[place.index].owner;
}

void ExtentAllocator::Link(uint32_t index) {
  Extent& extent = extents_[index];
  uint32_t& head = partial_[extent.size_class];
  extent.prev = kNoExtent;
  extent.next = head;
  if (head != kNoExtent) extents_[head].prev = index;
  head = index;
}

void ExtentAllocator::Unlink(uint32_t index) {
  Extent& extent = extents_[index];
  if (extent.prev != kNoExtent) {
    extents_[extent.prev].next = extent.next;
  } else {
    partial_[extent.size_class] = extent.next;
  }
  if (extent.next != kNoExtent) extents_[extent.next].prev = extent.prev;
  extent.next = extent.prev = kNoExtent;
}

void ExtentAllocator::Bind(uint32_t index, uint32_t size_class) {
  Extent& extent = extents_[index];
  const uint32_t slots = classes_.slots_per_extent(size_class);
  extent.state = State::kBound;
  extent.size_class = size_class;
  ++extent.epoch;
  extent.used = extent.clearing = extent.live = extent.hint = 0;
  extent.stamp_sum = 0;
  extent.slots.assign(slots, SlotEntry());
  extent.free_bits.assign((slots + 63) / 64, ~uint64_t{0});
  if (slots % 64 != 0) extent.free_bits.back() = (uint64_t{1} << (slots % 64)) - 1;
  ++bound_[size_class];
  Link(index);
}

void ExtentAllocator::Unbind(uint32_t index) {
  Extent& extent = extents_[index];
  if (extent.state == State::kBound) {
    --bound_[extent.size_class];
    if (extent.used < extent.slots.size()) Unlink(index);
  }
  extent.state = State::kFree;
  extent.size_class = kNoClass;
  ++extent.epoch;
  extent.slots = std::vector<SlotEntry>();
  extent.free_bits = std::vector<uint64_t>();
}

uint32_t ExtentAllocator::TakeFrom(uint32_t index) {
  Extent& extent = extents_[index];
  for (uint32_t word = extent.hint; word < extent.free_bits.size(); ++word) {
    if (extent.free_bits[word] == 0) continue;
    const auto bit = static_cast<uint32_t>(std::countr_zero(extent.free_bits[word]));
    extent.free_bits[word] &= extent.free_bits[word] - 1;
    extent.hint = word;
    return word * 64 + bit;
  }
  DFKV_CHECK(false);
  return 0;
}

uint32_t ExtentAllocator::Take(uint32_t size_class) {
  const uint32_t index = partial_[size_class];
  if (index == kNoExtent) return kNoUnit;
  Extent& extent = extents_[index];
  const uint32_t slot = TakeFrom(index);
  ++extent.used;
  if (extent.used == extent.slots.size()) Unlink(index);
  const uint32_t blocks = classes_.slot_blocks(size_class);
  used_blocks_ += blocks;
  return index * classes_.extent_blocks() + slot * blocks;
}

bool ExtentAllocator::BindFree(uint32_t size_class) {
  if (free_.empty()) return false;
  const uint32_t index = free_.back();
  free_.pop_back();
  Bind(index, size_class);
  return true;
}

void ExtentAllocator::Free(uint32_t unit) {
  const Place place = PlaceOf(unit);
  Extent& extent = extents_[place.extent];
  uint64_t& word = extent.free_bits[place.index / 64];
  const uint64_t bit = uint64_t{1} << (place.index % 64);
  DFKV_CHECK((word & bit) == 0);
  word |= bit;
  if (place.index / 64 < extent.hint) extent.hint = place.index / 64;
  if (extent.state == State::kBound && extent.used == extent.slots.size()) Link(place.extent);
  --extent.used;
  extent.slots[place.index] = SlotEntry();
  used_blocks_ -= classes_.slot_blocks(extent.size_class);
  if (extent.used == 0) {
    Unbind(place.extent);
    free_.push_back(place.extent);
  }
}

void ExtentAllocator::Commit(uint32_t unit, uint32_t owner, uint64_t now) {
  const Place place = PlaceOf(unit);
  Extent& extent = extents_[place.extent];
  DFKV_CHECK(extent.slots[place.index].owner == kNoOwner && owner != kNoOwner);
  extent.slots[place.index] = {owner, static_cast<uint32_t>(now)};
  extent.stamp_sum += now;
  ++extent.live;
}

void ExtentAllocator::PrefetchTouch(uint32_t unit) const {
  const Extent& extent = extents_[ExtentOf(unit)];
  if (extent.state == State::kFree) return;
  const size_t slot = unit % classes_.extent_blocks() / classes_.slot_blocks(extent.size_class);
  if (slot < extent.slots.size()) __builtin_prefetch(&extent.slots[slot], 1);
}

void ExtentAllocator::Touch(uint32_t unit, uint32_t owner, uint64_t now) {
  Extent& extent = extents_[ExtentOf(unit)];
  if (extent.state == State::kFree) return;
  const uint32_t within = unit % classes_.extent_blocks();
  const uint32_t blocks = classes_.slot_blocks(extent.size_class);
  if (within % blocks != 0 || within / blocks >= extent.slots.size()) return;
  SlotEntry& entry = extent.slots[within / blocks];
  if (entry.owner != owner) return;
  extent.stamp_sum += now - Unwrap(entry.stamp, now);
  entry.stamp = static_cast<uint32_t>(now);
}

void ExtentAllocator::Uncommit(uint32_t unit, uint64_t now) {
  const Place place = PlaceOf(unit);
  Extent& extent = extents_[place.extent];
  DFKV_CHECK(extent.slots[place.index].owner != kNoOwner);
  const uint64_t stamp = Unwrap(extent.slots[place.index].stamp, now);
  extent.stamp_sum = extent.stamp_sum > stamp ? extent.stamp_sum - stamp : 0;
  extent.slots[place.index] = SlotEntry();
  --extent.live;
}

void ExtentAllocator::BeginClearing(uint32_t unit) {
  DFKV_CHECK(OwnerOf(unit) == kNoOwner);
  ++extents_[ExtentOf(unit)].clearing;
}

void ExtentAllocator::BeginDraining(uint32_t index) {
  Extent& extent = extents_[index];
  DFKV_CHECK(extent.state == State::kBound && extent.used > 0);
  if (extent.used < extent.slots.size()) Unlink(index);
  extent.state = State::kDraining;
  extent.drained = extent.passes = 0;
  --bound_[extent.size_class];
}

uint32_t ExtentAllocator::NextToDrain(uint32_t index) {
  Extent& extent = extents_[index];
  const uint32_t slot = extent.drained++;
  if (extent.drained == extent.slots.size()) {
    extent.drained = 0;
    ++extent.passes;
  }
  return slot;
}

void ExtentAllocator::StopDraining(uint32_t index) {
  Extent& extent = extents_[index];
  DFKV_CHECK(extent.state == State::kDraining);
  extent.state = State::kBound;
  ++bound_[extent.size_class];
  if (extent.used < extent.slots.size()) Link(index);
}

void ExtentAllocator::Rebind(uint32_t index, uint32_t size_class) {
  Extent& extent = extents_[index];
  DFKV_CHECK(extent.state == State::kDraining && extent.used == extent.clearing);
  used_blocks_ -= uint64_t{extent.used} * classes_.slot_blocks(extent.size_class);
  Bind(index, size_class);
}

uint64_t ExtentAllocator::MemoryBytes() const {
  uint64_t bytes = extents_.capacity() * sizeof(Extent) + free_.capacity() * sizeof(uint32_t);
  for (const Extent& extent : extents_) {
    bytes += extent.slots.capacity() * sizeof(SlotEntry) + extent.free_bits.capacity() * sizeof(uint64_t);
  }
  return bytes;
}

bool ExtentAllocator::Adopt(uint32_t unit, uint32_t size_class) {
  const uint32_t index = ExtentOf(unit);
  if (index >= extents_.size()) return false;
  if (extents_[index].state == State::kFree) {
    Bind(index, size_class);
  }
  Extent& extent = extents_[index];
  if (extent.size_class != size_class) return false;
  const Place place = PlaceOf(unit);
  if (place.index >= extent.slots.size()) return false;
  uint64_t& word = extent.free_bits[place.index / 64];
  const uint64_t bit = uint64_t{1} << (place.index % 64);
  if ((word & bit) == 0) return false;
  word &= ~bit;
  ++extent.used;
  if (extent.used == extent.slots.size()) Unlink(index);
  used_blocks_ += classes_.slot_blocks(size_class);
  return true;
}

// Once for all: looking for each of them among the free ones would take their number squared.
void ExtentAllocator::EndAdopting() {
  std::erase_if(free_, [this](uint32_t index) { return extents_[index].state != State::kFree; });
}

}  // namespace dfkv::store
