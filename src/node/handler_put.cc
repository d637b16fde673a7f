// PUT: each value is received straight into the slot that the store reserves for it, then committed while the
// next one arrives. The answer leaves when the last item's fate is known.
#include <algorithm>

#include "base/check.h"
#include "node/handler.h"

namespace dfkv::node {
namespace {

constexpr Nanos kAskAgain = kMillisecond;  // while a PUT waits for room

}  // namespace

// Invariant: `open` counts the items whose fate is unknown; the transport's part and the coroutines' part
// each end their items, whoever ends the last one answers and frees.
struct PutState {
  struct Item {
    store::PutRequest request;
    bool join = false;      // another PUT of the key is on its way: its end is this item's
    bool reserved = false;  // `ticket` is valid: the value is arriving, or is next to
    Code code = Code::kOk;
    store::PutTicket ticket;
  };
  net::ServerCall* call = nullptr;
  Nanos start = 0;
  std::vector<Item> items;
  uint32_t open = 0;
  bool abandoned = false;
  Nanos wait_until = 0;  // of the item that waits for room; 0: it has not waited yet
};

void Handler::OnPut(const wire::RequestView& request, net::ServerCall* call) {
  Lane& lane = LaneOf(call);
  const auto& keys = KeysOf<wire::PutItem>(request, lane);
  lane.lengths.clear();
  auto* state = new PutState;
  state->call = call;
  state->start = SampleStart(lane, *call->reactor);
  state->open = request.item_count();
  state->items.resize(request.item_count());
  for (uint32_t i = 0; i < request.item_count(); ++i) {
    const auto item = request.item<wire::PutItem>(i);
    state->items[i].request = {keys[i], item.length, item.crc, item.depth};
    lane.lengths.push_back(item.length);
  }
  store_.NoteBatch(store::BatchKind::kPut, keys, lane.lengths);
  call->state = state;
}

net::Place Handler::PlaceValue(net::ServerCall* call, uint32_t index) {
  auto* state = static_cast<PutState*>(call->state);
  PutState::Item& item = state->items[index];
  if (item.request.length == 0) {
    item.code = Code::kInvalid;
    return {};
  }
  if (call->reactor->TurnNow() >= call->deadline) {
    item.code = Code::kTimeout;
    return {};
  }
  store::PutStart begun = store_.BeginPut(item.request);
  switch (begun.outcome) {
    case store::PutStart::Outcome::kReserved:
      item.ticket = std::move(begun.ticket);
      item.reserved = true;
      break;
    case store::PutStart::Outcome::kPresent:
      break;
    case store::PutStart::Outcome::kInFlight:
      item.join = true;
      ++state->open;
      Join(state, index).Spawn();
      break;
    case store::PutStart::Outcome::kRefused: {
      const Nanos now = call->reactor->Now();
      if (state->wait_until == 0) {
        state->wait_until = std::min(call->deadline, now + Nanos{options_.busy_wait_ms} * kMillisecond);
      }
      if (begun.status.code() == Code::kBusy && now < state->wait_until) {
        return {net::Place::Kind::kWait, {}, now + kAskAgain};
      }
      item.code = begun.status.code();
      break;
    }
  }
  state->wait_until = 0;
  if (!item.reserved) return {};
  return {net::Place::Kind::kReceive, item.ticket.buffer(), 0};
}

void Handler::OnValue(net::ServerCall* call, uint32_t index, uint32_t crc) {
  auto* state = static_cast<PutState*>(call->state);
  PutState::Item& item = state->items[index];
  state->wait_until = 0;
  if (std::exchange(item.reserved, false)) {
    store::PutTicket ticket = std::move(item.ticket);
    if (crc != item.request.crc) return EndItem(state, index, Code::kCorrupt);
    return Commit(state, index, std::move(ticket)).Spawn();
  }
  if (!item.join) return EndItem(state, index, item.code);
  if (--state->open == 0) FinishPut(state);
}

void Handler::OnAbandoned(net::ServerCall* call, uint32_t index) {
  auto* state = static_cast<PutState*>(call->state);
  for (size_t i = index; i < state->items.size(); ++i) {
    if (std::exchange(state->items[i].reserved, false)) store::PutTicket(std::move(state->items[i].ticket));
  }
  state->abandoned = true;
  const uint32_t missing = static_cast<uint32_t>(state->items.size()) - index;
  DFKV_CHECK(state->open >= missing);
  state->open -= missing;
  if (state->open == 0) FinishPut(state);
}

io::Task<void> Handler::Commit(PutState* state, uint32_t index, store::PutTicket ticket) {
  const Status status = co_await store_.CommitPut(std::move(ticket), true, state->call->deadline);
  if (status.ok()) metrics_.written_bytes.Add(state->items[index].request.length);
  EndItem(state, index, status.code());
}

io::Task<void> Handler::Join(PutState* state, uint32_t index) {
  const Status status = co_await store_.JoinPut(state->items[index].request.key, state->call->deadline);
  EndItem(state, index, status.code());
}

void Handler::EndItem(PutState* state, uint32_t index, Code code) {
  state->items[index].code = code;
  if (code == Code::kOk) metrics_.puts.Add();
  if (code == Code::kBusy) metrics_.put_busy.Add();
  metrics_.CountError(wire::Op::kPut, code);
  if (--state->open == 0) FinishPut(state);
}

void Handler::FinishPut(PutState* state) {
  std::unique_ptr<PutState> owned(state);
  io::Reactor& reactor = *state->call->reactor;
  if (state->abandoned) {
    return state->call->Fail(Status(Code::kCancelled, "the values did not arrive"));
  }
  Lane& lane = LaneOf(state->call);
  lane.items.clear();
  for (uint32_t i = 0; i < state->items.size(); ++i) {
    wire::AnswerItem answer;
    answer.index = i;
    answer.code = static_cast<uint8_t>(state->items[i].code);
    lane.items.push_back(answer);
  }
  state->call->Answer(lane.items, {}, true);
  Observe(wire::Op::kPut, state->start, reactor);
}

}  // namespace dfkv::node
