// Lane: what the handler keeps per reactor: scratch that requests reuse, and the bound on reads in flight.
// One thread.
#pragma once

#include <coroutine>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/ids.h"
#include "io/reactor.h"
#include "net/pin.h"
#include "wire/frame.h"

namespace dfkv::node {

// Lets coroutines of one reactor through while their number and their bytes stay within bounds (one always
// may, however large); the others wait in order.
class Gate {
 public:
  Gate(uint32_t count_max, uint64_t bytes_max) : count_max_(count_max), bytes_max_(bytes_max) {}
  struct Awaiter {
    Gate& gate;
    uint64_t bytes;
    bool await_ready() {
      if (!gate.waiting_.empty() || !gate.Fits(bytes)) return false;
      gate.Take(bytes);
      return true;
    }
    void await_suspend(std::coroutine_handle<> handle) { gate.waiting_.push_back({handle, bytes}); }
    void await_resume() const {}
  };
  // co_await gate.Enter(bytes); ... gate.Leave(bytes, reactor).
  Awaiter Enter(uint64_t bytes) { return {*this, bytes}; }
  void Leave(uint64_t bytes, io::Reactor& reactor) {
    --count_;
    bytes_ -= bytes;
    while (!waiting_.empty() && Fits(waiting_.front().bytes)) {
      Take(waiting_.front().bytes);
      reactor.QueueReady(waiting_.front().handle);
      waiting_.pop_front();
    }
  }

 private:
  struct Waiter {
    std::coroutine_handle<> handle;
    uint64_t bytes;
  };
  bool Fits(uint64_t bytes) const {
    return count_ == 0 || (count_ < count_max_ && bytes_ < bytes_max_ && bytes <= bytes_max_ - bytes_);
  }
  void Take(uint64_t bytes) {
    ++count_;
    bytes_ += bytes;
  }
  const uint32_t count_max_;
  const uint64_t bytes_max_;
  uint32_t count_ = 0;
  uint64_t bytes_ = 0;
  std::deque<Waiter> waiting_;
};

struct Lane {
  Lane(uint32_t reads_max, uint64_t read_bytes_max) : reads(reads_max, read_bytes_max) {}

  std::vector<ObjectKey> keys;
  std::vector<uint64_t> lengths;  // of a PUT's values
  std::vector<wire::AnswerItem> items;
  std::vector<net::Value> values;
  std::vector<uint32_t> later;  // items of the request at hand that have to wait
  Gate reads;
  uint32_t sample = 0;
};

}  // namespace dfkv::node
