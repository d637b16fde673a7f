// What is on its way: PUTs between reservation and publication, reads from disk, and those who wait for them.
//
// Threads: an op's fields marked "fixed" are written before anybody else sees it; the rest is guarded by the
// mutex of its key's index shard. An op is freed by whoever ends it, after its waiters were told.
#pragma once

#include <memory>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/sync.h"
#include "io/reactor.h"
#include "store/index.h"
#include "store/media.h"

namespace dfkv::store {

class DiskTier;
struct ClearBatch;

// One coroutine that waits for an op, on its own reactor; lives in the coroutine's frame. The op's end calls
// Set under the shard's mutex, and the waiter takes that mutex before it goes, so that neither outruns the
// other.
struct Waiter {
  io::Event event;
  Status status;
  bool linked = false;
  Waiter* next = nullptr;
};

class WaiterList {
 public:
  void Add(Waiter* waiter) {
    waiter->linked = true;
    waiter->next = first_;
    first_ = waiter;
  }
  void Remove(Waiter* waiter);
  // Ends every wait with `status`; returns how many there were.
  uint32_t Finish(const Status& status);

 private:
  Waiter* first_ = nullptr;
};

// Waits until the waiter's op has ended or `deadline` has passed; the caller then unlinks it.
io::Task<void> WaitFor(Waiter* waiter, Nanos deadline);

struct PutOp {
  enum class Phase : uint8_t {
    kReserved,   // the payload is being received
    kQueued,     // committed by the caller; payload not yet on disk
    kRecording,  // its record is being written
  };
  // Fixed.
  uint32_t number = 0;
  Ref ref = kNoRef;
  Cell cell;  // data: the arena slot
  uint32_t ram_unit = kNoUnit;
  DiskTier* disk = nullptr;                         // null: the store has no disks
  std::vector<std::shared_ptr<ClearBatch>> clears;  // to be awaited before the record is written
  Nanos expires_at = kNever;
  uint64_t inflight_bytes = 0;
  // Guarded by the shard's mutex.
  Phase phase = Phase::kReserved;
  bool doomed = false;     // removed or expired meanwhile: must not be published
  bool expired = false;    // the reservation ran out before it was committed
  bool installed = false;  // the arena slot belongs to the RAM tier already
  WaiterList waiters;
};

// Where and what a descriptor's object is on its disk. The caller holds the shard's mutex.
Cell CellOf(const Descriptor& descriptor, const SizeClasses& classes);

struct ReadOp {
  uint32_t number = 0;  // fixed, like the next three
  Ref ref = kNoRef;
  Cell cell;
  DiskTier* disk = nullptr;
  WaiterList waiters;  // guarded by the shard's mutex
};

// Ops by number, in memory that never moves.
template <typename Op>
class OpTable {
 public:
  // `init` fills in what ForEach may read.
  template <typename Init>
  Op* Add(const Init& init) {
    MutexLock lock(mutex_);
    if (free_.empty()) {
      chunks_.push_back(std::make_unique<Op[]>(kChunk));
      used_.resize(chunks_.size() * kChunk, false);
      for (size_t i = kChunk; i > 0; --i) {
        free_.push_back(static_cast<uint32_t>((chunks_.size() - 1) * kChunk + i - 1));
      }
    }
    const uint32_t number = free_.back();
    free_.pop_back();
    used_[number] = true;
    Op* op = &chunks_[number / kChunk][number % kChunk];
    *op = Op();
    op->number = number;
    init(*op);
    return op;
  }
  Op* At(uint32_t number) {
    MutexLock lock(mutex_);
    DFKV_CHECK(number < used_.size() && used_[number]);
    return &chunks_[number / kChunk][number % kChunk];
  }
  void Free(Op* op) {
    MutexLock lock(mutex_);
    DFKV_CHECK(used_[op->number]);
    used_[op->number] = false;
    free_.push_back(op->number);
  }
  size_t size() {
    MutexLock lock(mutex_);
    return used_.size() - free_.size();
  }
  // `visit` may read only what Add's `init` wrote.
  template <typename Visit>
  void ForEach(const Visit& visit) {
    MutexLock lock(mutex_);
    for (uint32_t i = 0; i < used_.size(); ++i) {
      if (used_[i]) visit(chunks_[i / kChunk][i % kChunk]);
    }
  }

 private:
  static constexpr size_t kChunk = 64;
  Mutex mutex_;
  std::vector<std::unique_ptr<Op[]>> chunks_ GUARDED_BY(mutex_);
  std::vector<uint32_t> free_ GUARDED_BY(mutex_);
  std::vector<bool> used_ GUARDED_BY(mutex_);
};

}  // namespace dfkv::store
