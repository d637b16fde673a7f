// TierParts: what the tiers of one store share.
#pragma once

#include "store/index.h"
#include "store/metrics.h"
#include "store/tenants.h"

namespace dfkv::store {

struct TierParts {
  Index& index;
  Tenants& tenants;
  StoreMetrics& metrics;
};

}  // namespace dfkv::store
