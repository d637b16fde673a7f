#include "node/handler.h"

#include <algorithm>

#include "base/check.h"

namespace dfkv::node {
namespace {

constexpr uint32_t kSampleOneIn = 16;
constexpr uint32_t kRemovesAtOnce = 16;  // of one request

}  // namespace

Handler::Handler(const HandlerOptions& options, store::Store* store, NodeMetrics* metrics)
    : options_(options), store_(*store), metrics_(*metrics) {
  for (uint32_t i = 0; i < options.lanes; ++i) {
    lanes_.push_back(std::make_unique<Lane>(options.reads_in_flight_max, options.read_bytes_in_flight_max));
  }
}

Nanos Handler::SampleStart(Lane& lane, io::Reactor& reactor) {
  return lane.sample++ % kSampleOneIn == 0 ? reactor.Now() : 0;
}

void Handler::Observe(wire::Op op, Nanos start, io::Reactor& reactor) {
  if (start != 0) metrics_.latency(op).Observe(reactor.Now() - start);
}

void Handler::OnRequest(const wire::RequestView& request, net::ServerCall* call) {
  switch (request.op()) {
    case wire::Op::kGet:
    case wire::Op::kGetRange:
      return OnGet(request, call);
    case wire::Op::kExist:
    case wire::Op::kLookup:
      return OnExist(request, call);
    case wire::Op::kMatch:
      return OnMatch(request, call);
    case wire::Op::kRemove:
      return OnRemove(request, call);
    case wire::Op::kPing:
      return call->AnswerText("");
    case wire::Op::kStats:
      return call->AnswerText(metrics_.registry().Render());
    case wire::Op::kHello:
    case wire::Op::kPut:
      break;  // the transport's, and OnPut's
  }
  DFKV_CHECK(false);
}

void Handler::OnExist(const wire::RequestView& request, net::ServerCall* call) {
  Lane& lane = LaneOf(call);
  io::Reactor& reactor = *call->reactor;
  const wire::Op op = request.op();
  const Nanos start = SampleStart(lane, reactor);
  const auto& keys = KeysOf<wire::KeyItem>(request, lane);
  if (op == wire::Op::kExist) store_.NoteBatch(store::BatchKind::kMatch, keys);
  lane.items.clear();
  uint32_t present = 0;
  for (uint32_t i = 0; i < keys.size(); ++i) {
    const Result<uint64_t> length = store_.Length(keys[i]);
    wire::AnswerItem item;
    item.index = i;
    item.code = static_cast<uint8_t>(length.code());
    item.stored_length = length.ok() ? *length : 0;
    present += length.ok() ? 1 : 0;
    lane.items.push_back(item);
  }
  metrics_.exist_hits.Add(present);
  metrics_.exist_misses.Add(keys.size() - present);
  call->Answer(lane.items, {}, true);
  Observe(op, start, reactor);
}

void Handler::OnMatch(const wire::RequestView& request, net::ServerCall* call) {
  Lane& lane = LaneOf(call);
  io::Reactor& reactor = *call->reactor;
  const Nanos start = SampleStart(lane, reactor);
  const auto& keys = KeysOf<wire::KeyItem>(request, lane);
  store_.NoteBatch(store::BatchKind::kMatch, keys);
  uint32_t present = 0;
  while (present < keys.size() && store_.Length(keys[present]).ok()) ++present;
  metrics_.matches.Add();
  metrics_.match_keys.Add(present);
  call->AnswerMatch(present);
  Observe(wire::Op::kMatch, start, reactor);
}

void Handler::OnRemove(const wire::RequestView& request, net::ServerCall* call) {
  Lane& lane = LaneOf(call);
  auto* state = new ItemsState;
  state->call = call;
  state->op = wire::Op::kRemove;
  state->start = SampleStart(lane, *call->reactor);
  for (const ObjectKey& key : KeysOf<wire::KeyItem>(request, lane)) {
    state->items.push_back({static_cast<uint32_t>(state->items.size()), key});
  }
  state->unanswered = static_cast<uint32_t>(state->items.size());
  state->workers = std::min(state->unanswered, kRemovesAtOnce);
  for (uint32_t n = state->workers; n > 0; --n) RemoveItems(state).Spawn();
}

io::Task<void> Handler::RemoveItems(ItemsState* state) {
  net::ServerCall* call = state->call;
  io::Reactor& reactor = *call->reactor;
  while (state->next < state->items.size()) {
    const ItemsState::Item item = state->items[state->next++];
    const bool present = store_.Length(item.key).ok();
    const Status status = co_await store_.Remove(item.key, call->deadline);
    wire::AnswerItem answer;
    answer.index = item.index;
    answer.code = static_cast<uint8_t>(status.ok() && !present ? Code::kNotFound : status.code());
    (present ? metrics_.removes : metrics_.remove_misses).Add(status.ok() ? 1 : 0);
    metrics_.CountError(state->op, status.code());
    const bool last = --state->unanswered == 0;
    call->Answer({&answer, 1}, {}, last);
    if (last) Observe(state->op, state->start, reactor);
  }
  if (--state->workers == 0) delete state;
}

}  // namespace dfkv::node
