// Sockets: addresses as text, listening and connecting descriptors, transfers that never wait.
#pragma once

#include <sys/socket.h>
#include <sys/uio.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"
#include "io/fd.h"

namespace dfkv::io {

// An IPv4 or IPv6 address with its port. A value.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  uint16_t port() const;
  bool IsLoopback() const;
  std::string ToString() const;  // "127.0.0.1:80", "[::1]:80"
};

// "127.0.0.1:9000", "[::1]:9000"; port 0 is allowed. Invalid names the text: no name is resolved here.
Result<SocketAddress> ParseSocketAddress(std::string_view text);
// The same with the port apart; `ip` may stand in brackets.
Result<SocketAddress> MakeSocketAddress(std::string_view ip, uint16_t port);

struct ListenOptions {
  int backlog = 1024;
  bool reuse_port = false;  // several listeners share the port, and the system spreads connections over them
  Nanos in_use_wait = 0;    // how long an address that is in use is tried again
};

// A listening, non-blocking descriptor with SO_REUSEADDR. Port 0 takes a free one: BoundAddress names it.
// Unavailable names the address and the reason. Blocks for up to in_use_wait: the port of a process that was
// killed is free only when the kernel has taken its io_uring down, some time after the process is gone.
Result<UniqueFd> Listen(const SocketAddress& address, const ListenOptions& options = {});
// A non-blocking stream socket with TCP_NODELAY for Op::Kind::kConnect.
Result<UniqueFd> MakeStreamSocket(int family);

Result<SocketAddress> BoundAddress(int fd);
Result<SocketAddress> PeerAddress(int fd);

// TCP_NODELAY; does nothing on other sockets. Accepted descriptors need it.
void SetNoDelay(int fd);

// Bytes moved, 0 at end of stream (RecvNow), -EAGAIN when nothing can be moved now, or another -errno. No
// SIGPIPE, no waiting, whatever the mode of the descriptor.
int64_t RecvNow(int fd, const iovec* iov, uint32_t count);
int64_t SendNow(int fd, const iovec* iov, uint32_t count);
// A connected, non-blocking, close-on-exec descriptor, -EAGAIN, or another -errno. `fd` is non-blocking.
int AcceptNow(int fd);

}  // namespace dfkv::io
