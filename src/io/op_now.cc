#include "io/op_now.h"

#include <fcntl.h>

#include <cerrno>

#include "io/socket.h"

namespace dfkv::io {
namespace {

int64_t ConnectOutcome(int fd) {
  int error = 0;
  socklen_t size = sizeof error;
  if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return -errno;
  return -error;
}

}  // namespace

int64_t TryNow(const Op& op) {
  switch (op.kind) {
    case Op::Kind::kRecv:
      return RecvNow(op.fd, op.iov, op.iov_count);
    case Op::Kind::kSend:
      return SendNow(op.fd, op.iov, op.iov_count);
    case Op::Kind::kAccept:
      return AcceptNow(op.fd);
    case Op::Kind::kConnect:
      return ConnectOutcome(op.fd);
    default:
      return 0;  // kReadable, kWritable: being ready is all
  }
}

int64_t StartConnect(const Op& op) {
  const int flags = fcntl(op.fd, F_GETFL);
  if (flags < 0) return -errno;
  if ((flags & O_NONBLOCK) == 0) fcntl(op.fd, F_SETFL, flags | O_NONBLOCK);
  if (connect(op.fd, op.address, op.address_size) == 0) return 0;
  return errno == EINTR ? -EINPROGRESS : -errno;
}

}  // namespace dfkv::io
