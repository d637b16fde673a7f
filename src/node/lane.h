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

// Lets a bounded number of coroutines of one reactor through; the others wait in order.
class Gate {
 public:
  explicit Gate(uint32_t free) : free_(free) {}
  struct Awaiter {
    Gate& gate;
    bool await_ready() {
      if (gate.free_ == 0) return false;
      --gate.free_;
      return true;
    }
    void await_suspend(std::coroutine_handle<> handle) { gate.waiting_.push_back(handle); }
    void await_resume() const {}
  };
  // co_await gate.Enter(); ... gate.Leave(reactor).
  Awaiter Enter() { return {*this}; }
  void Leave(io::Reactor& reactor) {
    if (waiting_.empty()) {
      ++free_;
      return;
    }
    reactor.QueueReady(waiting_.front());  // the place passes on
    waiting_.pop_front();
  }

 private:
  uint32_t free_;
  std::deque<std::coroutine_handle<>> waiting_;
};

struct Lane {
  explicit Lane(uint32_t reads_in_flight_max) : reads(reads_in_flight_max) {}

  std::vector<ObjectKey> keys;
  std::vector<wire::AnswerItem> items;
  std::vector<net::Value> values;
  std::vector<uint32_t> later;  // items of the request at hand that have to wait
  Gate reads;
  uint32_t sample = 0;
};

}  // namespace dfkv::node
