// Node: store, transport and reactors of one storing process, started and stopped as a whole.
#pragma once

#include <memory>
#include <string>

#include "admin/server.h"
#include "base/metric.h"
#include "base/status.h"
#include "node/handler.h"
#include "node/options.h"
#include "node/reactors.h"

namespace dfkv::node {

class Node {
 public:
  // Opens the store (recovering its objects), starts the reactors, then listens: a client that connects finds
  // everything. The admin port answers from the beginning: not ready while the store recovers. Locked,
  // NoSpace, IoError, Invalid, Unavailable: the text names what, where and what to do.
  static Result<std::unique_ptr<Node>> StartBlocking(const NodeConfig& config);
  ~Node();

  // Takes no new work, lets requests in flight end within `grace`, flushes and syncs the store. Ok, or why it
  // was not clean; what was acknowledged is safe in either case. Once.
  Status StopBlocking(Nanos grace);

  uint16_t port() const;
  std::string address() const;
  std::string metrics_address() const;  // empty: no admin port
  std::string io_kind() const { return reactors_->kind(); }
  uint64_t object_count() const { return store_->object_count(); }
  bool healthy() const { return store_ == nullptr || store_->healthy(); }
  bool ready() const { return ready_.load(std::memory_order_acquire); }
  const NodeConfig& config() const { return config_; }
  MetricRegistry& metrics() { return metrics_; }

 private:
  explicit Node(const NodeConfig& config);
  Status OpenBlocking();
  void RegisterGauges();
  Status StartAdminBlocking();
  std::string StatsJson() const;  // what /stats answers

  const NodeConfig config_;
  const Nanos started_at_;
  MetricRegistry metrics_;
  NodeMetrics node_metrics_;
  std::unique_ptr<ReactorGroup> reactors_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<Handler> handler_;
  std::unique_ptr<net::Transport> transport_;
  std::unique_ptr<admin::HttpServer> admin_;
  std::atomic<bool> ready_{false};
  bool stopped_ = false;
};

}  // namespace dfkv::node
