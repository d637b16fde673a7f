// The reactor on io_uring: one ring carries a thread's sockets and its disk I/O.
#pragma once

#include <memory>

#include "base/status.h"
#include "io/reactor.h"

namespace dfkv::io {

// Unavailable: the system refuses io_uring; the text says why.
Result<std::unique_ptr<Reactor>> MakeUringReactor(const ReactorOptions& options);

}  // namespace dfkv::io
