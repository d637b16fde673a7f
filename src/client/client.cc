#include "client/client.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/identity.h"
#include "base/text.h"
#include "client/batch.h"
#include "client/lane.h"
#include "client/metrics.h"
#include "client/peer.h"
#include "cluster/view.h"

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

PeerOptions PeerOptionsOf(const ClientOptions& options) {
  return {SilenceLimit(options), options.peer_cooldown_ms * kMillisecond,
          options.peer_cooldown_max_ms * kMillisecond};
}

LaneOptions LaneOptionsOf(const ClientOptions& options) {
  LaneOptions lane;
  lane.connection = {SilenceLimit(options), options.connect_ms * kMillisecond, options.verify};
  lane.idle = options.idle_ms * kMillisecond;
  lane.spin = options.spin_us * Nanos{1000};
  return lane;
}

class ClientImpl final : public Client {
 public:
  ClientImpl(const ClientOptions& options, std::shared_ptr<const cluster::View> view)
      : options_(options),
        view_(std::move(view)),
        hasher_(AsBytes(options.key_namespace)),
        peers_(MakePeers()),
        lanes_(peers_, LaneOptionsOf(options), options.lanes_max, metrics_) {
    metrics_.ring_members.Set(static_cast<int64_t>(peers_.size()));
  }

  Status Put(std::span<const PutItem> items, const CallOptions& call, std::span<ItemResult> results) override;
  Status Get(std::span<const GetItem> items, const CallOptions& call, std::span<ItemResult> results) override;
  Status Exist(std::span<const ByteSpan> keys, const CallOptions& call,
               std::span<ItemResult> results) override {
    return RunKeys({wire::Op::kExist, CallKind::kExist}, keys, call, results);
  }
  Status Remove(std::span<const ByteSpan> keys, const CallOptions& call,
                std::span<ItemResult> results) override {
    return RunKeys({wire::Op::kRemove, CallKind::kRemove}, keys, call, results);
  }
  Status Lookup(std::span<const ByteSpan> keys, const CallOptions& call,
                std::span<ItemResult> results) override {
    return RunKeys({wire::Op::kLookup, CallKind::kLookup}, keys, call, results);
  }
  Result<uint64_t> Match(std::span<const ByteSpan> keys, const CallOptions& call) override;
  Result<std::string> Stats(const std::string& member, const CallOptions& call) override;

  MetricRegistry& metrics() override { return metrics_.registry; }

 private:
  struct Verb {
    wire::Op op;
    CallKind kind;
  };
  std::vector<std::unique_ptr<Peer>> MakePeers();
  Nanos DeadlineOf(const CallOptions& call, uint64_t bytes) const;
  Status RunKeys(Verb verb, std::span<const ByteSpan> keys, const CallOptions& call,
                 std::span<ItemResult> results);
  void RunGets(Lane& lane, bool ranges);
  template <typename KeyOf>
  void Prepare(Batch& batch, std::span<ItemResult> results, const KeyOf& key_of) const;
  void GroupByPeer(Batch& batch) const;
  void Count(CallKind kind, const Batch& batch, Nanos began, uint64_t bytes) const;

  const ClientOptions options_;
  const std::shared_ptr<const cluster::View> view_;
  const KeyHasher hasher_;
  mutable ClientMetrics metrics_;
  const std::vector<std::unique_ptr<Peer>> peers_;  // by member
  LanePool lanes_;
};

// A lane for the duration of a call.
class Loan {
 public:
  Loan(LanePool& pool, Nanos deadline) : pool_(pool), lane_(pool.Take(deadline)) {}
  ~Loan() {
    if (lane_.ok()) pool_.GiveBack(std::move(*lane_));
  }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  const Result<std::unique_ptr<Lane>>& lane() const { return lane_; }

 private:
  LanePool& pool_;
  Result<std::unique_ptr<Lane>> lane_;
};

Status NoLane(const Status& why, std::span<ItemResult> results) {
  std::fill(results.begin(), results.end(), ItemResult{why.code(), 0});
  return Ok();
}

Status SizesDiffer() {
  return {Code::kInvalid, "there must be one result for each item"};
}

std::vector<std::unique_ptr<Peer>> ClientImpl::MakePeers() {
  std::vector<std::unique_ptr<Peer>> peers;
  for (const cluster::Member& member : view_->members) {
    peers.push_back(std::make_unique<Peer>(member, PeerOptionsOf(options_), metrics_));
  }
  return peers;
}

Nanos ClientImpl::DeadlineOf(const CallOptions& call, uint64_t bytes) const {
  const Nanos now = SystemClock().Now();
  if (call.deadline_ms != 0) return now + call.deadline_ms * kMillisecond;
  const double transfer = static_cast<double>(bytes) / static_cast<double>(options_.min_rate) * kSecond;
  return now + options_.stall_ms * kMillisecond + static_cast<Nanos>(std::min(transfer, 1e6 * kSecond));
}

// The longest value whose bytes lengthen a call's default deadline: a frame's lengths have 32 bits.
constexpr uint64_t kValueBytesMax = UINT32_MAX;

// Of all items. One whose pieces add up to more than 2^64 is Invalid and does not count.
template <typename Item>
uint64_t BytesOf(std::span<const Item> items) {
  uint64_t total = 0;
  for (const Item& item : items) {
    const uint64_t bytes = TotalBytes(item.pieces);
    if (bytes != UINT64_MAX) total += std::min(bytes, kValueBytesMax);
  }
  return total;
}

void Refuse(Batch& batch, uint32_t item) {
  batch.results[item] = {Code::kInvalid, 0};
  batch.answered[item] = Batch::kAnswered;
}

// Fills in ids, codes and order; items without a key are Invalid and take no part.
template <typename KeyOf>
void ClientImpl::Prepare(Batch& batch, std::span<ItemResult> results, const KeyOf& key_of) const {
  const auto count = static_cast<uint32_t>(results.size());
  batch.tenant = hasher_.tenant();
  batch.results = results;
  batch.ids.resize(count);
  batch.answered.assign(count, Batch::kOpen);
  for (uint32_t item = 0; item < count; ++item) {
    const ByteSpan key = key_of(item);
    if (key.empty()) {
      Refuse(batch, item);
    } else {
      batch.ids[item] = hasher_.Hash(key);
    }
  }
}

// Sorts the items that are open by peer, keeping the caller's order within, and makes a share for each peer.
void ClientImpl::GroupByPeer(Batch& batch) const {
  const auto count = static_cast<uint32_t>(batch.ids.size());
  std::vector<uint32_t>& start = batch.peer_count;
  start.assign(peers_.size() + 1, 0);
  batch.owner.resize(count);
  for (uint32_t item = 0; item < count; ++item) {
    if (batch.answered[item] != Batch::kOpen) continue;
    if (view_->ring.empty()) {
      batch.results[item] = {Code::kUnavailable, 0};
      batch.answered[item] = Batch::kAnswered;
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
    if (batch.answered[item] == Batch::kOpen) batch.order[start[batch.owner[item]]++] = item;
  }
}

void ClientImpl::Count(CallKind kind, const Batch& batch, Nanos began, uint64_t bytes) const {
  const CallMetrics& call = metrics_.calls[static_cast<size_t>(kind)];
  uint64_t hits = 0;
  uint64_t served = 0;
  for (const ItemResult& result : batch.results) {
    hits += result.code == Code::kOk;
    served += result.code != Code::kUnavailable && result.code != Code::kTimeout;
  }
  call.requests->Add();
  call.keys->Add(batch.results.size());
  call.hits->Add(hits);
  call.bytes->Add(bytes);
  call.latency->Observe(SystemClock().Now() - began);
  metrics_.served.Add(served);
}

Status ClientImpl::Put(std::span<const PutItem> items, const CallOptions& call,
                       std::span<ItemResult> results) {
  if (items.size() != results.size()) return SizesDiffer();
  const Nanos began = SystemClock().Now();
  const Nanos deadline = DeadlineOf(call, BytesOf(items));
  Loan loan(lanes_, deadline);
  if (!loan.lane().ok()) return NoLane(loan.lane().status(), results);
  Lane& lane = **loan.lane();
  Batch& batch = lane.batch;
  batch.op = wire::Op::kPut;
  batch.deadline = deadline;
  batch.puts = items;
  Prepare(batch, results, [&](uint32_t item) { return items[item].key; });
  for (uint32_t item = 0; item < items.size(); ++item) {
    const uint64_t bytes = TotalBytes(items[item].pieces);
    if (bytes == 0 || bytes == UINT64_MAX) Refuse(batch, item);
  }
  GroupByPeer(batch);
  lane.Run(batch);
  uint64_t bytes = 0;
  for (uint32_t item = 0; item < items.size(); ++item) {
    if (results[item].code == Code::kOk) bytes += TotalBytes(items[item].pieces);
  }
  Count(CallKind::kPut, batch, began, bytes);
  return Ok();
}

// Whole objects and ranges are different operations: of a mixed batch, the others sit out.
void ClientImpl::RunGets(Lane& lane, bool ranges) {
  Batch& batch = lane.batch;
  std::vector<uint32_t> waiting;
  for (uint32_t item = 0; item < batch.gets.size(); ++item) {
    if (batch.answered[item] == Batch::kOpen && batch.gets[item].range != ranges) {
      waiting.push_back(item);
      batch.answered[item] = Batch::kAnswered;
    }
  }
  if (waiting.size() != batch.gets.size()) {
    batch.op = ranges ? wire::Op::kGetRange : wire::Op::kGet;
    GroupByPeer(batch);
    lane.Run(batch);
  }
  for (const uint32_t item : waiting) batch.answered[item] = Batch::kOpen;
}

Status ClientImpl::Get(std::span<const GetItem> items, const CallOptions& call,
                       std::span<ItemResult> results) {
  if (items.size() != results.size()) return SizesDiffer();
  const Nanos began = SystemClock().Now();
  bool ranges = false;
  bool wholes = false;
  for (const GetItem& item : items) (item.range ? ranges : wholes) = true;
  const Nanos deadline = DeadlineOf(call, BytesOf(items));
  Loan loan(lanes_, deadline);
  if (!loan.lane().ok()) return NoLane(loan.lane().status(), results);
  Lane& lane = **loan.lane();
  Batch& batch = lane.batch;
  batch.deadline = deadline;
  batch.gets = items;
  Prepare(batch, results, [&](uint32_t item) { return items[item].key; });
  for (uint32_t item = 0; item < items.size(); ++item) {
    if (TotalBytes(items[item].pieces) == UINT64_MAX) Refuse(batch, item);
  }
  if (wholes) RunGets(lane, false);
  if (ranges) RunGets(lane, true);
  uint64_t bytes = 0;
  for (const ItemResult& result : results) bytes += result.code == Code::kOk ? result.length : 0;
  Count(CallKind::kGet, batch, began, bytes);
  return Ok();
}

Status ClientImpl::RunKeys(Verb verb, std::span<const ByteSpan> keys, const CallOptions& call,
                           std::span<ItemResult> results) {
  if (keys.size() != results.size()) return SizesDiffer();
  const Nanos began = SystemClock().Now();
  const Nanos deadline = DeadlineOf(call, 0);
  Loan loan(lanes_, deadline);
  if (!loan.lane().ok()) return NoLane(loan.lane().status(), results);
  Lane& lane = **loan.lane();
  Batch& batch = lane.batch;
  batch.op = verb.op;
  batch.deadline = deadline;
  Prepare(batch, results, [&](uint32_t item) { return keys[item]; });
  GroupByPeer(batch);
  lane.Run(batch);
  Count(verb.kind, batch, began, 0);
  return Ok();
}

Result<uint64_t> ClientImpl::Match(std::span<const ByteSpan> keys, const CallOptions& call) {
  std::vector<ItemResult> results(keys.size());
  // Each node says how many of its own keys, in chain order, are present; a key behind a missing one of its
  // node counts as missing. The first missing key of all is then the same as if one node had them all.
  const Status status = RunKeys({wire::Op::kMatch, CallKind::kMatch}, keys, call, results);
  if (!status.ok()) return status;
  const auto missing =
      std::find_if(results.begin(), results.end(), [](const ItemResult& r) { return r.code != Code::kOk; });
  return static_cast<uint64_t>(missing - results.begin());
}

Result<std::string> ClientImpl::Stats(const std::string& member, const CallOptions& call) {
  const auto& members = view_->members;
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const cluster::Member& m) { return m.name == member; });
  if (found == members.end()) return Status(Code::kInvalid, Cat("no member is named '", member, "'"));
  const Nanos deadline = DeadlineOf(call, 0);
  Loan loan(lanes_, deadline);
  if (!loan.lane().ok()) return loan.lane().status();
  Lane& lane = **loan.lane();
  Batch& batch = lane.batch;
  std::array<ItemResult, 1> result;
  batch.op = wire::Op::kStats;
  batch.deadline = deadline;
  batch.tenant = hasher_.tenant();
  batch.results = result;
  batch.ids.assign(1, {});
  batch.answered.assign(1, Batch::kOpen);
  batch.order.assign(1, 0);
  batch.shares.assign(1, {static_cast<uint32_t>(found - members.begin()), 0, 1, 0, 1});
  batch.text.clear();
  lane.Run(batch);
  if (result[0].code != Code::kOk) {
    return Status(result[0].code, Cat("member ", member, " (", found->address, ") gave no stats"));
  }
  return std::exchange(batch.text, {});
}

}  // namespace

Result<std::unique_ptr<Client>> Client::Open(const ClientOptions& options) {
  DFKV_RETURN_IF_ERROR(Check(options));
  if (!options.members_required && TrimSpace(options.members).empty()) {
    return std::unique_ptr<Client>(new ClientImpl(options, cluster::View::Make(Epoch(0), {})));
  }
  Result<std::shared_ptr<const cluster::View>> view = cluster::StaticView(options.members);
  if (!view.ok()) return view.status();
  return std::unique_ptr<Client>(new ClientImpl(options, std::move(*view)));
}

}  // namespace dfkv::client
