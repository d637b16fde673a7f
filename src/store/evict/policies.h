// The policies behind MakePolicy; users of the seam include policy.h alone.
#pragma once

#include <memory>

#include "store/evict/policy.h"

namespace dfkv::store::evict {

std::unique_ptr<Policy> MakeLru(const Config& config);
std::unique_ptr<Policy> MakeS3Fifo(const Config& config);
std::unique_ptr<Policy> MakeTournament(const Config& config);

}  // namespace dfkv::store::evict
