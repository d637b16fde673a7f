// DiskPool: a few threads that carry out disk ops for a reactor that cannot hand them to the kernel.
#pragma once

#include <cstdint>
#include <vector>

#include "base/sync.h"
#include "io/op_list.h"
#include "io/reactor.h"

namespace dfkv::io {

// Threads start when there is work for them, at most `threads_max`; the destructor waits for the ops that run
// and forgets those that wait. Add and Remove are for the reactor's thread.
class DiskPool {
 public:
  DiskPool(Reactor* reactor, uint32_t threads_max) : reactor_(reactor), threads_max_(threads_max) {}
  ~DiskPool();

  // kRead, kWrite or kSync; completes through Reactor::CompleteFromAnyThread.
  void Add(Op* op);
  // True: the op was still waiting and is the caller's to complete.
  bool Remove(Op* op);

 private:
  void ThreadBody();

  Reactor* const reactor_;
  const uint32_t threads_max_;
  std::vector<Thread> threads_;
  Mutex mutex_;
  CondVar more_;
  OpList queue_ GUARDED_BY(mutex_);
  uint32_t waiting_ops_ GUARDED_BY(mutex_) = 0;
  uint32_t idle_ GUARDED_BY(mutex_) = 0;
  bool stop_ GUARDED_BY(mutex_) = false;
};

// Carries out a disk op in the calling thread: bytes moved or -errno.
int64_t RunDiskOp(const Op& op);

}  // namespace dfkv::io
