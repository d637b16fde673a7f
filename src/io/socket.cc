#include "io/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <cerrno>
#include <cstring>

#include "base/clock.h"
#include "base/fault.h"
#include "base/sync.h"
#include "base/text.h"

namespace dfkv::io {
namespace {

Status SystemFailure(std::string_view what, int error) {
  return Status(Code::kUnavailable, Cat(what, ": ", ErrnoText(error)));
}

const sockaddr_in& AsV4(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr_in&>(address.storage);
}
const sockaddr_in6& AsV6(const SocketAddress& address) {
  return reinterpret_cast<const sockaddr_in6&>(address.storage);
}

void SetFlag(int fd, int level, int option) {
  const int on = 1;
  setsockopt(fd, level, option, &on, sizeof on);
}

}  // namespace

uint16_t SocketAddress::port() const {
  if (family() == AF_INET) return ntohs(AsV4(*this).sin_port);
  if (family() == AF_INET6) return ntohs(AsV6(*this).sin6_port);
  return 0;
}

bool SocketAddress::IsLoopback() const {
  if (family() == AF_INET) return ntohl(AsV4(*this).sin_addr.s_addr) >> 24 == 127;
  if (family() != AF_INET6) return false;
  const in6_addr& ip = AsV6(*this).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&ip) || (IN6_IS_ADDR_V4MAPPED(&ip) && ip.s6_addr[12] == 127);
}

std::string SocketAddress::ToString() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (family() == AF_INET) {
    inet_ntop(AF_INET, &AsV4(*this).sin_addr, text, sizeof text);
    return Cat(text, ":", port());
  }
  if (family() == AF_INET6) {
    inet_ntop(AF_INET6, &AsV6(*this).sin6_addr, text, sizeof text);
    return Cat("[", text, "]:", port());
  }
  return "(no address)";
}

Result<SocketAddress> MakeSocketAddress(std::string_view ip, uint16_t port) {
  if (ip.size() >= 2 && ip.front() == '[' && ip.back() == ']') ip = ip.substr(1, ip.size() - 2);
  const std::string text(ip);  // inet_pton wants an end
  SocketAddress address;
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  if (inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&address.storage, &v4, sizeof v4);
    address.size = sizeof v4;
    return address;
  }
  if (inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&address.storage, &v6, sizeof v6);
    address.size = sizeof v6;
    return address;
  }
  return Status(Code::kInvalid, Cat("'", ip, "' is not an IPv4 or IPv6 address"));
}

Result<SocketAddress> ParseSocketAddress(std::string_view text) {
  const size_t colon = text.rfind(':');
  const Status invalid(Code::kInvalid,
                       Cat("'", text, "' is not an address like 127.0.0.1:9000 or [::1]:9000"));
  if (colon == std::string_view::npos || colon == 0) return invalid;
  const std::string_view ip = text.substr(0, colon);
  const bool bracketed = ip.front() == '[';
  if (bracketed != (ip.find(':') != std::string_view::npos)) return invalid;  // IPv6 stands in brackets
  const std::string_view digits = text.substr(colon + 1);
  const Result<uint64_t> port = ParseUint(digits);
  if (!port.ok() || *port > 65535) return invalid;
  Result<SocketAddress> address = MakeSocketAddress(ip, static_cast<uint16_t>(*port));
  if (!address.ok()) return invalid;
  return address;
}

namespace {

Result<UniqueFd> ListenOnce(const SocketAddress& address, const ListenOptions& options, bool* in_use) {
  UniqueFd fd(socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const std::string what = Cat("listening on ", address.ToString());
  if (!fd.valid()) return SystemFailure(what, errno);
  SetFlag(fd.get(), SOL_SOCKET, SO_REUSEADDR);
  if (options.reuse_port) SetFlag(fd.get(), SOL_SOCKET, SO_REUSEPORT);
  const bool bound = bind(fd.get(), address.get(), address.size) == 0;
  if (bound && listen(fd.get(), options.backlog) == 0) return fd;
  *in_use = errno == EADDRINUSE;
  return SystemFailure(what, errno);
}

}  // namespace

Result<UniqueFd> Listen(const SocketAddress& address, const ListenOptions& options) {
  const Nanos until = SystemClock().Now() + options.in_use_wait;
  Mutex mutex;
  CondVar nobody;  // notifies: it only lets time pass
  for (;;) {
    bool in_use = false;
    Result<UniqueFd> listener = ListenOnce(address, options, &in_use);
    if (!in_use || SystemClock().Now() >= until) return listener;
    DFKV_SYNC_POINT("io.listen_in_use");
    MutexLock lock(mutex);
    (void)nobody.WaitFor(mutex, 10 * kMillisecond);
  }
}

Result<UniqueFd> MakeStreamSocket(int family) {
  UniqueFd fd(socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return SystemFailure("making a socket", errno);
  SetNoDelay(fd.get());
  return fd;
}

Result<SocketAddress> BoundAddress(int fd) {
  SocketAddress address;
  address.size = sizeof address.storage;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0) {
    return SystemFailure("the address of a socket", errno);
  }
  return address;
}

Result<SocketAddress> PeerAddress(int fd) {
  SocketAddress address;
  address.size = sizeof address.storage;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0) {
    return SystemFailure("the address of a peer", errno);
  }
  return address;
}

void SetNoDelay(int fd) {
  SetFlag(fd, IPPROTO_TCP, TCP_NODELAY);
}

int64_t RecvNow(int fd, const iovec* iov, uint32_t count) {
  for (;;) {
    ssize_t result;
    if (count == 1) {
      result = recv(fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT);
    } else {
      msghdr message{};
      message.msg_iov = const_cast<iovec*>(iov);
      message.msg_iovlen = count;
      result = recvmsg(fd, &message, MSG_DONTWAIT);
    }
    if (result >= 0) return result;
    if (errno != EINTR) return -errno;
  }
}

int64_t SendNow(int fd, const iovec* iov, uint32_t count) {
  for (;;) {
    ssize_t result;
    if (count == 1) {
      result = send(fd, iov->iov_base, iov->iov_len, MSG_DONTWAIT | MSG_NOSIGNAL);
    } else {
      msghdr message{};
      message.msg_iov = const_cast<iovec*>(iov);
      message.msg_iovlen = count;
      result = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    }
    if (result >= 0) return result;
    if (errno != EINTR) return -errno;
  }
}

int AcceptNow(int fd) {
  for (;;) {
    const int accepted = accept4(fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (accepted >= 0) return accepted;
    if (errno != EINTR && errno != ECONNABORTED) return -errno;
  }
}

}  // namespace dfkv::io
