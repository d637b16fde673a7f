// What an op gives when it is tried without waiting; shared by the reactors.
#pragma once

#include <cstdint>

#include "io/reactor.h"

namespace dfkv::io {

inline bool IsDiskOp(Op::Kind kind) {
  return kind == Op::Kind::kRead || kind == Op::Kind::kWrite || kind == Op::Kind::kSync;
}
inline bool WaitsForOutput(Op::Kind kind) {
  return kind == Op::Kind::kWritable || kind == Op::Kind::kSend || kind == Op::Kind::kConnect;
}

// A socket op on a descriptor that may be ready: its result, or -EAGAIN. A kConnect must have been started.
int64_t TryNow(const Op& op);

// Begins a kConnect: 0, -EINPROGRESS, or another -errno. Makes the descriptor non-blocking.
int64_t StartConnect(const Op& op);

}  // namespace dfkv::io
