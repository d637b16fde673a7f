// Handles: what a dfkv_client_t stands for. A handle is a number that is never given twice, looked up in a
// table, so that a closed or invented one makes a call fail instead of crashing it. Any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "capi/dfkv_c_api.h"
#include "client/client.h"

namespace dfkv::capi {

// Shared: a call that is in flight while its handle is closed keeps the client until it ends.
using ClientRef = std::shared_ptr<client::Client>;

dfkv_client_t AddHandle(ClientRef client);
ClientRef FindHandle(dfkv_client_t handle);  // null: closed, or never given
ClientRef TakeHandle(dfkv_client_t handle);  // the same, and the handle is closed

// Opens a client: `wish` changes options that come from the environment or are the defaults. Invalid names
// the option; Unsupported: the environment asks for RDMA.
Result<ClientRef> OpenClient(const std::function<void(client::ClientOptions*)>& wish);

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
