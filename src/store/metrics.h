// StoreMetrics: the store's counters, registered once when the store is opened.
#pragma once

#include "base/metric.h"

namespace dfkv::store {

struct StoreMetrics {
  explicit StoreMetrics(MetricRegistry& registry);

  Counter& evictions;
  Counter& evicted_bytes;
  Counter& corrupt;
  Counter& ram_hits;
  Counter& ram_misses;
  Counter& ram_promoted;
  Counter& ram_evictions;
  Counter& reads_coalesced;
  Counter& put_busy;
  Counter& put_expired;
  Counter& put_lost;
  Counter& removes;
  Counter& batched_writes;
  Counter& record_writes;
  Counter& record_clears;
  Counter& clear_failures;
  Counter& disk_errors;
  Counter& disk_failures;
  Counter& table_syncs;
  Counter& touches_dropped;
  Counter& extent_steals;
  Gauge& rebuilt_objects;
  Gauge& rebuild_corrupt;
  Gauge& rebuild_rejected;
  Gauge& rebuild_scanned_bytes;
};

}  // namespace dfkv::store
