// One store under several reactors at once.
#include <gtest/gtest.h>

#include <atomic>
#include <latch>

#include "base/sync.h"
#include "store/store_impl.h"
#include "store/store_testing.h"

namespace dfkv::store {
namespace {

size_t SizeOf(uint64_t number) {
  return 1 + Mix64(number) % (number % 16 == 0 ? 200'000 : 9000);
}

struct Shared {
  Store* store = nullptr;
  std::atomic<uint64_t> wrong{0};
  std::atomic<uint64_t> revived{0};  // found after their only owner removed them
  std::atomic<uint64_t> hits{0};
  std::atomic<uint64_t> failures{0};  // other codes than those that pressure explains
};

bool Explained(const Status& status) {
  return status.ok() || status == Code::kBusy || status == Code::kNotFound;
}

// One client: everybody's keys for PUT and GET, its own for REMOVE.
io::Task<void> Client(Shared* shared, uint64_t seed, uint64_t own, int steps, int* left) {
  Random random(seed);
  for (int step = 0; step < steps; ++step) {
    const uint64_t number = random.Below(600);
    const uint64_t mine = 1000 + own;
    switch (random.Below(4)) {
      case 0: {
        const std::vector<std::byte> bytes = BytesOf(mine, SizeOf(mine));
        const Status put = co_await StoreUser::PutTask(shared->store, KeyOf(mine), bytes, 0);
        const Status removed = co_await shared->store->Remove(KeyOf(mine), kNever);
        if (!Explained(put) || !removed.ok()) ++shared->failures;
        if (shared->store->Length(KeyOf(mine)).ok()) ++shared->revived;
        break;
      }
      case 1: {
        const std::vector<std::byte> bytes = BytesOf(number, SizeOf(number));
        const Status put = co_await StoreUser::PutTask(shared->store, KeyOf(number), bytes, 0);
        if (!Explained(put)) ++shared->failures;
        break;
      }
      default: {
        const ObjectKey key = KeyOf(number);
        shared->store->NoteBatch(BatchKind::kGet, std::span(&key, 1));
        const Result<ReadPin> got = co_await StoreUser::GetTask(shared->store, key);
        if (!Explained(got.status())) ++shared->failures;
        if (!got.ok()) break;
        ++shared->hits;
        const bool right = got->bytes().size() == SizeOf(number) && PatternMatches(number, 0, got->bytes());
        if (!right) ++shared->wrong;
        if (random.OneIn(4)) co_await io::Reactor::Current()->Yield();  // holds the pin a little
        break;
      }
    }
  }
  --*left;
}

class Threads : public SlabStore {
 protected:
  void RunClients(int threads, int clients, int steps) {
    const uint64_t seed = SeedFromSystem();
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Shared shared;
    shared.store = store_.get();
    std::latch finished(threads);
    std::vector<Thread> running;
    for (int t = 0; t < threads; ++t) {
      running.emplace_back("client", [&, t] {
        const auto reactor = NewReactor();
        int left = clients;
        for (int c = 0; c < clients; ++c) {
          const auto own = static_cast<uint64_t>(t * clients + c);
          reactor->QueueReady(Client(&shared, seed + own, own, steps, &left).Release());
        }
        reactor->RunUntil([&] { return left == 0; });
        finished.count_down();
        while (!finished.try_wait()) reactor->RunUntil([] { return false; }, reactor->Now() + kMillisecond);
        Settle(shared.store, reactor.get());
      });
    }
    running.clear();
    EXPECT_EQ(shared.wrong, 0u);
    EXPECT_EQ(shared.revived, 0u);
    EXPECT_EQ(shared.failures, 0u);
    EXPECT_GT(shared.hits, 0u);
    EXPECT_EQ(MetricOf(metrics_, "dfkv_corrupt_total"), 0);
    EXPECT_EQ(MetricOf(metrics_, "dfkv_put_inflight_bytes"), 0);
  }
};

#if defined(DFKV_SANITIZED)
constexpr int kSteps = 150;
#else
constexpr int kSteps = 600;
#endif

TEST_F(Threads, NoWrongByteUnderEvictionRemovalAndPromotion) {
  options_.capacity_bytes = 3 << 20;
  options_.extent_bytes = 256 << 10;
  options_.ram_bytes = 4 << 20;
  ASSERT_TRUE(Open().ok());
  RunClients(3, 8, kSteps);
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = 0; i < 600; ++i) EXPECT_NE(user_->Check(i, SizeOf(i)), "WRONG");
  for (uint64_t i = 1000; i < 1030; ++i) EXPECT_FALSE(store_->Length(KeyOf(i)).ok());
  EXPECT_EQ(MetricOf(metrics_, "dfkv_corrupt_total"), 0);
}

TEST_F(Threads, TheSameOnTwoDisksAcknowledgedFromRam) {
  TempDir second;
  options_.directories.push_back(second.path());
  options_.capacity_bytes = 6 << 20;
  options_.extent_bytes = 256 << 10;
  options_.ram_bytes = 4 << 20;
  options_.durability = Durability::kRam;
  options_.policy = "tournament";
  ASSERT_TRUE(Open().ok());
  RunClients(3, 8, kSteps);
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = 0; i < 600; ++i) EXPECT_NE(user_->Check(i, SizeOf(i)), "WRONG");
  Close();
}

TEST_F(Threads, TheSameWithOneFilePerObject) {
  options_.engine = EngineKind::kFile;
  options_.capacity_bytes = 3 << 20;
  options_.extent_bytes = 256 << 10;
  ASSERT_TRUE(Open().ok());
  RunClients(3, 8, kSteps);
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = 0; i < 600; ++i) EXPECT_NE(user_->Check(i, SizeOf(i)), "WRONG");
  for (uint64_t i = 1000; i < 1030; ++i) EXPECT_FALSE(store_->Length(KeyOf(i)).ok());
  EXPECT_EQ(MetricOf(metrics_, "dfkv_corrupt_total"), 0);
}

TEST_F(Threads, TheSameWithoutDisks) {
  options_.engine = EngineKind::kRam;
  options_.directories.clear();
  options_.ram_bytes = 4 << 20;
  ASSERT_TRUE(Open().ok());
  RunClients(3, 8, kSteps);
}

// Readers on other reactors than the one that reads from disk.
TEST_F(Threads, AReadIsSharedAcrossReactors) {
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = 0; i < 50; ++i) ASSERT_TRUE(user_->PutSeeded(i, 20'000).ok());
  ASSERT_TRUE(Open().ok());
  Shared shared;
  shared.store = store_.get();
  std::latch ready(3);
  std::vector<Thread> running;
  for (int t = 0; t < 3; ++t) {
    running.emplace_back("reader", [&] {
      const auto reactor = NewReactor();
      StoreUser user(store_.get(), reactor.get());
      ready.arrive_and_wait();
      for (uint64_t i = 0; i < 50; ++i) {
        if (user.Check(i, 20'000) == "hit") ++shared.hits;
      }
    });
  }
  running.clear();
  EXPECT_EQ(shared.hits, 150u);
  EXPECT_EQ(MetricOf(metrics_, "dfkv_ram_promoted_total"), 50);
}

}  // namespace
}  // namespace dfkv::store
