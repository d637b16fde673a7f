#include "io/disk_pool.h"

#include <unistd.h>

#include <cerrno>

#include "base/text.h"

namespace dfkv::io {

int64_t RunDiskOp(const Op& op) {
  for (;;) {
    const auto offset = static_cast<off_t>(op.offset);
    const auto count = static_cast<int>(op.iov_count);
    ssize_t result = -1;
    switch (op.kind) {
      case Op::Kind::kRead:
        result = preadv(op.fd, op.iov, count, offset);
        break;
      case Op::Kind::kWrite:
        result = pwritev(op.fd, op.iov, count, offset);
        break;
      case Op::Kind::kSync:
        result = fdatasync(op.fd);
        break;
      default:
        errno = EINVAL;
    }
    if (result >= 0) return result;
    if (errno != EINTR) return -errno;
  }
}

DiskPool::~DiskPool() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  more_.NotifyAll();
  for (Thread& thread : threads_) thread.Join();
}

void DiskPool::Add(Op* op) {
  bool start_thread = false;
  {
    MutexLock lock(mutex_);
    queue_.PushBack(op);
    ++waiting_ops_;
    start_thread = waiting_ops_ > idle_ && threads_.size() < threads_max_;
  }
  if (start_thread) {
    threads_.emplace_back(Cat("dfkv-disk-", threads_.size()), [this] { ThreadBody(); });
  } else {
    more_.NotifyOne();
  }
}

bool DiskPool::Remove(Op* op) {
  MutexLock lock(mutex_);
  for (const Op* waiting = queue_.head(); waiting != nullptr; waiting = waiting->link.next) {
    if (waiting != op) continue;
    queue_.Remove(op);
    --waiting_ops_;
    return true;
  }
  return false;
}

void DiskPool::ThreadBody() {
  for (;;) {
    Op* op = nullptr;
    {
      MutexLock lock(mutex_);
      while (queue_.empty() && !stop_) {
        ++idle_;
        more_.Wait(mutex_);
        --idle_;
      }
      if (stop_) return;
      op = queue_.PopFront();
      --waiting_ops_;
    }
    reactor_->CompleteFromAnyThread(op, RunDiskOp(*op));
  }
}

}  // namespace dfkv::io
