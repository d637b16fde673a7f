#include "store/metrics.h"

namespace dfkv::store {

StoreMetrics::StoreMetrics(MetricRegistry& r)
    : evictions(r.AddCounter("dfkv_evictions_total", "Objects given up for space.")),
      evicted_bytes(r.AddCounter("dfkv_evicted_bytes_total", "Payload bytes of objects given up for space.")),
      corrupt(
          r.AddCounter("dfkv_corrupt_total", "Objects that failed their check on a read and were dropped.")),
      ram_hits(r.AddCounter("dfkv_ram_hit_total", "Reads served from the RAM tier.")),
      ram_misses(r.AddCounter("dfkv_ram_miss_total", "Reads of present objects that went to a disk.")),
      ram_promoted(r.AddCounter("dfkv_ram_promoted_total", "Objects copied from a disk to the RAM tier.")),
      ram_evictions(r.AddCounter("dfkv_ram_evictions_total", "RAM copies given up for space.")),
      reads_coalesced(
          r.AddCounter("dfkv_read_coalesced_total", "Reads that shared another read's transfer.")),
      put_busy(r.AddCounter("dfkv_store_put_busy_total", "Attempts to reserve refused, retries included.")),
      put_expired(
          r.AddCounter("dfkv_put_expired_total", "Reservations dropped because they never committed.")),
      put_lost(r.AddCounter("dfkv_put_lost_total",
                            "Objects acknowledged from RAM whose write to disk failed (durability ram).")),
      removes(r.AddCounter("dfkv_store_removed_total", "Objects removed on request.")),
      batched_writes(
          r.AddCounter("dfkv_batched_writes_total", "Gathered payload writes of two or more objects.")),
      record_writes(r.AddCounter("dfkv_record_writes_total", "Slot records written.")),
      record_clears(r.AddCounter("dfkv_record_clears_total", "Slot records cleared.")),
      clear_failures(r.AddCounter("dfkv_record_clear_failures_total", "Slot records whose clearing failed.")),
      disk_errors(r.AddCounter("dfkv_disk_errors_total", "Transfers that a disk refused.")),
      disk_failures(r.AddCounter("dfkv_disk_failures_total", "Times that a disk was taken out of use.")),
      table_syncs(r.AddCounter("dfkv_table_sync_total", "Group syncs of a slab and its table.")),
      touches_dropped(r.AddCounter("dfkv_touches_dropped_total",
                                   "Batches that eviction was not told about because too many waited.")),
      extent_steals(r.AddCounter("dfkv_extent_steals_total", "Extents that changed their size class.")),
      rebuilt_objects(r.AddGauge("dfkv_table_rebuilt_objects", "Objects found when the store was opened.")),
      rebuild_corrupt(r.AddGauge("dfkv_rebuild_corrupt_records",
                                 "Records that were not valid in their place when the store was opened.")),
      rebuild_rejected(r.AddGauge("dfkv_rebuild_rejected_records",
                                  "Valid records that a newer one superseded when the store was opened.")),
      rebuild_scanned_bytes(
          r.AddGauge("dfkv_rebuild_scanned_bytes", "Bytes of slot tables read when the store was opened.")) {}

}  // namespace dfkv::store
