// The options of dfkv_server: declared once here, names as users of the existing dfkv know them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "admin/server.h"
#include "base/log.h"
#include "base/option.h"
#include "base/status.h"
#include "io/reactor.h"
#include "net/tcp/options.h"
#include "node/handler.h"
#include "store/store.h"

namespace dfkv::node {

struct NodeOptions {
  // Node
  std::string id = "node";
  std::string group = "default";
  LogLevel log = LogLevel::kInfo;
  uint32_t stop_ms = 10'000;

  // Network
  std::string listen;  // empty: of advertise, else 127.0.0.1
  std::string advertise;
  uint16_t port = 0;
  uint32_t port_wait_ms = 5000;
  uint32_t tcp_max_conns = 512;
  uint32_t tcp_first_req_ms = 30'000;
  uint32_t tcp_io_timeout_s = 60;
  uint32_t stall_ms = 1000;
  uint64_t min_rate_bytes = 8ull << 20;
  uint32_t write_stall_ms = 10'000;
  uint32_t request_ms = 10'000;
  uint32_t request_max_ms = 600'000;
  uint64_t max_frame_bytes = 0;  // 0: max_object_bytes, at least 64 MiB
  uint32_t max_items = 4096;
  uint32_t max_requests = 256;
  uint64_t output_bytes = 16ull << 20;
  uint64_t output_total_bytes = 0;  // 0: a quarter of the RAM tier

  // Reactors
  io::ReactorKind io = io::ReactorKind::kAuto;
  uint32_t threads = 0;  // 0: min(CPUs, 8)
  uint32_t spin_us = 0;
  uint32_t io_depth = 1024;
  uint32_t disk_threads = 4;

  // Storage
  std::vector<std::string> dir;
  uint64_t cap_bytes = 0;
  store::EngineKind store_engine = store::EngineKind::kSlab;
  std::vector<std::string> disk_hash_weight;
  uint64_t max_object_bytes = 64ull << 20;
  uint64_t extent_bytes = 0;
  std::string policy = "tournament";
  uint32_t policy_bytes = 160;
  store::Durability durability = store::Durability::kDisk;
  uint32_t sync_ms = 100;
  uint32_t reads_in_flight = 64;

  // RAM tier
  bool ram_tier = true;
  uint64_t ram_tier_bytes = 0;  // 0: by the machine
  std::string ram_policy = "lru";
  bool ram_populate = true;
  uint64_t put_inflight_bytes = 256ull << 20;
  uint32_t busy_wait_ms = 500;
  uint32_t put_expiry_ms = 60'000;

  // Admin
  std::optional<uint16_t> metrics_port;
  admin::HttpOptions http;
};

void RegisterNodeOptions(OptionSet* set, NodeOptions* options);

// What the layers are started with, after defaults that depend on the machine were filled in.
struct NodeConfig {
  std::string id;
  std::string group;
  net::TcpOptions tcp;
  io::ReactorOptions reactor;
  uint32_t threads = 1;
  uint32_t port_wait_ms = 0;
  store::StoreOptions store;
  HandlerOptions handler;
  std::optional<admin::HttpOptions> http;  // empty: no admin port
};

// Invalid names the option and what is allowed.
Result<NodeConfig> ResolveNodeOptions(const NodeOptions& options);

// Memory that this process may use: the machine's, or its cgroup's limit when that is lower.
uint64_t MemoryLimitBytes();

}  // namespace dfkv::node
