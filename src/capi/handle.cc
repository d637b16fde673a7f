#include "capi/handle.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/log.h"
#include "base/option.h"
#include "base/sync.h"
#include "client/options.h"

namespace dfkv::capi {
namespace {

struct Table {
  Mutex mutex;
  std::unordered_map<uintptr_t, ClientRef> clients GUARDED_BY(mutex);
  uintptr_t next GUARDED_BY(mutex) = 1;
};

// Never destroyed: threads may still call while the process exits.
Table& Handles() {
  static Table* const kTable = new Table;
  return *kTable;
}

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

dfkv_client_t AddHandle(ClientRef client) {
  Table& table = Handles();
  MutexLock lock(table.mutex);
  const uintptr_t number = table.next++ << 4;  // looks like an aligned address, is none
  table.clients.emplace(number, std::move(client));
  return reinterpret_cast<dfkv_client_t>(number);
}

ClientRef FindHandle(dfkv_client_t handle) {
  Table& table = Handles();
  MutexLock lock(table.mutex);
  const auto found = table.clients.find(reinterpret_cast<uintptr_t>(handle));
  return found == table.clients.end() ? nullptr : found->second;
}

ClientRef TakeHandle(dfkv_client_t handle) {
  Table& table = Handles();
  MutexLock lock(table.mutex);
  const auto found = table.clients.find(reinterpret_cast<uintptr_t>(handle));
  if (found == table.clients.end()) return nullptr;
  ClientRef client = std::move(found->second);
  table.clients.erase(found);
  return client;
}

Result<ClientRef> OpenClient(const std::function<void(client::ClientOptions*)>& wish) {
  Environment environment;
  ReadEnvironmentInto(&environment);
  if (environment.rdma) {
    return Status(Code::kUnsupported, "DFKV_RDMA asks for RDMA, which this version does not have");
  }
  client::ClientOptions& options = environment.client;
  wish(&options);
  options.peer_cooldown_max_ms = std::max(options.peer_cooldown_max_ms, options.peer_cooldown_ms);
  Result<std::unique_ptr<client::Client>> client = client::Client::Open(options);
  if (!client.ok()) return client.status();
  return ClientRef(std::move(*client));
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
