#include "bench/floor/common.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/text.h"

namespace dfkv::floor {

void Fail(std::string_view what) {
  std::fprintf(stderr, "floor: %.*s: %s\n", static_cast<int>(what.size()), what.data(),
               ErrnoText(errno).c_str());
  std::_Exit(1);
}

int64_t Must(int64_t result, std::string_view what) {
  if (result < 0) Fail(what);
  return result;
}

Memory::Memory(uint64_t size_bytes, Sharing sharing)
    : size_(AlignUp(std::max<uint64_t>(size_bytes, 1), 4096)) {
  const int flags = (sharing == Sharing::kShared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS;
  void* mapped = mmap(nullptr, size_, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (mapped == MAP_FAILED) Fail("mmap");
  data_ = static_cast<std::byte*>(mapped);
  madvise(mapped, size_, MADV_HUGEPAGE);  // works without
  std::memset(data_, 0xA5, size_);
}

Memory::Memory(Memory&& other) noexcept : data_(other.data_), size_(other.size_) {
  other.data_ = nullptr;
}

Memory::~Memory() {
  if (data_ != nullptr) munmap(data_, size_);
}

Shared& MakeShared() {
  static Memory memory(sizeof(Shared), Memory::Sharing::kShared);
  return *new (memory.data()) Shared;
}

namespace {

int Listen(sockaddr_in* address) {
  const int listener = static_cast<int>(Must(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket"));
  *address = {};
  address->sin_family = AF_INET;
  address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof *address;
  auto* generic = reinterpret_cast<sockaddr*>(address);
  Must(bind(listener, generic, length), "bind");
  Must(listen(listener, 1024), "listen");
  Must(getsockname(listener, generic, &length), "getsockname");
  return listener;
}

void NoDelay(int socket) {
  const int on = 1;
  Must(setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), "TCP_NODELAY");
}

[[noreturn]] void RunServer(int listener, uint32_t connections, const Side& server, Shared& shared) {
  std::vector<int> sockets;
  for (uint32_t i = 0; i < connections; ++i) {
    sockets.push_back(static_cast<int>(Must(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC), "accept")));
    NoDelay(sockets.back());
  }
  server(sockets, shared);
  std::_Exit(0);
}

}  // namespace

void RunPair(uint32_t connections, const Side& server, const Side& client, Shared& shared) {
  sockaddr_in address;
  const int listener = Listen(&address);
  const pid_t child = static_cast<pid_t>(Must(fork(), "fork"));
  if (child == 0) RunServer(listener, connections, server, shared);
  std::vector<int> sockets;
  for (uint32_t i = 0; i < connections; ++i) {
    sockets.push_back(static_cast<int>(Must(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), "socket")));
    Must(connect(sockets.back(), reinterpret_cast<sockaddr*>(&address), sizeof address), "connect");
    NoDelay(sockets.back());
  }
  client(sockets, shared);
  for (const int socket : sockets) close(socket);  // what has not been read resets a blocked sender
  int status = 0;
  Must(waitpid(child, &status, 0), "waitpid");
  close(listener);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    std::fprintf(stderr, "floor: the serving process failed\n");
    std::_Exit(1);
  }
}

double Samples::Percentile(double percent) {
  if (nanos_.empty()) return 0;
  const auto rank = static_cast<size_t>(percent / 100 * static_cast<double>(nanos_.size() - 1));
  const auto at = nanos_.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(nanos_.begin(), at, nanos_.end());
  return *at / 1e3;
}

Json& Json::Add(std::string_view name, std::string_view text) {
  text_ += Cat(text_.empty() ? "" : ", ", '"', name, "\": \"", text, '"');
  return *this;
}

Json& Json::Add(std::string_view name, double value) {
  text_ += Cat(text_.empty() ? "" : ", ", '"', name, "\": ");
  text_ += std::isfinite(value) ? Cat(value) : "null";  // a ratio to nothing
  return *this;
}

void Json::Print() const {
  std::printf("{%s}\n", text_.c_str());
}

void RegisterTime(OptionSet* set, TimeOptions* options) {
  set->Group("Time");
  set->Add("seconds", &options->seconds, "How long to count.").RealRange(0.01, 600);
  set->Add("warm-up", &options->warm_up_seconds, "Seconds before that, not counted.").RealRange(0, 60);
}

namespace {

void WaitSeconds(double seconds) {
  const int timer = static_cast<int>(Must(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC), "timerfd_create"));
  itimerspec when = {};
  const auto nanos = std::max<int64_t>(1, static_cast<int64_t>(seconds * 1e9));
  when.it_value.tv_sec = nanos / kSecond;
  when.it_value.tv_nsec = nanos % kSecond;
  Must(timerfd_settime(timer, 0, &when, nullptr), "timerfd_settime");
  uint64_t fired = 0;
  Must(read(timer, &fired, sizeof fired), "timerfd");
  close(timer);
}

}  // namespace

double KeepTime(const TimeOptions& options, Shared& shared, CpuMeter& meter) {
  WaitSeconds(options.warm_up_seconds);
  const Nanos start = SystemClock().Now();
  shared.go.store(true, std::memory_order_release);
  meter.StartOnGo(shared);
  WaitSeconds(options.seconds);
  shared.stop.store(true, std::memory_order_release);
  return static_cast<double>(SystemClock().Now() - start) * 1e-9;
}

}  // namespace dfkv::floor
