// Several disks, the memory an object costs, sizes that change, and the metrics.
#include <gtest/gtest.h>

#include <fstream>
#include <map>

#include "store/index.h"
#include "store/store_impl.h"
#include "store/store_testing.h"

namespace dfkv::store {
namespace {

class Disks : public SlabStore {
 protected:
  void UseDisks(std::vector<uint32_t> weights) {
    options_.directories.clear();
    for (size_t i = 0; i < weights.size(); ++i) {
      more_.push_back(std::make_unique<TempDir>());
      options_.directories.push_back(more_.back()->path());
    }
    options_.disk_weights = std::move(weights);
  }
  std::vector<std::unique_ptr<TempDir>> more_;
};

TEST_F(Disks, ObjectsSpreadByWeight) {
  UseDisks({1, 2, 1});
  options_.capacity_bytes = 64 << 20;
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(user_->PutMany(0, 2000, 4096).ok());
  for (size_t d = 0; d < 3; ++d) {
    const double objects = MetricOf(metrics_, "dfkv_disk_objects{disk=\"" + options_.directories[d] + "\"}");
    EXPECT_NEAR(objects, d == 1 ? 1000 : 500, 120) << d;
  }
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(store_->object_count(), 2000u);
}

TEST_F(Disks, OneThatDoesNotOpenCostsOnlyItsObjects) {
  UseDisks({1, 1, 1});
  options_.capacity_bytes = 48 << 20;
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = 0; i < 300; ++i) ASSERT_TRUE(user_->PutSeeded(i, 4096).ok());
  const double lost = MetricOf(metrics_, "dfkv_disk_objects{disk=\"" + options_.directories[1] + "\"}");
  Close();
  std::filesystem::remove_all(options_.directories[1]);
  { std::ofstream file(options_.directories[1]); }  // a file where the directory was
  SetLogLevel(LogLevel::kOff);
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(store_->object_count(), 300 - static_cast<uint64_t>(lost));
  uint64_t hits = 0;
  for (uint64_t i = 0; i < 300; ++i) hits += user_->Check(i, 4096) == "hit" ? 1 : 0;
  EXPECT_EQ(hits, store_->object_count());
  for (uint64_t i = 0; i < 300; ++i) ASSERT_TRUE(user_->PutSeeded(i, 4096).ok());
  EXPECT_EQ(store_->object_count(), 300u);
  Close();
  std::filesystem::remove(options_.directories[1]);
}

TEST_F(Disks, NoneThatOpensIsRefused) {
  UseDisks({1});
  std::filesystem::remove_all(options_.directories[0]);
  { std::ofstream file(options_.directories[0]); }
  SetLogLevel(LogLevel::kOff);
  const Status status = Open();
  EXPECT_EQ(status.code(), Code::kIoError);
  EXPECT_NE(status.message().find(options_.directories[0]), std::string::npos) << status.ToString();
  std::filesystem::remove(options_.directories[0]);
}

TEST_F(SlabStore, WrongOptionsAreRefusedByName) {
  const auto refused = [&](const auto& change) {
    const StoreOptions good = options_;
    change();
    const Status status = Open();
    options_ = good;
    EXPECT_EQ(status.code(), Code::kInvalid) << status.ToString();
    EXPECT_FALSE(status.message().empty());
  };
  refused([&] { options_.ram_bytes = 0; });
  refused([&] { options_.directories.clear(); });
  refused([&] { options_.capacity_bytes = 1000; });
  refused([&] { options_.extent_bytes = 100'000; });
  refused([&] { options_.policy = "magic"; });
  refused([&] { options_.disk_weights = {1, 1}; });
  refused([&] { options_.disk_weights = {0}; });
  EXPECT_TRUE(Open().ok());
}

TEST_F(SlabStore, ACapacityIsRoundedDownToWholeExtents) {
  options_.capacity_bytes = (8 << 20) + 12345;
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(MetricOf(metrics_, "dfkv_capacity_bytes"), 8 << 20);
}

TEST_F(SlabStore, ADirectoryKeepsItsGeometryAndItsObjectsWhenTheCapacityChanges) {
  options_.capacity_bytes = 8 << 20;
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(user_->PutMany(0, 1000, 4096).ok());
  options_.capacity_bytes = 128 << 20;  // would be made with larger extents
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(store_->object_count(), 1000u);
  options_.capacity_bytes = 2 << 20;
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(store_->object_count(), 512u);
  for (uint64_t i = 0; i < 1000; ++i) EXPECT_EQ(user_->Check(i, 4096), i < 512 ? "hit" : "miss");
}

// N13: what an object of 4 KiB costs on disk and in memory.
TEST_F(SlabStore, SmallObjectsCostWhatTheyAre) {
  options_.capacity_bytes = 256 << 20;
  ASSERT_TRUE(Open().ok());
  auto* impl = static_cast<StoreImpl*>(store_.get());
  const uint64_t before = impl->IndexBytes();
  constexpr uint64_t kObjects = 60'000;
  ASSERT_TRUE(user_->PutMany(0, kObjects, 4096).ok());
  EXPECT_EQ(store_->object_count(), kObjects);
  EXPECT_EQ(MetricOf(metrics_, "dfkv_used_bytes"), kObjects * 4096.0);
  const double each = static_cast<double>(impl->IndexBytes() - before) / kObjects;
  RecordProperty("index_bytes_per_object", std::to_string(each));
  EXPECT_LE(each, kIndexBytesPerObject);
}

// N14: a new size in a full cache displaces what is cold, not everything, and not itself.
TEST_F(SlabStore, ANewSizeInAFullCacheTakesWhatIsCold) {
  options_.capacity_bytes = 16 << 20;  // 16 extents
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = 0; i < 4096; ++i) {
    const ObjectKey key = KeyOf(i);
    store_->NoteBatch(BatchKind::kPut, std::span(&key, 1));
    ASSERT_TRUE(user_->PutSeeded(i, 4096).ok());
  }
  for (uint64_t i = 10'000; i < 10'040; ++i) {
    const ObjectKey key = KeyOf(i);
    store_->NoteBatch(BatchKind::kPut, std::span(&key, 1));
    ASSERT_TRUE(user_->PutSeeded(i, 100'000).ok());
    ASSERT_EQ(user_->Check(i, 100'000), "hit");
  }
  for (uint64_t i = 10'000; i < 10'040; ++i) EXPECT_EQ(user_->Check(i, 100'000), "hit") << i;
  // 40 objects of 100,000 bytes in slots of 100 KiB: 10 to an extent, so 4 of 16 extents changed hands.
  uint64_t left = 0;
  for (uint64_t i = 0; i < 4096; ++i) left += user_->Check(i, 4096) == "hit" ? 1 : 0;
  EXPECT_EQ(left, 4096u - 4 * 256);
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(store_->object_count(), left + 40);
}

TEST_F(SlabStore, MixedSizesGoOnForever) {
  const uint64_t seed = SeedFromSystem();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  options_.capacity_bytes = 4 << 20;
  options_.extent_bytes = 256 << 10;
  ASSERT_TRUE(Open().ok());
  std::map<uint64_t, size_t> sizes;
  for (uint64_t i = 0; i < 3000; ++i) {
    const size_t size = 1 + random.Below(uint64_t{4096} << random.Below(7));
    sizes[i] = size;
    ASSERT_TRUE(user_->PutSeeded(i, size).ok());
    ASSERT_EQ(user_->Check(i, size), "hit");
  }
  const uint64_t count = store_->object_count();
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(store_->object_count(), count);
  for (const auto& [number, size] : sizes) ASSERT_NE(user_->Check(number, size), "WRONG");
  EXPECT_EQ(MetricOf(metrics_, "dfkv_corrupt_total"), 0);
}

}  // namespace
}  // namespace dfkv::store
