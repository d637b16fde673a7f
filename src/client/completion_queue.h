// CompletionQueue: where finished asynchronous calls wait to be collected, with a descriptor that can be read
// as long as there are any, for poll, epoll and event loops of other making.
//
// Threads: any. Bound: as many entries as places were taken; a place is taken before a call is submitted and
// becomes free when its entry is collected, so that neither calls in flight nor entries can pile up.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>

#include "base/clock.h"
#include "base/status.h"
#include "base/sync.h"
#include "io/fd.h"

namespace dfkv::client {

struct Completion {
  uint64_t ticket = 0;
  uint64_t user_data = 0;
  Code code = Code::kOk;
  uint64_t count = 0;
};

class CompletionQueue {
 public:
  // IoError: no descriptor is left.
  static Result<std::unique_ptr<CompletionQueue>> Make(uint32_t places_max);

  bool TakePlace();  // false: all are taken
  void FreePlace();  // of a call that was not submitted after all

  void Push(const Completion& completion);
  // Takes the oldest entries, as many as there are and fit. When there are none, waits for one: until
  // `deadline` (0: not at all), or until Close.
  size_t Collect(std::span<Completion> into, Nanos deadline);
  // Waits end, and nothing waits any more.
  void Close();
  bool closed() const;
  // Waits until every place that was taken is free or holds an entry: nothing is in flight.
  void AwaitAll();

  int fd() const { return event_.get(); }

 private:
  CompletionQueue(io::UniqueFd event, uint32_t places_max)
      : event_(std::move(event)), places_max_(places_max) {}

  const io::UniqueFd event_;  // readable while entries_ is not empty
  const uint32_t places_max_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::deque<Completion> entries_ GUARDED_BY(mutex_);
  uint32_t places_taken_ GUARDED_BY(mutex_) = 0;  // in flight, or with an entry
  bool closed_ GUARDED_BY(mutex_) = false;
};

}  // namespace dfkv::client
