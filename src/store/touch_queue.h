// TouchQueue: what happened to a tier's objects, waiting for its policies. A batch is queued under a short
// lock of its own and handed to the policies by whoever holds the tier's mutex next, so that RAM hits do not
// queue up for the policies. One client that runs one request at a time loses nothing and keeps its order.
//
// What the policies know of an object is spread over memory and rarely in the cache, so a drain runs ahead of
// itself and fetches it for several keys at once.
//
// Bounded: past kTouchesMax waiting keys a batch is dropped and counted.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "base/metric.h"
#include "base/sync.h"
#include "store/space.h"

namespace dfkv::store {

class TouchQueue {
 public:
  static constexpr size_t kTouchesMax = 16384;          // a batch is taken whole while there are fewer
  static constexpr size_t kDrainNow = kTouchesMax / 2;  // from here on whoever pushes also drains
  static constexpr size_t kDrainSoon = 64;              // from here on a reactor with nothing better to do

  explicit TouchQueue(Counter& dropped) : dropped_(dropped) {}

  // How many touches wait now.
  size_t Push(evict::RequestKind kind, uint64_t now, std::span<const Touch> chain) {
    MutexLock lock(mutex_);
    if (waiting_.touches.size() >= kTouchesMax) {
      dropped_.Add();
      return waiting_.touches.size();
    }
    waiting_.batches.push_back({kind, now, chain.size()});
    waiting_.touches.insert(waiting_.touches.end(), chain.begin(), chain.end());
    return waiting_.touches.size();
  }

  // The caller holds the mutex of the tier that `space` belongs to.
  void Drain(Space& space) {
    {
      MutexLock lock(mutex_);
      if (waiting_.batches.empty()) return;
      std::swap(waiting_, draining_);
    }
    const std::span<const Touch> touches = draining_.touches;
    std::array<size_t, evict::Policy::kPrefetchSteps> ahead{};
    size_t at = 0;
    for (const Batch& batch : draining_.batches) {
      for (size_t step = 0; step < ahead.size(); ++step) {
        const size_t distance = (ahead.size() - step) * kAhead;
        const size_t end = std::min(touches.size(), at + batch.size + distance);
        for (; ahead[step] < end; ++ahead[step]) space.Prefetch(touches[ahead[step]], static_cast<int>(step));
      }
      space.OnBatch(batch.kind, batch.now, touches.subspan(at, batch.size));
      at += batch.size;
    }
    draining_.batches.clear();
    draining_.touches.clear();
  }

 private:
  static constexpr size_t kAhead = 8;  // keys between the steps of a prefetch
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
