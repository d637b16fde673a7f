#include "node/program.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "base/log.h"
#include "base/option_cli.h"
#include "base/sync.h"
#include "base/text.h"
#include "node/node.h"

namespace dfkv::node {
namespace {

constexpr int kStarted = SIGUSR1;  // from the starting thread to main

// Blocks the signals that main waits for, in all threads started later, so that main alone takes them.
sigset_t BlockSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  sigaddset(&set, kStarted);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
  return set;
}

// As many open files as the system allows: many shells and service managers give 1024.
void RaiseFileLimit(uint32_t connections_max) {
  constexpr rlim_t kOwnFiles = 256;  // beside client connections
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  if (limit.rlim_cur < limit.rlim_max) {
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  }
  if (limit.rlim_cur < connections_max + kOwnFiles) {
    LogWarn("the limit of ", limit.rlim_cur, " open files is too low for --tcp-max-conns ", connections_max,
            "; idle connections are closed earlier");
  }
}

void PrintReady(const Node& node) {
  const NodeConfig& config = node.config();
  const std::string admin = node.metrics_address();
  const std::string line =
      Cat("PORT ", node.port(), "\nREADY address=", node.address(), admin.empty() ? "" : " metrics=", admin,
          " io=", node.io_kind(), " threads=", config.threads, " objects=", node.object_count(),
          " ram=", config.store.ram_bytes, "\n");
  std::fputs(line.c_str(), stdout);
  std::fflush(stdout);
}

int AwaitSignal(const sigset_t& signals) {
  int number = 0;
  while (sigwait(&signals, &number) != 0) {
  }
  return number;
}

const char* SignalName(int number) {
  return number == SIGINT ? "SIGINT" : "SIGTERM";
}

// Starts the node in a thread of its own, so that main hears a stop in the middle of a long start (memory to
// touch, tables to read). Nothing has to be saved then: the process ends at once.
Result<std::unique_ptr<Node>> StartUnlessStopped(const NodeConfig& config, const sigset_t& signals) {
  Result<std::unique_ptr<Node>> started = Status(Code::kUnavailable, "not started");
  std::atomic<bool> done{false};
  const pthread_t waiting = pthread_self();
  Thread starter("start", [&] {
    started = Node::StartBlocking(config);
    done.store(true);
    pthread_kill(waiting, kStarted);
  });
  while (!done.load()) {
    const int number = AwaitSignal(signals);
    if (number == kStarted) continue;
    LogInfo("stopped on ", SignalName(number), " while starting");
    _exit(0);
  }
  starter.Join();
  return started;
}

int Fail(const char* what, const Status& status) {
  std::fprintf(stderr, "dfkv_server: %s: %s\n", what, status.ToString().c_str());
  return 1;
}

}  // namespace

int RunServer(int argc, const char* const* argv) {
  OptionSet set;
  NodeOptions options;
  RegisterNodeOptions(&set, &options);
  const ProgramText text = {"dfkv_server", "One node of dfkv: stores objects and serves them over TCP."};
  if (std::optional<int> exit_status = LoadProgramOptions(text, &set, argc, argv)) return *exit_status;
  SetLogLevel(options.log);
  Result<NodeConfig> config = ResolveNodeOptions(options);
  if (!config.ok()) {
    std::fprintf(stderr, "dfkv_server: %s\n", config.status().message().c_str());
    return 2;
  }
  RaiseFileLimit(config->tcp.connections_max);
  const sigset_t signals = BlockSignals();
  Result<std::unique_ptr<Node>> started = StartUnlessStopped(*config, signals);
  if (!started.ok()) return Fail("cannot start", started.status());
  Node& node = **started;
  PrintReady(node);
  int number = kStarted;
  while (number == kStarted) number = AwaitSignal(signals);
  LogInfo("stopping on ", SignalName(number));
  const Status stopped = node.StopBlocking(Nanos{options.stop_ms} * kMillisecond);
  if (!stopped.ok()) {
    (void)Fail("stopped uncleanly", stopped);
    std::fflush(nullptr);
    _exit(1);  // requests are still in flight: nothing may be torn down under them
  }
  LogInfo("stopped");
  return 0;
}

}  // namespace dfkv::node
