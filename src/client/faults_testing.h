// What tests of faults share: a port that never answers, scripts of a fake node, memory with guards.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "base/text.h"
#include "client/fake_node.h"

namespace dfkv::client {

// A port that takes connections and never says a word: the system answers for a process that is stopped.
class SilentPort {
 public:
  explicit SilentPort(int backlog = 64) {
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address_), sizeof address_), 0);
    EXPECT_EQ(listen(fd_, backlog), 0);
    socklen_t size = sizeof address_;
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address_), &size), 0);
  }
  ~SilentPort() {
    close(fd_);
    for (const int fd : fillers_) close(fd);
  }
  // Fills the queue of connections: further attempts get no answer at all, as from a black hole.
  void Fill() {
    for (int i = 0; i < 4; ++i) {
      const int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      (void)connect(fd, reinterpret_cast<const sockaddr*>(&address_), sizeof address_);
      fillers_.push_back(fd);
    }
  }
  std::string address() const { return Cat("127.0.0.1:", ntohs(address_.sin_port)); }

 private:
  int fd_ = -1;
  sockaddr_in address_{};
  std::vector<int> fillers_;
};

// Runs the script's action on the first `count` requests of `op`.
inline FakeNode::Script First(wire::Op op, int count, FakeAction action) {
  auto left = std::make_shared<std::atomic<int>>(count);
  return [=](const wire::RequestView& request) {
    return request.op() == op && left->fetch_sub(1) > 0 ? action : FakeAction::kAnswer;
  };
}

// Memory with guards around it, to see that nothing is written past a buffer or after a call.
struct Guarded {
  explicit Guarded(size_t size) : bytes(size + 128, std::byte{0xAA}), piece(bytes.data() + 64, size) {}
  std::vector<std::byte> bytes;
  MutableByteSpan piece;
  bool guards_whole() const {
    const auto whole = [](ByteSpan span) {
      return std::all_of(span.begin(), span.end(), [](std::byte b) { return b == std::byte{0xAA}; });
    };
    return whole(ByteSpan(bytes).first(64)) && whole(ByteSpan(bytes).last(64));
  }
};

}  // namespace dfkv::client
