// The choice between io_uring and epoll, on a thread where the kernel refuses io_uring.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>

#include "base/log.h"
#include "base/sync.h"
#include "io/reactor.h"

namespace dfkv::io {
namespace {

// From now on io_uring_setup gives EPERM to the calling thread. False: the system forbids even this.
bool ForbidUringOnThisThread() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{4, filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

Task<int> Seven() {
  co_await Reactor::Current()->Yield();
  co_return 7;
}

TEST(MakeReactorTest, ARefusedRingIsAClearErrorOrEpoll) {
  std::string log;
  SetLogSink([&](LogLevel, std::string_view line) { log += line; });
  bool forbidden = false;
  Thread thread("refused", [&] {
    forbidden = ForbidUringOnThisThread();
    if (!forbidden) return;
    ReactorOptions options;
    options.kind = ReactorKind::kUring;
    const Result<std::unique_ptr<Reactor>> refused = MakeReactor(options);
    EXPECT_EQ(refused.code(), Code::kUnavailable);
    EXPECT_NE(refused.status().message().find("kernel.io_uring_disabled"), std::string::npos)
        << refused.status().message();
    EXPECT_TRUE(log.empty());
    options.kind = ReactorKind::kAuto;
    const Result<std::unique_ptr<Reactor>> made = MakeReactor(options);
    ASSERT_TRUE(made.ok());
    EXPECT_EQ((*made)->name(), "epoll");
    EXPECT_EQ((*made)->RunTask(Seven()), 7);
    EXPECT_NE(log.find("using epoll"), std::string::npos) << log;
  });
  thread.Join();
  SetLogSink(nullptr);
  if (!forbidden) GTEST_SKIP() << "NOT TESTED: the system grants no seccomp filter";
}

TEST(MakeReactorTest, EpollByName) {
  ReactorOptions options;
  options.kind = ReactorKind::kEpoll;
  const Result<std::unique_ptr<Reactor>> made = MakeReactor(options);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ((*made)->name(), "epoll");
}

}  // namespace
}  // namespace dfkv::io
