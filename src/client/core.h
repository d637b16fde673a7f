// Core: what every way of calling shares: the options, the view with its peers, the metrics, and how the
// items of a call become a batch (ids, owners, shares, deadline) and its result is counted.
//
// Threads: any; immutable but for metrics and peers, which look after themselves. Lives longer than the
// batches that it prepared.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/identity.h"
#include "client/batch.h"
#include "client/client.h"
#include "client/lane.h"
#include "client/metrics.h"
#include "client/peer.h"
#include "cluster/view.h"

namespace dfkv::client {

class Core {
 public:
  // Invalid names the option; no connection is made.
  static Result<std::shared_ptr<Core>> Open(const ClientOptions& options);
  Core(const ClientOptions& options, std::shared_ptr<const cluster::View> view);
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  // --- From items to batches. `results` has one element for each item, `batch.deadline` is set already.
  // Items that cannot be used are Invalid at once and take no part. Keys are read here and never again; the
  // items themselves are in use until the batch has ended. ---
  void PreparePut(std::span<const PutItem> items, std::span<ItemResult> results, Batch& batch) const;
  void PrepareGet(std::span<const GetItem> items, std::span<ItemResult> results, Batch& batch) const;
  void PrepareKeys(CallKind kind, std::span<const ByteSpan> keys, std::span<ItemResult> results,
                   Batch& batch) const;
  // Makes the shares of the next pass over the peers: of a GET, whole objects and ranges are two. False:
  // every item has been in one.
  bool NextPass(Batch& batch) const;
  void Count(const Batch& batch, Nanos began) const;

  // The default rule: stall_ms and what `bytes` take at min_rate.
  Nanos DeadlineOf(const CallOptions& call, uint64_t bytes) const;

  const cluster::View& view() const { return *view_; }
  std::span<const std::unique_ptr<Peer>> peers() const { return peers_; }
  ClientMetrics& metrics() const { return metrics_; }
  TenantHash tenant() const { return hasher_.tenant(); }
  LaneOptions lane_options() const;
  uint32_t lanes_max() const { return options_.lanes_max; }

 private:
  template <typename KeyOf>
  void Prepare(Batch& batch, std::span<ItemResult> results, const KeyOf& key_of) const;
  void GroupByPeer(Batch& batch, bool ranges) const;

  const ClientOptions options_;
  const std::shared_ptr<const cluster::View> view_;
  const KeyHasher hasher_;
  mutable ClientMetrics metrics_;
  const std::vector<std::unique_ptr<Peer>> peers_;  // by member
};

// The bytes that lengthen a call's default deadline.
template <typename Item>
uint64_t BytesOf(std::span<const Item> items) {
  constexpr uint64_t kValueBytesMax = UINT32_MAX;  // a frame's lengths have 32 bits
  uint64_t total = 0;
  for (const Item& item : items) {
    const uint64_t bytes = TotalBytes(item.pieces);
    if (bytes != UINT64_MAX) total += std::min(bytes, kValueBytesMax);
  }
  return total;
}

// How many of the first items are present, after a MATCH: each node has said how many of its own keys, in
// chain order, are; a key behind a missing one of its node counts as missing. The first missing key of all is
// then the same as if one node had them all.
uint64_t LeadingPresent(std::span<const ItemResult> results);

}  // namespace dfkv::client
