// Bed: what a run measures. Either members that are already running, or a node of its own that is started,
// restarted and removed again with the data it made.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/client.h"
#include "cluster/member.h"
#include "tools/bench/cpu.h"
#include "tools/bench/node_process.h"

namespace dfkv::tools {

using ClientFactory = std::function<Result<std::unique_ptr<client::Client>>(const client::ClientOptions&)>;

struct BedOptions {
  client::ClientOptions client;  // members is ignored when a node is served
  uint32_t ready_timeout_s = 30;
  std::string serve;  // path of dfkv_server, or "auto" for the one beside this program; empty: no own node
  std::string directory;  // of the own node; empty: a new one, removed at the end
  uint64_t capacity_bytes = 0;
  uint64_t extent_bytes = 0;  // 0: the node's choice
  uint64_t ram_bytes = 0;     // 0: the node's choice
  std::vector<std::string> node_flags;
};

// The thread that opens it restarts and stops it, and must outlive it. Interrupted (Ctrl-C, SIGTERM), the
// program kills its own node, removes the directory it made and ends with status 130.
class Bed {
 public:
  static Result<std::unique_ptr<Bed>> Open(const BedOptions& options, const ClientFactory& factory);
  ~Bed();

  client::Client& client() { return *client_; }
  bool own_node() const { return !options_.serve.empty(); }
  CpuProbe cpu_probe() const { return NodeCpuProbe(members_); }
  std::string Describe() const;  // for a report
  // A metric of the nodes, summed over all; nothing when one of them does not tell.
  std::optional<double> Metric(const std::string& name);

  void Kill() const;                         // own node; SIGKILL, any thread
  Result<client::Client*> Restart();         // after Kill: on the same directory and port
  Result<client::Client*> StopAndRestart();  // cleanly: the RAM tier is empty afterwards
  Status Stop();                             // cleanly, and removes what was made; the end of a good run

 private:
  class Interrupt;
  explicit Bed(const BedOptions& options, ClientFactory factory);
  Status StartNode(uint16_t port);
  Status Connect();

  const BedOptions options_;
  const ClientFactory factory_;
  std::string directory_;
  bool made_directory_ = false;
  std::unique_ptr<Interrupt> interrupt_;
  std::unique_ptr<NodeProcess> node_;
  std::vector<cluster::Member> members_;
  std::unique_ptr<client::Client> client_;
};

}  // namespace dfkv::tools
