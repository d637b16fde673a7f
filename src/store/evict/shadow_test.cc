// The parts of the policies against plain models of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <list>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "store/evict/arc.h"
#include "store/evict/history.h"
#include "store/evict/known.h"
#include "store/evict/logical_request.h"
#include "store/evict/lru2.h"
#include "store/evict/recency.h"

namespace dfkv::store::evict {
namespace {

class Seeded : public testing::Test {
 protected:
  Seeded() { std::printf("seed %s\n", Cat(seed_).c_str()); }
  const uint64_t seed_ = SeedFromSystem();
  Random random_{seed_};
};
using NodeTableTest = Seeded;
using HistoryTest = Seeded;
using Lru2Test = Seeded;
using ArcTest = Seeded;
using RecencyTest = Seeded;

struct Listed {
  uint64_t id = 0;
  Index hash_next = kNil;
  Links links;
};

std::vector<uint64_t> Order(const NodeTable<Listed>& table, const List<Listed, &Listed::links>& list) {
  std::vector<uint64_t> ids;
  for (Index i = list.hottest(); i != kNil; i = table[i].links.colder) ids.push_back(table[i].id);
  return ids;
}

TEST_F(NodeTableTest, GrowsAndShrinksWithoutLosingANode) {
  NodeTable<Listed> table;
  List<Listed, &Listed::links> list;
  std::list<uint64_t> model;  // hottest first
  std::map<uint64_t, Index> at;
  uint64_t compacted = 0;
  size_t bytes_max = 0;
  for (int step = 0; step < 30000; ++step) {
    const bool growing = step / 6000 % 2 == 0;
    const uint64_t id = random_.Below(20000);
    if (random_.Below(10) < (growing ? 8u : 1u)) {
      if (at.count(id) > 0) continue;
      at[id] = table.Add(id);
      list.PushHot(table, at[id]);
      model.push_front(id);
    } else if (!model.empty()) {
      const uint64_t victim = model.back();
      ASSERT_EQ(list.coldest(), at[victim]);
      list.Remove(table, at[victim]);
      table.Free(at[victim]);
      at.erase(victim);
      model.pop_back();
    }
    bytes_max = std::max(bytes_max, table.MemoryBytes());
    if (table.Sparse(false)) {
      table.Compact(1 + random_.Below(20), [&](Index from, Index to) {
        list.Follow(table, from, to);
        ASSERT_EQ(at.at(table[to].id), from);
        at[table[to].id] = to;
        ++compacted;
      });
    }
    ASSERT_EQ(table.size(), at.size());
    if (step % 1000 != 0) continue;
    ASSERT_EQ(Order(table, list), std::vector<uint64_t>(model.begin(), model.end()));
    for (uint64_t probe = 0; probe < 20000; probe += 7) {
      const Index found = table.Find(probe, [](Index) { return true; });
      ASSERT_EQ(found, at.count(probe) > 0 ? at[probe] : kNil);
    }
  }
  EXPECT_GT(compacted, 1000u);
  while (!at.empty()) {
    list.Remove(table, at.begin()->second);
    table.Free(at.begin()->second);
    at.erase(at.begin());
  }
  while (table.Sparse(false)) table.Compact(8, [](Index, Index) { FAIL() << "nothing left to move"; });
  EXPECT_LT(table.MemoryBytes(), bytes_max / 2);
}

TEST_F(HistoryTest, RemembersTheLatestThatFit) {
  History history;
  EXPECT_EQ(history.Take(1, 5), 0u);
  history.Put(1, 3);  // no bucket yet
  while (history.buckets() < 1000) history.AddBucket();
  const uint64_t kPuts = 30000;
  for (uint64_t id = 1; id <= kPuts; ++id) history.Put(id, id);
  EXPECT_LE(history.size(), 16000u);
  uint64_t found = 0;
  for (uint64_t id = kPuts - 8000; id <= kPuts; ++id) {
    const uint64_t time = history.Take(id, kPuts + 7);
    if (time == 0) continue;
    ++found;
    ASSERT_EQ(time, id);
    ASSERT_EQ(history.Take(id, kPuts + 7), 0u);
  }
  EXPECT_GT(found, 7900u);
}

TEST_F(HistoryTest, GrowsAndShrinksByOneBucket) {
  History history;
  std::map<uint64_t, uint64_t> model;
  uint64_t time = 0;
  for (int step = 0; step < 20000; ++step) {
    const uint64_t id = random_.Below(3000);
    if (random_.OneIn(3)) {
      const uint64_t taken = history.Take(id, time);
      ASSERT_TRUE(taken == 0 || taken == model[id]);
      model.erase(id);
    } else {
      history.Put(id, ++time);
      model[id] = time;
    }
    if (history.buckets() > 0 && random_.OneIn(5)) history.RemoveBucket();
    if (random_.OneIn(4)) history.AddBucket();
    ASSERT_LE(history.size(), history.buckets() * History::kBucketEntries);
  }
  while (history.buckets() > 0) history.RemoveBucket();
  EXPECT_EQ(history.size(), 0u);
}

TEST_F(HistoryTest, TimesOutliveTheirLowHalf) {
  History history;
  history.AddBucket();
  const uint64_t late = (uint64_t{5} << 32) - 10;
  history.Put(1, late);
  EXPECT_EQ(history.Take(1, late + 20), late);
}

TEST_F(Lru2Test, AgreesWithASortedSet) {
  KnownTable table;
  Lru2 lru2;
  // Once-seen ids by arrival, then by (time before last, deeper first).
  std::vector<Index> all;
  std::map<Index, uint64_t> once;  // to arrival
  std::set<Index> twice;
  for (uint64_t id = 0; id < 300; ++id) {
    all.push_back(table.Add(id));
    table[all.back()].depth = random_.Below(50) & Known::kDepthMax;
  }
  uint64_t time = 0;
  for (int step = 0; step < 20000; ++step) {
    const Index i = all[random_.Below(random_.OneIn(2) ? all.size() : 30)];
    ++time;
    table[i].prev = table[i].last;
    table[i].last = time & kTimeMask;
    if (Lru2::Holds(table[i])) {
      lru2.Touch(table, i);
      once.erase(i);
      twice.insert(i);
    } else {
      if (random_.OneIn(3)) table[i].prev = 0;
      lru2.Insert(table, i);
      if (table[i].prev == 0) {
        once[i] = time;
      } else {
        twice.insert(i);
      }
    }
    ASSERT_EQ(lru2.size(), once.size() + twice.size());
    if (lru2.size() <= 100) continue;
    Index victim = kNil;
    while (victim == kNil) victim = lru2.Evict(table);
    if (!once.empty()) {
      const auto first = std::min_element(once.begin(), once.end(),
                                          [](const auto& a, const auto& b) { return a.second < b.second; });
      ASSERT_EQ(victim, first->first);
      once.erase(first);
    } else {
      const auto key = [&](Index x) {
        return std::pair(uint64_t{table[x].prev}, uint64_t{65535} - uint64_t{table[x].depth});
      };
      const auto first =
          std::min_element(twice.begin(), twice.end(), [&](Index a, Index b) { return key(a) < key(b); });
      ASSERT_EQ(key(victim), key(*first));
      ASSERT_EQ(twice.erase(victim), 1u);
    }
  }
}

// ARC as its paper writes it.
class ArcModel {
 public:
  explicit ArcModel(size_t capacity) : c_(capacity) {}
  unsigned ListOf(Index i) const {
    for (unsigned l = kArcT1; l <= kArcB2; ++l) {
      if (std::find(l_[l].begin(), l_[l].end(), i) != l_[l].end()) return l;
    }
    return kArcNone;
  }
  void Request(Index x) {
    const unsigned in = ListOf(x);
    const double b1 = static_cast<double>(l_[kArcB1].size());
    const double b2 = static_cast<double>(l_[kArcB2].size());
    if (in == kArcB1) p_ = std::min(static_cast<double>(c_), p_ + std::max(1.0, b2 / b1));
    if (in == kArcB2) p_ = std::max(0.0, p_ - std::max(1.0, b1 / b2));
    if (in != kArcNone) {
      l_[in].remove(x);
      if (in == kArcB1 || in == kArcB2) Replace(in == kArcB2);
      l_[kArcT2].push_front(x);
      return;
    }
    if (l_[kArcT1].size() + l_[kArcB1].size() == c_) {
      if (l_[kArcT1].size() < c_) {
        l_[kArcB1].pop_back();
        Replace(false);
      } else {
        l_[kArcT1].pop_back();
      }
    } else if (Total() >= c_) {
      if (Total() == 2 * c_) l_[kArcB2].pop_back();
      Replace(false);
    }
    l_[kArcT1].push_front(x);
  }

 private:
  size_t Total() const { return l_[1].size() + l_[2].size() + l_[3].size() + l_[4].size(); }
  void Replace(bool in_b2) {
    if (l_[kArcT1].size() + l_[kArcT2].size() < c_) return;
    const size_t t1 = l_[kArcT1].size();
    const bool from_t1 = t1 > 0 && (static_cast<double>(t1) > p_ ||
                                    (in_b2 && t1 == static_cast<size_t>(p_)) || l_[kArcT2].empty());
    auto& from = l_[from_t1 ? kArcT1 : kArcT2];
    l_[from_t1 ? kArcB1 : kArcB2].push_front(from.back());
    from.pop_back();
  }
  size_t c_;
  double p_ = 0;
  std::list<Index> l_[5];
};

TEST_F(ArcTest, AgreesWithThePaper) {
  KnownTable table;
  Arc arc;
  const size_t capacity = 20;
  ArcModel model(capacity);
  std::vector<Index> all;
  for (uint64_t id = 0; id < 100; ++id) all.push_back(table.Add(id));
  for (int step = 0; step < 20000; ++step) {
    const Index i = all[random_.Below(random_.OneIn(3) ? 100 : 30)];
    std::vector<Index> dropped;
    if (Arc::Holds(table[i])) {
      arc.Touch(table, i);
    } else {
      arc.Insert(table, i, capacity, dropped);
    }
    model.Request(i);
    for (const Index x : all) ASSERT_EQ(uint64_t{table[x].arc_list}, model.ListOf(x)) << "step " << step;
    for (const Index x : dropped) ASSERT_FALSE(Arc::Holds(table[x]));
  }
}

TEST_F(ArcTest, SurvivesACapacityThatShrinks) {
  KnownTable table;
  Arc arc;
  std::vector<Index> dropped;
  std::vector<Index> all;
  for (uint64_t id = 0; id < 60; ++id) all.push_back(table.Add(id));
  for (int i = 0; i < 20; ++i) arc.Insert(table, all[i], 20, dropped);
  for (int i = 0; i < 20; ++i) arc.Touch(table, all[i]);  // T2 alone
  for (int i = 20; i < 60; ++i) arc.Insert(table, all[i], 5, dropped);
  EXPECT_LE(arc.size(), 20u);
}

TEST_F(RecencyTest, KeepsLruAndTheColdestLiveObject) {
  KnownTable table;
  Recency recency;
  const size_t capacity = 40;
  std::list<Index> lru;            // hottest first
  std::map<Index, uint64_t> live;  // to last touch
  std::vector<Index> all;
  for (uint64_t id = 0; id < 150; ++id) all.push_back(table.Add(id));
  uint64_t time = 0;
  for (int step = 0; step < 20000; ++step) {
    const Index i = all[random_.Below(150)];
    const uint64_t what = random_.Below(4);
    if (what < 2) {
      table[i].last = ++time & kTimeMask;
      recency.Touch(table, i);
      lru.remove(i);
      lru.push_front(i);
      if (live.count(i) > 0) live[i] = time;
      if (recency.lru_size() > capacity) {
        ASSERT_EQ(recency.DropFromLru(table), lru.back());
        lru.pop_back();
      }
    } else if (what == 2 && live.count(i) == 0 && live.size() < (step / 1000 % 2 == 0 ? 50u : 3u)) {
      if (table[i].last == 0) continue;
      table[i].handle = Handle(i);
      recency.AddLive(table, i);
      live[i] = table[i].last;
    } else if (what == 3 && !live.empty()) {
      const Index gone = live.lower_bound(i) == live.end() ? live.begin()->first : live.lower_bound(i)->first;
      table[gone].handle = kNoHandle;
      recency.RemoveLive(table, gone);
      live.erase(gone);
    }
    ASSERT_EQ(recency.lru_size(), lru.size());
    Index coldest = recency.ColdestLive(table, 1000);
    if (coldest == kNil) coldest = recency.ColdestLive(table, 1000);  // a cursor ran off: once more
    const auto expected = std::min_element(live.begin(), live.end(),
                                           [](const auto& a, const auto& b) { return a.second < b.second; });
    ASSERT_EQ(coldest, expected == live.end() ? kNil : expected->first) << "step " << step;
  }
}

// ---- which batches begin a request ----

struct Asked {
  uint64_t id = 0;
  Index hash_next = kNil;
  uint64_t last : 48 = 0;
  uint64_t asked : 3 = 0;
  uint64_t put_seen : 1 = 0;
  bool is_live = false;
  bool live() const { return is_live; }
};

class LogicalRequest : public testing::Test {
 protected:
  LogicalRequest() {
    for (uint64_t id = 0; id < 10; ++id) table_.Add(id);
    for (Index i = 0; i < 4; ++i) table_[i].is_live = true;  // 0 to 3 hit, the others miss
  }
  // The keys that the batch touches anew, behind a 1 when it begins a request, else a 0.
  std::vector<Index> Batch(RequestKind kind, Index begin, Index end) {
    std::vector<Step> steps;
    for (Index i = begin; i < end; ++i) steps.push_back({i, i});
    std::vector<Index> result{BeginsRequest(table_, kind, ++time_, steps)};
    for (const Step& step : steps) {
      table_[step.node].last = time_ & kTimeMask;
      result.push_back(step.node);
    }
    return result;
  }
  void Store(Index begin, Index end) {
    for (Index i = begin; i < end; ++i) {
      AnswerByInsert(table_[i]);
      table_[i].is_live = true;
    }
  }
  NodeTable<Asked> table_;
  uint64_t time_ = 0;
};

using Seen = std::vector<Index>;
constexpr RequestKind kMatch = RequestKind::kMatch;
constexpr RequestKind kGet = RequestKind::kGet;
constexpr RequestKind kPut = RequestKind::kPut;

TEST_F(LogicalRequest, MatchGetPutIsOne) {
  for (int round = 0; round < 2; ++round) {
    EXPECT_EQ(Batch(kMatch, 0, 6), (Seen{1, 0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(Batch(kGet, 0, 4), (Seen{0}));
    EXPECT_EQ(Batch(kPut, 4, 6), (Seen{0}));
    if (round == 0) Store(4, 6);
  }
  EXPECT_EQ(Batch(kGet, 0, 6), (Seen{1, 0, 1, 2, 3, 4, 5}));
}

TEST_F(LogicalRequest, AGetThatMissesLeavesThePutOpen) {
  Batch(kMatch, 0, 6);
  EXPECT_EQ(Batch(kGet, 0, 6), (Seen{0}));
  EXPECT_EQ(Batch(kPut, 4, 6), (Seen{0}));
}

TEST_F(LogicalRequest, GetPutIsOne) {
  EXPECT_EQ(Batch(kGet, 0, 6), (Seen{1, 0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(Batch(kPut, 4, 6), (Seen{0}));
  Store(4, 6);
  EXPECT_EQ(Batch(kGet, 0, 6), (Seen{1, 0, 1, 2, 3, 4, 5}));
}

TEST_F(LogicalRequest, PutOfAllAfterMatchAndGetIsOne) {
  Batch(kMatch, 0, 6);
  Batch(kGet, 0, 4);
  EXPECT_EQ(Batch(kPut, 0, 6), (Seen{0}));
  EXPECT_EQ(Batch(kPut, 0, 6), (Seen{1, 0, 1, 2, 3, 4, 5}));
}

TEST_F(LogicalRequest, SeveralBatchesOfOneChain) {
  EXPECT_EQ(Batch(kMatch, 0, 8), (Seen{1, 0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(Batch(kGet, 0, 2), (Seen{0}));
  EXPECT_EQ(Batch(kGet, 2, 4), (Seen{0}));
  EXPECT_EQ(Batch(kPut, 4, 6), (Seen{0}));
  EXPECT_EQ(Batch(kPut, 6, 8), (Seen{0}));
}

TEST_F(LogicalRequest, TwoClientsOfOneChainAreTwo) {
  EXPECT_EQ(Batch(kMatch, 0, 6)[0], 1u);
  EXPECT_EQ(Batch(kMatch, 0, 6), (Seen{0})) << "it could be a poll";
  EXPECT_EQ(Batch(kGet, 0, 4), (Seen{0}));
  EXPECT_EQ(Batch(kGet, 0, 4), (Seen{1, 0, 1, 2, 3}));
  EXPECT_EQ(Batch(kPut, 4, 6), (Seen{0}));
}

TEST_F(LogicalRequest, APollCountsOnceUntilItIsAnswered) {
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(Batch(kMatch, 0, 6), (Seen{1, 0, 1, 2, 3, 4, 5}));
    for (int poll = 0; poll < 20; ++poll) EXPECT_EQ(Batch(kMatch, 0, 6), (Seen{0}));
    EXPECT_EQ(Batch(kMatch, 0, 3), (Seen{0})) << "a part of it";
    EXPECT_EQ(Batch(kGet, 0, 4), (Seen{0}));
    EXPECT_EQ(Batch(kPut, 4, 6), (Seen{0}));
  }
}

TEST_F(LogicalRequest, AMatchOfMoreIsAnother) {
  EXPECT_EQ(Batch(kMatch, 0, 6)[0], 1u);
  EXPECT_EQ(Batch(kMatch, 0, 7), (Seen{1, 0, 1, 2, 3, 4, 5, 6}));
}

TEST_F(LogicalRequest, WhatOnlyEverAsksCountsAgainAfterAWhile) {
  EXPECT_EQ(Batch(kMatch, 0, 6)[0], 1u);
  time_ += kRepeatsMax;
  EXPECT_EQ(Batch(kMatch, 0, 6), (Seen{1, 0, 1, 2, 3, 4, 5}));
}

TEST_F(LogicalRequest, KeysTheMatchDidNotNameAreTouched) {
  Batch(kMatch, 0, 2);
  EXPECT_EQ(Batch(kGet, 0, 4), (Seen{0, 2, 3}));
}

TEST_F(LogicalRequest, AnOldQuestionIsNotAnswered) {
  Batch(kMatch, 0, 4);
  time_ += kContinuesMax + 1;
  EXPECT_EQ(Batch(kGet, 0, 4)[0], 1u);
}

TEST_F(LogicalRequest, APromotionAnswersTheGet) {
  EXPECT_EQ(Batch(kGet, 0, 6)[0], 1u);
  Store(4, 6);  // no PUT came before
  EXPECT_EQ(Batch(kGet, 0, 6), (Seen{1, 0, 1, 2, 3, 4, 5}));
}

}  // namespace
}  // namespace dfkv::store::evict
