// The client against real nodes: the contract that the fake node of src/client passes too, and nodes that
// stop, die and come back.
#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "client/contract_suite.h"
#include "io/socket.h"
#include "tools/bench/node_process.h"

namespace dfkv::client {
namespace {

// A dfkv_server with a data directory of its own, which goes with it.
class RealNode {
 public:
  static std::unique_ptr<RealNode> Start() { return std::make_unique<RealNode>(); }
  RealNode() {
    const auto base = std::filesystem::temp_directory_path();
    directory_ = base / Cat("dfkv-node-", SeedFromSystem());
    std::filesystem::create_directories(directory_);
    Restart();
  }
  ~RealNode() {
    process_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  // On the port that it had; a running process is killed.
  void Restart() {
    process_.reset();
    tools::NodeOptions options;
    options.binary = DFKV_SERVER;
    options.flags = {"--dir=" + directory_.string(), "--cap=512MiB",
                     "--extent-bytes=8MiB",          "--ram-tier-bytes=96MiB",
                     "--max-object-bytes=16MiB",     "--log=error"};
    // Below the range of which the system takes the ports of outgoing connections: nobody else gets it while
    // the node is down.
    Random random(SeedFromSystem());
    const bool first = port_ == 0;
    if (!first) AwaitFree(port_);
    auto process = tools::NodeProcess::Start(options, first ? FreeLowPort(random) : port_);
    for (int tries = 0; first && !process.ok() && tries < 10; ++tries) {
      process = tools::NodeProcess::Start(options, FreeLowPort(random));
    }
    ASSERT_TRUE(process.ok()) << process.status().ToString();
    process_ = std::move(*process);
    port_ = process_->port();
  }
  void Kill() { process_.reset(); }
  void Continue() const { kill(process_->pid(), SIGCONT); }
  // Every thread has stopped when it returns.
  void StopAllThreads() const {
    kill(process_->pid(), SIGSTOP);
    const std::string tasks = Cat("/proc/", process_->pid(), "/task");
    for (const auto& task : std::filesystem::directory_iterator(tasks)) {
      while (StateOf(task.path() / "stat") != 'T') {
      }
    }
  }
  std::string address() const { return Cat("127.0.0.1:", port_); }

 private:
  // Another test may have tried the port while the node was down.
  static void AwaitFree(uint16_t port) {
    const Nanos until = SystemClock().Now() + 20 * kSecond;
    while (!io::Listen(*io::MakeSocketAddress("127.0.0.1", port)).ok() && SystemClock().Now() < until) {
    }
  }
  static uint16_t FreeLowPort(Random& random) {
    for (;;) {
      const auto port = static_cast<uint16_t>(10'000 + random.Below(20'000));
      const auto address = io::MakeSocketAddress("127.0.0.1", port);
      if (io::Listen(*address).ok()) return port;
    }
  }
  static char StateOf(const std::filesystem::path& stat) {
    std::ifstream file(stat);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const size_t name_end = text.rfind(')');  // "pid (name) state ..."
    return name_end == std::string::npos ? '?' : text[name_end + 2];
  }
  std::filesystem::path directory_;
  std::unique_ptr<tools::NodeProcess> process_;
  uint16_t port_ = 0;
};

INSTANTIATE_TYPED_TEST_SUITE_P(RealNode, ClientContract, ::testing::Types<RealNode>);

class ClientAndNodes : public ::testing::Test {
 protected:
  ClientAndNodes() {
    SetLogSink([](LogLevel, std::string_view) {});
    options_.key_namespace = "nodes";
    options_.peer_cooldown_ms = 100;
    options_.peer_cooldown_max_ms = 200;
  }
  ~ClientAndNodes() override { SetLogSink(nullptr); }
  void Open(size_t nodes) {
    for (size_t i = 0; i < nodes; ++i) {
      nodes_.push_back(RealNode::Start());
      options_.members += Cat("node-", i, "=", nodes_.back()->address(), ",");
    }
    auto client = Client::Open(options_);
    ASSERT_TRUE(client.ok()) << client.status().ToString();
    client_ = std::move(*client);
  }
  static Nanos Now() { return SystemClock().Now(); }
  // Calls until a probe has found the node again.
  Code ExistUntilItAnswers(uint64_t key) {
    Caller caller(*client_);
    const Nanos until = Now() + 30 * kSecond;
    Code code = Code::kUnavailable;
    while ((code == Code::kUnavailable || code == Code::kTimeout) && Now() < until) code = caller.Exist(key);
    return code;
  }
  ClientOptions options_;
  std::vector<std::unique_ptr<RealNode>> nodes_;
  std::unique_ptr<Client> client_;
};

// FAILURES N10: SIGSTOP the node, call exist.
TEST_F(ClientAndNodes, AStoppedNodeCostsASmallCallAtMostASecond) {
  options_.peer_cooldown_ms = options_.peer_cooldown_max_ms = 4000;
  Open(1);
  Caller caller(*client_);
  ASSERT_EQ(caller.Put(1, ValueOf(1, 1000)), Code::kOk);
  nodes_[0]->StopAllThreads();
  const Nanos begin = Now();
  EXPECT_EQ(caller.Exist(1), Code::kUnavailable);
  EXPECT_LE(Now() - begin, 5 * kSecond);  // 0.94 s on a machine that has nothing else to do
  std::vector<std::byte> into(1000);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(caller.Get(1, into).code, Code::kUnavailable);
  EXPECT_NE(client_->metrics().Render().find("dfkv_client_unhealthy_skips_total 100\n"), std::string::npos);
  nodes_[0]->Continue();
  EXPECT_EQ(ExistUntilItAnswers(1), Code::kOk);
  EXPECT_EQ(caller.Get(1, into).code, Code::kOk);
  EXPECT_TRUE(PatternMatches(1, 0, into));
}

TEST_F(ClientAndNodes, AStoppedNodeDoesNotTouchTheOthersObjects) {
  options_.peer_cooldown_ms = options_.peer_cooldown_max_ms = 60'000;
  Open(3);
  Caller caller(*client_);
  const std::vector<size_t> sizes(120, 20'000);
  ASSERT_EQ(CountOf(caller.PutAll(0, sizes), Code::kOk), sizes.size());
  nodes_[1]->StopAllThreads();
  size_t wrong = 0;
  for (int round = 0; round < 3; ++round) {
    const auto results = caller.GetAll(0, sizes, &wrong);
    EXPECT_EQ(wrong, 0u);
    EXPECT_GT(CountOf(results, Code::kOk), 40u);
    EXPECT_EQ(CountOf(results, Code::kOk) + CountOf(results, Code::kUnavailable), sizes.size());
  }
  nodes_[1]->Continue();
}

TEST_F(ClientAndNodes, ARestartedNodeHasItsObjectsAndIsFound) {
  Open(2);
  Caller caller(*client_);
  const std::vector<size_t> sizes(60, 5000);
  ASSERT_EQ(CountOf(caller.PutAll(0, sizes), Code::kOk), sizes.size());
  for (int round = 0; round < 3; ++round) {
    nodes_[0]->Restart();  // killed: the pooled connections are stale
    const Nanos until = Now() + 30 * kSecond;
    size_t wrong = 0;
    size_t hits = 0;
    while (hits < sizes.size() && Now() < until) {
      hits = CountOf(caller.GetAll(0, sizes, &wrong), Code::kOk);
      EXPECT_EQ(wrong, 0u);
    }
    EXPECT_EQ(hits, sizes.size());
  }
}

TEST_F(ClientAndNodes, ANodeThatIsKilledUnderLoadGivesOnlyMissesAndRightBytes) {
  Open(2);
  const std::vector<size_t> sizes(50, 30'000);
  ASSERT_EQ(CountOf(Caller(*client_).PutAll(0, sizes), Code::kOk), sizes.size());
  std::atomic<bool> stop{false};
  std::atomic<size_t> wrong_total{0};
  std::atomic<size_t> rounds{0};
  std::vector<Thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back(Cat("load-", t), [&] {
      Caller caller(*client_);
      while (!stop) {
        size_t wrong = 0;
        (void)caller.GetAll(0, sizes, &wrong);
        wrong_total += wrong;
        ++rounds;
      }
    });
  }
  for (int kill = 0; kill < 3; ++kill) {
    const size_t before = rounds;
    while (rounds < before + 20) {
    }
    nodes_[0]->Restart();
  }
  stop = true;
  threads.clear();
  EXPECT_EQ(wrong_total, 0u);
}

}  // namespace
}  // namespace dfkv::client
