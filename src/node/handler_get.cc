// GET and GET_RANGE: what is in RAM is answered within the call, without an allocation; the rest is read from
// disk by a bounded number of coroutines and answered as it comes.
#include <algorithm>

#include "base/check.h"
#include "base/crc32c.h"
#include "node/handler.h"

namespace dfkv::node {
namespace {

constexpr size_t kFetchedAhead = 256;
constexpr Nanos kAskAgain = kMillisecond;  // while a GET waits for memory

// The part of a pinned object that an item asks for. Answers with an error when there is none.
struct Part {
  Code code = Code::kOk;
  ByteSpan bytes;
  uint32_t crc = 0;
};

Part PartOf(const store::ReadPin& pin, wire::Op op, uint64_t offset, uint64_t length) {
  const ByteSpan whole = pin.bytes();
  if (op == wire::Op::kGet) {
    if (whole.size() > length) return {Code::kTooSmall, {}, 0};
    return {Code::kOk, whole, pin.crc()};
  }
  if (offset > whole.size()) return {Code::kInvalid, {}, 0};
  // The whole was verified when it came into RAM; the CRC of the part is made from those bytes now.
  const ByteSpan part = whole.subspan(offset, std::min<uint64_t>(length, whole.size() - offset));
  return {Code::kOk, part, Crc32c(part)};
}

wire::AnswerItem AnswerOf(uint32_t index, uint64_t stored_length, const Part& part) {
  wire::AnswerItem item;
  item.index = index;
  item.code = static_cast<uint8_t>(part.code);
  item.stored_length = stored_length;
  item.payload_bytes = static_cast<uint32_t>(part.bytes.size());
  item.crc = part.bytes.empty() ? 0 : part.crc;
  return item;
}

wire::AnswerItem Failed(uint32_t index, Code code) {
  wire::AnswerItem item;
  item.index = index;
  item.code = static_cast<uint8_t>(code);
  return item;
}

}  // namespace

void Handler::OnGet(const wire::RequestView& request, net::ServerCall* call) {
  Lane& lane = LaneOf(call);
  io::Reactor& reactor = *call->reactor;
  const wire::Op op = request.op();
  const Nanos start = SampleStart(lane, reactor);
  const auto& keys = KeysOf<wire::GetItem>(request, lane);
  store_.NoteBatch(store::BatchKind::kGet, keys);
  lane.items.clear();
  lane.values.clear();
  lane.later.clear();
  uint64_t room = call->OutputRoom();
  uint64_t bytes = 0;
  uint32_t hits = 0;
  for (uint32_t i = 0; i < keys.size(); ++i) {
    const auto item = request.item<wire::GetItem>(i);
    store::ReadPin pin;
    const store::Lookup found = store_.TryGet(keys[i], &pin);
    if (found == store::Lookup::kMiss) {
      lane.items.push_back(Failed(i, Code::kNotFound));
      continue;
    }
    if (found == store::Lookup::kDisk || std::min<uint64_t>(pin.bytes().size(), item.length) > room) {
      lane.later.push_back(i);
      continue;
    }
    const Part part = PartOf(pin, op, item.offset, item.length);
    lane.items.push_back(AnswerOf(i, pin.bytes().size(), part));
    ++hits;
    bytes += part.bytes.size();
    room -= part.bytes.size();
    metrics_.CountError(op, part.code);
    if (part.bytes.empty()) continue;
    // Of a value that is sent with others, the processor finds out only at its first byte where it lies.
    for (size_t at = 0; at < std::min(part.bytes.size(), kFetchedAhead); at += 64) {
      __builtin_prefetch(part.bytes.data() + at);
    }
    lane.values.push_back({part.bytes, net::Pin(std::move(pin))});
  }
  metrics_.hits.Add(hits);
  metrics_.read_bytes.Add(bytes);
  if (const size_t missed = lane.items.size() - hits; missed > 0) metrics_.misses.Add(missed);
  if (lane.later.empty()) {
    call->Answer(lane.items, lane.values, true);
    return Observe(op, start, reactor);
  }
  if (!lane.items.empty()) call->Answer(lane.items, lane.values, false);
  auto* state = new ItemsState;
  state->call = call;
  state->op = op;
  state->start = start;
  for (uint32_t i : lane.later) {
    const auto item = request.item<wire::GetItem>(i);
    state->items.push_back({i, keys[i], item.offset, item.length});
  }
  state->unanswered = static_cast<uint32_t>(state->items.size());
  state->workers = std::min(state->unanswered, options_.reads_per_request_max);
  for (uint32_t n = state->workers; n > 0; --n) FetchItems(state).Spawn();
}

// The object, once there is room for it on its way out and in memory. `*room`: what was taken of the way out,
// for the caller to leave.
io::Task<Result<store::ReadPin>> Handler::Fetch(net::ServerCall* call, ObjectKey key, uint64_t wanted,
                                                uint64_t* room) {
  io::Reactor& reactor = *call->reactor;
  Lane& lane = LaneOf(call);
  const Result<uint64_t> length = store_.Length(key);
  if (!length.ok()) co_return length.status();
  const uint64_t bytes = std::min(*length, wanted);
  const Status waited = co_await call->WaitForRoom(bytes);
  if (!waited.ok()) co_return waited;
  *room = bytes;
  co_await lane.reads.Enter(*length);
  const Nanos until = std::min(call->deadline, reactor.Now() + Nanos{options_.busy_wait_ms} * kMillisecond);
  Result<store::ReadPin> got = co_await store_.Get(key, call->deadline);
  while (got.code() == Code::kBusy && reactor.Now() < until) {
    co_await reactor.Until(reactor.Now() + kAskAgain);
    got = co_await store_.Get(key, call->deadline);
  }
  lane.reads.Leave(*length, reactor);
  co_return got;
}

io::Task<void> Handler::FetchItems(ItemsState* state) {
  net::ServerCall* call = state->call;
  io::Reactor& reactor = *call->reactor;
  while (state->next < state->items.size()) {
    const ItemsState::Item item = state->items[state->next++];
    uint64_t room = 0;
    Result<store::ReadPin> got = co_await Fetch(call, item.key, item.length, &room);
    wire::AnswerItem answer = Failed(item.index, got.ok() ? Code::kOk : got.code());
    net::Value value;
    if (got.ok()) {
      const Part part = PartOf(*got, state->op, item.offset, item.length);
      answer = AnswerOf(item.index, got->bytes().size(), part);
      metrics_.hits.Add();
      metrics_.read_bytes.Add(part.bytes.size());
      if (!part.bytes.empty()) value = {part.bytes, net::Pin(std::move(*got))};
    } else if (got.code() == Code::kNotFound || got.code() == Code::kCorrupt) {
      metrics_.misses.Add();
    }
    metrics_.CountError(state->op, static_cast<Code>(answer.code));
    const bool last = --state->unanswered == 0;
    call->LeaveRoom(room);
    call->Answer({&answer, 1}, {&value, answer.payload_bytes > 0 ? size_t{1} : size_t{0}}, last);
    if (last) Observe(state->op, state->start, reactor);
  }
  if (--state->workers == 0) delete state;
}

}  // namespace dfkv::node
