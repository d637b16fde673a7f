#include "io/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <utility>

#include "base/text.h"
#include "io/fd.h"

namespace dfkv::io {
namespace {

constexpr uint64_t kHugePage = 2ull << 20;
constexpr uint64_t kPage = 4096;

uint64_t ReadNumber(const char* path, uint64_t otherwise) {
  std::ifstream file(path);
  uint64_t value = 0;
  return file >> value ? value : otherwise;  // "max" is not a number
}

// The memory that this process can still take: the system's, or its control group's where that is less.
uint64_t AvailableMemory() {
  uint64_t available = UINT64_MAX;
  std::ifstream info("/proc/meminfo");
  std::string name;
  uint64_t kib = 0;
  std::string unit;
  while (info >> name >> kib && std::getline(info, unit)) {
    if (name == "MemAvailable:") available = kib * 1024;
  }
  const uint64_t limit = ReadNumber("/sys/fs/cgroup/memory.max", UINT64_MAX);
  const uint64_t used = ReadNumber("/sys/fs/cgroup/memory.current", 0);
  return std::min(available, limit > used ? limit - used : 0);
}

// A shared mapping whose start is aligned to a huge page, or null.
std::byte* MapAligned(int fd, uint64_t size) {
  const uint64_t room = size + kHugePage;
  void* reserved = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<uintptr_t>(reserved);
  const uintptr_t aligned = AlignUp(begin, kHugePage);
  const uintptr_t end = AlignUp(aligned + size, kPage);
  void* mapped =
      mmap(reinterpret_cast<void*>(aligned), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  if (mapped == MAP_FAILED) {
    munmap(reserved, room);
    return nullptr;
  }
  if (aligned > begin) munmap(reserved, aligned - begin);
  if (end < begin + room) munmap(reinterpret_cast<void*>(end), begin + room - end);
  return static_cast<std::byte*>(mapped);
}

// False: out of memory.
bool Populate(std::byte* data, uint64_t size, int fd) {
#if defined(MADV_POPULATE_WRITE)
  int error = 0;
  do {
    error = madvise(data, size, MADV_POPULATE_WRITE) == 0 ? 0 : errno;
  } while (error == EAGAIN || error == EINTR);
  if (error == 0) return true;
  if (error != EINVAL) return false;
#endif
  if (fallocate(fd, 0, 0, static_cast<off_t>(size)) != 0) return false;  // so that a touch cannot fault
  for (uint64_t at = 0; at < size; at += kPage) static_cast<volatile std::byte*>(data)[at] = std::byte{0};
  return true;
}

}  // namespace

Result<Region> Region::Make(const std::string& name, uint64_t size, const RegionOptions& options) {
  if (size == 0) return Status(Code::kInvalid, Cat(name, ": a region of 0 bytes"));
  const uint64_t available = AvailableMemory();
  const auto no_space = [&] {
    return Status(Code::kNoSpace, Cat(name, ": ", FormatBytes(size), " of memory wanted, ",
                                      FormatBytes(available), " available"));
  };
  if (size > available || size > uint64_t{1} << 47) return no_space();
  UniqueFd fd(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return Status(Code::kIoError, Cat(name, ": memfd_create: ", ErrnoText(errno)));
  const uint64_t file_size = AlignUp(size, kPage);
  if (ftruncate(fd.get(), static_cast<off_t>(file_size)) != 0) return no_space();
  // Whoever is handed the descriptor can rely on its size.
  fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  Region region;
  region.data_ = MapAligned(fd.get(), file_size);
  if (region.data_ == nullptr) return no_space();
  region.size_ = size;
  region.fd_ = fd.Release();
  if (options.huge_pages) madvise(region.data_, file_size, MADV_HUGEPAGE);
  if (options.populate) DFKV_RETURN_IF_ERROR(region.PopulateBlocking());
  return Result<Region>(std::move(region));
}

Status Region::PopulateBlocking() {
  if (Populate(data_, AlignUp(size_, kPage), fd_)) return Ok();
  return {Code::kNoSpace, Cat("a region of ", FormatBytes(size_), ": the system's memory ran out, with ",
                              FormatBytes(AvailableMemory()), " available")};
}

Region::Region(Region&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      fd_(std::exchange(other.fd_, -1)) {}

Region& Region::operator=(Region&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(fd_, other.fd_);
  return *this;
}

Region::~Region() {
  if (data_ != nullptr) munmap(data_, AlignUp(size_, kPage));
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace dfkv::io
