// The faults of the simulated disk. Everything runs in virtual time.
#include "io/disk_sim.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>

#include "base/random.h"
#include "io/reactor_sim.h"

namespace dfkv::io {
namespace {

constexpr uint64_t kSector = 4096;

class SimDiskTest : public testing::Test {
 protected:
  static std::unique_ptr<File> OpenOn(SimDisk* disk, const std::string& path = "/file") {
    OpenOptions options;
    options.create = true;
    Result<std::unique_ptr<File>> file = disk->Open(path, options);
    return file.ok() ? std::move(*file) : nullptr;
  }
  // A sector full of `value`.
  static std::vector<std::byte> Full(int value, uint64_t size = kSector) {
    return std::vector<std::byte>(size, static_cast<std::byte>(value));
  }
  // The value of a sector that is full of one, -1 when it is not.
  static int ValueAt(SimDisk* disk, uint64_t sector, uint64_t size = kSector) {
    std::vector<std::byte> bytes(size);
    EXPECT_TRUE(disk->Peek("/file", sector * size, bytes).ok());
    const bool same = std::all_of(bytes.begin(), bytes.end(), [&](std::byte b) { return b == bytes[0]; });
    return same ? static_cast<int>(bytes[0]) : -1;
  }

  SimReactor reactor_;
};

TEST_F(SimDiskTest, AProcessKillKeepsWhatWasWritten) {
  SimDisk disk;
  std::unique_ptr<File> file = OpenOn(&disk);
  ASSERT_TRUE(file->WriteBlocking(0, Full(7)).ok());
  disk.Crash(CrashKind::kProcessKill);
  std::vector<std::byte> bytes(kSector);
  EXPECT_EQ(file->ReadBlocking(0, bytes).code(), Code::kIoError);  // the old process's file is dead
  EXPECT_EQ(file->WriteBlocking(0, bytes).code(), Code::kIoError);
  EXPECT_EQ(file->SizeBlocking().code(), Code::kIoError);
  file = OpenOn(&disk);
  EXPECT_TRUE(file->ReadBlocking(0, bytes).ok());
  EXPECT_EQ(bytes, Full(7));
}

TEST_F(SimDiskTest, APowerCutKeepsWhatWasSyncedAndAnyOfTheRest) {
  std::set<std::vector<int>> outcomes;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SimDisk disk({.seed = seed});
    const std::unique_ptr<File> file = OpenOn(&disk);
    ASSERT_TRUE(file->ResizeBlocking(4 * kSector, true).ok());
    for (uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(file->WriteBlocking(i * kSector, Full(1)).ok());
    ASSERT_TRUE(file->SyncBlocking().ok());
    ASSERT_TRUE(file->WriteBlocking(0, Full(2, 2 * kSector)).ok());
    ASSERT_TRUE(file->WriteBlocking(kSector, Full(3, 2 * kSector)).ok());
    disk.Crash(CrashKind::kPowerCut);
    const std::vector<int> found{ValueAt(&disk, 0), ValueAt(&disk, 1), ValueAt(&disk, 2), ValueAt(&disk, 3)};
    ASSERT_TRUE(found[0] == 1 || found[0] == 2);
    ASSERT_TRUE(found[1] == 1 || found[1] == 2 || found[1] == 3);
    ASSERT_TRUE(found[2] == 1 || found[2] == 3);
    ASSERT_EQ(found[3], 1);
    outcomes.insert(found);
  }
  EXPECT_TRUE(outcomes.contains({1, 1, 1, 1}));  // dropped
  EXPECT_TRUE(outcomes.contains({2, 2, 1, 1}));  // in order
  EXPECT_TRUE(outcomes.contains({2, 3, 3, 1}));  // all of it
  EXPECT_TRUE(outcomes.contains({1, 3, 3, 1}));  // reordered and torn
  EXPECT_GE(outcomes.size(), 8u);
}

TEST_F(SimDiskTest, SmallSectorsTearWithinABlock) {
  std::set<int> seen;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SimDisk disk({.seed = seed, .sector = 512});
    const std::unique_ptr<File> file = OpenOn(&disk);
    ASSERT_TRUE(file->WriteBlocking(0, Full(1)).ok());
    ASSERT_TRUE(file->SyncBlocking().ok());
    ASSERT_TRUE(file->WriteBlocking(0, Full(2)).ok());
    disk.Crash(CrashKind::kPowerCut);
    for (uint64_t i = 0; i < 8; ++i) ASSERT_NE(ValueAt(&disk, i, 512), -1);
    seen.insert(ValueAt(&disk, 0));
  }
  EXPECT_EQ(seen, (std::set<int>{-1, 1, 2}));
}

TEST_F(SimDiskTest, AKillThenAPowerCutStillLosesWhatWasNeverSynced) {
  std::set<int> seen;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    SimDisk disk({.seed = seed});
    ASSERT_TRUE(OpenOn(&disk)->WriteBlocking(0, Full(7)).ok());
    disk.Crash(CrashKind::kProcessKill);
    ASSERT_EQ(ValueAt(&disk, 0), 7);
    disk.Crash(CrashKind::kPowerCut);
    seen.insert(ValueAt(&disk, 0));
  }
  EXPECT_EQ(seen, (std::set<int>{0, 7}));
}

Task<void> WriteOne(File* file, uint64_t sector, int value, int* ended, Status* status) {
  const std::vector<std::byte> bytes(kSector, static_cast<std::byte>(value));
  *status = co_await WriteFull(file, sector * kSector, bytes, kNever);
  ++*ended;
}

Task<void> SyncOne(File* file, int* ended) {
  const Status status = co_await SyncFile(file);
  EXPECT_TRUE(status.ok());
  ++*ended;
}

TEST_F(SimDiskTest, ASyncCoversOnlyWhatWasWrittenBeforeItBegan) {
  std::set<int> seen;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SimDisk disk({.seed = seed});
    const std::unique_ptr<File> file = OpenOn(&disk);
    SimFaults faults;
    faults.delay_min = faults.delay_max = 1000;
    disk.set_faults(faults);
    int ended = 0;
    Status status;
    reactor_.QueueReady(WriteOne(file.get(), 0, 1, &ended, &status).Release());
    reactor_.QueueReady(SyncOne(file.get(), &ended).Release());  // begins while the write is in flight
    ASSERT_TRUE(reactor_.RunUntil([&] { return ended == 2; }));
    disk.Crash(CrashKind::kPowerCut);
    seen.insert(ValueAt(&disk, 0));
  }
  EXPECT_EQ(seen, (std::set<int>{0, 1}));
}

TEST_F(SimDiskTest, DelaysAreVirtual) {
  SimDisk disk;
  const std::unique_ptr<File> file = OpenOn(&disk);
  SimFaults faults;
  faults.delay_min = 10 * kSecond;
  faults.delay_max = 20 * kSecond;
  faults.slow = 1;
  faults.slow_delay = 3600 * kSecond;
  disk.set_faults(faults);
  int ended = 0;
  Status status(Code::kBusy);
  const Nanos start = reactor_.Now();
  reactor_.QueueReady(WriteOne(file.get(), 0, 1, &ended, &status).Release());
  ASSERT_TRUE(reactor_.RunUntil([&] { return ended == 1; }));
  EXPECT_TRUE(status.ok());
  EXPECT_GE(reactor_.Now() - start, 3610 * kSecond);
  EXPECT_LE(reactor_.Now() - start, 3620 * kSecond);
}

TEST_F(SimDiskTest, CrashAtAWriteStopsEverythingUntilTheRestart) {
  SimDisk disk;
  std::unique_ptr<File> file = OpenOn(&disk);
  Result<std::unique_ptr<DirectoryLock>> lock = disk.Lock("/");
  ASSERT_TRUE(lock.ok());
  disk.CrashAtWrite(3);
  EXPECT_TRUE(file->WriteBlocking(0, Full(1)).ok());
  EXPECT_TRUE(file->WriteBlocking(kSector, Full(1)).ok());
  EXPECT_FALSE(disk.crashed());
  EXPECT_EQ(file->WriteBlocking(2 * kSector, Full(1)).code(), Code::kIoError);
  EXPECT_TRUE(disk.crashed());
  std::vector<std::byte> bytes(kSector);
  EXPECT_EQ(file->ReadBlocking(0, bytes).code(), Code::kIoError);
  EXPECT_EQ(file->SyncBlocking().code(), Code::kIoError);
  EXPECT_EQ(OpenOn(&disk), nullptr);
  EXPECT_EQ(disk.List("/").code(), Code::kIoError);
  disk.Crash(CrashKind::kProcessKill);
  EXPECT_FALSE(disk.crashed());
  const Result<std::unique_ptr<DirectoryLock>> again = disk.Lock("/");
  EXPECT_TRUE(again.ok());
  lock->reset();  // the dead process's lock does not release the new one's
  EXPECT_EQ(disk.Lock("/").code(), Code::kLocked);
  file = OpenOn(&disk);
  EXPECT_TRUE(file->ReadBlocking(0, bytes).ok());
  EXPECT_EQ(ValueAt(&disk, 1), 1);
  EXPECT_TRUE(file->WriteBlocking(2 * kSector, Full(1)).ok());
}

TEST_F(SimDiskTest, TheWriteOfACrashIsTorn) {
  std::set<std::pair<int, int>> outcomes;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SimDisk disk({.seed = seed});
    const std::unique_ptr<File> file = OpenOn(&disk);
    ASSERT_TRUE(file->ResizeBlocking(2 * kSector, true).ok());
    disk.CrashAtWrite(1);
    EXPECT_FALSE(file->WriteBlocking(0, Full(1, 2 * kSector)).ok());
    disk.Crash(CrashKind::kProcessKill);
    outcomes.insert({ValueAt(&disk, 0), ValueAt(&disk, 1)});
  }
  EXPECT_EQ(outcomes, (std::set<std::pair<int, int>>{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
}

TEST_F(SimDiskTest, HangingOpsEndWhenReleased) {
  SimDisk disk;
  const std::unique_ptr<File> file = OpenOn(&disk);
  disk.CrashAtWrite(1, AfterCrash::kHang);
  int ended = 0;
  Status first;
  Status second;
  reactor_.QueueReady(WriteOne(file.get(), 0, 1, &ended, &first).Release());
  reactor_.QueueReady(WriteOne(file.get(), 1, 1, &ended, &second).Release());
  EXPECT_FALSE(reactor_.RunUntil([&] { return ended > 0; }, reactor_.Now() + 3600 * kSecond));
  EXPECT_EQ(disk.in_flight(), 2u);
  disk.Crash(CrashKind::kPowerCut);
  disk.ReleaseHanging();
  EXPECT_TRUE(reactor_.RunUntil([&] { return ended == 2; }));
  EXPECT_EQ(first.code(), Code::kIoError);
  EXPECT_EQ(second.code(), Code::kIoError);
  EXPECT_EQ(disk.in_flight(), 0u);
}

TEST_F(SimDiskTest, WritesInFlightAtACrashAreThereOrNot) {
  std::set<int> seen;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SimDisk disk({.seed = seed});
    const std::unique_ptr<File> file = OpenOn(&disk);
    ASSERT_TRUE(file->ResizeBlocking(kSector, true).ok());
    SimFaults faults;
    faults.delay_min = faults.delay_max = kSecond;
    disk.set_faults(faults);
    int ended = 0;
    Status status;
    reactor_.QueueReady(WriteOne(file.get(), 0, 1, &ended, &status).Release());
    reactor_.RunUntil([] { return false; }, reactor_.Now());
    ASSERT_EQ(disk.in_flight(), 1u);
    disk.Crash(CrashKind::kProcessKill);
    seen.insert(ValueAt(&disk, 0));
    ASSERT_TRUE(reactor_.RunUntil([&] { return ended == 1; }));
    EXPECT_EQ(status.code(), Code::kIoError);
  }
  EXPECT_EQ(seen, (std::set<int>{0, 1}));
}

TEST_F(SimDiskTest, TheNthOpFails) {
  SimDisk disk;
  const std::unique_ptr<File> file = OpenOn(&disk);
  disk.FailNth(Op::Kind::kWrite, 2, ENOSPC);
  disk.FailNth(Op::Kind::kWrite, 3, EIO);
  disk.FailNth(Op::Kind::kSync, 1, EIO);
  EXPECT_TRUE(file->WriteBlocking(0, Full(1)).ok());
  EXPECT_EQ(file->WriteBlocking(0, Full(1)).code(), Code::kNoSpace);
  EXPECT_EQ(file->WriteBlocking(0, Full(1)).code(), Code::kIoError);
  EXPECT_TRUE(file->WriteBlocking(0, Full(1)).ok());
  EXPECT_EQ(file->SyncBlocking().code(), Code::kIoError);
  EXPECT_TRUE(file->SyncBlocking().ok());
  EXPECT_EQ(disk.Count(Op::Kind::kWrite), 4u);
  EXPECT_EQ(disk.Count(Op::Kind::kSync), 2u);
  EXPECT_EQ(disk.Count(Op::Kind::kRead), 0u);
}

TEST_F(SimDiskTest, ChancesOfFailure) {
  SimDisk disk;
  const std::unique_ptr<File> file = OpenOn(&disk);
  SimFaults faults;
  faults.write_error = 0.25;
  faults.no_space = 0.25;
  faults.read_error = 0.5;
  disk.set_faults(faults);
  std::map<Code, int> writes;
  std::map<Code, int> reads;
  std::vector<std::byte> bytes(kSector);
  for (int i = 0; i < 400; ++i) ++writes[file->WriteBlocking(0, Full(1)).code()];
  for (int i = 0; i < 400; ++i) ++reads[file->ReadBlocking(0, bytes).code()];
  EXPECT_GT(writes[Code::kOk], 150);
  EXPECT_GT(writes[Code::kIoError], 40);
  EXPECT_GT(writes[Code::kNoSpace], 60);
  EXPECT_GT(reads[Code::kOk], 150);
  EXPECT_GT(reads[Code::kIoError], 150);
}

TEST_F(SimDiskTest, AFullDiskRefusesAndFreesWhatIsRemoved) {
  SimDisk disk({.capacity = 8 * kSector});
  const std::unique_ptr<File> file = OpenOn(&disk);
  EXPECT_TRUE(file->ResizeBlocking(5 * kSector, true).ok());
  EXPECT_EQ(disk.Space("/")->available, 3 * kSector);
  EXPECT_TRUE(file->WriteBlocking(0, Full(1, 5 * kSector)).ok());  // reserved before
  EXPECT_EQ(disk.Space("/")->available, 3 * kSector);
  std::unique_ptr<File> other = OpenOn(&disk, "/other");
  EXPECT_TRUE(other->WriteBlocking(0, Full(1, 3 * kSector)).ok());
  EXPECT_EQ(other->WriteBlocking(3 * kSector, Full(1)).code(), Code::kNoSpace);
  EXPECT_TRUE(other->WriteBlocking(0, Full(2)).ok());  // overwriting needs no space
  EXPECT_TRUE(disk.Remove("/other").ok());
  EXPECT_EQ(disk.Space("/")->available, 0u);  // it is open still
  other.reset();
  EXPECT_EQ(disk.Space("/")->available, 3 * kSector);
  EXPECT_TRUE(file->PunchBlocking(0, 2 * kSector).ok());
  EXPECT_EQ(disk.Space("/")->available, 5 * kSector);
}

TEST_F(SimDiskTest, RotAndLostWrites) {
  SimDisk disk;
  const std::unique_ptr<File> file = OpenOn(&disk);
  ASSERT_TRUE(file->WriteBlocking(0, Full(1)).ok());
  EXPECT_TRUE(disk.FlipBit("/file", 100 * 8 + 1).ok());
  std::vector<std::byte> bytes(kSector);
  ASSERT_TRUE(file->ReadBlocking(0, bytes).ok());
  EXPECT_EQ(bytes[100], std::byte{3});
  EXPECT_EQ(std::count(bytes.begin(), bytes.end(), std::byte{1}), 4095);
  SimFaults faults;
  faults.lost_write = 1;
  disk.set_faults(faults);
  EXPECT_TRUE(file->WriteBlocking(0, Full(9)).ok());
  ASSERT_TRUE(file->ReadBlocking(0, bytes).ok());
  EXPECT_EQ(bytes[0], std::byte{1});
  EXPECT_EQ(disk.FlipBit("/none", 0).code(), Code::kNotFound);
}

TEST_F(SimDiskTest, UnalignedDirectTransfersAreRefused) {
  SimDisk disk;
  OpenOptions options;
  options.create = true;
  options.direct = true;
  const Result<std::unique_ptr<File>> file = disk.Open("/file", options);
  ASSERT_TRUE(file.ok());
  std::vector<std::byte> bytes(3 * kSector);
  std::byte* aligned =
      reinterpret_cast<std::byte*>(AlignUp(reinterpret_cast<uintptr_t>(bytes.data()), kSector));
  EXPECT_TRUE((*file)->WriteBlocking(0, {aligned, kSector}).ok());
  EXPECT_FALSE((*file)->WriteBlocking(512, {aligned, kSector}).ok());
  EXPECT_FALSE((*file)->WriteBlocking(0, {aligned, 512}).ok());
  EXPECT_FALSE((*file)->WriteBlocking(0, {aligned + 8, kSector}).ok());
}

// The same seed and the same calls leave the same medium; and a power cut never invents a value.
TEST_F(SimDiskTest, SeedsReproduceAndOnlyWrittenValuesSurvive) {
  const auto run = [](uint64_t seed) {
    SimDisk disk({.seed = seed, .sector = 512});
    Random random(seed);
    std::unique_ptr<File> file = OpenOn(&disk);
    EXPECT_TRUE(file->ResizeBlocking(16 * kSector, true).ok());
    std::map<uint64_t, std::set<int>> possible;  // by sector: since its last sync
    for (uint64_t i = 0; i < 16; ++i) possible[i] = {0};
    std::map<uint64_t, int> newest;
    for (int step = 1; step <= 100; ++step) {
      const uint64_t sector = random.Below(16);
      EXPECT_TRUE(file->WriteBlocking(sector * kSector, Full(step)).ok());
      possible[sector].insert(step);
      newest[sector] = step;
      if (!random.OneIn(20)) continue;
      EXPECT_TRUE(file->SyncBlocking().ok());
      for (const auto& [at, value] : newest) possible[at] = {value};
    }
    disk.Crash(CrashKind::kPowerCut);
    std::vector<std::byte> medium(16 * kSector);
    EXPECT_TRUE(disk.Peek("/file", 0, medium).ok());
    for (uint64_t at = 0; at < medium.size(); at += 512) {
      EXPECT_TRUE(possible[at / kSector].contains(static_cast<int>(medium[at]))) << seed << " " << at;
    }
    return medium;
  };
  for (uint64_t seed = 1; seed <= 50; ++seed) ASSERT_EQ(run(seed), run(seed));
  EXPECT_NE(run(1), run(2));
}

}  // namespace
}  // namespace dfkv::io
