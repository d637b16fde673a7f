// Tenants: how much of the store each tenant's objects take.
//
// Invariant: a tenant's used bytes are the sum of the slots of its objects that are served, on all disks (in
// a store without disks: in the arena). An object counts from the moment it is served until it is gone. A
// tenant without objects takes no memory here.
//
// Threads: any. The mutex is a leaf: nothing else is taken inside it.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/ids.h"
#include "base/sync.h"

namespace dfkv::store {

class Tenants {
 public:
  struct Usage {
    TenantHash tenant;
    uint64_t bytes = 0;
    uint64_t objects = 0;
  };

  // An object in a slot of so many bytes came or went.
  void Add(TenantHash tenant, uint64_t slot_bytes);
  void Remove(TenantHash tenant, uint64_t slot_bytes);

  // The at most `count` tenants that use most, largest first; *rest: all others together.
  std::vector<Usage> Largest(size_t count, Usage* rest) const;

 private:
  struct Entry {
    uint64_t bytes = 0;
    uint64_t objects = 0;
  };
  mutable Mutex mutex_;
  std::unordered_map<uint64_t, Entry> entries_ GUARDED_BY(mutex_);  // by hash of the tenant
};

}  // namespace dfkv::store
