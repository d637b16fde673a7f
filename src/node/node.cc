#include "node/node.h"

#include <algorithm>

#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "base/version.h"
#include "io/disk.h"
#include "io/socket.h"
#include "net/tcp/server.h"

namespace dfkv::node {
namespace {

std::string_view EngineName(store::EngineKind kind) {
  switch (kind) {
    case store::EngineKind::kSlab:
      return "slab";
    case store::EngineKind::kFile:
      return "file";
    case store::EngineKind::kRam:
      return "ram";
  }
  return "unknown";
}

std::string_view DurabilityName(store::Durability durability) {
  return durability == store::Durability::kDisk ? "disk" : "ram";
}

// A wrong address or a taken port is told before the store opens, which allocates space and may take long.
// It is also where a node that was killed lets go of its port.
Status CheckAddressBlocking(const net::TcpOptions& tcp, uint32_t port_wait_ms) {
  const Result<io::SocketAddress> address = io::MakeSocketAddress(tcp.address, tcp.port);
  if (!address.ok()) return address.status();
  io::ListenOptions listen;
  listen.in_use_wait = Nanos{port_wait_ms} * kMillisecond;
  return io::Listen(*address, listen).status();
}

io::Task<Status> StartStoreBackground(store::Store* store, io::Reactor* reactor) {
  store->StartBackground(*reactor);
  co_return Ok();
}

}  // namespace

Node::Node(const NodeConfig& config)
    : config_(config), started_at_(SystemClock().Now()), node_metrics_(metrics_) {}

Node::~Node() {
  if (!stopped_) (void)StopBlocking(0);
}

Result<std::unique_ptr<Node>> Node::StartBlocking(const NodeConfig& config) {
  std::unique_ptr<Node> node(new Node(config));
  DFKV_RETURN_IF_ERROR(node->OpenBlocking());
  return node;
}

Status Node::OpenBlocking() {
  DFKV_RETURN_IF_ERROR(CheckAddressBlocking(config_.tcp, config_.port_wait_ms));
  DFKV_RETURN_IF_ERROR(StartAdminBlocking());
  Result<std::unique_ptr<store::Store>> store =
      store::Store::OpenBlocking(config_.store, io::PosixDisk(), metrics_);
  if (!store.ok()) return store.status();
  store_ = std::move(*store);
  Result<std::unique_ptr<ReactorGroup>> reactors =
      ReactorGroup::StartBlocking(config_.reactor, config_.threads);
  if (!reactors.ok()) return reactors.status();
  reactors_ = std::move(*reactors);
  store::Store* background = store_.get();
  io::Reactor* first = &reactors_->at(0);
  DFKV_RETURN_IF_ERROR(reactors_->RunBlocking([=] { return StartStoreBackground(background, first); }));
  handler_ = std::make_unique<Handler>(config_.handler, store_.get(), &node_metrics_);
  net::TcpOptions tcp = config_.tcp;
  tcp.object_bytes_max = std::min(tcp.object_bytes_max, store_->max_object_bytes());
  tcp.incarnation = SeedFromSystem() | 1;
  transport_ = net::MakeTcpTransport(tcp, reactors_->all(), handler_.get(), metrics_);
  RegisterGauges();
  DFKV_RETURN_IF_ERROR(transport_->StartBlocking());
  ready_.store(true, std::memory_order_release);
  LogInfo("node ", config_.id, ": ", address(), ", engine ", EngineName(config_.store.engine), ", io ",
          io_kind(), ", ", config_.threads, " threads, ", object_count(), " objects, RAM tier ",
          FormatBytes(config_.store.ram_bytes));
  return Ok();
}

Status Node::StopBlocking(Nanos grace) {
  stopped_ = true;
  ready_.store(false, std::memory_order_release);
  Status result;
  if (transport_ != nullptr) result = transport_->StopBlocking(grace);
  if (!result.ok()) return result;
  admin_.reset();  // its pages look into the store
  if (store_ != nullptr && reactors_ != nullptr) {
    const Nanos deadline = SystemClock().Now() + std::max(grace, kSecond);
    store::Store* store = store_.get();
    result = reactors_->RunBlocking([store, deadline] { return store->Stop(deadline); });
  }
  if (reactors_ != nullptr) reactors_->StopBlocking();
  transport_.reset();
  handler_.reset();
  store_.reset();
  return result;
}

uint16_t Node::port() const {
  return transport_->port();
}

std::string Node::address() const {
  return transport_->address();
}

std::string Node::metrics_address() const {
  return admin_ != nullptr ? admin_->address() : std::string();
}

void Node::RegisterGauges() {
  metrics_
      .AddGauge("dfkv_build_info", "Always 1; what runs, as labels.",
                {{"version", DFKV_VERSION},
                 {"transport", "tcp"},
                 {"engine", std::string(EngineName(config_.store.engine))},
                 {"write_mode", std::string(DurabilityName(config_.store.durability))},
                 {"io", io_kind()},
                 {"node", config_.id},
                 {"group", config_.group}})
      .Set(1);
  const Nanos since = started_at_;
  metrics_.AddCallback("dfkv_uptime_seconds", "Since the node was started.", "gauge", {},
                       [since] { return static_cast<double>(SystemClock().Now() - since) * 1e-9; });
  metrics_.AddCallback("dfkv_process_cpu_seconds_total", "CPU time of the process.", "counter", {},
                       [] { return static_cast<double>(ProcessCpuNow()) * 1e-9; });
  metrics_.AddGauge("dfkv_tcp_max_connections", "Limit of open connections.")
      .Set(config_.tcp.connections_max);
  metrics_.AddGauge("dfkv_tcp_io_timeout_seconds", "An idle connection is closed after this time.")
      .Set(config_.tcp.idle_ms / 1000);
  metrics_.AddGauge("dfkv_tcp_first_req_ms", "Time for the first frame.").Set(config_.tcp.first_frame_ms);
}

}  // namespace dfkv::node
