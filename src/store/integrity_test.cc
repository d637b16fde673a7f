// What a damaged data directory costs: misses, never other bytes, never the start. Requirements N1 to N6,
// N11.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>

#include "base/fault.h"
#include "store/record.h"
#include "store/store_testing.h"

namespace dfkv::store {
namespace {

constexpr uint64_t kObjects = 200;
constexpr uint64_t kSize = 8192;

class Damaged : public SlabStore {
 protected:
  // Stores kObjects and closes; records_ then says where each object's record and payload are.
  void Fill() {
    ASSERT_TRUE(Open().ok());
    for (uint64_t i = 0; i < kObjects; ++i) ASSERT_TRUE(user_->PutSeeded(i, kSize).ok());
    Close();
    ReadTable();
  }
  void ReadTable() {
    records_.clear();
    std::ifstream table(Path("table"), std::ios::binary);
    std::vector<char> bytes((std::istreambuf_iterator<char>(table)), {});
    MetaBlock meta{};
    ASSERT_EQ(DecodeMeta(AsBytes({bytes.data(), sizeof meta}), &meta), MetaState::kValid);
    for (uint64_t at = kTableHeader; at + kRecordBytes <= bytes.size(); at += kRecordBytes) {
      Record record{};
      const ByteSpan span = AsBytes({bytes.data() + at, kRecordBytes});
      if (DecodeRecord(meta.salt, span, &record) != RecordState::kValid) continue;
      records_[{TenantHash(record.tenant), {record.id_hi, record.id_lo}}] = {at, record.slot_address};
    }
  }
  std::string Path(const char* name) const { return dir_.path() + "/" + name; }
  void Flip(const char* name, uint64_t offset) {
    std::fstream file(Path(name), std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(offset));
    const auto byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
  }
  std::string Copy(const char* name, uint64_t offset, size_t size) {
    std::ifstream file(Path(name), std::ios::binary);
    file.seekg(static_cast<std::streamoff>(offset));
    std::string bytes(size, 0);
    file.read(bytes.data(), static_cast<std::streamsize>(size));
    return bytes;
  }
  void Paste(const char* name, uint64_t offset, const std::string& bytes) {
    std::fstream file(Path(name), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(offset));
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }
  // How many of the objects are hits and misses; none may be anything else.
  std::pair<uint64_t, uint64_t> Count() {
    uint64_t hits = 0, misses = 0;
    for (uint64_t i = 0; i < kObjects; ++i) {
      const std::string got = user_->Check(i, kSize);
      EXPECT_NE(got, "WRONG") << i;
      if (got == "hit") ++hits;
      if (got == "miss" || got == "Corrupt") ++misses;
    }
    return {hits, misses};
  }
  struct Where {
    uint64_t record;
    uint64_t payload;
  };
  std::map<ObjectKey, Where> records_;
};

TEST_F(Damaged, FlippedPayloadBytesAreMissesAndCanBeStoredAgain) {
  Fill();
  ASSERT_EQ(records_.size(), kObjects);
  for (uint64_t i = 0; i < 100; ++i) Flip("slab", records_[KeyOf(i)].payload + i * 80);
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = 0; i < kObjects; ++i) EXPECT_EQ(user_->Check(i, kSize), i < 100 ? "Corrupt" : "hit") << i;
  EXPECT_EQ(MetricOf(metrics_, "dfkv_corrupt_total"), 100);
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(user_->Check(i, kSize), "miss");
    ASSERT_TRUE(user_->PutSeeded(i, kSize).ok());
    EXPECT_EQ(user_->Check(i, kSize), "hit");
  }
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Count(), std::pair(kObjects, uint64_t{0}));
}

TEST_F(Damaged, SwappedDuplicatedAndOldRecordsAreMisses) {
  Fill();
  const auto record = [&](uint64_t i) { return records_[KeyOf(i)].record; };
  const std::string old = Copy("table", record(50), kRecordBytes);
  for (uint64_t i = 0; i < 20; i += 2) {  // swap
    const std::string a = Copy("table", record(i), kRecordBytes);
    Paste("table", record(i), Copy("table", record(i + 1), kRecordBytes));
    Paste("table", record(i + 1), a);
  }
  Paste("table", record(30), Copy("table", record(31), kRecordBytes));  // duplicate over another
  Paste("table", record(kObjects - 1) + 64, Copy("table", record(32), kRecordBytes));  // into an empty place
  Flip("table", record(40) + 33);
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Count(), std::pair(kObjects - 22, uint64_t{22}));
  EXPECT_EQ(MetricOf(metrics_, "dfkv_rebuild_corrupt_records"), 23);
  // An old record of a slot that another object has by now.
  ASSERT_TRUE(user_->Remove(KeyOf(50)).ok());
  for (uint64_t i = 1000; i < 1030; ++i) ASSERT_TRUE(user_->PutSeeded(i, kSize).ok());
  Close();
  Paste("table", record(50), old);
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(user_->Check(50, kSize), "Corrupt");
}

TEST_F(Damaged, RecordsOfAnotherDiskAreRefused) {
  Fill();
  const std::string table = Copy("table", kTableHeader, 64 << 10);
  const std::string slab = Copy("slab", 0, 8 << 20);
  TempDir other;
  options_.directories = {other.path()};
  ASSERT_TRUE(Open().ok());
  Close();
  std::fstream(other.path() + "/table", std::ios::binary | std::ios::in | std::ios::out)
      .seekp(kTableHeader)
      .write(table.data(), static_cast<std::streamsize>(table.size()));
  std::fstream(other.path() + "/slab", std::ios::binary | std::ios::in | std::ios::out)
      .write(slab.data(), static_cast<std::streamsize>(slab.size()));
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(store_->object_count(), 0u);
}

TEST_F(Damaged, AMissingOrShortFileCostsOnlyWhatItHeld) {
  for (const char* name : {"meta", "table", "slab"}) {
    for (const uint64_t keep : {uint64_t{0}, uint64_t{10}, uint64_t{600'000}, UINT64_MAX}) {
      SCOPED_TRACE(testing::Message() << name << " cut to " << keep);
      std::filesystem::remove_all(dir_.path());
      Fill();
      if (keep == UINT64_MAX) {
        std::filesystem::remove(Path(name));
      } else if (keep < std::filesystem::file_size(Path(name))) {
        std::filesystem::resize_file(Path(name), keep);
      }
      ASSERT_TRUE(Open().ok());
      const auto [hits, misses] = Count();
      EXPECT_EQ(hits + misses, kObjects);
      if (std::string(name) == "meta") {
        EXPECT_EQ(hits, kObjects);
      }
      if (std::string(name) == "slab" && keep == 600'000) {
        EXPECT_EQ(hits, 600'000 / kSize);
      }
      for (uint64_t i = 0; i < kObjects; ++i) ASSERT_TRUE(user_->PutSeeded(i, kSize).ok());
      EXPECT_EQ(Count(), std::pair(kObjects, uint64_t{0}));
    }
  }
}

TEST_F(Damaged, RecordsOfALostSlabDoNotComeBack) {
  Fill();
  std::filesystem::resize_file(Path("slab"), 0);
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = kObjects - 1; i >= kObjects / 2; --i) ASSERT_TRUE(user_->PutSeeded(i, kSize).ok());
  Close();
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Count(), std::pair(kObjects / 2, kObjects / 2));
}

TEST_F(Damaged, OnlyAForeignVersionIsRefused) {
  Fill();
  MetaBlock meta{};
  const std::string bytes = Copy("meta", 0, sizeof meta);
  std::memcpy(&meta, bytes.data(), sizeof meta);
  meta.version = 99;
  const std::string foreign(reinterpret_cast<const char*>(&meta), sizeof meta);
  Paste("meta", 0, foreign);
  Paste("table", 0, foreign);
  const Status status = Open();
  EXPECT_EQ(status.code(), Code::kUnsupported);
  EXPECT_NE(status.message().find(dir_.path()), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("version 99"), std::string::npos) << status.message();
  Paste("table", 0, bytes);  // damage in one of the two
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(Count(), std::pair(kObjects, uint64_t{0}));
}

TEST_F(Damaged, RandomBytesInTheTableNeverMakeAWrongHit) {
  const uint64_t seed = SeedFromSystem();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  Fill();
  const uint64_t end = records_[KeyOf(kObjects - 1)].record + 4096;
  for (int i = 0; i < 50; ++i) {
    std::string junk(1 + random.Below(100), 0);
    random.Fill({reinterpret_cast<std::byte*>(junk.data()), junk.size()});
    Paste("table", kTableHeader + random.Below(end - kTableHeader), junk);
  }
  ASSERT_TRUE(Open().ok());
  const auto [hits, misses] = Count();
  EXPECT_EQ(hits + misses, kObjects);
  EXPECT_GT(hits, 0u);
}

TEST_F(SlabStore, ASecondStoreOnTheDirectoryIsRefused) {
  ASSERT_TRUE(Open().ok());
  MetricRegistry other;
  const auto second = Store::OpenBlocking(options_, io::PosixDisk(), other);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.code(), Code::kLocked);
  EXPECT_NE(second.status().message().find(dir_.path()), std::string::npos) << second.status().message();
}

TEST_F(SlabStore, AFullFilesystemIsRefusedWithTheNumbers) {
  options_.capacity_bytes = uint64_t{1} << 43;
  options_.extent_bytes = 64 << 20;
  const Status status = Open();
  EXPECT_EQ(status.code(), Code::kNoSpace);
  for (const std::string& part : {dir_.path(), std::string("8 TiB"), std::string("available")}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
  options_.capacity_bytes = 8 << 20;
  options_.extent_bytes = 0;
  EXPECT_TRUE(Open().ok());
}

// N5: the process dies in the middle of PUTs; every acknowledged object is a hit afterwards, every removed
// one is a miss.
TEST_F(SlabStore, EveryAcknowledgedPutSurvivesKill9) {
  options_.capacity_bytes = 64 << 20;
  const uint64_t seed = SeedFromSystem();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  std::set<uint64_t> stored;
  std::set<uint64_t> removed;
  for (int round = 0; round < 5; ++round) {
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    reactor_.reset();  // with its threads: they would not be in the child
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      close(pipe_ends[0]);
      reactor_ = NewReactor();
      if (!Open().ok()) _exit(1);
      for (uint64_t i = 0;; ++i) {
        const uint64_t number = static_cast<uint64_t>(round) * 100'000 + i;
        if (!user_->PutSeeded(number, 1 + number % 9000).ok()) _exit(2);
        const uint64_t line[2] = {0, number};
        if (write(pipe_ends[1], line, sizeof line) != sizeof line) _exit(3);
        if (i % 5 != 0) continue;
        if (!user_->Remove(KeyOf(number)).ok()) _exit(4);
        const uint64_t gone[2] = {1, number};
        if (write(pipe_ends[1], gone, sizeof gone) != sizeof gone) _exit(3);
      }
    }
    close(pipe_ends[1]);
    const uint64_t lines = 50 + random.Below(300);
    uint64_t line[2];
    for (uint64_t i = 0; read(pipe_ends[0], line, sizeof line) == sizeof line; ++i) {
      (line[0] == 0 ? stored : removed).insert(line[1]);
      if (i == lines) kill(child, SIGKILL);
    }
    close(pipe_ends[0]);
    int wait_status = 0;
    waitpid(child, &wait_status, 0);
    reactor_ = NewReactor();
    ASSERT_TRUE(WIFSIGNALED(wait_status)) << WEXITSTATUS(wait_status);
    ASSERT_TRUE(Open().ok());
    const uint64_t last = *stored.rbegin();
    for (const uint64_t number : stored) {
      const std::string got = user_->Check(number, 1 + number % 9000);
      if (removed.contains(number)) {
        ASSERT_EQ(got, "miss") << number;
      } else if (number != last || number % 5 != 0) {  // the last may have been removed without an answer
        ASSERT_EQ(got, "hit") << number;
      }
    }
    if (last % 5 == 0) {
      removed.insert(last);
      ASSERT_TRUE(user_->Remove(KeyOf(last)).ok());
    }
    EXPECT_EQ(MetricOf(metrics_, "dfkv_corrupt_total"), 0);
    Close();
  }
}

}  // namespace
}  // namespace dfkv::store
