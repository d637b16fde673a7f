// Full transfers over any File, piece by piece.
#include "io/disk.h"

#include <algorithm>
#include <cerrno>

#include "base/text.h"

namespace dfkv::io {
namespace {

constexpr size_t kPiecesMax = 1024;  // IOV_MAX

struct FileAwaiter {
  File* file;
  Op* op;
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<> handle) const {
    op->waiter = handle;
    file->Submit(*Reactor::Current(), op);
  }
  int64_t await_resume() const { return op->result; }
};

// What a transfer that ended early means. `result`: 0 or -errno.
Status Failure(const File& file, std::string_view verb, uint64_t offset, uint64_t size, int64_t result) {
  const std::string what = Cat(file.path(), ": ", verb, " of ", size, " bytes at ", offset, ": ");
  if (result == 0) return Status(Code::kIoError, what + "the file ends before");
  const auto error = static_cast<int>(-result);
  if (error == ETIME) return Status(Code::kTimeout, what + "the deadline passed");
  if (error == ENOSPC) return Status(Code::kNoSpace, what + ErrnoText(error));
  if (error == ECANCELED) return Status(Code::kCancelled, what + ErrnoText(error));
  return Status(Code::kIoError, what + ErrnoText(error));
}

// Drops what has been moved from the front of `pieces`, from `first` on.
void Consume(std::vector<iovec>* pieces, size_t* first, uint64_t moved) {
  while (*first < pieces->size()) {
    iovec& piece = (*pieces)[*first];
    if (moved < piece.iov_len) {
      piece.iov_base = static_cast<std::byte*>(piece.iov_base) + moved;
      piece.iov_len -= moved;
      return;
    }
    moved -= piece.iov_len;
    ++*first;
  }
}

Task<Status> TransferOne(File* file, Op::Kind kind, uint64_t offset, iovec piece, Nanos deadline) {
  const uint64_t size = piece.iov_len;
  uint64_t moved = 0;
  while (moved < size) {
    const iovec rest{static_cast<std::byte*>(piece.iov_base) + moved, size - moved};
    Op op;
    op.kind = kind;
    op.iov = &rest;
    op.iov_count = 1;
    op.offset = offset + moved;
    op.deadline = deadline;
    FileAwaiter transfer{file, &op};
    const int64_t result = co_await transfer;
    if (result <= 0) {
      co_return Failure(*file, kind == Op::Kind::kRead ? "read" : "write", op.offset, size - moved, result);
    }
    moved += static_cast<uint64_t>(result);
  }
  co_return Ok();
}

}  // namespace

Task<Status> ReadFull(File* file, uint64_t offset, MutableByteSpan into, Nanos deadline) {
  return TransferOne(file, Op::Kind::kRead, offset, {into.data(), into.size()}, deadline);
}

Task<Status> WriteFull(File* file, uint64_t offset, ByteSpan from, Nanos deadline) {
  return TransferOne(file, Op::Kind::kWrite, offset, {const_cast<std::byte*>(from.data()), from.size()},
                     deadline);
}

Task<Status> WriteGathered(File* file, uint64_t offset, std::vector<iovec> pieces, Nanos deadline) {
  if (pieces.size() > kPiecesMax) co_return Status(Code::kInvalid, "more than 1024 pieces in one write");
  uint64_t size = 0;
  for (const iovec& piece : pieces) size += piece.iov_len;
  size_t first = 0;
  while (size > 0) {
    Op op;
    op.kind = Op::Kind::kWrite;
    op.iov = pieces.data() + first;
    op.iov_count = static_cast<uint32_t>(pieces.size() - first);
    op.offset = offset;
    op.deadline = deadline;
    FileAwaiter transfer{file, &op};
    const int64_t result = co_await transfer;
    if (result <= 0) co_return Failure(*file, "write", offset, size, result);
    offset += static_cast<uint64_t>(result);
    size -= static_cast<uint64_t>(result);
    Consume(&pieces, &first, static_cast<uint64_t>(result));
  }
  co_return Ok();
}

Task<Status> SyncFile(File* file) {
  Op op;
  op.kind = Op::Kind::kSync;
  FileAwaiter sync{file, &op};
  const int64_t result = co_await sync;
  if (result < 0) {
    co_return Status(Code::kIoError,
                     Cat(file->path(), ": fdatasync: ", ErrnoText(static_cast<int>(-result))));
  }
  co_return Ok();
}

}  // namespace dfkv::io
