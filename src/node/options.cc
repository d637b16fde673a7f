#include "node/options.h"

#include <algorithm>
#include <fstream>

#include "base/sync.h"
#include "base/text.h"

namespace dfkv::node {
namespace {

constexpr uint64_t kRamDefaultMax = 16ull << 30;
constexpr uint64_t kStagingMin = 256ull << 20;  // --ram-tier off: payloads still pass through memory
constexpr uint32_t kThreadsDefaultMax = 8;

void RegisterNode(OptionSet* set, NodeOptions* o) {
  set->Group("Node");
  set->Add("id", &o->id, "Name of this node, for logs and metrics.");
  set->Add("group", &o->group, "Name of the group this node belongs to, for metrics.");
  set->AddEnum("log", &o->log,
               {{"debug", LogLevel::kDebug},
                {"info", LogLevel::kInfo},
                {"warn", LogLevel::kWarn},
                {"warning", LogLevel::kWarn},
                {"error", LogLevel::kError},
                {"off", LogLevel::kOff}},
               "Least severe log line to write.");
  set->Add("stop-ms", &o->stop_ms, "On SIGTERM: time for requests in flight to end.").Range(0, 600'000);
}

void RegisterNetwork(OptionSet* set, NodeOptions* o) {
  set->Group("Network");
  set->Add("listen", &o->listen, "Address to listen on, numeric IPv4 or IPv6.")
      .DefaultText("the one of --advertise, else 127.0.0.1");
  set->Add("advertise", &o->advertise, "Address ip:port under which clients reach this node.");
  set->Add("port", &o->port, "TCP port; 0 takes a free one.");
  set->Add("port-wait-ms", &o->port_wait_ms,
           "At start: time to wait for a port in use. That of a killed node is free only after a while.")
      .Range(0, 600'000);
  set->Add("tcp-max-conns", &o->tcp_max_conns, "Open client connections; idle ones make room for new ones.")
      .Range(1, 65'536)
      .Unit("connections");
  set->Add("tcp-first-req-ms", &o->tcp_first_req_ms, "From accept to a complete first frame.").AtLeast(1);
  set->Add("tcp-io-timeout-s", &o->tcp_io_timeout_s,
           "A connection without a request for this long is closed.")
      .Range(1, 86'400);
  set->Add("stall-ms", &o->stall_ms, "Within a frame: longest time without a byte from the peer.").AtLeast(1);
  set->AddBytes(
         "min-rate-bytes", &o->min_rate_bytes,
         "Slowest peer, per second: n bytes of a frame have stall-ms + n / min-rate-bytes to arrive, n bytes "
         "of answers write-stall-ms + n / min-rate-bytes to be taken.")
      .AtLeast(1024);
  set->Add("write-stall-ms", &o->write_stall_ms, "Longest time in which a peer takes no byte of its answers.")
      .AtLeast(1);
  set->Add("request-ms", &o->request_ms, "Deadline of a request that states none.").AtLeast(1);
  set->Add("request-max-ms", &o->request_max_ms, "Longest deadline of a request, whatever it states.")
      .AtLeast(1);
  set->AddBytes("max-frame-bytes", &o->max_frame_bytes, "Largest payload of one frame, both directions.")
      .Range(0, UINT32_MAX)
      .DefaultText("max-object-bytes, at least 64 MiB");
  set->Add("max-items", &o->max_items, "Most items of one request.").Range(1, 65'536).Unit("items");
  set->Add("max-requests", &o->max_requests, "Most requests in flight of one connection.")
      .Range(1, 65'536)
      .Unit("requests");
  set->AddBytes("output-bytes", &o->output_bytes,
                "Answers queued for one connection; past it the node reads no further requests from it.")
      .AtLeast(64 << 10);
  set->AddBytes("output-total-bytes", &o->output_total_bytes, "Answers queued for all connections together.")
      .DefaultText("a quarter of ram-tier-bytes");
}

void RegisterReactors(OptionSet* set, NodeOptions* o) {
  set->Group("Reactors");
  set->AddEnum("io", &o->io,
               {{"auto", io::ReactorKind::kAuto},
                {"uring", io::ReactorKind::kUring},
                {"epoll", io::ReactorKind::kEpoll}},
               "Event loop; auto tries io_uring, then epoll.");
  set->Add("threads", &o->threads, "Reactor threads.").Range(0, 256).DefaultText("the CPUs, at most 8");
  set->Add("spin-us", &o->spin_us,
           "Busy-poll at most this long before sleeping: lower latency for CPU time. 0: never.")
      .Range(0, 100'000);
  set->Add("io-depth", &o->io_depth, "io_uring: operations in flight of one reactor.").Range(8, 32'768);
  set->Add("disk-threads", &o->disk_threads, "epoll: threads for disk I/O of one reactor.").Range(1, 64);
}

void RegisterStorage(OptionSet* set, NodeOptions* o) {
  set->Group("Storage");
  set->Add("dir", &o->dir, "Data directories, one per disk.");
  set->AddBytes("cap", &o->cap_bytes, "Space to use, over all disks together.").DefaultText("required");
  set->AddEnum("store-engine", &o->store_engine,
               {{"slab", store::EngineKind::kSlab},
                {"file", store::EngineKind::kFile},
                {"ram", store::EngineKind::kRam}},
               "slab: preallocated files; file: one file per object, for diagnosis; ram: no disk.");
  set->Add("disk-hash-weight", &o->disk_hash_weight, "Share of each disk in the placement, in --dir's order.")
      .DefaultText("all equal");
  set->AddBytes("max-object-bytes", &o->max_object_bytes, "Largest object.").Range(4096, 2'147'483'648ll);
  set->AddBytes("extent-bytes", &o->extent_bytes, "Size of an extent of the slab files.")
      .DefaultText("chosen from cap");
  set->Add("policy", &o->policy, "Eviction policy of the disk tier.");
  set->AddBytes("policy-bytes", &o->policy_bytes, "Memory that the policy may use per object.")
      .Range(16, 4096);
  set->AddEnum("durability", &o->durability,
               {{"disk", store::Durability::kDisk}, {"ram", store::Durability::kRam}},
               "When a PUT is acknowledged: disk survives kill -9; ram is written behind and does not.");
  set->Add("sync-ms", &o->sync_ms, "An acknowledged PUT survives a power cut after this time.")
      .Range(1, 60'000);
  set->Add("reads-in-flight", &o->reads_in_flight, "Disk reads in flight of one reactor.").Range(1, 4096);
}

void RegisterRam(OptionSet* set, NodeOptions* o) {
  set->Group("RAM tier");
  set->Add("ram-tier", &o->ram_tier,
           "Serve hot objects from memory; off keeps only the memory PUTs pass through.");
  set->AddBytes("ram-tier-bytes", &o->ram_tier_bytes, "Memory of the RAM tier.")
      .DefaultText("the smallest of 16 GiB, a quarter of the memory, and cap");
  set->Add("ram-policy", &o->ram_policy, "Eviction policy of the RAM tier.");
  set->Add("ram-populate", &o->ram_populate, "Touch the memory at start, so that no request pays for it.");
  set->AddBytes("put-inflight-bytes", &o->put_inflight_bytes, "Memory for PUTs that are not finished.")
      .AtLeast(1 << 20);
  set->Add("busy-wait-ms", &o->busy_wait_ms,
           "A PUT or a read from disk waits this long for memory before it is answered Busy.")
      .Range(0, 60'000);
  set->Add("put-expiry-ms", &o->put_expiry_ms, "A PUT that is not finished by then is dropped.")
      .AtLeast(1000);
}

void RegisterAdmin(OptionSet* set, NodeOptions* o) {
  set->Group("Admin");
  set->Add("metrics-port", &o->metrics_port,
           "HTTP port for /metrics, /healthz, /readyz, /stats; 0 takes a free one.")
      .DefaultText("no admin port");
  admin::RegisterHttpOptions(set, &o->http);
}

// "10.0.0.1:12000" or "[::1]:12000" to the address alone.
Result<std::string> HostOf(const std::string& advertise) {
  const size_t colon = advertise.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    return Status(Code::kInvalid, Cat("--advertise ", advertise, ": wants ip:port"));
  }
  std::string host = advertise.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return host;
}

Result<std::string> ListenAddress(const NodeOptions& o) {
  if (!o.listen.empty()) return o.listen;
  if (!o.advertise.empty()) return HostOf(o.advertise);
  return std::string("127.0.0.1");
}

// A RAM tier larger than the disks would stay empty in part, and touching it takes a second or so per GiB.
uint64_t DefaultRamBytes(const store::StoreOptions& s) {
  const uint64_t machine = std::min(kRamDefaultMax, MemoryLimitBytes() / 4);
  if (s.engine == store::EngineKind::kRam) return machine;
  return std::min(machine, std::max(s.capacity_bytes, kStagingMin));
}

Result<store::StoreOptions> ResolveStore(const NodeOptions& o) {
  store::StoreOptions s;
  s.engine = o.store_engine;
  s.directories = o.dir;
  s.capacity_bytes = o.cap_bytes;
  if (s.engine != store::EngineKind::kRam) {
    if (o.dir.empty()) return Status(Code::kInvalid, "--dir: name at least one data directory");
    if (o.cap_bytes == 0)
      return Status(Code::kInvalid, "--cap: say how much space to use, as in --cap 100GB");
  }
  for (const std::string& weight : o.disk_hash_weight) {
    Result<uint64_t> value = ParseUint(weight);
    if (!value.ok() || *value < 1 || *value > 64) {
      return Status(Code::kInvalid, Cat("--disk-hash-weight ", weight, ": wants numbers from 1 to 64"));
    }
    s.disk_weights.push_back(static_cast<uint32_t>(*value));
  }
  if (s.disk_weights.size() == 1) s.disk_weights.assign(s.directories.size(), s.disk_weights[0]);
  if (!s.disk_weights.empty() && s.disk_weights.size() != s.directories.size()) {
    return Status(Code::kInvalid, Cat("--disk-hash-weight: ", s.disk_weights.size(), " weights for ",
                                      s.directories.size(), " directories"));
  }
  s.ram_bytes = o.ram_tier_bytes != 0 ? o.ram_tier_bytes : DefaultRamBytes(s);
  if (!o.ram_tier) s.ram_bytes = std::max(kStagingMin, 2 * o.max_object_bytes);
  s.put_inflight_bytes = std::min(o.put_inflight_bytes, std::max<uint64_t>(s.ram_bytes / 2, 1 << 20));
  s.extent_bytes = o.extent_bytes;
  s.max_object_bytes = o.max_object_bytes;
  s.policy = o.policy;
  s.ram_policy = o.ram_policy;
  s.policy_bytes_per_object = o.policy_bytes;
  s.durability = o.durability;
  s.sync_ms = o.sync_ms;
  s.put_expiry_ms = o.put_expiry_ms;
  s.populate = o.ram_populate;
  return s;
}

net::TcpOptions ResolveTcp(const NodeOptions& o, const std::string& address, uint64_t ram_bytes) {
  net::TcpOptions t;
  t.address = address;
  t.port = o.port;
  t.connections_max = o.tcp_max_conns;
  t.first_frame_ms = o.tcp_first_req_ms;
  t.idle_ms = o.tcp_io_timeout_s * 1000;
  t.stall_ms = o.stall_ms;
  t.min_rate = o.min_rate_bytes;
  t.write_stall_ms = o.write_stall_ms;
  t.request_ms = o.request_ms;
  t.request_ms_max = o.request_max_ms;
  t.object_bytes_max = o.max_object_bytes;
  t.payload_bytes_max =
      o.max_frame_bytes != 0 ? o.max_frame_bytes : std::max<uint64_t>(o.max_object_bytes, 64ull << 20);
  t.items_max = o.max_items;
  t.requests_in_flight_max = o.max_requests;
  t.output_bytes_max = o.output_bytes;
  t.output_bytes_total_max = o.output_total_bytes != 0 ? o.output_total_bytes : ram_bytes / 4;
  return t;
}

// The number in a small file such as a cgroup's; 0 when there is none ("max").
uint64_t NumberIn(const char* path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  const Result<uint64_t> number = ParseUint(word);
  return number.ok() ? *number : 0;
}

}  // namespace

void RegisterNodeOptions(OptionSet* set, NodeOptions* options) {
  RegisterNode(set, options);
  RegisterNetwork(set, options);
  RegisterReactors(set, options);
  RegisterStorage(set, options);
  RegisterRam(set, options);
  RegisterAdmin(set, options);
}

Result<NodeConfig> ResolveNodeOptions(const NodeOptions& o) {
  NodeConfig config;
  config.id = o.id;
  config.group = o.group;
  Result<store::StoreOptions> store = ResolveStore(o);
  if (!store.ok()) return store.status();
  config.store = std::move(*store);
  Result<std::string> address = ListenAddress(o);
  if (!address.ok()) return address.status();
  config.tcp = ResolveTcp(o, *address, config.store.ram_bytes);
  config.reactor.kind = o.io;
  config.reactor.depth = o.io_depth;
  config.reactor.disk_threads = o.disk_threads;
  config.reactor.spin.max = Nanos{o.spin_us} * 1000;
  config.port_wait_ms = o.port_wait_ms;
  config.threads = o.threads != 0 ? o.threads : std::min(CpuCount(), kThreadsDefaultMax);
  config.handler.lanes = config.threads;
  config.handler.reads_in_flight_max = o.reads_in_flight;
  config.handler.read_bytes_in_flight_max = config.store.ram_bytes / 8 / config.threads;
  config.handler.busy_wait_ms = o.busy_wait_ms;
  if (o.metrics_port) {
    config.http = o.http;
    config.http->port = *o.metrics_port;
  }
  return config;
}

uint64_t MemoryLimitBytes() {
  uint64_t limit = 1ull << 30;
  std::ifstream meminfo("/proc/meminfo");
  std::string name;
  uint64_t kib = 0;
  if (meminfo >> name >> kib && name == "MemTotal:") limit = kib * 1024;
  for (const char* path : {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const uint64_t bytes = NumberIn(path);
    if (bytes != 0) limit = std::min(limit, bytes);
  }
  return limit;
}

}  // namespace dfkv::node
