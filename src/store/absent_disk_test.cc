// A disk that was away for a run of the store: REMOVE stays final when it returns, and nothing is dropped
// without need. On real files and on the simulated disk.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "base/fault.h"
#include "io/disk_sim.h"
#include "io/reactor_sim.h"
#include "store/runs_file.h"
#include "store/store_testing.h"

namespace dfkv::store {
namespace {

Salt SaltOf(int number) {
  Salt salt{};
  salt[0] = std::byte(number);
  return salt;
}

TEST(PlanRun, BelievesWhatMissedNoRemovingRun) {
  EXPECT_EQ(PlanRun(std::vector<RunMark>{{}, {}}).believed, (std::vector<bool>{true, true})) << "all new";
  const Salt store = SaltOf(1);
  const RunPlan plan = PlanRun(std::vector<RunMark>{{store, 7, 5}, {store, 5, 5}, {store, 4, 2}, {}});
  EXPECT_EQ(plan.store, store);
  EXPECT_EQ(plan.last_run, 7u);
  EXPECT_EQ(plan.removing_run, 5u);
  EXPECT_EQ(plan.believed, (std::vector<bool>{true, true, false, false}));
}

TEST(PlanRun, AStrangeDirectoryHasNoSay) {
  const RunMark ours{SaltOf(1), 3, 2};
  const RunMark strange{SaltOf(2), 900, 900};
  RunPlan plan = PlanRun(std::vector<RunMark>{strange, ours, ours});
  EXPECT_EQ(plan.store, SaltOf(1));
  EXPECT_EQ(plan.last_run, 3u);
  EXPECT_EQ(plan.believed, (std::vector<bool>{false, true, true}));
  plan = PlanRun(std::vector<RunMark>{ours, strange});
  EXPECT_EQ(plan.believed, (std::vector<bool>{true, false})) << "the first named";
}

TEST(RunBlock, OnlyAWholeOneCounts) {
  RunBlock block{};
  block.store = SaltOf(3);
  block.run = 9;
  block.removing_run = 8;
  SealRunBlock(&block);
  std::vector<std::byte> bytes(sizeof block);
  std::memcpy(bytes.data(), &block, sizeof block);
  RunBlock read{};
  ASSERT_TRUE(DecodeRunBlock(bytes, &read));
  EXPECT_EQ(read.run, 9u);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= std::byte(1 << bit % 8);
    EXPECT_FALSE(DecodeRunBlock(bytes, &read)) << bit;
    bytes[bit / 8] ^= std::byte(1 << bit % 8);
  }
  EXPECT_FALSE(DecodeRunBlock(ByteSpan(bytes).first(bytes.size() - 1), &read));
}

constexpr size_t kSize = 5000;

// Real directories, both engines. A directory that is away has a file in its place.
class AwayDisk : public SlabStore, public testing::WithParamInterface<EngineKind> {
 protected:
  AwayDisk() {
    options_.engine = GetParam();
    options_.directories = {Path(0), Path(1)};
    options_.capacity_bytes = 32 << 20;
    SetLogLevel(LogLevel::kOff);
  }
  std::string Path(int i) const { return dir_.path() + "/" + std::to_string(i); }
  void TakeAway(int i) {
    Close();
    std::filesystem::rename(Path(i), Path(i) + ".away");
    std::ofstream file(Path(i));
  }
  void Return(int i) {
    Close();
    std::filesystem::remove(Path(i));
    std::filesystem::rename(Path(i) + ".away", Path(i));
  }
  // As if the process had been killed: the end of the run is not noted.
  void Kill() { store_.reset(); }

  std::set<uint64_t> Hits(uint64_t count) {
    std::set<uint64_t> hits;
    for (uint64_t i = 0; i < count; ++i) {
      const std::string found = user_->Check(i, kSize);
      EXPECT_NE(found, "WRONG");
      if (found == "hit") hits.insert(i);
    }
    return hits;
  }
};

TEST_P(AwayDisk, WhatWasRemovedMeanwhileStaysRemoved) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(user_->PutMany(0, 100, kSize).ok());
  TakeAway(1);
  ASSERT_TRUE(Open().ok());
  const std::set<uint64_t> first = Hits(100);
  ASSERT_GT(first.size(), 10u);
  ASSERT_LT(first.size(), 90u);
  for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(user_->Remove(KeyOf(i)).ok());
  Return(1);
  ASSERT_TRUE(Open().ok());
  std::set<uint64_t> left = first;
  for (uint64_t i = 0; i < 10; ++i) left.erase(i);
  EXPECT_EQ(Hits(100), left);
  EXPECT_GT(ProbeHits("disks: one that was away is emptied"), 0u);
  ASSERT_TRUE(user_->PutMany(0, 100, kSize).ok()) << "it is in use again";
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Hits(100).size(), 100u) << "and believed";
}

TEST_P(AwayDisk, WithoutARemoveNothingIsDropped) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(user_->PutMany(0, 100, kSize).ok());
  ASSERT_TRUE(user_->Remove(KeyOf(1000)).ok()) << "in a run that had all disks";
  for (int run = 0; run < 3; ++run) {
    TakeAway(1);
    ASSERT_TRUE(Open().ok());
    ASSERT_TRUE(user_->PutMany(200, 10, kSize).ok());
    Return(1);
    ASSERT_TRUE(Open().ok());
    EXPECT_EQ(Hits(100).size(), 100u);
  }
}

TEST_P(AwayDisk, ARunThatWasKilledMayHaveRemoved) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(user_->PutMany(0, 100, kSize).ok());
  TakeAway(1);
  ASSERT_TRUE(Open().ok());
  const std::set<uint64_t> first = Hits(100);
  ASSERT_TRUE(user_->Remove(KeyOf(0)).ok());
  Kill();
  Return(1);
  ASSERT_TRUE(Open().ok());
  std::set<uint64_t> left = first;
  left.erase(0);
  EXPECT_EQ(Hits(100), left);
}

TEST_P(AwayDisk, AKilledRunWithAllDisksCostsNothing) {
  for (int run = 0; run < 3; ++run) {
    ASSERT_TRUE(Open().ok());
    ASSERT_TRUE(user_->PutMany(0, 100, kSize).ok());
    ASSERT_TRUE(user_->Remove(KeyOf(1000)).ok());
    Kill();
  }
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Hits(100).size(), 100u);
}

// The operator leaves it out of --dir: the same.
TEST_P(AwayDisk, OneThatWasNotNamed) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(user_->PutMany(0, 100, kSize).ok());
  options_.directories = {Path(0)};
  ASSERT_TRUE(Open().ok());
  const std::set<uint64_t> first = Hits(100);
  for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(user_->Remove(KeyOf(i)).ok());
  options_.directories = {Path(1), Path(0)};
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Hits(100).size(), 0u);
}

TEST_P(AwayDisk, ADirectoryOfAnotherStoreIsEmptied) {
  options_.directories = {Path(1)};
  for (int run = 0; run < 9; ++run) ASSERT_TRUE(Open().ok());  // its numbers are higher
  ASSERT_TRUE(user_->PutMany(0, 10, kSize).ok());
  ASSERT_TRUE(user_->Remove(KeyOf(0)).ok());
  Kill();
  options_.directories = {Path(0)};
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(user_->PutMany(20, 10, kSize).ok());
  options_.directories = {Path(0), Path(1)};
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(store_->object_count(), 10u);
  EXPECT_EQ(Hits(10).size(), 0u);
}

// Generations of what was stored meanwhile are above those of a disk that is away.
TEST_P(AwayDisk, WhatWasStoredMeanwhileIsTheNewer) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(user_->PutMany(0, 200, kSize).ok());
  TakeAway(0);
  ASSERT_TRUE(Open().ok());
  const std::set<uint64_t> on_second = Hits(200);
  std::vector<std::byte> other = BytesOf(77, 100);
  for (uint64_t i = 0; i < 200; ++i) {
    if (on_second.contains(i)) continue;
    ASSERT_TRUE(user_->Put(KeyOf(i), other).ok());
  }
  Return(0);
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = 0; i < 200; ++i) {
    const auto got = user_->Get(KeyOf(i));
    ASSERT_TRUE(got.ok());
    EXPECT_EQ(got->bytes().size(), on_second.contains(i) ? kSize : other.size()) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, AwayDisk, testing::Values(EngineKind::kSlab, EngineKind::kFile),
                         [](const auto& param) {
                           return param.param == EngineKind::kSlab ? "slab" : "file";
                         });

TEST_F(SlabStore, AFullOneOfSeveralIsRefusedByName) {
  options_.directories = {dir_.path() + "/a", dir_.path() + "/b"};
  options_.disk_weights = {1, 1'000'000};
  options_.capacity_bytes = uint64_t{1} << 43;  // 8 TiB, nearly all of it in b
  const Status status = Open();
  EXPECT_EQ(status.code(), Code::kNoSpace) << status.ToString();
  EXPECT_NE(status.message().find(dir_.path() + "/b"), std::string::npos) << status.ToString();
}

// --- On the simulated disk ---

class SimAway : public testing::Test {
 protected:
  SimAway() {
    SetLogLevel(LogLevel::kOff);
    options_.capacity_bytes = 24 << 20;
    options_.ram_bytes = 2 << 20;
    options_.policy = "lru";
    options_.populate = false;
  }
  Status Open(std::vector<std::string> directories) {
    options_.capacity_bytes = directories.size() * (8 << 20);
    options_.directories = std::move(directories);
    auto opened = Store::OpenBlocking(options_, *disk_, metrics_);
    if (!opened.ok()) return opened.status();
    store_ = std::move(*opened);
    user_ = std::make_unique<StoreUser>(store_.get(), &reactor_);
    return Ok();
  }
  void End(bool orderly) {
    if (orderly) {
      EXPECT_TRUE(user_->Stop().ok());
    }
    user_.reset();
    store_.reset();
    if (!orderly) disk_->Crash(io::CrashKind::kProcessKill);
  }

  io::SimReactor reactor_;
  std::unique_ptr<io::SimDisk> disk_ = std::make_unique<io::SimDisk>();
  StoreOptions options_;
  MetricRegistry metrics_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<StoreUser> user_;
};

// A start that dies at any of its writes makes no disk look as if it had been away.
TEST_F(SimAway, AStartThatDiesDropsNothing) {
  for (uint64_t nth = 1; nth < 40; ++nth) {
    disk_ = std::make_unique<io::SimDisk>();
    ASSERT_TRUE(Open({"/a", "/b", "/c"}).ok());
    ASSERT_TRUE(user_->PutMany(0, 60, kSize).ok());
    ASSERT_TRUE(user_->Remove(KeyOf(0)).ok());
    End(nth % 2 == 0);
    disk_->CrashAtWrite(nth);
    const bool opened = Open({"/a", "/b", "/c"}).ok();
    const bool crashed = disk_->crashed();
    user_.reset();
    store_.reset();
    disk_->Crash(nth % 3 == 0 ? io::CrashKind::kPowerCut : io::CrashKind::kProcessKill);
    ASSERT_TRUE(Open({"/a", "/b", "/c"}).ok()) << nth;
    EXPECT_EQ(user_->Check(0, kSize), "miss") << nth;
    if (nth % 3 != 0) {
      EXPECT_EQ(store_->object_count(), 59u) << nth;
    }
    End(true);
    if (opened && !crashed) break;  // beyond the last write of a start
    ASSERT_LT(nth, 39u);
  }
}

// Random runs with any of the disks: what was removed stays removed, and what was not is dropped only where
// a run without some disk may have removed.
TEST_F(SimAway, RandomRuns) {
  const uint64_t seed = SeedFromSystem();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  for (int schedule = 0; schedule < 40; ++schedule) {
    disk_ = std::make_unique<io::SimDisk>(io::SimDiskOptions{.seed = random.Below(1 << 30)});
    std::map<uint64_t, std::set<uint64_t>> values;  // key to the seeds acknowledged since its last REMOVE
    bool may_drop = false;                          // some run with a disk away removed, or was killed
    uint64_t next_seed = 1;
    std::vector<std::string> before;
    for (int run = 0; run < 12; ++run) {
      std::vector<std::string> directories;
      for (const char* name : {"/a", "/b", "/c"}) {
        if (run == 0 || random.Below(4) != 0) directories.push_back(name);  // the first makes it one store
      }
      // Each run shares a disk with the one before: what no disk that is there was told, none can know.
      const bool knows = run == 0 || std::any_of(before.begin(), before.end(), [&](const std::string& name) {
                           return std::count(directories.begin(), directories.end(), name) > 0;
                         });
      if (!knows) continue;
      before = directories;
      const bool all = directories.size() == 3;
      ASSERT_TRUE(Open(directories).ok());
      const bool removes = random.Below(3) == 0;
      for (int step = 0; step < 40; ++step) {
        const uint64_t key = random.Below(60);
        if (removes && random.Below(3) == 0) {
          ASSERT_TRUE(user_->Remove(KeyOf(key)).ok());
          values.erase(key);
        } else if (store_->Length(KeyOf(key)).ok()) {
          const auto got = user_->Get(KeyOf(key));
          ASSERT_TRUE(got.ok());
          const auto& known = values[key];
          ASSERT_TRUE(std::any_of(known.begin(), known.end(),
                                  [&](uint64_t s) { return PatternMatches(s, 0, got->bytes()); }))
              << "removed, and back, in run " << run << " of schedule " << schedule;
        } else {
          ASSERT_TRUE(!all || may_drop || !values.contains(key)) << "dropped without need";
          values[key].insert(next_seed);
          ASSERT_TRUE(user_->Put(KeyOf(key), BytesOf(next_seed++, kSize)).ok());
        }
      }
      const bool orderly = random.Below(2) == 0;
      End(orderly);
      if (!all && (removes || !orderly)) may_drop = true;
    }
  }
}

}  // namespace
}  // namespace dfkv::store
