// ClientMetrics: what a client counts. The names are those that existing dashboards and connectors read.
#pragma once

#include <array>
#include <string>

#include "base/metric.h"

namespace dfkv::client {

enum class CallKind : uint8_t { kPut, kGet, kExist, kRemove, kLookup, kMatch };
constexpr size_t kCallKinds = 6;

struct CallMetrics {
  Counter* requests = nullptr;  // calls
  Counter* keys = nullptr;
  Counter* hits = nullptr;   // items that ended Ok
  Counter* bytes = nullptr;  // of values, of the items that ended Ok
  Histogram* latency = nullptr;
};

struct PeerMetrics {
  Counter* errors = nullptr;
  Histogram* latency = nullptr;  // from a call's first byte to a peer to its last answer
};

// Any thread. Lives as long as the client.
class ClientMetrics {
 public:
  ClientMetrics();
  PeerMetrics ForPeer(const std::string& name);

  MetricRegistry registry;
  std::array<CallMetrics, kCallKinds> calls;
  Counter& served;             // items that a peer answered
  Counter& io_errors;          // connections lost or given up while in use
  Counter& unhealthy_skips;    // items answered Unavailable at once: their peer is avoided
  Counter& marked_bad;         // peers that began to be avoided
  Counter& recovered;          // peers that answered again
  Counter& health_checks;      // PINGs and probes sent
  Counter& busy;               // items that a peer answered Busy
  Counter& corrupt;            // values that failed their check here
  Counter& stale_retries;      // calls moved from a connection that had been closed while idle to a fresh one
  Gauge& ring_members;         //
  Gauge& connections;          // open
  Gauge& lanes_in_use;         // calls in flight
  Gauge& peers_avoided;        // now
  Counter& lane_selections;    // calls that got a lane
  Counter& retired_idle;       // connections closed: unused for idle_ms
  Counter& retired_failed;     // lost
  Counter& retired_deadline;   // given up, so that a late answer finds no taker
  Counter& retired_cancelled;  // the same, of a call that was cancelled
};

}  // namespace dfkv::client
