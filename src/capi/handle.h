// Handles: what a dfkv_client_t stands for. Any thread.
#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "base/status.h"
#include "base/sync.h"
#include "capi/dfkv_c_api.h"
#include "capi/handle_table.h"
#include "client/async.h"
#include "client/client.h"
#include "client/core.h"

namespace dfkv::capi {

// An open client: blocking calls, and the event loop of asynchronous ones once there are any.
class OpenClient {
 public:
  explicit OpenClient(std::shared_ptr<client::Core> core)
      : core_(std::move(core)), blocking_(client::Client::On(core_)) {}
  client::Client& blocking() const { return *blocking_; }
  // Starts the loop on first use; IoError or Unavailable when the system has none left to give.
  Result<client::AsyncClient*> Async();

 private:
  const std::shared_ptr<client::Core> core_;
  const std::unique_ptr<client::Client> blocking_;
  Mutex mutex_;
  std::unique_ptr<client::AsyncClient> async_ GUARDED_BY(mutex_);
};

// Shared: a call that is in flight while its handle is closed keeps the client until it ends.
using OpenRef = std::shared_ptr<OpenClient>;
HandleTable<OpenClient>& Clients();

// For blocking calls; it keeps all of the open client.
using ClientRef = std::shared_ptr<client::Client>;
ClientRef BlockingOf(OpenRef open);
// Null when the handle is not open.
ClientRef FindHandle(dfkv_client_t handle);

// Opens a client: `wish` changes options that come from the environment or are the defaults. Invalid names
// the option; Unsupported: the environment asks for RDMA.
Result<OpenRef> Open(const std::function<void(client::ClientOptions*)>& wish);

// The calling thread's text for dfkv_last_error.
void SetLastError(std::string_view text);
const char* LastError();

// Runs `body`, which returns what a C function returns; an exception (out of memory) becomes `failure`.
template <typename T, typename Body>
T NoThrow(T failure, const Body& body) noexcept {
  try {
    return body();
  } catch (...) {
    SetLastError("out of memory");
    return failure;
  }
}

}  // namespace dfkv::capi
