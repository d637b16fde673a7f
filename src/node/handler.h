// Handler: requests to the store's operations. What needs no wait is answered within the call; the rest by
// coroutines that hold the request until its last item is answered.
//
// Threads: called on the reactors of the transport; a request stays on its reactor. Everything that waits
// ends by its request's deadline.
#pragma once

#include <memory>
#include <vector>

#include "net/transport.h"
#include "node/lane.h"
#include "node/metrics.h"
#include "store/store.h"

namespace dfkv::node {

struct HandlerOptions {
  uint32_t lanes = 1;                 // reactors of the transport
  uint32_t reads_in_flight_max = 64;  // disk reads of one reactor
  uint64_t read_bytes_in_flight_max = 64ull << 20;
  uint32_t reads_per_request_max = 64;  // keeps a disk busy for one client that asks for many objects at once
  uint32_t busy_wait_ms = 500;          // an item waits this long for memory before it is answered Busy
};

struct PutState;
struct ItemsState;

class Handler final : public net::RequestHandler {
 public:
  Handler(const HandlerOptions& options, store::Store* store, NodeMetrics* metrics);

  void OnRequest(const wire::RequestView& request, net::ServerCall* call) override;
  void OnPut(const wire::RequestView& request, net::ServerCall* call) override;
  net::Place PlaceValue(net::ServerCall* call, uint32_t index) override;
  void OnValue(net::ServerCall* call, uint32_t index, uint32_t crc) override;
  void OnAbandoned(net::ServerCall* call, uint32_t index) override;

 private:
  // handler.cc
  void OnExist(const wire::RequestView& request, net::ServerCall* call);
  void OnMatch(const wire::RequestView& request, net::ServerCall* call);
  void OnRemove(const wire::RequestView& request, net::ServerCall* call);
  io::Task<void> RemoveItems(ItemsState* state);
  // handler_get.cc
  void OnGet(const wire::RequestView& request, net::ServerCall* call);
  io::Task<void> FetchItems(ItemsState* state);
  io::Task<Result<store::ReadPin>> Fetch(net::ServerCall* call, ObjectKey key, uint64_t wanted,
                                         uint64_t* room);
  // handler_put.cc
  io::Task<void> Commit(PutState* state, uint32_t index, store::PutTicket ticket);
  io::Task<void> Join(PutState* state, uint32_t index);
  void EndItem(PutState* state, uint32_t index, Code code);
  void FinishPut(PutState* state);

  // The request's keys, in its order, in the lane's scratch.
  template <typename Item>
  const std::vector<ObjectKey>& KeysOf(const wire::RequestView& request, Lane& lane);
  Lane& LaneOf(const net::ServerCall* call) { return *lanes_[call->lane]; }
  Nanos SampleStart(Lane& lane, io::Reactor& reactor);  // 0: this request's latency is not taken
  void Observe(wire::Op op, Nanos start, io::Reactor& reactor);

  const HandlerOptions options_;
  store::Store& store_;
  NodeMetrics& metrics_;
  std::vector<std::unique_ptr<Lane>> lanes_;
};

// Items of one request that are worked on by several coroutines; freed with the last.
struct ItemsState {
  struct Item {
    uint32_t index = 0;
    ObjectKey key;
    uint64_t offset = 0;
    uint64_t length = 0;
  };
  net::ServerCall* call = nullptr;
  wire::Op op = wire::Op::kGet;
  Nanos start = 0;
  std::vector<Item> items;
  uint32_t next = 0;        // to be taken up
  uint32_t unanswered = 0;  // the answer that brings it to zero is the last
  uint32_t workers = 0;
};

template <typename Item>
const std::vector<ObjectKey>& Handler::KeysOf(const wire::RequestView& request, Lane& lane) {
  lane.keys.clear();
  const TenantHash tenant(request.prefix.tenant);
  for (uint32_t i = 0; i < request.item_count(); ++i) {
    const Item item = request.item<Item>(i);
    lane.keys.push_back({tenant, {item.id_hi, item.id_lo}});
  }
  return lane.keys;
}

}  // namespace dfkv::node
