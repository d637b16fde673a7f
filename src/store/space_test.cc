// Slots, extents and the moving of space between size classes.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/random.h"
#include "store/space.h"

namespace dfkv::store {
namespace {

constexpr uint64_t kExtent = 64 << 10;  // 16 slots of 4 KiB

TEST(ExtentAllocator, GivesNeighboursAndUsesEverySlot) {
  ExtentAllocator slots(SizeClasses(kExtent), 4);
  std::set<uint32_t> given;
  for (uint32_t i = 0; i < 64; ++i) {
    if (i % 16 == 0) {
      EXPECT_EQ(slots.Take(0), kNoUnit);
      ASSERT_TRUE(slots.BindFree(0));
    }
    const uint32_t unit = slots.Take(0);
    EXPECT_EQ(unit, i);
    given.insert(unit);
  }
  EXPECT_EQ(given.size(), 64u);
  EXPECT_FALSE(slots.BindFree(0));
  EXPECT_EQ(slots.used_blocks(), 64u);
  for (const uint32_t unit : given) slots.Free(unit);
  EXPECT_EQ(slots.free_extents(), 4u);
  EXPECT_EQ(slots.used_blocks(), 0u);
}

TEST(ExtentAllocator, RandomUseNeverOverlaps) {
  const uint64_t seed = SeedFromSystem();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  const SizeClasses classes(kExtent);
  ExtentAllocator slots(classes, 8);
  std::map<uint32_t, uint32_t> taken;  // unit -> blocks
  uint64_t blocks = 0;
  for (int step = 0; step < 20'000; ++step) {
    if (random.OneIn(2) && !taken.empty()) {
      auto victim = taken.lower_bound(static_cast<uint32_t>(random.Below(8 * 16)));
      if (victim == taken.end()) victim = taken.begin();
      slots.Free(victim->first);
      blocks -= victim->second;
      taken.erase(victim);
    } else {
      const auto size_class = static_cast<uint32_t>(random.Below(classes.count()));
      uint32_t unit = slots.Take(size_class);
      if (unit == kNoUnit && slots.BindFree(size_class)) unit = slots.Take(size_class);
      if (unit == kNoUnit) continue;
      const uint32_t size = classes.slot_blocks(size_class);
      const auto next = taken.lower_bound(unit);
      ASSERT_TRUE(next == taken.end() || unit + size <= next->first);
      ASSERT_TRUE(next == taken.begin() || std::prev(next)->first + std::prev(next)->second <= unit);
      ASSERT_LE(unit + size, 8u * 16);
      taken[unit] = size;
      blocks += size;
    }
    ASSERT_EQ(slots.used_blocks(), blocks);
  }
}

TEST(ExtentAllocator, MeanStampFollowsTouchesAndLosses) {
  ExtentAllocator slots(SizeClasses(kExtent), 1);
  slots.BindFree(0);
  const uint32_t a = slots.Take(0);
  const uint32_t b = slots.Take(0);
  slots.Commit(a, 1, 10);
  slots.Commit(b, 2, 20);
  EXPECT_EQ(slots.MeanStamp(0), 15u);
  slots.Touch(a, 1, 40);
  EXPECT_EQ(slots.MeanStamp(0), 30u);
  slots.Touch(a, 9, 400);  // not its owner
  slots.Touch(7, 1, 400);  // not its slot
  EXPECT_EQ(slots.MeanStamp(0), 30u);
  slots.Uncommit(a, 50);
  EXPECT_EQ(slots.MeanStamp(0), 20u);
  EXPECT_EQ(slots.OwnerOf(a), kNoOwner);
}

// Stands in for a tier: objects are numbers; evicting one is at once final.
class SpaceTest : public testing::Test, public SpaceHooks {
 protected:
  static constexpr uint32_t kExtents = 16;
  SpaceTest() : space_(SizeClasses(kExtent), kExtents, {"lru", 160}) {}

  bool MayEvict(uint32_t owner) override { return !pinned_.contains(owner); }
  uint32_t UnitOf(uint32_t owner) override { return objects_.contains(owner) ? objects_[owner] : kNoUnit; }
  Evicted Evict(uint32_t owner, uint32_t unit, uint64_t* id) override {
    if (pinned_.contains(owner)) return Evicted::kRefused;
    EXPECT_EQ(objects_[owner], unit);
    *id = owner;
    objects_.erase(owner);
    evicted_.push_back(owner);
    return Evicted::kNow;
  }
  // One request that stores one object; false: Busy.
  bool Store(uint32_t owner, uint32_t size_class) {
    const Touch touch{owner, kNoOwner, kNoUnit, 0, size_class};
    space_.OnBatch(evict::RequestKind::kPut, ++now_, std::span(&touch, 1));
    const auto taken = space_.Take(size_class, *this);
    if (!taken.ok()) return false;
    space_.Commit(taken->unit, owner, owner, 0);
    objects_[owner] = taken->unit;
    return true;
  }
  void Touch1(uint32_t owner, uint32_t size_class) {
    const Touch touch{owner, owner, objects_[owner], 0, size_class};
    space_.OnBatch(evict::RequestKind::kGet, ++now_, std::span(&touch, 1));
  }

  Space space_;
  uint64_t now_ = 0;
  std::map<uint32_t, uint32_t> objects_;
  std::set<uint32_t> pinned_;
  std::vector<uint32_t> evicted_;
};

TEST_F(SpaceTest, OneClassUsesAllAndEvictsOneByOne) {
  for (uint32_t i = 0; i < 16 * kExtents; ++i) ASSERT_TRUE(Store(i, 0));
  EXPECT_TRUE(evicted_.empty());
  for (uint32_t i = 0; i < 100; ++i) ASSERT_TRUE(Store(1000 + i, 0));
  ASSERT_EQ(evicted_.size(), 100u);
  for (uint32_t i = 0; i < 100; ++i) EXPECT_EQ(evicted_[i], i);
}

TEST_F(SpaceTest, PinnedObjectsStayAndEverythingPinnedIsBusy) {
  for (uint32_t i = 0; i < 16 * kExtents; ++i) ASSERT_TRUE(Store(i, 0));
  for (uint32_t i = 0; i < 16 * kExtents; ++i) pinned_.insert(i);
  EXPECT_FALSE(Store(1000, 0));
  EXPECT_FALSE(Store(1000, 3));
  pinned_.erase(5);
  EXPECT_TRUE(Store(1001, 0));
  EXPECT_EQ(evicted_, std::vector<uint32_t>{5});
}

TEST_F(SpaceTest, ANewSizeTakesTheColdestExtentAndNothingMore) {
  for (uint32_t i = 0; i < 16 * kExtents; ++i) ASSERT_TRUE(Store(i, 0));
  for (uint32_t i = 0; i < 16 * kExtents; ++i) {
    if (i / 16 != 7) Touch1(i, 0);
  }
  const uint32_t class16 = space_.classes().ClassOf(16 << 10);
  ASSERT_TRUE(Store(1000, class16));
  EXPECT_EQ(evicted_.size(), 16u);
  for (const uint32_t owner : evicted_) EXPECT_EQ(owner / 16, 7u);
  // The rest of the extent is the new class's too.
  for (uint32_t i = 1; i < 4; ++i) ASSERT_TRUE(Store(1000 + i, class16));
  EXPECT_EQ(evicted_.size(), 16u);
}

TEST_F(SpaceTest, SpaceMovesToTheHotClassWithoutLosingWhatWasJustWritten) {
  const uint32_t class16 = space_.classes().ClassOf(16 << 10);
  for (uint32_t i = 0; i < 16 * kExtents; ++i) ASSERT_TRUE(Store(i, 0));
  for (uint32_t i = 0; i < 4 * kExtents; ++i) {
    ASSERT_TRUE(Store(1000 + i, class16));
    ASSERT_TRUE(objects_.contains(1000 + i));
    ASSERT_TRUE(i == 0 || objects_.contains(1000 + i - 1));
  }
  // All of the cold class went before any of the new one did.
  for (uint32_t i = 0; i < 4 * kExtents; ++i) EXPECT_TRUE(objects_.contains(1000 + i)) << i;
  EXPECT_EQ(space_.ClassLive(0), 0u);
}

TEST_F(SpaceTest, AHotClassIsNotRobbedByAColdOne) {
  const uint32_t class16 = space_.classes().ClassOf(16 << 10);
  for (uint32_t i = 0; i < 16 * (kExtents - 1); ++i) ASSERT_TRUE(Store(i, 0));
  for (uint32_t i = 0; i < 4; ++i) ASSERT_TRUE(Store(1000 + i, class16));
  for (uint32_t round = 0; round < 50; ++round) {
    for (uint32_t i = 0; i < 16 * (kExtents - 1); ++i) Touch1(i, 0);
    ASSERT_TRUE(Store(2000 + round, class16));
  }
  EXPECT_EQ(space_.ClassLive(0), 16u * (kExtents - 1));
}

TEST_F(SpaceTest, AnExtentWithAPinIsPassedOver) {
  for (uint32_t i = 0; i < 16 * kExtents; ++i) ASSERT_TRUE(Store(i, 0));
  pinned_.insert(3);  // in the coldest extent
  const uint32_t whole = space_.classes().count() - 1;
  ASSERT_TRUE(Store(1000, whole));
  EXPECT_TRUE(objects_.contains(3));
  EXPECT_TRUE(objects_.contains(1000));
}

TEST_F(SpaceTest, RandomSizesNeverLoseSpace) {
  const uint64_t seed = SeedFromSystem();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (uint32_t i = 0; i < 20'000; ++i) {
    ASSERT_TRUE(Store(i, static_cast<uint32_t>(random.Below(space_.classes().count())))) << i;
  }
  const std::map<uint32_t, uint32_t> left = objects_;
  for (const auto& [owner, unit] : left) {
    space_.Uncommit(unit, owner, owner, evict::EraseReason::kRemoved);
    space_.Free(unit);
  }
  EXPECT_EQ(space_.slots().free_extents(), kExtents);
  EXPECT_EQ(space_.slots().used_blocks(), 0u);
}

}  // namespace
}  // namespace dfkv::store
