#include "io/region.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/text.h"
#include "io/disk.h"
#include "io/fd.h"

namespace dfkv::io {
namespace {

TEST(RegionTest, IsZeroAlignedSharedAndOfOneSize) {
  for (const bool populate : {true, false}) {
    RegionOptions options;
    options.populate = populate;
    Result<Region> region = Region::Make("test", (3 << 20) + 1, options);
    ASSERT_TRUE(region.ok()) << region.status().message();
    EXPECT_EQ(region->size(), (3u << 20) + 1);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(region->data()) % (2 << 20), 0u);
    EXPECT_TRUE(std::all_of(region->data(), region->data() + region->size(),
                            [](std::byte b) { return b == std::byte{0}; }));
    region->data()[region->size() - 1] = std::byte{7};
    struct stat info {};
    ASSERT_EQ(fstat(region->fd(), &info), 0);
    void* other = mmap(nullptr, region->size(), PROT_READ, MAP_SHARED, region->fd(), 0);
    ASSERT_NE(other, MAP_FAILED);
    EXPECT_EQ(static_cast<std::byte*>(other)[region->size() - 1], std::byte{7});
    munmap(other, region->size());
    EXPECT_NE(ftruncate(region->fd(), 0), 0);  // sealed: no peer can take the bytes away
    EXPECT_NE(fcntl(region->fd(), F_GETFD) & FD_CLOEXEC, 0);
  }
}

TEST(RegionTest, PopulatedPagesAreThere) {
  Result<Region> region = Region::Make("test", 4 << 20, {});
  ASSERT_TRUE(region.ok());
  std::vector<unsigned char> resident(1024);
  ASSERT_EQ(mincore(region->data(), 4 << 20, resident.data()), 0);
  EXPECT_EQ(std::count_if(resident.begin(), resident.end(), [](unsigned char c) { return (c & 1) != 0; }),
            1024);
}

TEST(RegionTest, MovesLeaveNothingBehind) {
  Result<Region> made = Region::Make("test", 4096, {});
  ASSERT_TRUE(made.ok());
  Region first = std::move(*made);
  EXPECT_EQ(made->data(), nullptr);
  Region second;
  second = std::move(first);
  second.data()[0] = std::byte{1};
  EXPECT_EQ(second.size(), 4096u);
}

TEST(RegionTest, TooMuchNamesWhatIsWantedAndWhatThereIs) {
  for (const uint64_t size : {uint64_t{1} << 46, UINT64_MAX - 5}) {
    const Result<Region> region = Region::Make("arena", size, {});
    ASSERT_EQ(region.code(), Code::kNoSpace);
    for (const std::string& piece : {std::string("arena"), FormatBytes(size), std::string("available")}) {
      EXPECT_NE(region.status().message().find(piece), std::string::npos) << region.status().message();
    }
  }
  EXPECT_EQ(Region::Make("arena", 0, {}).code(), Code::kInvalid);
}

TEST(UniqueFdTest, ClosesOnce) {
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
  UniqueFd read_end(fds[0]);
  UniqueFd write_end(fds[1]);
  write_end = std::move(read_end);
  EXPECT_FALSE(read_end.valid());
  EXPECT_EQ(fcntl(fds[1], F_GETFD), -1);
  EXPECT_NE(fcntl(fds[0], F_GETFD), -1);
  EXPECT_EQ(write_end.Release(), fds[0]);
  ::close(fds[0]);
}

// A process that dies leaves its lock to others; while it lives, the refusal names it.
TEST(DirectoryLockTest, AnotherProcessHoldsIt) {
  std::string directory = testing::TempDir() + "dfkv-lock-XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  int ready[2];
  ASSERT_EQ(pipe2(ready, O_CLOEXEC), 0);
  const UniqueFd ready_in(ready[0]);
  UniqueFd ready_out(ready[1]);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const Result<std::unique_ptr<DirectoryLock>> lock = PosixDisk().Lock(directory);
    const char answer = lock.ok() ? 'y' : 'n';
    (void)!write(ready_out.get(), &answer, 1);
    pause();
    _exit(0);
  }
  ready_out.Reset();
  char answer = '?';
  EXPECT_EQ(read(ready_in.get(), &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  const Result<std::unique_ptr<DirectoryLock>> refused = PosixDisk().Lock(directory);
  EXPECT_EQ(refused.code(), Code::kLocked);
  EXPECT_NE(refused.status().message().find(Cat("process ", child)), std::string::npos)
      << refused.status().message();
  kill(child, SIGKILL);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(PosixDisk().Lock(directory).ok());
  EXPECT_TRUE(PosixDisk().Remove(directory + "/LOCK").ok());
  EXPECT_TRUE(PosixDisk().Remove(directory).ok());
}

}  // namespace
}  // namespace dfkv::io
