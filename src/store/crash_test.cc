// Seeded crash schedules: a slab store on a simulated disk in virtual time, killed at some write or between
// two, opened again on the same medium, checked, and killed again.
//
// A failure prints the seed of its schedule: DFKV_CRASH_SEED=<seed> runs that schedule first, and the same
// way. DFKV_CRASH_SCHEDULES: how many each test runs.
#include <charconv>

#include "base/option.h"
#include "io/disk_sim.h"
#include "io/reactor_sim.h"
#include "store/crash_testing.h"
#include "store/record.h"
#include "store/store_impl.h"
#include "store/store_testing.h"

namespace dfkv::store {
namespace {

constexpr uint64_t kExtent = 64 << 10;
constexpr uint64_t kKeys = 10;
constexpr uint64_t kWorkersMax = 4;
constexpr uint64_t kFillKeys = 1'000'000;  // first number of the objects that fill a store
constexpr uint64_t kSyncMs = 20;
constexpr Nanos kSync = kSyncMs * kMillisecond;
constexpr Nanos kSlow = 30 * kMillisecond;

// What a test is about; the rest of a schedule follows from its seed.
struct Theme {
  bool kills = false;
  bool cuts = false;
  bool evicts = false;  // the cap is smaller than what is put
  bool faulty = false;  // EIO, ENOSPC, short transfers
  bool lies = false;    // writes that succeed and do nothing
  bool rots = false;    // bits flip and records are copied while the disk is at rest
  bool slow = false;    // some transfers take longer than a sync may
  bool behind = false;  // durability ram: acknowledged before it is written
  EngineKind engine = EngineKind::kSlab;
};

class Schedule {
 public:
  Schedule(const Theme& theme, uint64_t seed)
      : theme_(theme), random_(seed), disk_(DiskOptions(seed)), keys_(theme.evicts ? 40 : kKeys) {
    options_.directories = {"/a"};
    if (random_.OneIn(3)) options_.directories.push_back("/b");
    if (random_.OneIn(6)) options_.directories.push_back("/c");
    const uint64_t disks = options_.directories.size();
    // Without eviction every object, and every one that is on its way, may need an extent of its own.
    const uint64_t extents = disks * (theme.evicts ? 2 + random_.Below(6) : kKeys + kWorkersMax + 1);
    options_.capacity_bytes = extents * kExtent;
    options_.ram_bytes = kExtent * (4 + random_.Below(12));
    options_.extent_bytes = kExtent;
    options_.policy = random_.OneIn(2) ? "lru" : "tournament";
    options_.sync_ms = kSyncMs;
    options_.populate = false;
    options_.engine = theme.engine;
    options_.durability = theme.behind ? Durability::kRam : Durability::kDisk;
  }

  void Run() {
    if (random_.OneIn(4)) CrashWhileOpening();
    const uint64_t lives = 1 + random_.Below(3);
    for (uint64_t life = 0; life < lives && !testing::Test::HasFailure(); ++life) {
      if (!Open()) return;
      if (life > 0) Verify();
      if (testing::Test::HasFailure()) return;
      const bool crashes = !random_.OneIn(5);
      Live(crashes);
      if (!crashes) return EndAlive();
      Crash();
      if (theme_.rots) Rot();
      while (random_.OneIn(3)) CrashWhileOpening();
    }
    if (testing::Test::HasFailure() || !Open()) return;
    Verify();
    if (!testing::Test::HasFailure()) CheckSpace();
    Close();
  }

 private:
  static io::SimDiskOptions DiskOptions(uint64_t seed) {
    io::SimDiskOptions options;
    options.seed = seed;
    options.sector = seed % 3 == 0 ? 512 : 4096;
    return options;
  }
  bool exact() const { return !theme_.evicts && !theme_.lies && !theme_.rots; }
  Nanos Now() const { return reactor_.Now(); }
  // What a crash takes back at most: what was acknowledged so recently.
  Nanos Window() const { return theme_.slow ? kSync + 4 * kSlow : kSync; }

  // --- Lives ---
  bool Open() {
    disk_.set_faults({});
    registry_ = std::make_unique<MetricRegistry>();
    auto opened = Store::OpenBlocking(options_, disk_, *registry_);
    if (!opened.ok()) {
      ADD_FAILURE() << "does not start: " << opened.status().ToString();
      return false;
    }
    store_ = std::move(*opened);
    user_ = std::make_unique<StoreUser>(store_.get(), &reactor_);
    store_->StartBackground(reactor_);
    return true;
  }
  void Close() {
    const Status stopped = user_->Stop();
    EXPECT_TRUE(stopped.ok()) << stopped.ToString();
    user_.reset();
    store_.reset();
  }
  // The process dies, if it has not at a write; what it still does reaches nothing.
  void Crash() {
    crashed_at_ = sure_ = Now();
    cut_ = theme_.cuts && (!theme_.kills || random_.OneIn(2));
    was_cut_ = was_cut_ || cut_;
    if (cut_ || theme_.behind) sure_ -= Window();
    for (KeyModel& key : keys_) {  // what it still had is owed also where it evicts
      if (theme_.evicts && !store_->Length(NameOf(&key)).ok()) key.Lose();
    }
    disk_.Crash(cut_ ? io::CrashKind::kPowerCut : io::CrashKind::kProcessKill);
    dead_ = true;
    stopping_ = true;
    disk_.ReleaseHanging();
    reactor_.RunUntil([&] { return workers_ == 0; });
    (void)user_->Stop();
    user_.reset();
    store_.reset();
    dead_ = stopping_ = false;
  }
  // Starts that do not live to serve: the crash comes at one of the writes of recovery, or right after it.
  void CrashWhileOpening() {
    disk_.set_faults({});
    disk_.CrashAtWrite(1 + random_.Below(4));
    MetricRegistry registry;
    {
      auto opened = Store::OpenBlocking(options_, disk_, registry);
      EXPECT_TRUE(opened.ok() || disk_.crashed()) << opened.status().ToString();
    }
    const bool cut = theme_.cuts && (!theme_.kills || random_.OneIn(2));
    disk_.Crash(cut ? io::CrashKind::kPowerCut : io::CrashKind::kProcessKill);
    if (cut) cut_ = was_cut_ = true;
    if (cut) sure_ = std::min(sure_, crashed_at_ - Window());
  }
  // What happens to a disk that nobody uses. Each of these costs one object at most.
  void Rot() {
    for (uint64_t left = 1 + random_.Below(3); left > 0; --left) {
      const std::string& directory = options_.directories[random_.Below(options_.directories.size())];
      ++rotten_;
      if (theme_.engine == EngineKind::kFile) {
        RotAFile(directory + "/objects");
        continue;
      }
      const uint64_t used = options_.capacity_bytes / options_.directories.size() / 2;
      const uint64_t records = used / kBlockBytes;
      const uint64_t record = kTableHeader + random_.Below(records) * kRecordBytes;
      const uint64_t choice = random_.Below(10);
      if (choice < 4) {
        (void)disk_.FlipBit(directory + "/slab", random_.Below(8 * used));
      } else if (choice < 7) {
        (void)disk_.FlipBit(directory + "/table", 8 * record + random_.Below(8 * kRecordBytes));
      } else if (choice < 9) {
        std::array<std::byte, kRecordBytes> bytes;
        (void)disk_.Peek(directory + "/table", kTableHeader + random_.Below(records) * kRecordBytes, bytes);
        (void)disk_.Poke(directory + "/table", record, bytes);
      } else {
        (void)disk_.FlipBit(directory + "/meta", random_.Below(8 * sizeof(MetaBlock)));
      }
    }
  }
  void RotAFile(const std::string& objects) {
    for (uint64_t tries = 0; tries < 512; ++tries) {
      const std::string directory =
          Cat(objects, "/", "0123456789abcdef"[random_.Below(16)], "0123456789abcdef"[random_.Below(16)]);
      const auto names = disk_.List(directory);
      if (!names.ok() || names->empty()) continue;
      const std::string path = Cat(directory, "/", (*names)[random_.Below(names->size())]);
      (void)disk_.FlipBit(path, random_.Below(8 * (kRecordBytes + 4096)));
      return;
    }
  }
  void Live(bool crashes) {
    io::SimFaults faults;
    if (random_.OneIn(2)) faults.delay_max = static_cast<Nanos>(random_.Below(1000)) * 1000;
    if (theme_.faulty) {
      const double chance = random_.OneIn(4) ? 0.5 : 0.03;
      faults.read_error = random_.OneIn(2) ? chance : 0;
      faults.write_error = random_.OneIn(2) ? chance : 0;
      faults.no_space = random_.OneIn(2) ? chance : 0;
      faults.short_transfer = random_.OneIn(2) ? chance : 0;
    }
    if (theme_.faulty && !theme_.cuts && random_.OneIn(2)) faults.sync_error = 0.3;
    if (theme_.lies) faults.lost_write = 0.05;
    if (theme_.slow) faults.slow = 0.1;
    faults.slow_delay = kSlow;
    disk_.set_faults(faults);
    operations_ = 0;
    if (random_.OneIn(3)) Idle(static_cast<Nanos>(random_.Below(60)) * kMillisecond);
    const uint64_t operations = random_.Below(100);
    if (crashes && random_.OneIn(2)) {
      const auto after = random_.OneIn(2) ? io::AfterCrash::kFail : io::AfterCrash::kHang;
      disk_.CrashAtWrite(1 + random_.Below(2 * operations + 1), after);
    }
    const uint64_t workers = 1 + random_.Below(kWorkersMax);
    for (uint64_t i = 0; i < workers; ++i) {
      ++workers_;
      reactor_.QueueReady(Work(this, random_.Next()).Release());
    }
    reactor_.RunUntil([&] { return operations_ >= operations || disk_.crashed(); });
  }
  void Idle(Nanos time) {
    reactor_.RunUntil([] { return false; }, Now() + time);
  }
  // No crash: what the faults left undone is made good without a restart.
  void EndAlive() {
    disk_.set_faults({});
    stopping_ = true;
    reactor_.RunUntil([&] { return workers_ == 0; });
    stopping_ = false;
    Idle(3 * kSecond);
    EXPECT_TRUE(store_->healthy());
    if (random_.OneIn(2)) {  // a stop loses nothing
      Close();
      crashed_at_ = sure_ = Now();
      cut_ = false;
      if (theme_.evicts || (theme_.behind && theme_.faulty)) {
        for (KeyModel& key : keys_) key.Lose();
      }
      if (!Open()) return;
      Verify();
    }
    if (!testing::Test::HasFailure()) CheckSpace();
    Close();
  }

  // --- The workload ---
  static io::Task<void> Work(Schedule* schedule, uint64_t seed) {
    Random random(seed);
    while (!schedule->stopping_) {
      ++schedule->operations_;
      KeyModel* key = &schedule->keys_[random.Below(schedule->keys_.size())];
      const uint64_t choice = random.Below(10);
      if (choice < 5) {
        co_await schedule->Put(key, &random);
      } else if (choice < 7) {
        co_await schedule->Remove(key);
      } else {
        co_await schedule->Get(key);
      }
      const Nanos pause = random.OneIn(4) ? static_cast<Nanos>(random.Below(6'000'000)) : 0;
      const Nanos until = schedule->Now() + pause + 1;
      co_await schedule->reactor_.Until(until);
    }
    --schedule->workers_;
  }
  ObjectKey NameOf(const KeyModel* key) const { return KeyOf(static_cast<uint64_t>(key - keys_.data())); }
  // A dead process acknowledges nothing.
  bool alive() const { return !dead_ && !disk_.crashed(); }
  // Whether the code may be the answer to a request of now.
  void ExpectCode(const char* what, const Status& status) const {
    if (!alive() || status.ok() || status == Code::kBusy) return;
    const bool failing = theme_.faulty && (status == Code::kIoError || status == Code::kNoSpace);
    EXPECT_TRUE(failing) << what << ": " << status.ToString();
  }

  io::Task<void> Put(KeyModel* key, Random* random) {
    const size_t size = random->OneIn(6) ? 1 + random->Below(kExtent) : 1 + random->Below(3 * 4096);
    const uint64_t seed = ++seeds_;
    PutRequest request;
    request.key = NameOf(key);
    request.length = size;
    const std::vector<std::byte> bytes = BytesOf(seed, size);
    request.crc = Crc32c(bytes);
    PutStart start = store_->BeginPut(request);
    if (start.outcome == PutStart::Outcome::kRefused) ExpectCode("PUT", start.status);
    if (start.outcome == PutStart::Outcome::kInFlight) {
      const Status joined = co_await store_->JoinPut(request.key, kNever);
      ExpectCode("joined PUT", joined);
    }
    if (start.outcome != PutStart::Outcome::kReserved) co_return;
    if (exact() && !theme_.faulty && alive()) {
      EXPECT_EQ(key->Owed(Now()), -1) << "a PUT found its key absent";
    }
    const size_t version = key->Begin(seed, size);
    if (random->OneIn(20)) co_return;  // the ticket is dropped
    std::memcpy(start.ticket.buffer().data(), bytes.data(), size);
    const Status status = co_await store_->CommitPut(std::move(start.ticket), false, kNever);
    ExpectCode("PUT", status);
    if (status.ok() && alive()) key->Acknowledge(version, Now());
  }
  io::Task<void> Remove(KeyModel* key) {
    const size_t count = key->BeginRemove();
    const Status status = co_await store_->Remove(NameOf(key), kNever);
    ExpectCode("REMOVE", status);
    if (status.ok() && alive()) key->EndRemove(count, Now());
  }
  io::Task<void> Get(KeyModel* key) {
    const Nanos began = Now();
    const bool was_alive = alive();
    const int owed = key->Owed(began);
    const Result<ReadPin> got = co_await StoreUser::GetTask(store_.get(), NameOf(key));
    if (got.ok()) {
      const int found = key->Find(got->bytes());
      EXPECT_GE(found, 0) << "wrong bytes";
      const bool dead = found >= 0 && was_alive && key->DeadSince(found, began - 1);
      EXPECT_FALSE(dead) << "a removed object is served";
    } else if (got.code() == Code::kNotFound) {
      const bool still = owed >= 0 && key->Owed(began) == owed;
      EXPECT_FALSE(still && exact() && !theme_.faulty && alive()) << "an object is missed";
    } else if (got.code() != Code::kCorrupt || !MayBeTorn()) {
      ExpectCode("GET", got.status());
    }
  }

  // --- Checks ---
  // Whether an object that nobody was promised may turn up torn. A file is written in one piece, payloads and
  // records of slabs one after the other.
  bool MayBeTorn() const {
    const bool one_piece = theme_.engine == EngineKind::kFile;
    return was_cut_ || theme_.lies || theme_.evicts || theme_.rots || one_piece;
  }
  void Verify() {
    uint64_t lost = 0;
    for (KeyModel& key : keys_) {
      const int owed = !theme_.lies ? key.Owed(sure_) : -1;
      const Result<ReadPin> got = user_->Get(NameOf(&key));
      int found = -1;
      if (got.ok()) {
        found = key.Find(got->bytes());
        EXPECT_GE(found, 0) << "wrong bytes after the crash";
        if (found < 0) return;
        const bool dead = key.DeadSince(found, cut_ ? crashed_at_ - Window() : crashed_at_);
        EXPECT_FALSE(dead && !theme_.lies) << "a removed object is back";
      } else if (got.code() == Code::kCorrupt) {
        EXPECT_TRUE(MayBeTorn()) << "a torn object";
        EXPECT_EQ(user_->Get(NameOf(&key)).code(), Code::kNotFound);
      } else {
        EXPECT_EQ(got.code(), Code::kNotFound) << got.status().ToString();
      }
      if (owed >= 0 && found != owed) ++lost;
      key.Settle(found, cut_, crashed_at_, Now(), Window());
    }
    EXPECT_LE(lost, rotten_) << "an acknowledged object is lost";
    rotten_ = 0;
    EXPECT_TRUE(theme_.evicts || MetricOf(*registry_, "dfkv_evictions_total") == 0);
  }
  // No slot is lost: all objects go, and every extent is free then. Now and then the store is filled, too.
  void CheckSpace() {
    for (KeyModel& key : keys_) {
      EXPECT_TRUE(user_->Remove(NameOf(&key)).ok());
      EXPECT_EQ(user_->Get(NameOf(&key)).code(), Code::kNotFound);
    }
    EXPECT_EQ(store_->object_count(), 0u);
    EXPECT_EQ(static_cast<StoreImpl*>(store_.get())->FreeExtents(), options_.capacity_bytes / kExtent);
    if (!random_.OneIn(16)) return;
    EXPECT_EQ(MetricOf(*registry_, "dfkv_used_bytes"), 0);
    const uint64_t size = kExtent >> random_.Below(4);
    const uint64_t wanted = options_.capacity_bytes / size;
    uint64_t put = 0;  // several disks do not fill at the same rate
    for (; put < 8 * wanted && store_->object_count() < wanted; ++put) {
      const Status status = user_->PutSeeded(kFillKeys + put, size);
      ASSERT_TRUE(status.ok()) << status.ToString();
    }
    EXPECT_EQ(store_->object_count(), wanted);
    EXPECT_EQ(MetricOf(*registry_, "dfkv_used_bytes"), double(options_.capacity_bytes));
    uint64_t hits = 0;
    for (uint64_t i = 0; i < put; ++i) {
      const std::string found = user_->Check(kFillKeys + i, size);
      EXPECT_TRUE(found == "hit" || found == "miss") << found;
      hits += found == "hit" ? 1 : 0;
    }
    EXPECT_EQ(hits, wanted);
  }

  const Theme theme_;
  Random random_;
  io::SimDisk disk_;
  io::SimReactor reactor_;
  StoreOptions options_;
  std::unique_ptr<MetricRegistry> registry_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<StoreUser> user_;
  std::vector<KeyModel> keys_;
  uint64_t seeds_ = 0;
  uint64_t operations_ = 0;
  int workers_ = 0;
  bool stopping_ = false;  // the workers end
  bool dead_ = false;
  bool cut_ = false;      // of the last crash
  bool was_cut_ = false;  // of any
  Nanos crashed_at_ = 0;
  Nanos sure_ = 0;       // what was acknowledged up to then has to be there
  uint64_t rotten_ = 0;  // objects that rot may have cost since the last check
};

// A REMOVE whose first clearing failed is asked again while the disk still fails: it answers, and so does the
// one after the disk has recovered.
TEST(Crash, ARepeatedRemoveOnAFailingDiskAnswers) {
  SetLogLevel(LogLevel::kOff);
  io::SimDisk disk;
  io::SimReactor reactor;
  MetricRegistry registry;
  StoreOptions options;
  options.directories = {"/a"};
  options.capacity_bytes = 1 << 20;
  options.ram_bytes = 1 << 20;
  options.extent_bytes = kExtent;
  options.populate = false;
  auto store = Store::OpenBlocking(options, disk, registry);
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  StoreUser user(store->get(), &reactor);
  ASSERT_TRUE(user.PutSeeded(1, 5000).ok());
  disk.set_faults({.write_error = 1});
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(reactor.RunTask((*store)->Remove(KeyOf(1), reactor.Now() + kSecond)).code(), Code::kIoError);
  }
  disk.set_faults({});
  EXPECT_TRUE(user.Remove(KeyOf(1)).ok());
  EXPECT_EQ(MetricOf(registry, "dfkv_used_bytes"), 0);
  EXPECT_TRUE(user.Stop().ok());
}

uint64_t NumberFromEnvironment(const char* name, uint64_t otherwise) {
  const std::string text = ReadEnvironment(name).value_or("");
  uint64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  return parsed.ec == std::errc() ? number : otherwise;
}

void RunSchedules(const Theme& theme, uint64_t count) {
  SetLogLevel(LogLevel::kOff);
#if defined(DFKV_SANITIZED)
  count /= 10;
#endif
  const uint64_t first = NumberFromEnvironment("DFKV_CRASH_SEED", SeedFromSystem() >> 16);
  count = NumberFromEnvironment("DFKV_CRASH_SCHEDULES", count);
  for (uint64_t i = 0; i < count && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "schedule " << i << ": DFKV_CRASH_SEED=" << first + i);
    Schedule(theme, first + i).Run();
  }
}

TEST(Crash, AProcessKillLosesNothingAcknowledged) {
  RunSchedules({.kills = true}, 1600);
}

TEST(Crash, APowerCutLosesNothingThatWasSynced) {
  RunSchedules({.cuts = true}, 1600);
}

TEST(Crash, KillsAndPowerCutsOnOneMedium) {
  RunSchedules({.kills = true, .cuts = true}, 1600);
}

TEST(Crash, KilledWhileEvicting) {
  RunSchedules({.kills = true, .evicts = true}, 1600);
}

TEST(Crash, PowerCutWhileEvicting) {
  RunSchedules({.cuts = true, .evicts = true}, 1600);
}

TEST(Crash, FailingDisks) {
  RunSchedules({.kills = true, .faulty = true}, 1600);
}

TEST(Crash, FailingDisksWhileEvicting) {
  RunSchedules({.kills = true, .cuts = true, .evicts = true, .faulty = true}, 1600);
}

TEST(Crash, DisksThatLoseWrites) {
  RunSchedules({.kills = true, .cuts = true, .lies = true}, 1600);
}

TEST(Crash, SlowDisks) {
  RunSchedules({.kills = true, .cuts = true, .slow = true}, 1600);
}

TEST(Crash, DisksThatRot) {
  RunSchedules({.kills = true, .cuts = true, .rots = true}, 1600);
}

TEST(Crash, AcknowledgedFromRam) {
  RunSchedules({.kills = true, .behind = true}, 1600);
}

TEST(Crash, AcknowledgedFromRamAndPowerCut) {
  RunSchedules({.kills = true, .cuts = true, .behind = true}, 1600);
}

TEST(Crash, AcknowledgedFromRamOnFailingDisksWhileEvicting) {
  RunSchedules({.kills = true, .cuts = true, .evicts = true, .faulty = true, .behind = true}, 1600);
}

TEST(Crash, OneFilePerObject) {
  RunSchedules({.kills = true, .engine = EngineKind::kFile}, 900);
}

TEST(Crash, OneFilePerObjectAndPowerCut) {
  RunSchedules({.kills = true, .cuts = true, .engine = EngineKind::kFile}, 900);
}

TEST(Crash, OneFilePerObjectOnFailingDisks) {
  RunSchedules({.kills = true, .faulty = true, .engine = EngineKind::kFile}, 900);
}

TEST(Crash, OneFilePerObjectWhileEvicting) {
  RunSchedules({.kills = true, .cuts = true, .evicts = true, .engine = EngineKind::kFile}, 900);
}

TEST(Crash, OneFilePerObjectThatRots) {
  RunSchedules({.kills = true, .cuts = true, .rots = true, .engine = EngineKind::kFile}, 900);
}

}  // namespace
}  // namespace dfkv::store
