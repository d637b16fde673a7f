// For tests of this layer: every suite runs on each reactor that the system grants.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "io/reactor.h"
#include "io/reactor_sim.h"

namespace dfkv::io {

inline Result<std::unique_ptr<Reactor>> MakeTestReactor(const std::string& name) {
  if (name == "sim") return Result<std::unique_ptr<Reactor>>(std::make_unique<SimReactor>());
  ReactorOptions options;
  options.kind = name == "uring" ? ReactorKind::kUring : ReactorKind::kEpoll;
  return MakeReactor(options);
}

// Parameter: "epoll", "uring" or "sim". A suite that needs sockets leaves out sim.
class OnReactor : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<Reactor>> made = Make(GetParam());
    if (!made.ok() && GetParam() == "uring" && made.code() == Code::kUnavailable) {
      GTEST_SKIP() << "NOT TESTED ON IO_URING: " << made.status().message();
    }
    ASSERT_TRUE(made.ok()) << made.status().message();
    reactor_ = std::move(*made);
  }

  static Result<std::unique_ptr<Reactor>> Make(const std::string& name) { return MakeTestReactor(name); }

  // For waits that another thread ends: virtual time would run past any limit meanwhile.
  Nanos InRealTime(Nanos after) const { return GetParam() == "sim" ? kNever : reactor_->Now() + after; }

  std::unique_ptr<Reactor> reactor_;
};

inline std::string ReactorName(const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

}  // namespace dfkv::io
