#include "tools/bench/bed.h"

#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/text.h"

namespace dfkv::tools {

// Takes SIGINT and SIGTERM from the whole program while it lives. Made before other threads are, so that they
// inherit the mask.
class Bed::Interrupt {
 public:
  explicit Interrupt(const Bed& bed) : bed_(bed) {
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals_, &before_);
    thread_ = Thread("interrupt", [this] { Watch(); });
  }
  ~Interrupt() {
    stop_ = true;
    thread_.Join();
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  std::atomic<pid_t> node_pid = 0;

 private:
  void Watch() const {
    constexpr timespec kTick{0, 100'000'000};
    while (!stop_) {
      if (sigtimedwait(&signals_, nullptr, &kTick) < 0) continue;
      if (node_pid > 0) kill(node_pid, SIGKILL);
      std::error_code ignored;
      if (bed_.made_directory_) std::filesystem::remove_all(bed_.directory_, ignored);
      _exit(130);
    }
  }
  const Bed& bed_;
  sigset_t signals_;
  sigset_t before_;
  std::atomic<bool> stop_ = false;
  Thread thread_;
};

Bed::Bed(const BedOptions& options, ClientFactory factory)
    : options_(options), factory_(std::move(factory)) {}

Bed::~Bed() {
  client_.reset();
  if (interrupt_) interrupt_->node_pid = 0;
  node_.reset();
  interrupt_.reset();
  std::error_code ignored;
  if (made_directory_) std::filesystem::remove_all(directory_, ignored);
}

Result<std::unique_ptr<Bed>> Bed::Open(const BedOptions& options, const ClientFactory& factory) {
  std::unique_ptr<Bed> bed(new Bed(options, factory));
  if (bed->own_node()) {
    bed->directory_ = options.directory;
    if (options.directory.empty()) {
      char name[] = "/var/tmp/dfkv_bench.XXXXXX";
      if (mkdtemp(name) == nullptr) {
        return Status(Code::kIoError,
                      Cat("cannot make ", name, ": ", ErrnoText(errno), "; choose with --dir"));
      }
      bed->directory_ = name;
      bed->made_directory_ = true;
    }
    bed->interrupt_ = std::make_unique<Interrupt>(*bed);
    DFKV_RETURN_IF_ERROR(bed->StartNode(0));
  }
  DFKV_RETURN_IF_ERROR(bed->Connect());
  return bed;
}

Status Bed::StartNode(uint16_t port) {
  NodeOptions node;
  node.binary = options_.serve == "auto" ? ServerBesideThisProgram() : options_.serve;
  node.flags = {Cat("--dir=", directory_), "--log=warn"};
  if (options_.capacity_bytes != 0) node.flags.push_back(Cat("--cap=", options_.capacity_bytes));
  if (options_.extent_bytes != 0) node.flags.push_back(Cat("--extent-bytes=", options_.extent_bytes));
  if (options_.ram_bytes != 0) node.flags.push_back(Cat("--ram-tier-bytes=", options_.ram_bytes));
  node.flags.insert(node.flags.end(), options_.node_flags.begin(), options_.node_flags.end());
  node.ready_timeout_s = options_.ready_timeout_s;
  if (interrupt_) interrupt_->node_pid = 0;
  node_.reset();
  Result<std::unique_ptr<NodeProcess>> started = NodeProcess::Start(node, port);
  if (!started.ok()) return started.status();
  node_ = std::move(*started);
  interrupt_->node_pid = node_->pid();
  return Ok();
}

Status Bed::Connect() {
  client::ClientOptions options = options_.client;
  if (own_node()) options.members = Cat("node=127.0.0.1:", node_->port());
  const Result<std::vector<cluster::Member>> members = cluster::ParseMembers(options.members);
  if (!members.ok()) return members.status();
  members_ = *members;
  client_.reset();
  Result<std::unique_ptr<client::Client>> client = factory_(options);
  if (!client.ok()) return client.status();
  client_ = std::move(*client);
  return WaitUntilReady(*client_, members_, options_.ready_timeout_s);
}

std::string Bed::Describe() const {
  if (own_node()) return Cat("own node, data in ", directory_);
  return Cat(members_.size(), members_.size() == 1 ? " member" : " members");
}

std::optional<double> Bed::Metric(const std::string& name) {
  double sum = 0;
  for (const cluster::Member& member : members_) {
    const Result<std::string> stats = client_->Stats(member.name, {});
    const std::optional<double> value = stats.ok() ? MetricSum(*stats, name) : std::nullopt;
    if (!value) return std::nullopt;
    sum += *value;
  }
  return sum;
}

void Bed::Kill() const {
  node_->Kill();
}

Result<client::Client*> Bed::Restart() {
  DFKV_RETURN_IF_ERROR(StartNode(node_->port()));
  DFKV_RETURN_IF_ERROR(Connect());
  return client_.get();
}

Result<client::Client*> Bed::StopAndRestart() {
  if (interrupt_) interrupt_->node_pid = 0;
  DFKV_RETURN_IF_ERROR(node_->Stop());
  return Restart();
}

Status Bed::Stop() {
  client_.reset();
  if (interrupt_) interrupt_->node_pid = 0;  // once it has ended its number may be another's
  return node_ ? node_->Stop() : Ok();
}

}  // namespace dfkv::tools
