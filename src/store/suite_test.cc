// What every store does, whatever engine, reactor and disk it runs on.
#include "store/suite_testing.h"

namespace dfkv::store {
namespace {

using Outcome = PutStart::Outcome;

TEST_P(AnyStore, PutGetRemove) {
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(user_->Check(1, 5000), "miss");
  for (size_t size : {1, 4095, 4096, 4097, 100'000}) {
    ASSERT_TRUE(user_->PutSeeded(size, size).ok());
    EXPECT_EQ(user_->Check(size, size), "hit");
    EXPECT_EQ(store_->Length(KeyOf(size)).value(), size);
    const Result<ReadPin> pin = user_->Get(KeyOf(size));
    EXPECT_EQ(pin->crc(), Crc32c(pin->bytes()));
  }
  EXPECT_EQ(store_->object_count(), 5u);
  EXPECT_TRUE(user_->Remove(KeyOf(4096)).ok());
  EXPECT_EQ(user_->Check(4096, 4096), "miss");
  EXPECT_TRUE(user_->Remove(KeyOf(4096)).ok());
  EXPECT_EQ(store_->Length(KeyOf(4096)).code(), Code::kNotFound);
  EXPECT_EQ(store_->object_count(), 4u);
}

TEST_P(AnyStore, TenantsAreApart) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(user_->Put(KeyOf(1, 10), BytesOf(10, 4096)).ok());
  EXPECT_FALSE(user_->Get(KeyOf(1, 11)).ok());
  ASSERT_TRUE(user_->Put(KeyOf(1, 11), BytesOf(11, 4096)).ok());
  EXPECT_TRUE(PatternMatches(10, 0, user_->Get(KeyOf(1, 10))->bytes()));
  EXPECT_TRUE(PatternMatches(11, 0, user_->Get(KeyOf(1, 11))->bytes()));
}

TEST_P(AnyStore, RestartKeepsWhatDisksHold) {
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(user_->PutSeeded(i, 1 + i * 97).ok());
  ASSERT_TRUE(user_->Remove(KeyOf(17)).ok());
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(store_->object_count(), ram_only() ? 0u : 99u);
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(user_->Check(i, 1 + i * 97), i == 17 || ram_only() ? "miss" : "hit") << i;
  }
  EXPECT_EQ(MetricOf(metrics_, "dfkv_corrupt_total"), 0);
}

TEST_P(AnyStore, APresentKeyKeepsItsFirstBytes) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(user_->PutSeeded(1, 5000).ok());
  EXPECT_TRUE(user_->Put(KeyOf(1), BytesOf(2, 6000)).ok());
  EXPECT_EQ(user_->Check(1, 5000), "hit");
}

TEST_P(AnyStore, RefusalsSayWhy) {
  options_.put_inflight_bytes = 32 << 10;
  ASSERT_TRUE(Open().ok());
  const auto begin = [&](uint64_t number, uint64_t length) {
    PutRequest request;
    request.key = KeyOf(number);
    request.length = length;
    return OnReactor([&] { return store_->BeginPut(request); });
  };
  EXPECT_EQ(begin(1, 0).status.code(), Code::kInvalid);
  EXPECT_EQ(begin(1, store_->max_object_bytes() + 1).status.code(), Code::kTooLarge);
  PutStart first = begin(1, 20'000);
  ASSERT_EQ(first.outcome, Outcome::kReserved);
  EXPECT_EQ(begin(2, 20'000).status.code(), Code::kBusy);
  EXPECT_EQ(begin(1, 20'000).outcome, Outcome::kInFlight);
  first = PutStart();
  EXPECT_EQ(begin(2, 20'000).outcome, Outcome::kReserved);
  EXPECT_EQ(store_->object_count(), 0u);
}

TEST_P(AnyStore, APayloadThatIsNotItsCrcIsRefused) {
  ASSERT_TRUE(Open().ok());
  const std::vector<std::byte> bytes = BytesOf(1, 5000);
  PutStart start = Begin(1, bytes, Crc32c(bytes) ^ 1);
  std::memcpy(start.ticket.buffer().data(), bytes.data(), bytes.size());
  const Status status = reactor_->RunTask(store_->CommitPut(std::move(start.ticket), false, kNever));
  EXPECT_EQ(status.code(), Code::kCorrupt);
  EXPECT_EQ(user_->Check(1, 5000), "miss");
  EXPECT_TRUE(user_->PutSeeded(1, 5000).ok());
}

TEST_P(AnyStore, NothingUncommittedIsVisible) {
  ASSERT_TRUE(Open().ok());
  const std::vector<std::byte> bytes = BytesOf(1, 5000);
  PutStart start = Begin(1, bytes);
  std::memcpy(start.ticket.buffer().data(), bytes.data(), bytes.size());
  EXPECT_EQ(user_->Check(1, 5000), "miss");
  EXPECT_FALSE(store_->Length(KeyOf(1)).ok());
  EXPECT_EQ(store_->object_count(), 0u);
  EXPECT_TRUE(reactor_->RunTask(store_->CommitPut(std::move(start.ticket), false, kNever)).ok());
  EXPECT_EQ(user_->Check(1, 5000), "hit");
}

TEST_P(AnyStore, ConcurrentPutsOfOneKeyHaveOneWriter) {
  ASSERT_TRUE(Open().ok());
  const std::vector<std::byte> bytes = BytesOf(1, 50'000);
  const std::vector<std::byte> others = BytesOf(2, 50'000);
  std::vector<Status> results(8);
  Group group;
  for (size_t i = 0; i < results.size(); ++i) {
    PutInto(store_.get(), KeyOf(1), i == 0 ? bytes : others, &results[i], &group).On(reactor_.get());
  }
  ASSERT_TRUE(reactor_->RunUntil([&] { return group.left == 0; }));
  for (const Status& result : results) EXPECT_TRUE(result.ok()) << result.ToString();
  EXPECT_EQ(user_->Check(1, 50'000), "hit");
  EXPECT_EQ(store_->object_count(), 1u);
}

TEST_P(AnyStore, ThoseWhoJoinAnAbandonedPutAreTold) {
  ASSERT_TRUE(Open().ok());
  const std::vector<std::byte> bytes = BytesOf(1, 5000);
  PutStart start = Begin(1, bytes);
  Status joined;
  Group group;
  PutInto(store_.get(), KeyOf(1), bytes, &joined, &group).On(reactor_.get());
  Turns(3);
  EXPECT_EQ(group.left, 1);
  start = PutStart();
  ASSERT_TRUE(reactor_->RunUntil([&] { return group.left == 0; }));
  EXPECT_EQ(joined.code(), Code::kBusy);
  EXPECT_EQ(user_->Check(1, 5000), "miss");
  EXPECT_TRUE(user_->PutSeeded(1, 5000).ok());
}

TEST_P(AnyStore, RemoveIsFinalForAPutInFlight) {
  ASSERT_TRUE(Open().ok());
  const std::vector<std::byte> bytes = BytesOf(1, 5000);
  PutStart start = Begin(1, bytes);
  std::memcpy(start.ticket.buffer().data(), bytes.data(), bytes.size());
  EXPECT_TRUE(user_->Remove(KeyOf(1)).ok());
  // Another PUT of the key may begin before the first has ended.
  PutStart second = Begin(1, BytesOf(7, 3000));
  ASSERT_EQ(second.outcome, Outcome::kReserved);
  EXPECT_TRUE(reactor_->RunTask(store_->CommitPut(std::move(start.ticket), false, kNever)).ok());
  EXPECT_EQ(user_->Check(1, 5000), "miss");
  second = PutStart();
  if (ram_only()) return;
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(store_->object_count(), 0u);
}

// A REMOVE that meets a PUT at each of its steps: whatever the order, after both the object is gone or was
// put after the REMOVE; a restart does not bring it back.
TEST_P(AnyStore, RemoveDuringPutLeavesNothingBehind) {
  ASSERT_TRUE(Open().ok());
  for (uint64_t turns = 0; turns < 12; ++turns) {
    const std::vector<std::byte> bytes = BytesOf(turns, 5000);
    Status put;
    Status removed;
    Group group;
    PutInto(store_.get(), KeyOf(turns), bytes, &put, &group).On(reactor_.get());
    Turns(turns);
    RemoveInto(store_.get(), KeyOf(turns), &removed, &group).On(reactor_.get());
    ASSERT_TRUE(reactor_->RunUntil([&] { return group.left == 0; }));
    EXPECT_TRUE(put.ok());
    EXPECT_TRUE(removed.ok());
    EXPECT_EQ(user_->Check(turns, 5000), "miss") << turns;
  }
  EXPECT_EQ(store_->object_count(), 0u);
  if (ram_only()) return;
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(store_->object_count(), 0u);
}

TEST_P(AnyStore, ConcurrentReadsShareOneTransfer) {
  if (ram_only()) GTEST_SKIP() << "there is no disk to read from";
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(user_->PutSeeded(1, 100'000).ok());
  ASSERT_TRUE(Open().ok());
  std::vector<std::string> results(10);
  Group group;
  for (std::string& result : results) GetInto(store_.get(), 1, 100'000, &result, &group).On(reactor_.get());
  ASSERT_TRUE(reactor_->RunUntil([&] { return group.left == 0; }));
  for (const std::string& result : results) EXPECT_EQ(result, "hit");
  EXPECT_EQ(MetricOf(metrics_, "dfkv_ram_promoted_total"), 1);
  EXPECT_EQ(MetricOf(metrics_, "dfkv_read_coalesced_total"), 9);
  ReadPin pin;
  EXPECT_EQ(store_->TryGet(KeyOf(1), &pin), Lookup::kRam);
}

TEST_P(AnyStore, RemoveDuringAReadIsFinal) {
  if (ram_only()) GTEST_SKIP() << "there is no disk to read from";
  ASSERT_TRUE(Open().ok());
  for (uint64_t turns = 0; turns < 8; ++turns) {
    ASSERT_TRUE(user_->PutSeeded(turns, 30'000).ok());
  }
  ASSERT_TRUE(Open().ok());
  for (uint64_t turns = 0; turns < 8; ++turns) {
    std::string got;
    Status removed;
    Group group;
    GetInto(store_.get(), turns, 30'000, &got, &group).On(reactor_.get());
    Turns(turns);
    RemoveInto(store_.get(), KeyOf(turns), &removed, &group).On(reactor_.get());
    ASSERT_TRUE(reactor_->RunUntil([&] { return group.left == 0; }));
    EXPECT_TRUE(removed.ok());
    EXPECT_TRUE(got == "hit" || got == "miss") << got;
    EXPECT_EQ(user_->Check(turns, 30'000), "miss");
  }
  EXPECT_EQ(MetricOf(metrics_, "dfkv_corrupt_total"), 0);
}

TEST_P(AnyStore, APinHoldsTheBytesOfARemovedObject) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(user_->PutSeeded(1, 60'000).ok());
  Result<ReadPin> pin = user_->Get(KeyOf(1));
  ASSERT_TRUE(pin.ok());
  ASSERT_TRUE(user_->Remove(KeyOf(1)).ok());
  EXPECT_EQ(user_->Check(1, 60'000), "miss");
  for (uint64_t i = 100; i < 300; ++i) {
    ASSERT_TRUE(user_->PutSeeded(i, 60'000).ok());
    ASSERT_TRUE(PatternMatches(1, 0, pin->bytes()));
  }
}

TEST_P(AnyStore, AFullOfPinsArenaIsBusyAndRecovers) {
  ASSERT_TRUE(Open().ok());
  std::vector<ReadPin> pins;
  Status status;
  uint64_t i = 0;
  for (; status.ok() && i < 1000; ++i) {
    status = user_->PutSeeded(i, 60'000);
    if (status.ok()) pins.push_back(std::move(*user_->Get(KeyOf(i))));
  }
  EXPECT_EQ(status.code(), Code::kBusy);
  EXPECT_EQ(store_->Length(KeyOf(0)).value(), 60'000u);
  pins.clear();
  EXPECT_TRUE(user_->PutSeeded(i - 1, 60'000).ok());
}

TEST_P(AnyStore, AFullStoreEvictsTheColdest) {
  ASSERT_TRUE(Open().ok());
  const uint64_t slots = capacity() / 4096;
  for (uint64_t i = 0; i < slots + 500; ++i) ASSERT_TRUE(user_->PutSeeded(i, 4096).ok()) << i;
  EXPECT_EQ(store_->object_count(), slots);
  for (uint64_t i = 0; i < slots + 500; ++i) ASSERT_EQ(user_->Check(i, 4096), i < 500 ? "miss" : "hit") << i;
  EXPECT_EQ(MetricOf(metrics_, "dfkv_evictions_total"), 500);
  EXPECT_EQ(MetricOf(metrics_, "dfkv_evicted_bytes_total"), 500 * 4096);
  if (ram_only()) return;
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(store_->object_count(), slots);
}

TEST_P(AnyStore, ATouchedObjectStays) {
  ASSERT_TRUE(Open().ok());
  const uint64_t slots = capacity() / 4096;
  for (uint64_t i = 0; i < slots; ++i) {
    ASSERT_TRUE(user_->PutSeeded(i, 4096).ok());
  }
  const ObjectKey first = KeyOf(0);
  store_->NoteBatch(BatchKind::kGet, std::span(&first, 1));
  for (uint64_t i = slots; i < slots + 10; ++i) ASSERT_TRUE(user_->PutSeeded(i, 4096).ok());
  EXPECT_EQ(user_->Check(0, 4096), "hit");
  EXPECT_EQ(user_->Check(1, 4096), "miss");
}

TEST_P(AnyStore, AReadWhoseDeadlinePassesIsATimeout) {
  if (ram_only()) GTEST_SKIP() << "there is no disk to read from";
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(user_->PutSeeded(1, 100'000).ok());
  ASSERT_TRUE(Open().ok());
  Result<ReadPin> got = reactor_->RunTask(store_->Get(KeyOf(1), reactor_->Now() - kSecond));
  EXPECT_EQ(got.code(), Code::kTimeout);
  EXPECT_EQ(user_->Check(1, 100'000), "hit");
}

TEST_P(AnyStore, AcknowledgedFromRamIsOnDiskAfterStop) {
  if (ram_only()) GTEST_SKIP() << "there is no disk";
  options_.durability = Durability::kRam;
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(user_->PutSeeded(i, 20'000).ok());
    ASSERT_EQ(user_->Check(i, 20'000), "hit");
  }
  ASSERT_TRUE(user_->Remove(KeyOf(99)).ok());
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(store_->object_count(), 99u);
  for (uint64_t i = 0; i < 99; ++i) ASSERT_EQ(user_->Check(i, 20'000), "hit");
}

// Random operations against a model: a hit is what was put last, a removed key is a miss, nothing is lost
// that was neither removed nor pushed out.
TEST_P(AnyStore, RandomOperationsAgreeWithAModel) {
  const uint64_t seed = SeedFromSystem();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  ASSERT_TRUE(Open().ok());
  std::map<uint64_t, uint64_t> sizes;  // of what was put
  for (int step = 0; step < 3000; ++step) {
    const uint64_t number = random.Below(300);
    const uint64_t size = 1 + random.Below(random.OneIn(10) ? 200'000 : 20'000);
    switch (random.Below(8)) {
      case 0:
        ASSERT_TRUE(user_->Remove(KeyOf(number)).ok());
        sizes.erase(number);
        break;
      case 1:
        if (random.OneIn(100)) {
          ASSERT_TRUE(Open().ok());
        }
        if (ram_only() && store_->object_count() == 0) sizes.clear();
        break;
      case 2:
      case 3:
      case 4: {
        const Result<uint64_t> length = store_->Length(KeyOf(number));
        if (length.ok()) {
          ASSERT_EQ(*length, sizes[number]);
        }
        const Status status = user_->PutSeeded(number, size);
        ASSERT_TRUE(status.ok()) << status.ToString();
        if (!length.ok()) sizes[number] = size;
        break;
      }
      default: {
        const std::string got = user_->Check(number, sizes.contains(number) ? sizes[number] : 0);
        ASSERT_TRUE(got == "miss" || (got == "hit" && sizes.contains(number))) << got;
        break;
      }
    }
  }
  EXPECT_EQ(MetricOf(metrics_, "dfkv_corrupt_total"), 0);
}

INSTANTIATE_TEST_SUITE_P(All, AnyStore, testing::ValuesIn(Settings()), NameOf);

}  // namespace
}  // namespace dfkv::store
