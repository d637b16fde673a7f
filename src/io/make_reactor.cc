#include "io/reactor.h"
#include "io/reactor_epoll.h"

namespace dfkv::io {

Result<std::unique_ptr<Reactor>> MakeReactor(const ReactorOptions& options) {
  if (options.kind == ReactorKind::kUring) {
    return Status(Code::kUnavailable, "io_uring: this build has no such reactor");
  }
  return MakeEpollReactor(options);
}

}  // namespace dfkv::io
