// For tests of this layer: every suite runs on each reactor that the system grants.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "io/reactor.h"

namespace dfkv::io {

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

  static Result<std::unique_ptr<Reactor>> Make(const std::string& name) {
    ReactorOptions options;
    options.kind = name == "uring" ? ReactorKind::kUring : ReactorKind::kEpoll;
    return MakeReactor(options);
  }

  std::unique_ptr<Reactor> reactor_;
};

inline std::string ReactorName(const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

}  // namespace dfkv::io
