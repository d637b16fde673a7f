// What the tournament knows of an id: one node that carries its place in every list, live or not.
#pragma once

#include <cstdint>

#include "store/evict/node_table.h"
#include "store/evict/policy.h"

namespace dfkv::store::evict {

enum ArcList : unsigned { kArcNone = 0, kArcT1 = 1, kArcT2 = 2, kArcB1 = 3, kArcB2 = 4 };

struct Known {
  static constexpr uint32_t kDepthMax = 0xffff;

  uint64_t id = 0;
  Index hash_next = kNil;
  Handle handle = kNoHandle;
  Links recency;
  Links arc;
  uint64_t last : 48 = 0;   // time of the last access
  uint64_t depth : 16 = 0;  // place in its chain
  uint64_t prev : 48 = 0;   // time of the access before it
  uint64_t asked : 3 = 0;   // requests that named it and whose GET or PUT is still to come
  uint64_t arc_list : 3 = kArcNone;
  uint64_t in_lru : 1 = 0;
  uint64_t in_lru2 : 1 = 0;
  uint64_t in_heap : 1 = 0;  // LRU-2 orders it by its heap, not by its queue
  uint64_t in_recency : 1 = 0;
  uint64_t in_doomed : 1 = 0;  // the queue of the winner's rejects has an entry for it
  uint64_t put_seen : 1 = 0;   // absent when a PUT named it: its Insert is that PUT's
  uint64_t known : 1 = 0;      // not on the free list
  uint64_t busy : 1 = 0;       // named by the batch being worked on

  bool live() const { return handle != kNoHandle; }
  bool in_arc() const { return arc_list == kArcT1 || arc_list == kArcT2; }
};
static_assert(sizeof(Known) == 48);

using KnownTable = NodeTable<Known>;

}  // namespace dfkv::store::evict
