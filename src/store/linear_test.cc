// Linearizability: histories of operations on few keys by many clients on several reactors, checked key by
// key.
#include "store/linear_testing.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <latch>
#include <map>

#include "base/sync.h"
#include "store/store_testing.h"

namespace dfkv::store {
namespace {

using Kind = Operation::Kind;

bool Check(std::vector<Operation> history, bool may_evict) {
  return LinearSearch(std::move(history), may_evict).Linearizable();
}

TEST(LinearSearch, AcceptsWhatARegisterDoes) {
  EXPECT_TRUE(Check({}, false));
  EXPECT_TRUE(Check({{Kind::kGet, 0, 1, 2}, {Kind::kPut, 5, 3, 4}, {Kind::kGet, 5, 5, 6}}, false));
  // The second PUT keeps the first one's value.
  EXPECT_TRUE(Check({{Kind::kPut, 5, 1, 2}, {Kind::kPut, 6, 3, 4}, {Kind::kGet, 5, 5, 6}}, false));
  // Of two at once either may be first; a GET beside them may find nothing yet.
  const std::vector<Operation> race = {{Kind::kPut, 5, 1, 10}, {Kind::kPut, 6, 2, 9}, {Kind::kGet, 0, 3, 4}};
  for (const uint64_t winner : {5, 6}) {
    std::vector<Operation> history = race;
    history.push_back({Kind::kGet, winner, 11, 12});
    EXPECT_TRUE(Check(history, false));
  }
  // A REMOVE takes effect before a PUT that it overlaps, or after it.
  for (const uint64_t left : {0, 6}) {
    EXPECT_TRUE(Check(
        {{Kind::kPut, 5, 1, 2}, {Kind::kRemove, 0, 3, 8}, {Kind::kPut, 6, 4, 7}, {Kind::kGet, left, 9, 10}},
        false));
  }
}

TEST(LinearSearch, RefusesWhatARegisterDoesNot) {
  // A miss after the PUT has answered, unless it may have been evicted.
  const std::vector<Operation> lost = {{Kind::kPut, 5, 1, 2}, {Kind::kGet, 0, 3, 4}};
  EXPECT_FALSE(Check(lost, false));
  EXPECT_TRUE(Check(lost, true));
  for (const bool may_evict : {false, true}) {
    // A value that nobody put; one that was not put yet; one that is back after its REMOVE.
    EXPECT_FALSE(Check({{Kind::kGet, 7, 1, 2}}, may_evict));
    EXPECT_FALSE(Check({{Kind::kGet, 5, 1, 2}, {Kind::kPut, 5, 3, 4}}, may_evict));
    EXPECT_FALSE(Check({{Kind::kPut, 5, 1, 2}, {Kind::kRemove, 0, 3, 4}, {Kind::kGet, 5, 5, 6}}, may_evict));
    // Two values in turn from one register: the first is back after the second was seen.
    EXPECT_FALSE(Check({{Kind::kPut, 5, 1, 10},
                        {Kind::kPut, 6, 2, 11},
                        {Kind::kGet, 5, 12, 13},
                        {Kind::kGet, 6, 14, 15},
                        {Kind::kGet, 5, 16, 17}},
                       may_evict));
    // Two readers at once agree on the winner.
    EXPECT_EQ(
        Check({{Kind::kPut, 5, 1, 10}, {Kind::kPut, 6, 2, 11}, {Kind::kGet, 5, 3, 4}, {Kind::kGet, 6, 5, 6}},
              may_evict),
        may_evict);
  }
  // The second PUT replaced the first one's value.
  EXPECT_FALSE(Check({{Kind::kPut, 5, 1, 2}, {Kind::kPut, 6, 3, 4}, {Kind::kGet, 6, 5, 6}}, false));
}

constexpr uint64_t kKeys = 6;
constexpr uint64_t kFillers = 400;  // other keys, which only take space
constexpr uint64_t kFirstFiller = 1000;

// A value says which it is.
std::vector<std::byte> ValueOf(uint64_t seed) {
  std::vector<std::byte> bytes = BytesOf(seed, sizeof seed + Mix64(seed) % (seed % 8 == 0 ? 100'000 : 9'000));
  std::memcpy(bytes.data(), &seed, sizeof seed);
  return bytes;
}
uint64_t SeedOf(ByteSpan bytes) {
  uint64_t seed = 0;
  if (bytes.size() >= sizeof seed) std::memcpy(&seed, bytes.data(), sizeof seed);
  const std::vector<std::byte> expected = ValueOf(seed);
  return std::equal(bytes.begin(), bytes.end(), expected.begin(), expected.end()) ? seed : UINT64_MAX;
}

struct Recording {
  Store* store = nullptr;
  bool fills = false;
  std::atomic<uint64_t> clock{0};
  std::atomic<uint64_t> values{0};
  std::atomic<uint64_t> unexplained{0};
};
using Histories = std::map<uint64_t, std::vector<Operation>>;

// What went wrong had no effect, and is no operation.
io::Task<void> Client(Recording* recording, Histories* histories, uint64_t seed, int steps, int* left) {
  Random random(seed);
  Store* store = recording->store;
  for (int step = 0; step < steps; ++step) {
    const uint64_t number = random.Below(kKeys);
    const ObjectKey key = KeyOf(number);
    Operation operation;
    Status status;
    operation.began = ++recording->clock;
    const uint64_t choice = random.Below(10);
    if (choice < 3) {
      operation.kind = Kind::kPut;
      operation.value = ++recording->values;
      const std::vector<std::byte> bytes = ValueOf(operation.value);
      const ByteSpan span(bytes);
      status = co_await StoreUser::PutTask(store, key, span, 0);
    } else if (choice < 4) {
      operation.kind = Kind::kRemove;
      status = co_await store->Remove(key, kNever);
    } else {
      const Result<ReadPin> got = co_await StoreUser::GetTask(store, key);
      if (got.ok()) operation.value = SeedOf(got->bytes());
      if (got.code() != Code::kNotFound) status = got.status();
    }
    operation.ended = ++recording->clock;
    if (status.ok()) {
      (*histories)[number].push_back(operation);
    } else if (!(status == Code::kBusy)) {
      ++recording->unexplained;
    }
    if (!recording->fills || !random.OneIn(2)) continue;
    const uint64_t filler = kFirstFiller + random.Below(kFillers);
    const std::vector<std::byte> bytes = BytesOf(filler, 1 + filler * 37 % 30'000);
    const ByteSpan span(bytes);
    for (int tries = 0; tries < 20; ++tries) {
      const Status filled = co_await StoreUser::PutTask(store, KeyOf(filler), span, 0);
      if (!(filled == Code::kBusy)) break;
      const Nanos soon = io::Reactor::Current()->Now() + kMillisecond;
      co_await io::Reactor::Current()->Until(soon);
    }
  }
  --*left;
}

#if defined(DFKV_SANITIZED)
constexpr int kSteps = 40;
#else
constexpr int kSteps = 200;
#endif

class Linear : public SlabStore {
 protected:
  static constexpr int kThreads = 3;
  static constexpr int kClients = 5;  // of each

  void RunAndCheck(bool may_evict) {
    const uint64_t seed = SeedFromSystem();
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Recording recording;
    recording.store = store_.get();
    recording.fills = may_evict;
    std::vector<Histories> histories(kThreads);
    Run(&recording, &histories, seed);
    EXPECT_EQ(recording.unexplained, 0u);
    uint64_t found = 0;
    for (uint64_t key = 0; key < kKeys; ++key) {
      std::vector<Operation> history;
      for (Histories& of_thread : histories) {
        history.insert(history.end(), of_thread[key].begin(), of_thread[key].end());
      }
      for (const Operation& operation : history) {
        EXPECT_NE(operation.value, UINT64_MAX) << "wrong bytes";
        found += operation.kind == Kind::kGet && operation.value != Operation::kAbsent ? 1 : 0;
      }
      EXPECT_TRUE(Check(std::move(history), may_evict)) << "key " << key;
    }
    EXPECT_GT(found, 0u);
    EXPECT_EQ(MetricOf(metrics_, "dfkv_evictions_total") > 0, may_evict);
    EXPECT_EQ(MetricOf(metrics_, "dfkv_corrupt_total"), 0);
  }

 private:
  static void Run(Recording* recording, std::vector<Histories>* histories, uint64_t seed) {
    std::latch finished(kThreads);
    std::vector<Thread> running;
    for (int t = 0; t < kThreads; ++t) {
      running.emplace_back("client", [&, t] {
        const auto reactor = NewReactor();
        int left = kClients;
        for (int c = 0; c < kClients; ++c) {
          const auto own = static_cast<uint64_t>(t * kClients + c);
          Histories* into = &(*histories)[static_cast<size_t>(t)];
          reactor->QueueReady(Client(recording, into, seed + own, kSteps, &left).Release());
        }
        reactor->RunUntil([&] { return left == 0; });
        finished.count_down();
        while (!finished.try_wait()) reactor->RunUntil([] { return false; }, reactor->Now() + kMillisecond);
        Settle(recording->store, reactor.get());
      });
    }
    running.clear();
  }
};

TEST_F(Linear, WhereNothingIsEvicted) {
  options_.capacity_bytes = 64 << 20;
  options_.ram_bytes = 2 << 20;  // objects leave it and come back
  ASSERT_TRUE(Open().ok());
  RunAndCheck(false);
}

TEST_F(Linear, WhereNothingIsEvictedAcknowledgedFromRam) {
  options_.capacity_bytes = 64 << 20;
  options_.ram_bytes = 4 << 20;
  options_.durability = Durability::kRam;
  ASSERT_TRUE(Open().ok());
  RunAndCheck(false);
}

TEST_F(Linear, WhereNothingIsEvictedWithOneFilePerObject) {
  options_.engine = EngineKind::kFile;
  options_.capacity_bytes = 64 << 20;
  options_.ram_bytes = 2 << 20;
  ASSERT_TRUE(Open().ok());
  RunAndCheck(false);
}

TEST_F(Linear, WhileEvicting) {
  options_.capacity_bytes = 2 << 20;
  options_.extent_bytes = 256 << 10;
  ASSERT_TRUE(Open().ok());
  RunAndCheck(true);
}

TEST_F(Linear, WhileEvictingOnTwoDisksAcknowledgedFromRam) {
  TempDir second;
  options_.directories.push_back(second.path());
  options_.capacity_bytes = 2 << 20;
  options_.extent_bytes = 256 << 10;
  options_.durability = Durability::kRam;
  ASSERT_TRUE(Open().ok());
  RunAndCheck(true);
  Close();
}

TEST_F(Linear, WhileEvictingWithoutDisks) {
  options_.engine = EngineKind::kRam;
  options_.directories.clear();
  options_.ram_bytes = 4 << 20;
  ASSERT_TRUE(Open().ok());
  RunAndCheck(true);
}

}  // namespace
}  // namespace dfkv::store
