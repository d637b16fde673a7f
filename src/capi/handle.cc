#include "capi/handle.h"

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "base/option.h"
#include "client/options.h"

namespace dfkv::capi {
namespace {

// Plain memory: it needs no destructor when a thread ends, so the library can be unloaded at any time.
thread_local char last_error[512];

struct Environment {
  client::ClientOptions client;
  std::string log;
  bool rdma = false;
};

void ReadEnvironmentInto(Environment* environment) {
  OptionSet set;
  client::RegisterClientOptions(&set, &environment->client);
  set.Add("log", &environment->log, "Lines of this level and above go to stderr.");
  set.Add("rdma", &environment->rdma, "Use RDMA.");
  const Status status = set.LoadEnvironment();
  if (!status.ok()) LogWarn(status.message());
  if (environment->log.empty()) return;
  const Result<LogLevel> level = ParseLogLevel(environment->log);
  if (level.ok()) SetLogLevel(*level);
  if (!level.ok()) LogWarn("DFKV_LOG: ", level.status().message());
}

}  // namespace

// Never destroyed: threads may still call while the process exits.
HandleTable<OpenClient>& Clients() {
  static auto* const kTable = new HandleTable<OpenClient>("client");
  return *kTable;
}

ClientRef BlockingOf(OpenRef open) {
  client::Client* const blocking = &open->blocking();
  return ClientRef(std::move(open), blocking);
}

ClientRef FindHandle(dfkv_client_t handle) {
  Result<OpenRef> open = Clients().Find(handle);
  return open.ok() ? BlockingOf(std::move(*open)) : nullptr;
}

Result<client::AsyncClient*> OpenClient::Async() {
  MutexLock lock(mutex_);
  if (!async_) {
    Result<std::unique_ptr<client::AsyncClient>> started = client::AsyncClient::Start(core_);
    if (!started.ok()) return started.status();
    async_ = std::move(*started);
  }
  return async_.get();
}

Result<OpenRef> Open(const std::function<void(client::ClientOptions*)>& wish) {
  Environment environment;
  ReadEnvironmentInto(&environment);
  if (environment.rdma) {
    return Status(Code::kUnsupported, "DFKV_RDMA asks for RDMA, which this version does not have");
  }
  client::ClientOptions& options = environment.client;
  wish(&options);
  options.peer_cooldown_max_ms = std::max(options.peer_cooldown_max_ms, options.peer_cooldown_ms);
  Result<std::shared_ptr<client::Core>> core = client::Core::Open(options);
  if (!core.ok()) return core.status();
  return std::make_shared<OpenClient>(std::move(*core));
}

void SetLastError(std::string_view text) {
  const size_t size = std::min(text.size(), sizeof last_error - 1);
  std::memcpy(last_error, text.data(), size);
  last_error[size] = '\0';
}

const char* LastError() {
  return last_error;
}

}  // namespace dfkv::capi
