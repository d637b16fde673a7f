#include "base/log.h"
#include "io/reactor.h"
#include "io/reactor_epoll.h"
#include "io/reactor_uring.h"

namespace dfkv::io {

Result<std::unique_ptr<Reactor>> MakeReactor(const ReactorOptions& options) {
  if (options.kind == ReactorKind::kEpoll) return MakeEpollReactor(options);
  Result<std::unique_ptr<Reactor>> uring = MakeUringReactor(options);
  if (uring.ok() || options.kind == ReactorKind::kUring) return uring;
  LogInfo(uring.status().message(), "; using epoll");
  return MakeEpollReactor(options);
}

}  // namespace dfkv::io
