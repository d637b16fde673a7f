// The file engine's own: what a damaged directory costs, what a kill leaves, what is on disk when. What it
// has in common with the other engines is in suite_test.cc.
#include "store/file_media.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <set>

#include "store/store_testing.h"

namespace dfkv::store {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kObjects = 40;
constexpr uint64_t kSize = 8192;

class FileStore : public SlabStore {
 protected:
  FileStore() { options_.engine = EngineKind::kFile; }

  // The objects' files; in the order in which they were stored.
  std::vector<std::string> Files() const {
    std::vector<std::pair<std::string, std::string>> found;
    for (const auto& entry : fs::recursive_directory_iterator(dir_.path() + "/objects")) {
      if (entry.is_regular_file()) {
        const std::string name = entry.path().filename().string();
        found.emplace_back(name.substr(name.find('-') + 1), entry.path().string());
      }
    }
    std::sort(found.begin(), found.end());
    std::vector<std::string> paths;
    for (const auto& [generation, path] : found) paths.push_back(path);
    return paths;
  }
  void Fill() {
    ASSERT_TRUE(Open().ok());
    for (uint64_t i = 0; i < kObjects; ++i) ASSERT_TRUE(user_->PutSeeded(i, kSize).ok());
    Close();
    ASSERT_EQ(Files().size(), kObjects);
  }
  static void Flip(const std::string& path, uint64_t offset) {
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    file.seekg(static_cast<std::streamoff>(offset));
    const auto byte = static_cast<char>(file.get() ^ 0x10);
    file.seekp(static_cast<std::streamoff>(offset));
    file.put(byte);
  }
};

TEST_F(FileStore, AnObjectIsOneFileUntilItIsRemoved) {
  Fill();
  for (const std::string& path : Files()) EXPECT_EQ(fs::file_size(path), kRecordBytes + kSize);
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(user_->Remove(KeyOf(i)).ok());
  EXPECT_EQ(Files().size(), kObjects - 10);  // REMOVE has answered: its file is gone
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = 0; i < kObjects; ++i) EXPECT_EQ(user_->Check(i, kSize), i < 10 ? "miss" : "hit") << i;
}

TEST_F(FileStore, TheCapacityBoundsTheFiles) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(user_->PutMany(0, 400, 60'000).ok());
  Close();
  uint64_t bytes = 0;
  const std::vector<std::string> files = Files();
  for (const std::string& path : files) bytes += fs::file_size(path);
  EXPECT_LE(bytes, options_.capacity_bytes + files.size() * kRecordBytes);
  EXPECT_GT(bytes, options_.capacity_bytes * 3 / 4);
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(store_->object_count(), files.size());
}

TEST_F(FileStore, DamageFoundAtStartIsAMissAndItsFileGoes) {
  Fill();
  const std::vector<std::string> files = Files();
  Flip(files[0], 20);                             // the record
  fs::resize_file(files[1], kRecordBytes + 100);  // the payload is cut
  fs::resize_file(files[2], 0);                   // as a stop before the write leaves it
  const std::string moved = fs::path(files[3]).parent_path().string() + "/00000000-00000000000000ff";
  fs::rename(files[3], moved);  // a record in another's place
  fs::copy_file(files[4], files[5], fs::copy_options::overwrite_existing);
  const std::string foreign = fs::path(files[6]).parent_path().string() + "/README";
  std::ofstream(foreign) << "not ours";
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = 0; i < kObjects; ++i) {
    EXPECT_EQ(user_->Check(i, kSize), i <= 3 || i == 5 ? "miss" : "hit") << i;
  }
  EXPECT_EQ(MetricOf(metrics_, "dfkv_rebuild_corrupt_records"), 6);
  EXPECT_TRUE(fs::exists(foreign));
  EXPECT_EQ(Files().size(), kObjects - 5 + 1);
  EXPECT_FALSE(fs::exists(moved));
  for (uint64_t i = 0; i < kObjects; ++i) ASSERT_TRUE(user_->PutSeeded(i, kSize).ok());
  for (uint64_t i = 0; i < kObjects; ++i) EXPECT_EQ(user_->Check(i, kSize), "hit") << i;
}

TEST_F(FileStore, DamageFoundByAReadIsDropped) {
  Fill();
  const std::vector<std::string> files = Files();
  Flip(files[0], kRecordBytes + 5000);
  ASSERT_TRUE(Open().ok());
  fs::remove(files[1]);  // while it is open
  fs::resize_file(files[2], kRecordBytes + 1);
  for (uint64_t i = 0; i < 4; ++i) EXPECT_EQ(user_->Check(i, kSize), i < 3 ? "Corrupt" : "hit") << i;
  for (uint64_t i = 0; i < 3; ++i) EXPECT_EQ(user_->Check(i, kSize), "miss") << i;
  EXPECT_EQ(MetricOf(metrics_, "dfkv_corrupt_total"), 3);
  for (uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(user_->PutSeeded(i, kSize).ok());
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = 0; i < kObjects; ++i) EXPECT_EQ(user_->Check(i, kSize), "hit") << i;
}

TEST_F(FileStore, AnObjectOfAnotherDirectoryIsRefused) {
  Fill();
  const std::vector<std::string> files = Files();
  const std::string from = dir_.path();
  TempDir other;
  options_.directories = {other.path()};
  ASSERT_TRUE(Open().ok());
  Close();
  for (const std::string& path : files) fs::copy_file(path, other.path() + path.substr(from.size()));
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(store_->object_count(), 0u);
}

TEST_F(FileStore, ALostMetaBlockIsRestored) {
  Fill();
  fs::remove(dir_.path() + "/meta");
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(store_->object_count(), kObjects);
}

TEST_F(FileStore, ASmallerCapacityKeepsWhatFits) {
  Fill();
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(user_->PutSeeded(1000, 100'000).ok());  // of another class: in the second extent
  Close();
  options_.extent_bytes = 64 << 10;  // the directory keeps its own, 1 MiB
  options_.capacity_bytes = 1 << 20;
  ASSERT_TRUE(Open().ok());
  EXPECT_EQ(user_->Check(1000, 100'000), "miss");
  EXPECT_EQ(store_->object_count(), kObjects);
  Close();
  EXPECT_EQ(Files().size(), kObjects);
  options_.capacity_bytes = 512 << 10;
  EXPECT_EQ(Open().code(), Code::kInvalid);
  EXPECT_EQ(Files().size(), kObjects);
  options_.capacity_bytes = uint64_t{1} << 43;
  EXPECT_EQ(Open().code(), Code::kNoSpace);
}

TEST_F(FileStore, NeitherEngineOpensTheOthersDirectory) {
  for (const EngineKind first : {EngineKind::kFile, EngineKind::kSlab}) {
    const EngineKind second = first == EngineKind::kFile ? EngineKind::kSlab : EngineKind::kFile;
    for (const bool lost : {false, true}) {  // the meta block, restored from its copy
      TempDir dir;
      options_.directories = {dir.path()};
      options_.engine = first;
      ASSERT_TRUE(Open().ok());
      ASSERT_TRUE(user_->PutSeeded(1, kSize).ok());
      Close();
      if (lost) fs::remove(dir.path() + "/meta");
      options_.engine = second;
      const Status status = Open();
      EXPECT_EQ(status.code(), Code::kUnsupported);
      const std::string wanted = first == EngineKind::kFile ? "engine file" : "engine slab";
      for (const std::string& part : {dir.path(), wanted, std::string("or another directory")}) {
        EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
      }
      options_.engine = first;
      ASSERT_TRUE(Open().ok());
      EXPECT_EQ(user_->Check(1, kSize), "hit");
      Close();
    }
  }
}

// Beyond what the turnstile admits at once, and with a sync of all of them at the end.
TEST_F(FileStore, ManyAtOnceShareAFewOpenFiles) {
  constexpr int kMany = 3 * FileMedia::kOpenFilesMax;
  ASSERT_TRUE(Open().ok());
  struct Run {
    static io::Task<void> Put(Store* store, uint64_t number, Status* worst, int* left) {
      const std::vector<std::byte> bytes = BytesOf(number, 4096);
      const ObjectKey key = KeyOf(number);
      const ByteSpan span(bytes);
      const Status status = co_await StoreUser::PutTask(store, key, span, UINT32_MAX);
      if (!status.ok()) *worst = status;
      --*left;
    }
  };
  Status worst;
  int left = kMany;
  for (uint64_t i = 0; i < kMany; ++i) {
    reactor_->QueueReady(Run::Put(store_.get(), i, &worst, &left).Release());
  }
  reactor_->RunUntil([&] { return left == 0; });
  EXPECT_TRUE(worst.ok()) << worst.ToString();
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = 0; i < kMany; ++i) ASSERT_EQ(user_->Check(i, 4096), "hit") << i;
}

TEST_F(FileStore, EveryAcknowledgedPutSurvivesKill9) {
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
      if (!user_->PutSeeded(i, 1 + i * 37 % 9000).ok()) _exit(2);
      if (i % 5 == 0 && !user_->Remove(KeyOf(i)).ok()) _exit(4);
      if (write(pipe_ends[1], &i, sizeof i) != sizeof i) _exit(3);
    }
  }
  close(pipe_ends[1]);
  uint64_t last = 0;
  for (uint64_t i = 0; read(pipe_ends[0], &i, sizeof i) == sizeof i;) {
    last = i;
    if (i == 200) kill(child, SIGKILL);
  }
  close(pipe_ends[0]);
  int wait_status = 0;
  waitpid(child, &wait_status, 0);
  reactor_ = NewReactor();
  ASSERT_TRUE(WIFSIGNALED(wait_status)) << WEXITSTATUS(wait_status);
  ASSERT_TRUE(Open().ok());
  for (uint64_t i = 0; i <= last; ++i) {
    ASSERT_EQ(user_->Check(i, 1 + i * 37 % 9000), i % 5 == 0 ? "miss" : "hit") << i;
  }
  EXPECT_EQ(MetricOf(metrics_, "dfkv_corrupt_total"), 0);
}

}  // namespace
}  // namespace dfkv::store
