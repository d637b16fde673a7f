#include "client/metrics.h"

#include "client/client.h"

namespace dfkv::client {
namespace {

constexpr const char* kCallNames[kCallKinds] = {"put", "get", "exist", "remove", "lookup", "match"};

// Names that connectors read and that belong to parts a TCP client with static members does not have: zero.
void AddAbsent(MetricRegistry& registry) {
  constexpr const char* kCounters[] = {
      "dfkv_client_dedup_hits_total",
      "dfkv_client_dedup_fetches_total",
      "dfkv_client_dedup_wait_hits_total",
      "dfkv_client_dedup_wait_timeouts_total",
      "dfkv_client_gpu_dedup_hits_total",
      "dfkv_client_gpu_dedup_fetches_total",
      "dfkv_client_gpu_dedup_wait_hits_total",
      "dfkv_client_gpu_dedup_wait_timeouts_total",
      "dfkv_client_mds_unreachable_polls_total",
      "dfkv_rdma_client_conns_opened_total",
      "dfkv_rdma_client_v2_put_writes_total",
      "dfkv_rdma_client_v2_get_writes_total",
      "dfkv_rdma_client_completion_timeouts_total",
      "dfkv_rdma_client_stale_pool_retries_total",
  };
  constexpr const char* kGauges[] = {
      "dfkv_client_mds_reachable",
      "dfkv_rdma_client_mr_regions",
      "dfkv_rdma_client_mr_registered_bytes",
      "dfkv_rdma_client_pipeline_depth",
  };
  for (const char* name : kCounters) registry.AddCounter(name, "Always 0: not part of this client.");
  for (const char* name : kGauges) registry.AddGauge(name, "Always 0: not part of this client.");
}

}  // namespace

ClientMetrics::ClientMetrics()
    : served(registry.AddCounter("dfkv_client_ops_served_total", "Items that a peer answered.")),
      io_errors(registry.AddCounter("dfkv_client_io_errors_total",
                                    "Connections lost or given up while a call used them.")),
      unhealthy_skips(registry.AddCounter("dfkv_client_unhealthy_skips_total",
                                          "Items not sent because their peer is avoided.")),
      marked_bad(
          registry.AddCounter("dfkv_client_peer_marked_bad_total", "Times a peer began to be avoided.")),
      recovered(
          registry.AddCounter("dfkv_client_peer_recovered_total", "Times an avoided peer answered again.")),
      health_checks(registry.AddCounter("dfkv_client_health_checks_total", "PINGs and probes sent.")),
      busy(registry.AddCounter("dfkv_client_busy_suppressed_total", "Items that a peer answered Busy.")),
      corrupt(registry.AddCounter("dfkv_client_corrupt_total", "Values that failed their check on arrival.")),
      stale_retries(registry.AddCounter("dfkv_transport_pool_stale_retries_total",
                                        "Calls moved from a stale pooled connection to a fresh one.")),
      ring_members(registry.AddGauge("dfkv_client_ring_members", "Members on the hash ring.")),
      connections(registry.AddGauge("dfkv_transport_pool_connections", "Open connections.")),
      lanes_in_use(registry.AddGauge("dfkv_transport_pool_inflight", "Calls in flight.")),
      peers_avoided(registry.AddGauge("dfkv_transport_pool_backoff_endpoints", "Peers avoided now.")),
      lane_selections(registry.AddCounter("dfkv_transport_pool_selections_total",
                                          "Calls that checked connections out of the pool.")),
      retired_idle(registry.AddCounter("dfkv_transport_pool_retirements_total", "Connections closed.",
                                       {{"reason", "idle"}})),
      retired_failed(registry.AddCounter("dfkv_transport_pool_retirements_total", "Connections closed.",
                                         {{"reason", "failed"}})),
      retired_deadline(registry.AddCounter("dfkv_transport_pool_retirements_total", "Connections closed.",
                                           {{"reason", "deadline"}})),
      retired_cancelled(registry.AddCounter("dfkv_transport_pool_retirements_total", "Connections closed.",
                                            {{"reason", "cancelled"}})) {
  for (size_t kind = 0; kind < kCallKinds; ++kind) {
    const Labels labels = {{"op", kCallNames[kind]}};
    CallMetrics& call = calls[kind];
    call.requests = &registry.AddCounter("dfkv_client_op_requests_total", "Calls.", labels);
    call.keys = &registry.AddCounter("dfkv_client_op_keys_total", "Items of calls.", labels);
    call.hits = &registry.AddCounter("dfkv_client_op_hits_total", "Items that ended Ok.", labels);
    call.bytes = &registry.AddCounter("dfkv_client_op_bytes_total", "Bytes of values moved.", labels);
    call.latency = &registry.AddHistogram("dfkv_client_op_latency_seconds", "Duration of calls.", labels);
    registry.AddCallback("dfkv_client_op_max_seconds", "Longest call.", "gauge", labels,
                         [latency = call.latency] { return latency->max_seconds(); });
  }
  registry
      .AddGauge("dfkv_client_transport_info", "The transport in use; always 1.",
                {{"transport", kTransportMode}})
      .Set(1);
  registry.AddCallback("dfkv_transport_pool_backoff_events_total", "Times a peer began to be avoided.",
                       "counter", {}, [this] { return static_cast<double>(marked_bad.value()); });
  registry.AddCallback("dfkv_transport_pool_backoff_suppressed_total",
                       "Items not sent because their peer is avoided.", "counter", {},
                       [this] { return static_cast<double>(unhealthy_skips.value()); });
  AddAbsent(registry);
}

PeerMetrics ClientMetrics::ForPeer(const std::string& name) {
  PeerMetrics peer;
  const Labels labels = {{"peer", name}};
  peer.errors =
      &registry.AddCounter("dfkv_client_peer_errors_total", "Failures of connections to a peer.", labels);
  peer.latency = &registry.AddHistogram("dfkv_client_peer_latency_seconds",
                                        "Time a peer took for its part of a call.", labels);
  registry.AddCallback("dfkv_client_peer_latency_max_seconds",
                       "Longest time a peer took for its part of a call.", "gauge", labels,
                       [latency = peer.latency] { return latency->max_seconds(); });
  return peer;
}

}  // namespace dfkv::client
