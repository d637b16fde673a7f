// What every disk does, on every reactor.
#include "io/disk.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/random.h"
#include "base/text.h"
#include "io/disk_sim.h"
#include "io/reactor_testing.h"

namespace dfkv::io {
namespace {

// Memory for direct I/O.
class AlignedBuffer {
 public:
  explicit AlignedBuffer(size_t size)
      : size_(size), data_(static_cast<std::byte*>(std::aligned_alloc(4096, size))) {
    std::fill_n(data_, size_, std::byte{0xEE});
  }
  ~AlignedBuffer() { std::free(data_); }
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  MutableByteSpan span() { return {data_, size_}; }
  std::byte* data() { return data_; }

 private:
  size_t size_;
  std::byte* data_;
};

class DiskTest : public testing::TestWithParam<std::pair<std::string, std::string>> {
 protected:
  void SetUp() override {
    const auto& [disk, reactor] = GetParam();
    Result<std::unique_ptr<Reactor>> made = MakeTestReactor(reactor);
    if (!made.ok() && reactor == "uring" && made.code() == Code::kUnavailable) {
      GTEST_SKIP() << "NOT TESTED ON IO_URING: " << made.status().message();
    }
    ASSERT_TRUE(made.ok()) << made.status().message();
    reactor_ = std::move(*made);
    if (disk == "sim") {
      sim_ = std::make_unique<SimDisk>();
      disk_ = sim_.get();
      directory_ = "/disk/test";
      ASSERT_TRUE(disk_->MakeDirectories(directory_).ok());
    } else {
      disk_ = &PosixDisk();
      std::string name = (std::filesystem::temp_directory_path() / "dfkv-disk-XXXXXX").string();
      ASSERT_NE(mkdtemp(name.data()), nullptr);
      directory_ = name;
    }
  }
  void TearDown() override {
    if (sim_ == nullptr && !directory_.empty()) std::filesystem::remove_all(directory_);
  }

  std::string Path(const std::string& name) const { return directory_ + "/" + name; }
  std::unique_ptr<File> Create(const std::string& name, bool direct = true) {
    OpenOptions options;
    options.create = true;
    options.direct = direct;
    Result<std::unique_ptr<File>> file = disk_->Open(Path(name), options);
    EXPECT_TRUE(file.ok()) << file.status().message();
    return file.ok() ? std::move(*file) : nullptr;
  }
  Nanos Soon() const { return reactor_->Now() + 60 * kSecond; }

  std::unique_ptr<Reactor> reactor_;
  std::unique_ptr<SimDisk> sim_;
  Disk* disk_ = nullptr;
  std::string directory_;
};

INSTANTIATE_TEST_SUITE_P(All, DiskTest,
                         testing::Values(std::pair{"posix", "epoll"}, std::pair{"posix", "uring"},
                                         std::pair{"sim", "epoll"}, std::pair{"sim", "uring"},
                                         std::pair{"sim", "sim"}),
                         [](const auto& test) { return test.param.first + "_on_" + test.param.second; });

TEST_P(DiskTest, WritesAndReadsBack) {
  const std::unique_ptr<File> file = Create("data");
  AlignedBuffer out(64 * 1024);
  AlignedBuffer in(64 * 1024);
  FillPattern(7, 0, out.span());
  EXPECT_TRUE(reactor_->RunTask(WriteFull(file.get(), 8192, out.span(), Soon())).ok());
  EXPECT_TRUE(reactor_->RunTask(SyncFile(file.get())).ok());
  EXPECT_EQ(*file->SizeBlocking(), 8192u + 64 * 1024);
  EXPECT_TRUE(reactor_->RunTask(ReadFull(file.get(), 8192, in.span(), Soon())).ok());
  EXPECT_TRUE(PatternMatches(7, 0, in.span()));
  EXPECT_TRUE(reactor_->RunTask(ReadFull(file.get(), 0, in.span().first(8192), Soon())).ok());
  EXPECT_TRUE(std::all_of(in.data(), in.data() + 8192, [](std::byte b) { return b == std::byte{0}; }));
}

TEST_P(DiskTest, BlockingCallsSeeTheSameBytes) {
  const std::unique_ptr<File> file = Create("data");
  AlignedBuffer buffer(16 * 1024);
  FillPattern(8, 0, buffer.span());
  EXPECT_TRUE(file->WriteBlocking(4096, buffer.span()).ok());
  EXPECT_TRUE(file->SyncBlocking().ok());
  AlignedBuffer in(16 * 1024);
  EXPECT_TRUE(reactor_->RunTask(ReadFull(file.get(), 4096, in.span(), Soon())).ok());
  EXPECT_TRUE(PatternMatches(8, 0, in.span()));
  FillPattern(9, 0, in.span());
  EXPECT_TRUE(reactor_->RunTask(WriteFull(file.get(), 0, in.span(), Soon())).ok());
  EXPECT_TRUE(file->ReadBlocking(0, buffer.span()).ok());
  EXPECT_TRUE(PatternMatches(9, 0, buffer.span()));
}

TEST_P(DiskTest, GatheredWrites) {
  const std::unique_ptr<File> file = Create("data");
  AlignedBuffer out(12 * 4096);
  std::vector<iovec> pieces;
  uint64_t at = 0;
  for (const uint64_t blocks : {1, 5, 2, 4}) {
    pieces.push_back({out.data() + at, blocks * 4096});
    at += blocks * 4096;
  }
  std::reverse(pieces.begin(), pieces.end());
  at = 0;
  for (const iovec& piece : pieces) {
    FillPattern(3, at, {static_cast<std::byte*>(piece.iov_base), piece.iov_len});
    at += piece.iov_len;
  }
  EXPECT_TRUE(reactor_->RunTask(WriteGathered(file.get(), 4096, pieces, Soon())).ok());
  AlignedBuffer in(12 * 4096);
  EXPECT_TRUE(reactor_->RunTask(ReadFull(file.get(), 4096, in.span(), Soon())).ok());
  EXPECT_TRUE(PatternMatches(3, 0, in.span()));
  const std::vector<iovec> too_many(1025, iovec{out.data(), 4096});
  EXPECT_EQ(reactor_->RunTask(WriteGathered(file.get(), 0, too_many, Soon())).code(), Code::kInvalid);
}

TEST_P(DiskTest, TheEndOfAFileIsAnErrorThatNamesIt) {
  const std::unique_ptr<File> file = Create("short");
  AlignedBuffer buffer(8192);
  EXPECT_TRUE(reactor_->RunTask(WriteFull(file.get(), 0, buffer.span().first(4096), Soon())).ok());
  const Status status = reactor_->RunTask(ReadFull(file.get(), 0, buffer.span(), Soon()));
  EXPECT_EQ(status.code(), Code::kIoError);
  EXPECT_NE(status.message().find(Path("short")), std::string::npos) << status.message();
  EXPECT_EQ(file->ReadBlocking(0, buffer.span()).code(), Code::kIoError);
}

TEST_P(DiskTest, APassedDeadlineIsATimeout) {
  const std::unique_ptr<File> file = Create("data");
  AlignedBuffer buffer(4096);
  const Status status = reactor_->RunTask(WriteFull(file.get(), 0, buffer.span(), reactor_->Now() - 1));
  EXPECT_EQ(status.code(), Code::kTimeout);
  EXPECT_EQ(*file->SizeBlocking(), 0u);
}

struct Slots {
  File* file;
  AlignedBuffer* memory;
  std::vector<uint64_t> seeds;  // of each slot's content
  int failures = 0;
  int running = 0;
};

constexpr uint64_t kSlotSize = 8192;

Task<void> UseSlot(Slots* slots, uint64_t slot, uint64_t seed, int rounds) {
  const MutableByteSpan memory = slots->memory->span().subspan(slot * kSlotSize, kSlotSize);
  const Nanos deadline = Reactor::Current()->Now() + 60 * kSecond;
  for (int i = 0; i < rounds; ++i) {
    slots->seeds[slot] = Mix64(seed + static_cast<uint64_t>(i));
    FillPattern(slots->seeds[slot], 0, memory);
    const Status written = co_await WriteFull(slots->file, slot * kSlotSize, memory, deadline);
    if (i % 5 == 0) {
      const Status synced = co_await SyncFile(slots->file);
      if (!synced.ok()) ++slots->failures;
    }
    std::fill(memory.begin(), memory.end(), std::byte{0});
    const Status read = co_await ReadFull(slots->file, slot * kSlotSize, memory, deadline);
    if (!written.ok() || !read.ok() || !PatternMatches(slots->seeds[slot], 0, memory)) ++slots->failures;
  }
  --slots->running;
}

TEST_P(DiskTest, ManyConcurrentTransfersKeepTheirBytesApart) {
  const uint64_t seed = SeedFromSystem();
  SCOPED_TRACE(seed);
  if (sim_ != nullptr) {
    SimFaults faults;
    faults.delay_max = 50'000;
    faults.short_transfer = 0.2;
    sim_->set_faults(faults);
  }
  const std::unique_ptr<File> file = Create("data");
  constexpr uint64_t kSlots = 64;
  ASSERT_TRUE(file->ResizeBlocking(kSlots * kSlotSize, true).ok());
  AlignedBuffer memory(kSlots * kSlotSize);
  Slots slots{file.get(), &memory, std::vector<uint64_t>(kSlots), 0, static_cast<int>(kSlots)};
  for (uint64_t slot = 0; slot < kSlots; ++slot) {
    reactor_->QueueReady(UseSlot(&slots, slot, Mix64(seed + slot), 10).Release());
  }
  EXPECT_TRUE(reactor_->RunUntil([&] { return slots.running == 0; }, Soon()));
  EXPECT_EQ(slots.failures, 0);
}

TEST_P(DiskTest, ResizeReserveAndNoSpace) {
  const std::unique_ptr<File> file = Create("data");
  EXPECT_TRUE(file->ResizeBlocking(1 << 20, false).ok());
  EXPECT_EQ(*file->SizeBlocking(), 1u << 20);
  EXPECT_TRUE(file->DataRangesBlocking()->empty());
  EXPECT_TRUE(file->ResizeBlocking(2 << 20, true).ok());
  EXPECT_EQ(*file->SizeBlocking(), 2u << 20);
  const Result<DiskSpace> space = disk_->Space(directory_);
  ASSERT_TRUE(space.ok());
  EXPECT_GT(space->total, 0u);
  EXPECT_LE(space->available, space->total);
  const Status status = file->ResizeBlocking(space->total * 2, true);
  EXPECT_EQ(status.code(), Code::kNoSpace);
  for (const std::string& piece : {Path("data"), FormatBytes(space->total * 2), std::string("available")}) {
    EXPECT_NE(status.message().find(piece), std::string::npos) << status.message();
  }
  EXPECT_EQ(*file->SizeBlocking(), 2u << 20);
  EXPECT_TRUE(file->ResizeBlocking(4096, true).ok());
  EXPECT_EQ(*file->SizeBlocking(), 4096u);
}

TEST_P(DiskTest, DataRangesCoverWhatWasWrittenAndPunchTakesItBack) {
  const std::unique_ptr<File> file = Create("data");
  ASSERT_TRUE(file->ResizeBlocking(64 << 20, false).ok());
  AlignedBuffer buffer(8192);
  FillPattern(5, 0, buffer.span());
  ASSERT_TRUE(file->WriteBlocking(4 << 20, buffer.span()).ok());
  ASSERT_TRUE(file->WriteBlocking(32 << 20, buffer.span()).ok());
  Result<std::vector<DataRange>> ranges = file->DataRangesBlocking();
  ASSERT_TRUE(ranges.ok());
  uint64_t covered = 0;
  const auto contains = [&](uint64_t at) {
    return std::any_of(ranges->begin(), ranges->end(),
                       [&](const DataRange& range) { return range.begin <= at && at + 8192 <= range.end; });
  };
  for (const DataRange& range : *ranges) {
    EXPECT_LT(range.begin, range.end);
    covered += range.end - range.begin;
  }
  EXPECT_TRUE(contains(4 << 20));
  EXPECT_TRUE(contains(32 << 20));
  EXPECT_LT(covered, 8u << 20);  // a search for records does not read the holes
  EXPECT_TRUE(file->PunchBlocking(4 << 20, 8192).ok());
  EXPECT_EQ(*file->SizeBlocking(), 64u << 20);
  EXPECT_TRUE(file->ReadBlocking(4 << 20, buffer.span()).ok());
  EXPECT_TRUE(
      std::all_of(buffer.data(), buffer.data() + 8192, [](std::byte b) { return b == std::byte{0}; }));
  EXPECT_TRUE(file->ReadBlocking(32 << 20, buffer.span()).ok());
  EXPECT_TRUE(PatternMatches(5, 0, buffer.span()));
}

TEST_P(DiskTest, NamesAndDirectories) {
  OpenOptions options;
  EXPECT_EQ(disk_->Open(Path("none"), options).code(), Code::kNotFound);
  options.create = true;
  EXPECT_EQ(disk_->Open(Path("no/such/directory"), options).code(), Code::kNotFound);
  EXPECT_TRUE(disk_->MakeDirectories(Path("a/b/c")).ok());
  EXPECT_TRUE(disk_->MakeDirectories(Path("a/b/c")).ok());
  Create("z");
  Create("a/b/file");
  EXPECT_EQ(*disk_->List(directory_), (std::vector<std::string>{"a", "z"}));
  EXPECT_EQ(*disk_->List(Path("a/b")), (std::vector<std::string>{"c", "file"}));
  EXPECT_EQ(disk_->List(Path("none")).code(), Code::kNotFound);
  EXPECT_EQ(disk_->MakeDirectories(Path("z/under-a-file")).code(), Code::kIoError);
  AlignedBuffer buffer(4096);
  FillPattern(1, 0, buffer.span());
  ASSERT_TRUE(Create("z")->WriteBlocking(0, buffer.span()).ok());
  EXPECT_TRUE(disk_->Rename(Path("z"), Path("a/b/file")).ok());  // replaces
  EXPECT_EQ(*disk_->List(directory_), (std::vector<std::string>{"a"}));
  EXPECT_EQ(*Create("a/b/file")->SizeBlocking(), 4096u);
  EXPECT_EQ(disk_->Rename(Path("z"), Path("y")).code(), Code::kNotFound);
  EXPECT_TRUE(disk_->Remove(Path("a/b/file")).ok());
  EXPECT_EQ(disk_->Remove(Path("a/b/file")).code(), Code::kNotFound);
  EXPECT_EQ(*disk_->List(Path("a/b")), (std::vector<std::string>{"c"}));
}

TEST_P(DiskTest, AFileThatIsOpenOutlivesItsName) {
  const std::unique_ptr<File> file = Create("data");
  AlignedBuffer buffer(4096);
  FillPattern(1, 0, buffer.span());
  ASSERT_TRUE(file->WriteBlocking(0, buffer.span()).ok());
  ASSERT_TRUE(disk_->Remove(Path("data")).ok());
  EXPECT_TRUE(file->ReadBlocking(0, buffer.span()).ok());
  EXPECT_TRUE(PatternMatches(1, 0, buffer.span()));
  EXPECT_EQ(*Create("data")->SizeBlocking(), 0u);
}

TEST_P(DiskTest, ReadOnlyFilesRefuseWrites) {
  AlignedBuffer buffer(4096);
  ASSERT_TRUE(Create("data")->WriteBlocking(0, buffer.span()).ok());
  OpenOptions options;
  options.read_only = true;
  options.direct = true;
  const Result<std::unique_ptr<File>> file = disk_->Open(Path("data"), options);
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE((*file)->ReadBlocking(0, buffer.span()).ok());
  EXPECT_EQ((*file)->WriteBlocking(0, buffer.span()).code(), Code::kIoError);
  EXPECT_EQ(reactor_->RunTask(WriteFull(file->get(), 0, buffer.span(), Soon())).code(), Code::kIoError);
}

TEST_P(DiskTest, ADirectoryIsLockedOnceAndByName) {
  Result<std::unique_ptr<DirectoryLock>> first = disk_->Lock(directory_);
  ASSERT_TRUE(first.ok()) << first.status().message();
  const Result<std::unique_ptr<DirectoryLock>> second = disk_->Lock(directory_);
  EXPECT_EQ(second.code(), Code::kLocked);
  EXPECT_NE(second.status().message().find(Cat("process ", getpid())), std::string::npos)
      << second.status().message();
  EXPECT_NE(second.status().message().find(directory_), std::string::npos);
  first->reset();
  EXPECT_TRUE(disk_->Lock(directory_).ok());
  EXPECT_EQ(disk_->Lock(Path("none")).code(), Code::kIoError);
}

}  // namespace
}  // namespace dfkv::io
