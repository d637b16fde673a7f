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

#if defined(DFKV_SANITIZED)
constexpr uint32_t kManySlots = 1'000'000;
#else
constexpr uint32_t kManySlots = 10'000'000;
#endif

// Ten million slots: memory in proportion, and space that others left in pieces is found at once.
TEST(ExtentAllocator, TenMillionSlotsInPieces) {
  const uint64_t seed = SeedFromSystem();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  const SizeClasses classes(64 << 20);
  const uint32_t extents = kManySlots / classes.extent_blocks() + 1;
  ExtentAllocator slots(classes, extents);
  const auto take = [&slots](uint32_t size_class) {
    uint32_t unit = slots.Take(size_class);
    if (unit == kNoUnit && slots.BindFree(size_class)) unit = slots.Take(size_class);
    return unit;
  };
  const uint64_t total = uint64_t{extents} * classes.extent_blocks();
  for (uint64_t i = 0; i < total; ++i) ASSERT_EQ(take(0), i);
  EXPECT_EQ(take(0), kNoUnit);
  EXPECT_LE(slots.MemoryBytes(), total * 9);
  // Every second slot is free, and no extent is.
  for (uint64_t i = 0; i < total; i += 2) slots.Free(static_cast<uint32_t>(i));
  EXPECT_EQ(slots.free_extents(), 0u);
  EXPECT_EQ(take(8), kNoUnit);
  for (uint64_t i = 0; i < total / 2; ++i) ASSERT_NE(take(0), kNoUnit);
  EXPECT_EQ(take(0), kNoUnit);
  // What is freed at random comes back as whole extents in the end, and its memory with it.
  std::vector<uint32_t> units(total);
  for (uint64_t i = 0; i < total; ++i) units[i] = static_cast<uint32_t>(i);
  for (uint64_t i = total; i > 1; --i) std::swap(units[i - 1], units[random.Below(i)]);
  for (const uint32_t unit : units) slots.Free(unit);
  EXPECT_EQ(slots.free_extents(), extents);
  EXPECT_EQ(slots.used_blocks(), 0u);
  EXPECT_LE(slots.MemoryBytes(), extents * 256u);
  EXPECT_NE(take(8), kNoUnit);
}

// Stands in for a tier: objects are numbers; evicting one is at once final, or, where it `clears_`, when
// EndClearings is called.
class SpaceTest : public testing::Test, public SpaceHooks {
 protected:
  static constexpr uint32_t kExtents = 16;
  SpaceTest() : SpaceTest(kExtent, kExtents) {}
  SpaceTest(uint64_t extent_bytes, uint32_t extents)
      : space_(SizeClasses(extent_bytes), extents, {"lru", 160}) {}

  bool MayEvict(uint32_t owner) override { return !pinned_.contains(owner); }
  uint32_t UnitOf(uint32_t owner) override { return objects_.contains(owner) ? objects_[owner] : kNoUnit; }
  Evicted Evict(uint32_t owner, uint32_t unit, uint64_t* id) override {
    if (pinned_.contains(owner)) return Evicted::kRefused;
    EXPECT_EQ(objects_[owner], unit);
    *id = owner;
    objects_.erase(owner);
    evicted_.push_back(owner);
    if (!clears_) return Evicted::kNow;
    clearing_.push_back({unit, space_.EpochOf(unit)});
    return Evicted::kClearing;
  }
  void EndClearings() {
    for (const auto& [unit, epoch] : clearing_) {
      if (epoch != space_.EpochOf(unit)) continue;
      space_.EndClearing(unit);
      space_.Free(unit);
    }
    clearing_.clear();
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
  bool clears_ = false;
  std::vector<std::pair<uint32_t, uint32_t>> clearing_;  // units with their extents' epochs
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

// Extents of 2,048 objects of 4 KiB: none is emptied in one call.
class Steps : public SpaceTest {
 protected:
  static constexpr uint32_t kSlots = 2048;
  static constexpr uint32_t kCount = 8;
  Steps() : SpaceTest(kSlots * 4096, kCount) {}

  void Fill() {
    for (uint32_t i = 0; i < kSlots * kCount; ++i) ASSERT_TRUE(Store(i, 0));
  }
  // One call; it holds the tier's mutex no longer than a bounded amount of work takes.
  bool Step(uint32_t owner, uint32_t size_class) {
    const uint64_t work = space_.work();
    const size_t evicted = evicted_.size();
    const bool stored = Store(owner, size_class);
    EXPECT_LE(space_.work() - work,
              Space::kLooksPerTake + Space::kDrainPerTake + Space::kVictimTries * kCount);
    EXPECT_LE(evicted_.size() - evicted, Space::kDrainPerTake + 1);
    return stored;
  }
  uint32_t whole() const { return space_.classes().count() - 1; }
};

TEST_F(Steps, ALargeObjectWaitsUntilAnExtentIsEmpty) {
  for (const bool clears : {false, true}) {
    clears_ = clears;
    Fill();
    evicted_.clear();
    uint32_t steps = 1;
    for (; !Step(1'000'000, whole()); ++steps) ASSERT_LE(steps, kSlots / Space::kDrainPerTake);
    EXPECT_EQ(steps, kSlots / Space::kDrainPerTake);
    EXPECT_EQ(evicted_.size(), kSlots);
    for (const uint32_t owner : evicted_) EXPECT_LT(owner, kSlots);  // the coldest extent
    EXPECT_EQ(space_.TakeRebound().size(), clears ? 1u : 0u);
    EndClearings();
    if (clears) break;
    space_.Uncommit(objects_[1'000'000], 1'000'000, 1'000'000, evict::EraseReason::kRemoved);
    space_.Free(objects_[1'000'000]);
    objects_.erase(1'000'000);
  }
}

// Others store meanwhile; they neither wait nor take the extent.
TEST_F(Steps, OthersGoOnAndDoNotTakeIt) {
  for (const bool clears : {false, true}) {
    clears_ = clears;
    Fill();
    uint32_t owner = 500'000;
    uint32_t steps = 1;
    for (; !Step(1'000'000, whole()); ++steps) {
      ASSERT_LE(steps, kSlots / Space::kDrainPerTake);
      for (int i = 0; i < 3; ++i) ASSERT_TRUE(Step(owner++, 0));
      if (clears) EndClearings();
    }
    EXPECT_LE(steps, kSlots / Space::kDrainPerTake);
    if (clears) break;
    space_.Uncommit(objects_[1'000'000], 1'000'000, 1'000'000, evict::EraseReason::kRemoved);
    space_.Free(objects_[1'000'000]);
    objects_.erase(1'000'000);
  }
}

TEST_F(Steps, AnExtentThatNobodyAsksForIsAnybodys) {
  Fill();
  ASSERT_FALSE(Step(1'000'000, whole()));
  for (uint32_t i = 0; i < 3 * kSlots; ++i) ASSERT_TRUE(Step(500'000 + i, 0));
  EXPECT_EQ(space_.ClassLive(0), kSlots * kCount);
  ASSERT_FALSE(Step(1'000'000, whole()));  // and it may ask again
}

TEST_F(Steps, AnExtentWithOnePinIsLeftAsItIs) {
  Fill();
  pinned_.insert(kSlots - 1);  // the last one looked at in the coldest extent
  for (uint32_t steps = 0; !Step(1'000'000, whole()); ++steps)
    ASSERT_LE(steps, kSlots / Space::kDrainPerTake);
  for (uint32_t i = 0; i < kSlots; ++i) EXPECT_TRUE(objects_.contains(i)) << i;
}

TEST_F(Steps, WhereAllIsPinnedEveryCallIsBusyAndBounded) {
  Fill();
  for (uint32_t i = 0; i < kSlots * kCount; i += kSlots) pinned_.insert(i + kSlots - 1);
  for (uint32_t i = 0; i < 50; ++i) ASSERT_FALSE(Step(1'000'000, whole()));
  EXPECT_EQ(evicted_.size(), 0u);
  ASSERT_TRUE(Step(1'000'001, 0));
  pinned_.clear();
  for (uint32_t steps = 0; !Step(1'000'000, whole()); ++steps)
    ASSERT_LE(steps, 2 * kSlots / Space::kDrainPerTake);
}

// A class with few objects waits for a colder extent rather than evict what it has just written.
TEST_F(Steps, ASmallClassKeepsWhatItHasWritten) {
  const uint32_t quarter = space_.classes().ClassOf(kSlots / 4 * 4096);
  Fill();
  for (uint32_t i = 0; i < 4 * kCount; ++i) {
    for (uint32_t steps = 0; !Step(1'000'000 + i, quarter); ++steps)
      ASSERT_LE(steps, kSlots / Space::kDrainPerTake);
  }
  for (uint32_t i = 0; i < 4 * kCount; ++i) EXPECT_TRUE(objects_.contains(1'000'000 + i)) << i;
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
