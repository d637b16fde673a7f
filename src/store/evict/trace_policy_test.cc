// The token hit ratios that policies must reach on public traces, for every way a request may arrive. The
// traces are not part of this repository; without them the tests are skipped.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <ostream>
#include <string>

#include "base/text.h"
#include "store/evict/offline.h"
#include "store/evict/simulate.h"
#include "store/evict/trace.h"

namespace dfkv::store::evict {
namespace {

struct Bars {
  const char* trace;
  double at[3];          // the tournament's, token hit % at 5, 10 and 20 % of the distinct blocks
  double lru_at[3];      // LRU's, deepest touched first
  double s3_fifo_at[3];  // S3-FIFO's, small queue 30 %
  double offline_at[3];
  double infinite;
};
#ifdef DFKV_SANITIZED
constexpr bool kWhole = false;
#else
constexpr bool kWhole = true;
#endif

void PrintTo(const Bars& bars, std::ostream* out) {
  *out << bars.trace;
}
constexpr double kShares[] = {0.05, 0.10, 0.20};
constexpr Bars kBars[] = {
    {"conversation", {21.6, 28.5, 35.2}, {20.0, 28.4, 35.2}, {20.2, 27.9, 33.1}, {37.4, 37.4, 37.4}, 37.4},
    {"synthetic", {16.4, 27.1, 40.7}, {16.0, 26.7, 40.0}, {16.6, 27.1, 42.0}, {40.3, 51.6, 61.9}, 65.1},
};

class PublicTrace : public testing::TestWithParam<Bars> {
 protected:
  // Loads once per trace and process; a sanitizer's run takes the first part of it and asserts no bars.
  void SetUp() override {
    const std::string path =
        (std::filesystem::path(DFKV_TRACE_DIR) / Cat(GetParam().trace, "_trace.jsonl.gz")).string();
    if (!std::filesystem::exists(path)) GTEST_SKIP() << "NOT TESTED: no trace at " << path;
    auto requests = LoadTraceBlocking(path);
    ASSERT_TRUE(requests.ok()) << requests.status().ToString();
    requests_ = std::move(*requests);
    if (!kWhole) requests_.resize(requests_.size() / 20);
    footprint_ = static_cast<double>(FootprintBlocks(requests_));
  }

  void ExpectNear(double percent, double bar, double tolerance, const std::string& what) {
    if (kWhole) {
      EXPECT_NEAR(percent, bar, tolerance) << what;
    } else {
      EXPECT_GE(percent, 0) << what;
    }
  }

  uint64_t Capacity(size_t share) const { return static_cast<uint64_t>(footprint_ * kShares[share]); }

  // One policy at the three shares.
  void ExpectBars(const std::string& policy, CallPattern pattern, const double (&bars)[3], double tolerance) {
    for (size_t share = 0; share < std::size(kShares); ++share) {
      SimOptions options;
      options.policy = policy;
      options.capacity = Capacity(share);
      options.pattern = pattern;
      const auto result = Simulate(requests_, options);
      ASSERT_TRUE(result.ok()) << result.status().ToString();
      const auto name = kCallPatternNames[static_cast<size_t>(pattern)];
      ExpectNear(100 * result->token_hit_ratio, bars[share], tolerance,
                 Cat(policy, " ", name, " at ", kShares[share]));
      const double fixed = 65536.0 / static_cast<double>(options.capacity);
      EXPECT_LE(result->bytes_per_object, options.bytes_per_object_max + fixed) << policy << " " << name;
    }
  }

  std::vector<TraceRequest> requests_;
  double footprint_ = 0;
};

TEST_P(PublicTrace, OfflineOptimum) {
  for (size_t share = 0; share < std::size(kShares); ++share) {
    ExpectNear(100 * OfflineTokenHitRatio(requests_, Capacity(share)), GetParam().offline_at[share], 0.06,
               Cat("at ", kShares[share]));
  }
  ExpectNear(100 * OfflineTokenHitRatio(requests_, Capacity(2) * 5 + 5), GetParam().infinite, 0.06,
             "infinite");
}

TEST_P(PublicTrace, LruAndS3Fifo) {
  ExpectBars("lru", CallPattern::kOneBatch, GetParam().lru_at, 0.06);
  ExpectBars("lru", CallPattern::kMatchGetPut, GetParam().lru_at, 0.06);
  ExpectBars("s3-fifo", CallPattern::kOneBatch, GetParam().s3_fifo_at, 0.5);
  ExpectBars("s3-fifo", CallPattern::kMatchGetPut, GetParam().s3_fifo_at, 0.5);
}

TEST_P(PublicTrace, TournamentForEveryCallPattern) {
  for (size_t pattern = 0; pattern < std::size(kCallPatternNames); ++pattern) {
    ExpectBars("tournament", static_cast<CallPattern>(pattern), GetParam().at, 1.0);
  }
}

// Chains in batches of 32 keys, and 16 requests in flight, each of which hides what its neighbours store.
TEST_P(PublicTrace, TournamentInSmallBatchesAndInFlight) {
  for (const auto& [batch_max, in_flight] : {std::pair{32u, 1u}, std::pair{0u, 16u}}) {
    SimOptions options;
    options.policy = "tournament";
    options.capacity = Capacity(1);
    options.pattern = CallPattern::kMatchGetPut;
    options.batch_max = batch_max;
    options.in_flight = in_flight;
    const auto result = Simulate(requests_, options);
    ASSERT_TRUE(result.ok());
    ExpectNear(100 * result->token_hit_ratio, GetParam().at[1], 1.1, Cat(batch_max, " ", in_flight));
  }
}

INSTANTIATE_TEST_SUITE_P(All, PublicTrace, testing::ValuesIn(kBars),
                         [](const auto& param) { return std::string(param.param.trace); });

}  // namespace
}  // namespace dfkv::store::evict
