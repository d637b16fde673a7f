// The store over a real disk: what each promise of store.h looks like from outside.
#include <gtest/gtest.h>

#include "store/store_testing.h"

namespace dfkv::store {
namespace {

TEST_F(SlabStore, PutGetRemove) {
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(user_->Check(1, 5000), "miss");
  for (size_t size : {1, 4095, 4096, 4097, 100'000}) {
    ASSERT_TRUE(user_->PutSeeded(size, size).ok());
    EXPECT_EQ(user_->Check(size, size), "hit");
    EXPECT_EQ(store_->Length(KeyOf(size)).value(), size);
  }
  EXPECT_EQ(store_->object_count(), 5u);
  EXPECT_TRUE(user_->Remove(KeyOf(4096)).ok());
  EXPECT_EQ(user_->Check(4096, 4096), "miss");
  EXPECT_TRUE(user_->Remove(KeyOf(4096)).ok());
  EXPECT_EQ(store_->object_count(), 4u);
}

TEST_F(SlabStore, RestartKeepsEverything) {
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = 0; i < 300; ++i) ASSERT_TRUE(user_->PutSeeded(i, 1 + i * 37).ok());
  ASSERT_TRUE(user_->Remove(KeyOf(17)).ok());
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(store_->object_count(), 299u);
  for (uint64_t i = 0; i < 300; ++i) EXPECT_EQ(user_->Check(i, 1 + i * 37), i == 17 ? "miss" : "hit") << i;
  EXPECT_EQ(MetricOf(metrics_, "dfkv_corrupt_total"), 0);
}

TEST_F(SlabStore, FullCacheEvictsAndKeepsTheRest) {
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = 0; i < 6000; ++i) ASSERT_TRUE(user_->PutSeeded(i, 4096).ok()) << i;
  EXPECT_EQ(store_->object_count(), 2048u);  // the whole capacity
  for (uint64_t i = 0; i < 6000; ++i) {
    ASSERT_EQ(user_->Check(i, 4096), i < 6000 - 2048 ? "miss" : "hit") << i;
  }
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(store_->object_count(), 2048u);
  for (uint64_t i = 6000 - 2048; i < 6000; ++i) ASSERT_EQ(user_->Check(i, 4096), "hit") << i;
}

}  // namespace
}  // namespace dfkv::store
