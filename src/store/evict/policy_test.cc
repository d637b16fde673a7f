#include "store/evict/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <vector>

#include "base/fault.h"
#include "base/random.h"
#include "base/text.h"

namespace dfkv::store::evict {
namespace {

constexpr auto kAny = [](Handle) { return true; };

std::unique_ptr<Policy> Make(std::string_view name, uint64_t capacity, uint32_t bytes_per_object_max) {
  auto policy =
      MakePolicy(name, Config{.capacity_objects = capacity, .bytes_per_object_max = bytes_per_object_max});
  EXPECT_TRUE(policy.ok()) << policy.status().ToString();
  return std::move(policy.value());
}

// A store in miniature: objects of one size, ids that are their own handles where not said otherwise.
class Space {
 public:
  Space(std::string_view name, uint64_t capacity,
        uint32_t bytes_per_object_max = Config().bytes_per_object_max)
      : policy_(Make(name, capacity, bytes_per_object_max)), capacity_(capacity) {}

  Policy& policy() { return *policy_; }
  bool Has(uint64_t id) const { return live_.count(id) > 0; }
  size_t size() const { return live_.size(); }
  const std::map<uint64_t, Handle>& live() const { return live_; }

  void Batch(RequestKind kind, const std::vector<uint64_t>& ids) {
    std::vector<Access> chain;
    for (size_t i = 0; i < ids.size(); ++i)
      chain.push_back({ids[i], HandleOf(ids[i]), static_cast<uint32_t>(i)});
    policy_->OnRequest({.kind = kind, .now = ++now_, .chain = chain});
  }

  // One batch of all keys; the absent ones are stored, index 0 first.
  void Put(const std::vector<uint64_t>& ids) {
    Batch(RequestKind::kPut, ids);
    for (size_t i = 0; i < ids.size(); ++i) Store(ids[i], static_cast<uint32_t>(i));
  }

  void Store(uint64_t id, uint32_t depth = kNoDepth) {
    if (Has(id)) return;
    while (live_.size() >= capacity_) ASSERT_NE(EvictOne(), kNoHandle);
    live_[id] = Handle(next_handle_++);
    ids_[live_[id]] = id;
    policy_->Insert({id, live_[id], depth});
  }

  Handle EvictOne() {
    const Handle victim = policy_->Victim(kAny);
    if (victim == kNoHandle) return victim;
    Drop(ids_.at(victim), EraseReason::kEvicted);
    return victim;
  }

  void Drop(uint64_t id, EraseReason reason) {
    const Handle handle = live_.at(id);
    policy_->Erase(id, handle, reason);
    ids_.erase(handle);
    live_.erase(id);
  }

  void SetCapacity(uint64_t capacity) {
    capacity_ = capacity;
    policy_->SetCapacity(capacity);
  }

  // The ids in the order the policy gives them up; leaves the space empty.
  std::vector<uint64_t> Drain() {
    std::vector<uint64_t> order;
    while (!live_.empty()) {
      const Handle victim = policy_->Victim(kAny);
      if (victim == kNoHandle) break;
      order.push_back(ids_.at(victim));
      Drop(order.back(), EraseReason::kEvicted);
    }
    return order;
  }

 private:
  Handle HandleOf(uint64_t id) const {
    auto at = live_.find(id);
    return at == live_.end() ? kNoHandle : at->second;
  }

  std::unique_ptr<Policy> policy_;
  uint64_t capacity_;
  std::map<uint64_t, Handle> live_;
  std::map<Handle, uint64_t> ids_;
  uint64_t now_ = 0;
  uint32_t next_handle_ = 100;
};

using Ids = std::vector<uint64_t>;

TEST(MakePolicy, UnknownNameListsTheKnown) {
  auto policy = MakePolicy("clock", {});
  ASSERT_EQ(policy.code(), Code::kInvalid);
  EXPECT_NE(policy.status().message().find("lru"), std::string::npos);
}

TEST(Lru, EvictsLeastRecentLeavesFirst) {
  Space space("lru", 10);
  space.Put({1, 2, 3});
  space.Put({4, 5});
  space.Batch(RequestKind::kGet, {1, 2});
  EXPECT_EQ(space.Drain(), (Ids{3, 5, 4, 2, 1}));
}

TEST(Lru, CommitOrderDoesNotMatter) {
  Space space("lru", 10);
  space.Batch(RequestKind::kPut, {1, 2, 3});
  space.Batch(RequestKind::kPut, {4, 5});
  space.Store(5);
  space.Store(2);
  space.Store(3);
  space.Store(4);
  space.Store(1);
  EXPECT_EQ(space.Drain(), (Ids{3, 2, 1, 5, 4}));
}

TEST(Lru, PutOfTheRestStaysBehindTheHit) {
  Space space("lru", 10);
  space.Put({1, 2});
  space.Batch(RequestKind::kMatch, {1, 2, 3, 4});
  space.Batch(RequestKind::kGet, {1, 2});
  space.Put({3, 4});
  EXPECT_EQ(space.Drain(), (Ids{4, 3, 2, 1}));
}

// What every policy promises, whatever it prefers.
class EveryPolicy : public testing::TestWithParam<std::string_view> {};

TEST_P(EveryPolicy, EmptyHasNoVictim) {
  Space space(GetParam(), 4);
  EXPECT_EQ(space.policy().Victim(kAny), kNoHandle);
  EXPECT_EQ(space.policy().ColdestStamp(), Policy::kNoStamp);
  space.Put({1});
  EXPECT_EQ(space.policy().ColdestStamp(), 1u);
  space.Drop(1, EraseReason::kRemoved);
  EXPECT_EQ(space.policy().Victim(kAny), kNoHandle);
}

TEST_P(EveryPolicy, PinnedObjectsAreNeverChosen) {
  Space space(GetParam(), 100);
  for (uint64_t id = 0; id < 100; ++id) space.Put({id});
  std::map<Handle, bool> pinned;
  for (uint64_t id = 0; id < 100; ++id) pinned[space.live().at(id)] = id % 10 != 7;
  const auto may_evict = [&](Handle handle) { return !pinned.at(handle); };
  for (int i = 0; i < 10; ++i) {
    const Handle victim = space.policy().Victim(may_evict);
    ASSERT_NE(victim, kNoHandle);
    ASSERT_FALSE(pinned.at(victim));
    for (uint64_t id = 7; id < 100; id += 10) {
      if (space.Has(id) && space.live().at(id) == victim) space.Drop(id, EraseReason::kEvicted);
    }
  }
  EXPECT_EQ(space.size(), 90u);
  EXPECT_EQ(space.policy().Victim(may_evict), kNoHandle);
}

TEST_P(EveryPolicy, GetsPastManyPinnedObjectsInSeveralCalls) {
  Space space(GetParam(), 5000);
  for (uint64_t id = 0; id < 5000; ++id) space.Put({id});
  const Handle free = space.live().at(2500);
  Handle victim = kNoHandle;
  int asked = 0;
  for (int call = 0; call < 200 && victim == kNoHandle; ++call) {
    int before = asked;
    victim = space.policy().Victim([&](Handle handle) { return ++asked, handle == free; });
    ASSERT_LE(asked - before, Policy::kRefusalsMax);
  }
  EXPECT_EQ(victim, free);
}

TEST_P(EveryPolicy, EqualIdsOfTwoObjectsAreToldApart) {
  Space space(GetParam(), 4);
  Policy& policy = space.policy();
  policy.Insert({7, Handle(1), 0});
  policy.Insert({7, Handle(2), 0});
  policy.Insert({7, Handle(2), 0});  // already live
  policy.Erase(7, Handle(3), EraseReason::kEvicted);
  policy.Erase(8, Handle(1), EraseReason::kEvicted);
  policy.Erase(7, kNoHandle, EraseReason::kEvicted);
  policy.Erase(7, Handle(1), EraseReason::kEvicted);
  EXPECT_EQ(policy.Victim(kAny), Handle(2));
  policy.Erase(7, Handle(2), EraseReason::kRemoved);
  EXPECT_EQ(policy.Victim(kAny), kNoHandle);
}

TEST_P(EveryPolicy, StaleHandlesInABatchAreAbsent) {
  Space space(GetParam(), 4);
  const Access chain[] = {{1, Handle(9), 0}, {2, kNoHandle, 1}};
  space.policy().OnRequest({.kind = RequestKind::kGet, .now = 1, .chain = chain});
  EXPECT_EQ(space.policy().Victim(kAny), kNoHandle);
}

// Random operations against a set: a victim is live and allowed, nothing is lost, memory stays bounded.
TEST_P(EveryPolicy, RandomOperations) {
  const uint64_t seed = SeedFromSystem();
  std::printf("seed %s\n", Cat(seed).c_str());  // before anything may crash
  Random random(seed);
  Space space(GetParam(), 200);
  for (int step = 0; step < 20000; ++step) {
    const uint64_t first = random.Below(100) * 16;
    Ids ids;
    for (uint64_t i = 0, n = 1 + random.Below(16); i < n; ++i) ids.push_back(first + i);
    const uint64_t what = random.Below(10);
    if (what < 3) {
      space.Put(ids);
    } else if (what < 8) {
      space.Batch(static_cast<RequestKind>(random.Below(4)), ids);
    } else if (what == 8) {
      if (space.Has(first))
        space.Drop(first, random.OneIn(2) ? EraseReason::kEvicted : EraseReason::kRemoved);
    } else if (random.OneIn(20)) {
      space.SetCapacity(1 + random.Below(400));
    }
    const uint64_t odd = random.Below(2);
    const auto may_evict = [&](Handle handle) { return handle.value() % 2 == odd; };
    const Handle victim = space.policy().Victim(may_evict);
    if (victim == kNoHandle) continue;
    ASSERT_EQ(victim.value() % 2, odd);
    ASSERT_TRUE(std::any_of(space.live().begin(), space.live().end(),
                            [&](const auto& entry) { return entry.second == victim; }));
  }
  const size_t size = space.size();
  EXPECT_EQ(space.Drain().size(), size);
  EXPECT_LE(space.policy().MemoryBytes(), 400u * 160 + 65536);
}

TEST_P(EveryPolicy, MemoryStaysWithinItsBudget) {
  constexpr uint64_t kCapacity = 20000;
  Space space(GetParam(), kCapacity);
  for (uint64_t id = 0; id < 12 * kCapacity; id += 10) {
    Ids ids;
    for (uint64_t i = 0; i < 10; ++i) ids.push_back(id + i);
    if (id >= 2 * kCapacity && id % 40 == 0) space.Batch(RequestKind::kGet, {id - kCapacity, id + 1});
    space.Put(ids);
  }
  const double per_object = static_cast<double>(space.policy().MemoryBytes()) / kCapacity;
  RecordProperty("bytes_per_object", std::to_string(per_object));
  EXPECT_LE(space.policy().MemoryBytes(), kCapacity * 160 + 65536) << per_object << " bytes per object";
}

// Space moves to another class: its memory goes with it, while requests go on.
TEST_P(EveryPolicy, MemoryFollowsACapacityThatShrinks) {
  constexpr uint64_t kLarge = 30000;
  constexpr uint64_t kSmall = 2000;
  Space space(GetParam(), kLarge);
  uint64_t next = 0;
  const auto put_chain = [&] {
    Ids ids;
    for (int i = 0; i < 10; ++i) ids.push_back(next++);
    space.Put(ids);
  };
  while (next < 2 * kLarge) put_chain();
  const size_t large = space.policy().MemoryBytes();
  for (uint64_t capacity = kLarge; capacity > kSmall; capacity -= 100) {
    space.SetCapacity(capacity - 100);
    while (space.size() > capacity - 100) ASSERT_NE(space.EvictOne(), kNoHandle);
    put_chain();
  }
  for (uint64_t n = 0; n < 10 * kSmall; n += 10) put_chain();
  EXPECT_LE(space.policy().MemoryBytes(), kSmall * 160 + 65536) << "was " << large;
  EXPECT_EQ(space.Drain().size(), kSmall);
}

// A budget too small for shadows and history still serves the live objects.
TEST_P(EveryPolicy, WorksWithATinyBudget) {
  constexpr uint64_t kCapacity = 5000;
  Space space(GetParam(), kCapacity, 70);
  const uint64_t seed = SeedFromSystem();
  std::printf("seed %s\n", Cat(seed).c_str());  // before anything may crash
  Random random(seed);
  uint64_t next = 1000000;
  for (int request = 0; request < 20000; ++request) {
    const uint64_t again =
        random.Below(kCapacity / 10) * 10;  // used again and again, between chains used once
    const uint64_t first = random.OneIn(3) ? again : (next += 10);
    Ids ids;
    for (uint64_t i = 0; i < 10; ++i) ids.push_back(first + i);
    space.Put(ids);
  }
  EXPECT_EQ(space.size(), kCapacity);
  EXPECT_LE(space.policy().MemoryBytes(), kCapacity * 70 + 65536);
  EXPECT_EQ(space.Drain().size(), kCapacity);
}

// Keys that are asked for and never stored.
TEST_P(EveryPolicy, MemoryIsBoundedWhenNothingIsStored) {
  constexpr uint64_t kCapacity = 1000;
  Space space(GetParam(), kCapacity);
  for (uint64_t id = 0; id < 300 * kCapacity; id += 100) {
    Ids ids;
    for (uint64_t i = 0; i < 100; ++i) ids.push_back(id + i);
    space.Batch(id % 200 == 0 ? RequestKind::kMatch : RequestKind::kPut, ids);
  }
  EXPECT_LE(space.policy().MemoryBytes(), kCapacity * 160 + 65536);
  space.Put({1, 2, 3});
  EXPECT_EQ(space.Drain(), (Ids{3, 2, 1}));
}

// Small caches want scan resistance: a set that is used again and again outlives chains used once.
TEST(Tournament, KeepsWhatIsUsedAgainFromAScan) {
  uint64_t hits[2] = {};
  for (const bool tournament : {false, true}) {
    Space space(tournament ? "tournament" : "lru", 100);
    uint64_t next = 1000;
    for (int round = 0; round < 300; ++round) {
      for (uint64_t hot = 0; hot < 40; hot += 10) {
        Ids ids;
        for (uint64_t i = 0; i < 10; ++i) {
          ids.push_back(hot + i);
          hits[tournament] += space.Has(hot + i);
        }
        space.Put(ids);
      }
      for (int scan = 0; scan < 12; ++scan) {
        Ids ids;
        for (int i = 0; i < 10; ++i) ids.push_back(next++);
        space.Put(ids);
      }
    }
  }
  EXPECT_EQ(hits[false], 0u);
  EXPECT_GT(hits[true], 300u * 40 * 3 / 4);
  EXPECT_GT(ProbeHits("evict.new_winner"), 0u);
}

// And large ones want recency: what was used often long ago gives way.
TEST(Tournament, FollowsAChangeOfTheWorkingSet) {
  Space space("tournament", 200);
  uint64_t hits = 0;
  for (uint64_t era = 0; era < 20; ++era) {
    for (int round = 0; round < 100; ++round) {
      for (uint64_t chain = 0; chain < 15; ++chain) {
        Ids ids;
        for (uint64_t i = 0; i < 10; ++i) {
          ids.push_back(era * 1000 + chain * 10 + i);
          hits += space.Has(ids.back());
        }
        space.Put(ids);
      }
    }
  }
  EXPECT_GT(hits, 20u * 100 * 150 * 9 / 10);
}

// The past fades: after a long time in which LRU was best, LRU-2 wins within some hundred requests.
TEST(Tournament, ForgetsOldScores) {
  Space space("tournament", 100);
  uint64_t next = 100000;
  const auto chain = [&](uint64_t first) {
    Ids ids;
    for (uint64_t i = 0; i < 10; ++i) ids.push_back(first + i);
    return ids;
  };
  // Pairs of requests that are never seen again: only recency hits, and LRU-2 keeps what was seen twice.
  for (int request = 0; request < 10000; ++request) {
    space.Put(chain(next));
    if (request >= 5) space.Put(chain(next - 50));
    next += 10;
  }
  uint64_t hits = 0;
  for (int round = 0; round < 400; ++round) {
    for (uint64_t hot = 0; hot < 40; hot += 10) {
      for (uint64_t id = hot; id < hot + 10; ++id) hits += round >= 200 && space.Has(id);
      space.Put(chain(hot));
    }
    for (int scan = 0; scan < 12; ++scan) space.Put(chain(next += 10));
  }
  EXPECT_GT(hits, 200u * 40 * 3 / 4);
}

TEST(Tournament, RarePathsWereReached) {
  // By the tests above of this binary when it runs whole; alone this test reaches them itself.
  Space space("tournament", 3000, 64);
  for (uint64_t id = 0; id < 30000; id += 10) space.Put({id, id + 1, id + 2, id + 3, id + 4});
  space.SetCapacity(100);
  while (space.size() > 100) ASSERT_NE(space.EvictOne(), kNoHandle);
  for (uint64_t id = 0; id < 3000; ++id) space.Put({id});
  for (int call = 0; call < 3; ++call) space.policy().Victim([](Handle) { return false; });
  EXPECT_GT(ProbeHits("evict.squeeze"), 0u);
  EXPECT_GT(ProbeHits("evict.compact"), 0u);
  EXPECT_GT(ProbeHits("evict.coldest_pinned"), 0u);
}

INSTANTIATE_TEST_SUITE_P(All, EveryPolicy, testing::ValuesIn(PolicyNames()), [](const auto& param) {
  std::string name(param.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

}  // namespace
}  // namespace dfkv::store::evict
