#include "store/tenants.h"

#include <algorithm>

#include "base/check.h"

namespace dfkv::store {

void Tenants::Add(TenantHash tenant, uint64_t slot_bytes) {
  MutexLock lock(mutex_);
  Entry& entry = entries_[tenant.value()];
  entry.bytes += slot_bytes;
  ++entry.objects;
}

void Tenants::Remove(TenantHash tenant, uint64_t slot_bytes) {
  MutexLock lock(mutex_);
  const auto found = entries_.find(tenant.value());
  DFKV_CHECK(found != entries_.end() && found->second.bytes >= slot_bytes);
  found->second.bytes -= slot_bytes;
  if (--found->second.objects == 0) entries_.erase(found);
}

std::vector<Tenants::Usage> Tenants::Largest(size_t count, Usage* rest) const {
  std::vector<Usage> all;
  {
    MutexLock lock(mutex_);
    all.reserve(entries_.size());
    for (const auto& [hash, entry] : entries_) all.push_back({TenantHash(hash), entry.bytes, entry.objects});
  }
  std::sort(all.begin(), all.end(), [](const Usage& a, const Usage& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.tenant.value() < b.tenant.value();
  });
  *rest = Usage();
  for (size_t i = count; i < all.size(); ++i) {
    rest->bytes += all[i].bytes;
    rest->objects += all[i].objects;
  }
  if (all.size() > count) all.resize(count);
  return all;
}

}  // namespace dfkv::store
