// Races that were bugs in other stores, each with its threads ordered by sync points: REMOVE during a PUT, a
// flush and a promotion; PUTs of one key at once; reads of what is being flushed and promoted.
#include <map>

#include "base/fault.h"
#include "base/sync.h"
#include "store/store_testing.h"

namespace dfkv::store {
namespace {

constexpr const char* kPayload = "disk: payload written";
constexpr const char* kRecord = "disk: record written";
constexpr const char* kDoomed = "remove: doomed";
constexpr const char* kRead = "get: read from disk";
constexpr int64_t kPatience = 60 * kSecond;  // for what must come

// The first thread that reaches a point of StopAt stands there until Release.
class Points {
 public:
  Points() {
    SyncPoints::Install([this](const char* name) { Reach(name); });
  }
  ~Points() { SyncPoints::Clear(); }

  void StopAt(const std::string& name) {
    MutexLock lock(mutex_);
    points_[name].stops = true;
  }
  void AwaitReached(const std::string& name) {
    MutexLock lock(mutex_);
    while (points_[name].reached == 0) ASSERT_TRUE(changed_.WaitFor(mutex_, kPatience)) << name;
  }
  void Release(const std::string& name) {
    MutexLock lock(mutex_);
    points_[name].released = true;
    changed_.NotifyAll();
  }

 private:
  struct Point {
    bool stops = false;
    bool released = false;
    int reached = 0;
  };
  void Reach(const std::string& name) {
    MutexLock lock(mutex_);
    Point& point = points_[name];
    ++point.reached;
    changed_.NotifyAll();
    if (!point.stops || point.reached > 1) return;
    while (!point.released) ASSERT_TRUE(changed_.WaitFor(mutex_, kPatience)) << name;
  }

  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, Point> points_ GUARDED_BY(mutex_);
};

class Races : public SlabStore, public testing::WithParamInterface<EngineKind> {
 protected:
  Races() {
    options_.engine = GetParam();
    options_.extent_bytes = 1 << 20;
  }

  // A thread with a reactor of its own, which runs on until what it began in the store has ended.
  template <typename F>
  Thread Start(const F& body) {
    return Thread("racer", [this, body] {
      const auto reactor = NewReactor();
      StoreUser user(store_.get(), reactor.get());
      body(user);
      Settle(store_.get(), reactor.get());
    });
  }
  Thread StartPut(uint64_t seed, size_t size, Status* status) {
    return Start([=](StoreUser& user) { *status = user.Put(KeyOf(1), BytesOf(seed, size)); });
  }
  // "hit" when the key has exactly these bytes.
  std::string Look(uint64_t seed, size_t size) {
    const Result<ReadPin> got = user_->Get(KeyOf(1));
    if (!got.ok()) return got.code() == Code::kNotFound ? "miss" : std::string(CodeName(got.code()));
    return got->bytes().size() == size && PatternMatches(seed, 0, got->bytes()) ? "hit" : "WRONG";
  }
  PutStart::Outcome Begin(size_t size) {
    struct Run {
      static io::Task<PutStart::Outcome> Do(Store* store, size_t length) {
        PutRequest request;
        request.key = KeyOf(1);
        request.length = length;
        co_return store->BeginPut(request).outcome;
      }
    };
    return reactor_->RunTask(Run::Do(store_.get(), size));
  }
  void ExpectGone() {
    EXPECT_EQ(Look(1, 5000), "miss");
    ASSERT_TRUE(Open().ok());
    EXPECT_EQ(Look(1, 5000), "miss");
    EXPECT_EQ(store_->object_count(), 0u);
  }
};

// A PUT stands still in the middle of its writing; reads of all other objects go on, from disk and from RAM.
TEST_P(Races, ReadsDoNotWaitForAPutOfAnotherObject) {
  constexpr uint64_t kOthers = 40;
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = 2; i < 2 + kOthers; ++i) ASSERT_TRUE(user_->PutSeeded(i, 5000).ok());
  for (const char* point : {kPayload, kRecord}) {
    SCOPED_TRACE(point);
    ASSERT_TRUE(Open().ok());  // nothing is in RAM
    ASSERT_EQ(store_->object_count(), kOthers);
    Status put;
    {
      Points points;
      points.StopAt(point);
      const Thread putter = StartPut(1, 5000, &put);
      points.AwaitReached(point);
      for (int round = 0; round < 2; ++round) {
        for (uint64_t i = 2; i < 2 + kOthers; ++i) {
          const Result<ReadPin> got = user_->Get(KeyOf(i));
          ASSERT_TRUE(got.ok()) << got.status().ToString();
          EXPECT_TRUE(PatternMatches(i, 0, got->bytes()));
        }
      }
      points.Release(point);
    }
    EXPECT_TRUE(put.ok()) << put.ToString();
    EXPECT_TRUE(user_->Remove(KeyOf(1)).ok());
  }
}

TEST_P(Races, RemoveDuringAPutBeforeItsRecord) {
  ASSERT_TRUE(Open().ok());
  Status put;
  {
    Points points;
    points.StopAt(kPayload);
    const Thread putter = StartPut(1, 5000, &put);
    points.AwaitReached(kPayload);
    EXPECT_EQ(Look(1, 5000), "miss");  // nothing uncommitted is visible
    EXPECT_TRUE(user_->Remove(KeyOf(1)).ok());
    points.Release(kPayload);
  }
  EXPECT_TRUE(put.ok()) << put.ToString();
  ExpectGone();
}

TEST_P(Races, RemoveDuringAPutWhoseRecordIsWritten) {
  ASSERT_TRUE(Open().ok());
  Status put;
  Status removed(Code::kCancelled);
  {
    Points points;
    points.StopAt(kRecord);
    const Thread putter = StartPut(1, 5000, &put);
    points.AwaitReached(kRecord);
    const Thread remover = Start([&](StoreUser& user) { removed = user.Remove(KeyOf(1)); });
    points.AwaitReached(kDoomed);
    EXPECT_EQ(Look(1, 5000), "miss");
    points.Release(kRecord);
  }
  EXPECT_TRUE(put.ok()) << put.ToString();
  EXPECT_TRUE(removed.ok()) << removed.ToString();
  ExpectGone();
}

TEST_P(Races, AnotherPutAfterARemoveDuringAPut) {
  ASSERT_TRUE(Open().ok());
  Status put;
  {
    Points points;
    points.StopAt(kPayload);
    const Thread putter = StartPut(1, 5000, &put);
    points.AwaitReached(kPayload);
    EXPECT_TRUE(user_->Remove(KeyOf(1)).ok());
    EXPECT_TRUE(user_->Put(KeyOf(1), BytesOf(2, 6000)).ok());
    EXPECT_EQ(Look(2, 6000), "hit");
    points.Release(kPayload);
  }
  EXPECT_TRUE(put.ok()) << put.ToString();
  EXPECT_EQ(Look(2, 6000), "hit");
  EXPECT_EQ(store_->object_count(), 1u);
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Look(2, 6000), "hit");
  EXPECT_EQ(store_->object_count(), 1u);
}

TEST_P(Races, RemoveDuringAFlush) {
  options_.durability = Durability::kRam;
  for (const char* point : {kPayload, kRecord}) {
    ASSERT_TRUE(Open().ok());
    Status put;
    Status removed(Code::kCancelled);
    {
      Points points;
      points.StopAt(point);
      const Thread putter = StartPut(1, 5000, &put);
      points.AwaitReached(point);
      EXPECT_EQ(Look(1, 5000), "hit") << point;
      const Thread remover = Start([&](StoreUser& user) { removed = user.Remove(KeyOf(1)); });
      points.AwaitReached(kDoomed);
      EXPECT_EQ(Look(1, 5000), "miss") << point;
      points.Release(point);
    }
    EXPECT_TRUE(put.ok()) << put.ToString();
    EXPECT_TRUE(removed.ok()) << removed.ToString();
    ExpectGone();
  }
}

TEST_P(Races, ReadDuringAFlushIsAHit) {
  options_.durability = Durability::kRam;
  for (const char* point : {kPayload, kRecord}) {
    ASSERT_TRUE(Open().ok());
    Status put;
    ReadPin pin;
    {
      Points points;
      points.StopAt(point);
      const Thread putter = StartPut(1, 5000, &put);
      points.AwaitReached(point);
      for (int i = 0; i < 100; ++i) ASSERT_EQ(Look(1, 5000), "hit") << point;
      EXPECT_EQ(store_->TryGet(KeyOf(1), &pin), Lookup::kRam) << point;
      points.Release(point);
    }
    EXPECT_EQ(Look(1, 5000), "hit");
    EXPECT_TRUE(PatternMatches(1, 0, pin.bytes()));
    pin = ReadPin();
    ASSERT_TRUE(Open().ok());
    EXPECT_EQ(Look(1, 5000), "hit");
    EXPECT_TRUE(user_->Remove(KeyOf(1)).ok());
  }
}

TEST_P(Races, RemoveAndAnotherPutDuringAPromotion) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(user_->PutSeeded(1, 5000).ok());
  ASSERT_TRUE(Open().ok());
  std::string got;
  {
    Points points;
    points.StopAt(kRead);
    const Thread reader = Start([&](StoreUser& user) { got = user.Check(1, 5000); });
    points.AwaitReached(kRead);
    EXPECT_TRUE(user_->Remove(KeyOf(1)).ok());
    EXPECT_EQ(Look(1, 5000), "miss");
    EXPECT_TRUE(user_->Put(KeyOf(1), BytesOf(2, 6000)).ok());
    points.Release(kRead);
  }
  EXPECT_TRUE(got == "miss" || got == "hit") << got;
  EXPECT_EQ(Look(2, 6000), "hit");
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Look(2, 6000), "hit");
  EXPECT_EQ(MetricOf(metrics_, "dfkv_corrupt_total"), 0);
}

TEST_P(Races, ReadDuringAPromotionIsAHit) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(user_->PutSeeded(1, 5000).ok());
  ASSERT_TRUE(Open().ok());
  std::string first;
  std::string second;
  {
    Points points;
    points.StopAt(kRead);
    const Thread reader = Start([&](StoreUser& user) { first = user.Check(1, 5000); });
    points.AwaitReached(kRead);
    ReadPin pin;
    for (int i = 0; i < 100; ++i) ASSERT_EQ(store_->TryGet(KeyOf(1), &pin), Lookup::kDisk);
    EXPECT_EQ(store_->Length(KeyOf(1)).value(), 5000u);
    const Thread other = Start([&](StoreUser& user) { second = user.Check(1, 5000); });
    const Nanos until = reactor_->Now() + kPatience;
    while (MetricOf(metrics_, "dfkv_read_coalesced_total") == 0 && reactor_->Now() < until) {
      reactor_->RunUntil([] { return false; }, reactor_->Now() + kMillisecond);
    }
    points.Release(kRead);
  }
  EXPECT_EQ(first, "hit");
  EXPECT_EQ(second, "hit");
  EXPECT_EQ(MetricOf(metrics_, "dfkv_ram_promoted_total"), 1);
}

// The disk is filled twice over while an object of it is read: the object stays.
TEST_P(Races, EvictionDuringAPromotionSparesTheObject) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(user_->PutSeeded(1, 40'000).ok());
  ASSERT_TRUE(Open().ok());
  std::string got;
  {
    Points points;
    points.StopAt(kRead);
    const Thread reader = Start([&](StoreUser& user) { got = user.Check(1, 40'000); });
    points.AwaitReached(kRead);
    for (uint64_t i = 0; i < 500; ++i) ASSERT_TRUE(user_->PutSeeded(100 + i, 40'000).ok());
    points.Release(kRead);
  }
  EXPECT_EQ(got, "hit");
  EXPECT_GT(MetricOf(metrics_, "dfkv_evictions_total"), 100);
  EXPECT_EQ(MetricOf(metrics_, "dfkv_corrupt_total"), 0);
}

TEST_P(Races, PutsOfOneKeyAtOnceHaveOneWinner) {
  for (const char* point : {kPayload, kRecord}) {
    ASSERT_TRUE(Open().ok());
    Status first;
    Status second(Code::kCancelled);
    {
      Points points;
      points.StopAt(point);
      const Thread winner = StartPut(1, 5000, &first);
      points.AwaitReached(point);
      EXPECT_EQ(Begin(6000), PutStart::Outcome::kInFlight);
      const Thread joiner = StartPut(2, 6000, &second);
      for (int i = 0; i < 100; ++i) ASSERT_EQ(Look(1, 5000), "miss") << point;
      points.Release(point);
    }
    EXPECT_TRUE(first.ok()) << first.ToString();
    EXPECT_TRUE(second.ok()) << second.ToString();
    EXPECT_EQ(Look(1, 5000), "hit") << point;
    EXPECT_EQ(store_->object_count(), 1u);
    ASSERT_TRUE(Open().ok());
    EXPECT_EQ(Look(1, 5000), "hit") << point;
    EXPECT_TRUE(user_->Remove(KeyOf(1)).ok());
  }
}

std::string EngineName(const testing::TestParamInfo<EngineKind>& engine) {
  return engine.param == EngineKind::kSlab ? "slab" : "file";
}
INSTANTIATE_TEST_SUITE_P(All, Races, testing::Values(EngineKind::kSlab, EngineKind::kFile), EngineName);

}  // namespace
}  // namespace dfkv::store
