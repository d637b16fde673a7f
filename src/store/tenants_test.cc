// What tenants use: counted per object, exact through every way an object comes and goes.
#include "store/tenants.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "store/size_classes.h"
#include "store/suite_testing.h"

namespace dfkv::store {
namespace {

TEST(Tenants, LargestFirstAndTheRestTogether) {
  Tenants tenants;
  for (uint64_t t = 1; t <= 5; ++t) {
    for (uint64_t i = 0; i < t; ++i) tenants.Add(TenantHash(t), 4096);
  }
  tenants.Remove(TenantHash(5), 4096);
  Tenants::Usage rest;
  const auto two = tenants.Largest(2, &rest);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].tenant, TenantHash(4));
  EXPECT_EQ(two[0].bytes, 4 * 4096u);
  EXPECT_EQ(two[1].tenant, TenantHash(5));
  EXPECT_EQ(rest.objects, 6u);
  EXPECT_EQ(rest.bytes, 6 * 4096u);
  for (int i = 0; i < 4; ++i) tenants.Remove(TenantHash(5), 4096);
  EXPECT_EQ(tenants.Largest(10, &rest).size(), 4u) << "one without objects is forgotten";
  EXPECT_EQ(rest.objects, 0u);
}

class TenantUse : public AnyStore {
 protected:
  double UsedBy(uint64_t tenant) {
    return MetricOf(metrics_, "dfkv_tenant_used_bytes{tenant_hash=\"" + Hex(tenant, 16) + "\"}");
  }
  // What is there, asked of the store itself.
  void ExpectExact(const std::map<std::pair<uint64_t, uint64_t>, size_t>& puts) {
    const SizeClasses classes(options_.extent_bytes);
    std::map<uint64_t, uint64_t> used;
    uint64_t objects = 0;
    for (const auto& [key, size] : puts) {
      const auto length = store_->Length(KeyOf(key.second, key.first));
      if (!length.ok()) continue;
      ++objects;
      used[key.first] += classes.slot_bytes(classes.ClassOf(*length));
    }
    EXPECT_EQ(objects, store_->object_count());
    double sum = 0;
    for (uint64_t tenant = 1; tenant <= 3; ++tenant) {
      EXPECT_EQ(UsedBy(tenant), static_cast<double>(used[tenant])) << tenant;
      sum += static_cast<double>(used[tenant]);
    }
    EXPECT_EQ(MetricOf(metrics_, "dfkv_tenant_objects"), static_cast<double>(objects));
    EXPECT_EQ(MetricOf(metrics_, "dfkv_class_resident_objects"), static_cast<double>(objects));
    EXPECT_EQ(MetricOf(metrics_, "dfkv_class_allocated_bytes"), sum);
    if (ram_only()) return;  // there, slots of PUTs on their way count, too
    EXPECT_EQ(MetricOf(metrics_, "dfkv_used_bytes"), sum);
  }
};

TEST_P(TenantUse, IsExactThroughPutRemoveEvictionAndRestart) {
  const uint64_t seed = SeedFromSystem();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  options_.extent_bytes = 256 << 10;  // that of an arena of 4 MiB, too
  ASSERT_TRUE(Open().ok());
  std::map<std::pair<uint64_t, uint64_t>, size_t> puts;
  for (int round = 0; round < 3; ++round) {
    for (uint64_t i = 0; i < 400; ++i) {
      const uint64_t tenant = 1 + random.Below(3);
      const uint64_t number = random.Below(2000);
      const ObjectKey key = KeyOf(number, tenant);
      if (random.Below(4) == 0) {
        EXPECT_TRUE(user_->Remove(key).ok());
        continue;
      }
      const size_t size = 1 + random.Below(uint64_t{4096} << random.Below(6));
      ASSERT_TRUE(user_->Put(key, BytesOf(number, size)).ok());
      puts[{tenant, number}] = size;
    }
    ExpectExact(puts);
    ASSERT_TRUE(Open().ok());
    ExpectExact(puts);
  }
  EXPECT_GT(MetricOf(metrics_, "dfkv_evictions_total"), 0);
  for (const auto& [key, size] : puts) EXPECT_TRUE(user_->Remove(KeyOf(key.second, key.first)).ok());
  ExpectExact({});
  EXPECT_EQ(MetricOf(metrics_, "dfkv_tenant_used_bytes"), 0);
}

TEST_P(TenantUse, ManyTenantsTakeABoundedNumberOfSeries) {
  ASSERT_TRUE(Open().ok());
  for (uint64_t tenant = 0; tenant < 400; ++tenant) {
    ASSERT_TRUE(user_->Put(KeyOf(1, tenant), BytesOf(1, 100)).ok());
  }
  const auto all = metrics_.Snapshot();
  EXPECT_EQ(std::count_if(all.begin(), all.end(),
                          [](const auto& s) { return s.first.starts_with("dfkv_tenant_used_bytes{"); }),
            257);
  EXPECT_EQ(MetricOf(metrics_, "dfkv_tenant_used_bytes"), 400 * 4096);
  EXPECT_EQ(MetricOf(metrics_, "dfkv_tenant_objects{tenant_hash=\"other\"}"), 144);
}

INSTANTIATE_TEST_SUITE_P(Stores, TenantUse, testing::ValuesIn(Settings()), NameOf);

}  // namespace
}  // namespace dfkv::store
