#include "client/core.h"

#include <algorithm>
#include <string_view>

#include "base/clock.h"
#include "base/text.h"

namespace dfkv::client {
namespace {

Status Check(const ClientOptions& options) {
  const auto bad = [](std::string_view what) { return Status(Code::kInvalid, std::string(what)); };
  if (options.key_namespace.empty()) return bad("key_namespace is empty");
  if (options.stall_ms == 0) return bad("stall_ms must be at least 1");
  if (options.min_rate == 0) return bad("min_rate must be at least 1");
  if (options.connect_ms == 0) return bad("connect_ms must be at least 1");
  if (options.lanes_max == 0) return bad("lanes_max must be at least 1");
  if (options.peer_cooldown_ms == 0) return bad("peer_cooldown_ms must be at least 1");
  if (options.peer_cooldown_max_ms < options.peer_cooldown_ms) {
    return bad("peer_cooldown_max_ms is smaller than peer_cooldown_ms");
  }
  return Ok();
}

// The last sixteenth of the stall time is kept for closing, so that the default deadline of a small call,
// which is the stall time, holds to the end of the call.
Nanos SilenceLimit(const ClientOptions& options) {
  const Nanos stall = options.stall_ms * kMillisecond;
  return stall - stall / 16;
}

std::vector<std::unique_ptr<Peer>> PeersOf(const cluster::View& view, const ClientOptions& options,
                                           ClientMetrics& metrics) {
  const PeerOptions peer_options = {SilenceLimit(options), options.peer_cooldown_ms * kMillisecond,
                                    options.peer_cooldown_max_ms * kMillisecond};
  std::vector<std::unique_ptr<Peer>> peers;
  for (const cluster::Member& member : view.members) {
    peers.push_back(std::make_unique<Peer>(member, peer_options, metrics));
  }
  return peers;
}

wire::Op OpOf(CallKind kind) {
  switch (kind) {
    case CallKind::kPut:
      return wire::Op::kPut;
    case CallKind::kGet:
      return wire::Op::kGet;
    case CallKind::kExist:
      return wire::Op::kExist;
    case CallKind::kRemove:
      return wire::Op::kRemove;
    case CallKind::kLookup:
      return wire::Op::kLookup;
    case CallKind::kMatch:
      return wire::Op::kMatch;
  }
  return wire::Op::kPing;
}

void Settle(Batch& batch, uint32_t item, Code code) {
  batch.results[item] = {code, 0};
  batch.answered[item] = Batch::kAnswered;
}

uint64_t BytesMoved(const Batch& batch) {
  uint64_t bytes = 0;
  for (size_t item = 0; item < batch.results.size(); ++item) {
    if (batch.results[item].code != Code::kOk) continue;
    if (batch.kind == CallKind::kPut) bytes += TotalBytes(batch.puts[item].pieces);
    if (batch.kind == CallKind::kGet) bytes += batch.results[item].length;
  }
  return bytes;
}

}  // namespace

Result<std::shared_ptr<Core>> Core::Open(const ClientOptions& options) {
  DFKV_RETURN_IF_ERROR(Check(options));
  if (!options.members_required && TrimSpace(options.members).empty()) {
    return std::make_shared<Core>(options, cluster::View::Make(Epoch(0), {}));
  }
  Result<std::shared_ptr<const cluster::View>> view = cluster::StaticView(options.members);
  if (!view.ok()) return view.status();
  return std::make_shared<Core>(options, std::move(*view));
}

Core::Core(const ClientOptions& options, std::shared_ptr<const cluster::View> view)
    : options_(options),
      view_(std::move(view)),
      hasher_(AsBytes(options.key_namespace)),
      peers_(PeersOf(*view_, options, metrics_)) {
  metrics_.ring_members.Set(static_cast<int64_t>(peers_.size()));
}

LaneOptions Core::lane_options() const {
  LaneOptions lane;
  lane.connection = {SilenceLimit(options_), options_.connect_ms * kMillisecond, options_.verify};
  lane.idle = options_.idle_ms * kMillisecond;
  lane.spin = options_.spin_us * Nanos{1000};
  return lane;
}

Nanos Core::DeadlineOf(const CallOptions& call, uint64_t bytes) const {
  const Nanos now = SystemClock().Now();
  if (call.deadline_ms != 0) return now + call.deadline_ms * kMillisecond;
  const double transfer = static_cast<double>(bytes) / static_cast<double>(options_.min_rate) * kSecond;
  return now + options_.stall_ms * kMillisecond + static_cast<Nanos>(std::min(transfer, 1e6 * kSecond));
}

template <typename KeyOf>
void Core::Prepare(Batch& batch, std::span<ItemResult> results, const KeyOf& key_of) const {
  const auto count = static_cast<uint32_t>(results.size());
  batch.tenant = hasher_.tenant();
  batch.results = results;
  batch.passes = 0;
  batch.ids.resize(count);
  batch.answered.assign(count, Batch::kOpen);
  for (uint32_t item = 0; item < count; ++item) {
    const ByteSpan key = key_of(item);
    if (key.empty()) {
      Settle(batch, item, Code::kInvalid);
    } else {
      batch.ids[item] = hasher_.Hash(key);
    }
  }
}

void Core::PreparePut(std::span<const PutItem> items, std::span<ItemResult> results, Batch& batch) const {
  batch.kind = CallKind::kPut;
  batch.puts = items;
  Prepare(batch, results, [&](uint32_t item) { return items[item].key; });
  for (uint32_t item = 0; item < items.size(); ++item) {
    const uint64_t bytes = TotalBytes(items[item].pieces);
    if (bytes == 0 || bytes == UINT64_MAX) Settle(batch, item, Code::kInvalid);
  }
}

void Core::PrepareGet(std::span<const GetItem> items, std::span<ItemResult> results, Batch& batch) const {
  batch.kind = CallKind::kGet;
  batch.gets = items;
  Prepare(batch, results, [&](uint32_t item) { return items[item].key; });
  for (uint32_t item = 0; item < items.size(); ++item) {
    if (TotalBytes(items[item].pieces) == UINT64_MAX) Settle(batch, item, Code::kInvalid);
  }
}

void Core::PrepareKeys(CallKind kind, std::span<const ByteSpan> keys, std::span<ItemResult> results,
                       Batch& batch) const {
  batch.kind = kind;
  Prepare(batch, results, [&](uint32_t item) { return keys[item]; });
}

bool Core::NextPass(Batch& batch) const {
  const int passes_max = batch.kind == CallKind::kGet ? 2 : 1;
  while (batch.passes < passes_max) {
    const bool ranges = batch.passes++ == 1;
    batch.op = ranges ? wire::Op::kGetRange : OpOf(batch.kind);
    GroupByPeer(batch, ranges);
    if (!batch.shares.empty()) return true;
  }
  return false;
}

// Sorts the items that are open (of a GET: the ranges, or the others) by peer, keeping the caller's order
// within, and makes a share for each peer.
void Core::GroupByPeer(Batch& batch, bool ranges) const {
  const auto count = static_cast<uint32_t>(batch.ids.size());
  const auto takes_part = [&](uint32_t item) {
    return batch.answered[item] == Batch::kOpen &&
           (batch.kind != CallKind::kGet || batch.gets[item].range == ranges);
  };
  std::vector<uint32_t>& start = batch.peer_count;
  start.assign(peers_.size() + 1, 0);
  batch.owner.resize(count);
  for (uint32_t item = 0; item < count; ++item) {
    if (!takes_part(item)) continue;
    if (view_->ring.empty()) {
      Settle(batch, item, Code::kUnavailable);
      continue;
    }
    batch.owner[item] = view_->ring.Lookup(batch.ids[item]);
    ++start[batch.owner[item] + 1];
  }
  batch.shares.clear();
  for (uint32_t peer = 0; peer < peers_.size(); ++peer) {
    const uint32_t mine = start[peer + 1];
    start[peer + 1] += start[peer];
    if (mine > 0) batch.shares.push_back({peer, start[peer], mine, 0, mine});
  }
  batch.order.resize(start.back());
  for (uint32_t item = 0; item < count; ++item) {
    if (takes_part(item)) batch.order[start[batch.owner[item]]++] = item;
  }
}

void Core::Count(const Batch& batch, Nanos began) const {
  const CallMetrics& call = metrics_.calls[static_cast<size_t>(batch.kind)];
  uint64_t hits = 0;
  uint64_t served = 0;
  for (const ItemResult& result : batch.results) {
    hits += result.code == Code::kOk;
    served +=
        result.code != Code::kUnavailable && result.code != Code::kTimeout && result.code != Code::kCancelled;
  }
  call.requests->Add();
  call.keys->Add(batch.results.size());
  call.hits->Add(hits);
  call.bytes->Add(BytesMoved(batch));
  call.latency->Observe(SystemClock().Now() - began);
  metrics_.served.Add(served);
}

uint64_t LeadingPresent(std::span<const ItemResult> results) {
  const auto missing =
      std::find_if(results.begin(), results.end(), [](const ItemResult& r) { return r.code != Code::kOk; });
  return static_cast<uint64_t>(missing - results.begin());
}

}  // namespace dfkv::client
