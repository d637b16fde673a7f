// TouchQueue: what happened to a tier's objects, waiting for its policies. A batch is queued under a short
// lock of its own and handed to the policies by whoever holds the tier's mutex next, so that RAM hits do not
// queue up for the policies. One client that runs one request at a time loses nothing and keeps its order.
//
// Bounded: past kTouchesMax waiting keys a batch is dropped and counted.
#pragma once

#include <span>
#include <vector>

#include "base/metric.h"
#include "base/sync.h"
#include "store/space.h"

namespace dfkv::store {

class TouchQueue {
 public:
  static constexpr size_t kTouchesMax = 16384;  // a batch is taken whole while there are fewer
  static constexpr size_t kDrainAt = kTouchesMax / 2;

  explicit TouchQueue(Counter& dropped) : dropped_(dropped) {}

  // True when so much waits that the caller should Drain if the tier's mutex is free.
  bool Push(evict::RequestKind kind, uint64_t now, std::span<const Touch> chain) {
    MutexLock lock(mutex_);
    if (waiting_.touches.size() >= kTouchesMax) {
      dropped_.Add();
      return true;
    }
    waiting_.batches.push_back({kind, now, chain.size()});
    waiting_.touches.insert(waiting_.touches.end(), chain.begin(), chain.end());
    return waiting_.touches.size() >= kDrainAt;
  }

  // The caller holds the mutex of the tier that `space` belongs to.
  void Drain(Space& space) {
    {
      MutexLock lock(mutex_);
      if (waiting_.batches.empty()) return;
      std::swap(waiting_, draining_);
    }
    size_t at = 0;
    for (const Batch& batch : draining_.batches) {
      space.OnBatch(batch.kind, batch.now, std::span<const Touch>(draining_.touches).subspan(at, batch.size));
      at += batch.size;
    }
    draining_.batches.clear();
    draining_.touches.clear();
  }

 private:
  struct Batch {
    evict::RequestKind kind;
    uint64_t now;
    size_t size;
  };
  struct Queue {
    std::vector<Batch> batches;
    std::vector<Touch> touches;
  };
  Counter& dropped_;
  Mutex mutex_;
  Queue waiting_ GUARDED_BY(mutex_);
  Queue draining_;  // of the tier's mutex
};

}  // namespace dfkv::store
