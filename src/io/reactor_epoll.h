// The reactor on epoll: for systems that refuse io_uring, and for clients whose calls come from many threads.
#pragma once

#include <memory>

#include "base/status.h"
#include "io/reactor.h"

namespace dfkv::io {

// Unavailable: the system is out of descriptors or memory.
Result<std::unique_ptr<Reactor>> MakeEpollReactor(const ReactorOptions& options);

}  // namespace dfkv::io
