// dfkv_server as a process: what a kill leaves, what refuses to start and how it says so, and what hostile
// peers cost.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/sync.h"
#include "base/text.h"
#include "net/testing/wire_client.h"
#include "tools/bench/node_process.h"

namespace dfkv {
namespace {

using net::ClientItem;
using net::TestKey;
using net::TestValue;
using net::WireClient;

class ServerTest : public ::testing::Test {
 protected:
  ServerTest() {
    std::string name = "/var/tmp/dfkv_server_test.XXXXXX";
    if (mkdtemp(name.data()) != nullptr) folder_ = name;
  }
  ~ServerTest() override {
    node_.reset();
    std::filesystem::remove_all(folder_);
  }
  std::vector<std::string> Flags() const {
    return {Cat("--dir=", folder_, "/data"),
            "--cap=256MiB",
            "--ram-tier-bytes=64MiB",
            "--max-object-bytes=8MiB",
            "--put-inflight-bytes=16MiB",
            "--log=error",
            "--threads=2"};
  }
  void Start(const std::vector<std::string>& more = {}) {
    tools::NodeOptions options;
    options.binary = DFKV_SERVER;
    options.flags = Flags();
    options.flags.insert(options.flags.end(), more.begin(), more.end());
    auto node = tools::NodeProcess::Start(options, 0);
    ASSERT_TRUE(node.ok()) << node.status().ToString();
    node_ = std::move(*node);
  }
  struct Ended {
    int status = -1;
    std::string text;  // stdout and stderr
  };
  // Runs the server with these words to its end.
  static Ended Run(const std::vector<std::string>& words) {
    std::string command = DFKV_SERVER;
    for (const std::string& word : words) command += Cat(" '", word, "'");
    Ended ended;
    FILE* pipe = popen((command + " 2>&1 </dev/null").c_str(), "r");
    if (pipe == nullptr) return ended;
    char buffer[4096];
    for (size_t got = 0; (got = fread(buffer, 1, sizeof buffer, pipe)) > 0;) ended.text.append(buffer, got);
    const int status = pclose(pipe);
    ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return ended;
  }
  WireClient Client() {
    WireClient client;
    const Status status = client.ConnectAndHello(node_->port());
    EXPECT_TRUE(status.ok()) << status.ToString();
    return client;
  }
  uint64_t RssBytes() const {
    std::ifstream file(Cat("/proc/", node_->pid(), "/status"));
    std::string word;
    uint64_t kib = 0;
    while (file >> word) {
      if (word == "VmRSS:") file >> kib;
    }
    return kib * 1024;
  }

  std::string folder_;
  std::unique_ptr<tools::NodeProcess> node_;
};

// Several clients put until the node is killed under them; what was acknowledged has to be there afterwards.
TEST_F(ServerTest, EveryAcknowledgedObjectSurvivesAKill) {
  constexpr int kRounds = 4;
  constexpr int kClients = 3;
  constexpr uint64_t kPerRound = 400;  // acknowledged before the kill, over all clients
  std::vector<uint64_t> acknowledged;
  const auto length_of = [](uint64_t n) { return 1 + n * 7919 % 60'000; };
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    ASSERT_NO_FATAL_FAILURE(Start());
    std::vector<std::vector<uint64_t>> acked(kClients);
    std::atomic<uint64_t> count{0};
    std::vector<Thread> threads;
    for (int t = 0; t < kClients; ++t) {
      threads.emplace_back("client", [&, t] {
        WireClient client;
        if (!client.ConnectAndHello(node_->port()).ok()) return;
        for (uint64_t i = 0;; ++i) {
          const uint64_t n = (static_cast<uint64_t>(round) << 32) + (static_cast<uint64_t>(t) << 24) + i;
          const Code code = client.Put(TestKey(n), TestValue(n, length_of(n)));
          if (code == Code::kOk) acked[static_cast<size_t>(t)].push_back(n);
          if (code == Code::kOk && ++count == kPerRound) node_->Kill();
          if (code != Code::kOk && code != Code::kBusy) return;  // the node is gone
        }
      });
    }
    threads.clear();
    EXPECT_GE(count, kPerRound);
    for (const auto& ids : acked) acknowledged.insert(acknowledged.end(), ids.begin(), ids.end());
    node_.reset();
    ASSERT_NO_FATAL_FAILURE(Start());
    WireClient client = Client();
    for (uint64_t n : acknowledged) {
      const ClientItem got = client.Get(TestKey(n));
      ASSERT_EQ(CodeName(got.code), "Ok") << n;
      ASSERT_TRUE(got.value == TestValue(n, length_of(n))) << n;
    }
    client.Close();
    EXPECT_TRUE(node_->Stop().ok());
    node_.reset();
  }
}

// The kernel takes the ring of a killed node down after the process is gone; until then its port is in use.
TEST_F(ServerTest, AKilledNodeStartsAgainOnItsPort) {
  ASSERT_NO_FATAL_FAILURE(Start());
  const uint16_t port = node_->port();
  for (int round = 0; round < 6; ++round) {
    SCOPED_TRACE(round);
    std::atomic<uint64_t> stored{0};
    std::vector<Thread> load;  // whose writes are under way when it dies
    for (uint64_t t = 0; t < 4; ++t) {
      load.emplace_back("load", [&, t] {
        WireClient client;
        if (!client.ConnectAndHello(port).ok()) return;
        const std::string value = TestValue(t, 1 << 20);
        for (uint64_t i = t << 32; client.Put(TestKey(i), value) != Code::kUnavailable; ++i) {
          if (++stored == 60) node_->Kill();
        }
      });
    }
    load.clear();
    node_.reset();
    tools::NodeOptions options;
    options.binary = DFKV_SERVER;
    options.flags = Flags();
    auto node = tools::NodeProcess::Start(options, port);
    ASSERT_TRUE(node.ok()) << node.status().ToString();
    node_ = std::move(*node);
  }
}

TEST_F(ServerTest, SigtermInTheMiddleOfAPutEndsCleanly) {
  Start({"--stop-ms=200", "--stall-ms=60000"});
  ASSERT_NE(node_, nullptr);
  WireClient client = Client();
  ASSERT_EQ(client.Put(TestKey(1), "whole"), Code::kOk);
  const std::string value(1 << 20, 'v');
  (void)client.SendPutHead({{TestKey(2), value}}, {value.size()});
  ASSERT_TRUE(client.SendRaw(value.substr(0, 300'000)).ok());
  const Status stopped = node_->Stop();
  EXPECT_TRUE(stopped.ok()) << stopped.ToString();
  node_.reset();
  Start();
  ASSERT_NE(node_, nullptr);
  WireClient again = Client();
  EXPECT_EQ(again.Get(TestKey(1)).value, "whole");
  EXPECT_EQ(again.Get(TestKey(2)).code, Code::kNotFound);
}

TEST_F(ServerTest, SigtermWhileStartingEndsAtOnce) {
  std::string command = Cat("echo $$; exec ", DFKV_SERVER, " --dir=", folder_, "/data --cap=256MiB");
  FILE* pipe = popen((command + " --ram-tier-bytes=4GiB 2>&1 </dev/null").c_str(), "r");  // seconds to touch
  ASSERT_NE(pipe, nullptr);
  char line[512] = "0";
  ASSERT_NE(fgets(line, sizeof line, pipe), nullptr);
  const pid_t pid = std::atoi(line);
  std::string text;
  while (fgets(line, sizeof line, pipe) != nullptr) {
    text += line;
    const std::string_view seen = line;
    if (seen.find("touching") != std::string_view::npos) kill(pid, SIGTERM);
    if (seen.starts_with("READY")) kill(pid, SIGKILL);
  }
  EXPECT_EQ(pclose(pipe), 0) << text;
  EXPECT_NE(text.find("SIGTERM while starting"), std::string::npos) << text;
  EXPECT_EQ(text.find("READY"), std::string::npos) << text;
}

TEST_F(ServerTest, UsageErrorsExitWithTwoAndNameTheFlag) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"--no-such-flag", "no-such-flag"},
      {"--threads=many", "--threads"},
      {"--cap=12parsecs", "--cap"},
      {"--io=pigeon", "--io"},
      {"--tcp-max-conns=0", "tcp-max-conns"},
      {"--port=70000", "--port"},
      {"--disk-hash-weight=99", "disk-hash-weight"}};
  for (const auto& [flag, named] : cases) {
    std::vector<std::string> words = Flags();
    words.push_back(flag);
    const Ended ended = Run(words);
    EXPECT_EQ(ended.status, 2) << flag << "\n" << ended.text;
    EXPECT_NE(ended.text.find(named), std::string::npos) << ended.text;
  }
  EXPECT_EQ(Run({}).status, 2) << "no directory";
  EXPECT_EQ(Run({Cat("--dir=", folder_, "/data")}).status, 2) << "no capacity";
}

TEST_F(ServerTest, TextsExitWithZero) {
  for (const char* flag : {"--help", "--version", "--print-config", "--print-options-markdown"}) {
    const Ended ended = Run({flag});
    EXPECT_EQ(ended.status, 0) << flag << "\n" << ended.text;
    EXPECT_FALSE(ended.text.empty());
  }
}

TEST_F(ServerTest, ASecondProcessOnTheDirectoryIsRefused) {
  Start();
  ASSERT_NE(node_, nullptr);
  WireClient client = Client();
  ASSERT_EQ(client.Put(TestKey(1), "mine"), Code::kOk);
  const Ended second = Run(Flags());
  EXPECT_EQ(second.status, 1) << second.text;
  EXPECT_NE(second.text.find(Cat(node_->pid())), std::string::npos) << "names the holder: " << second.text;
  EXPECT_EQ(client.Get(TestKey(1)).value, "mine");
}

TEST_F(ServerTest, DirectoriesThatCannotBeUsedAreRefused) {
  std::ofstream(folder_ + "/file") << "not a directory";
  std::vector<std::string> words = Flags();
  words[0] = Cat("--dir=", folder_, "/file");
  Ended ended = Run(words);
  EXPECT_EQ(ended.status, 1) << ended.text;
  EXPECT_NE(ended.text.find("/file"), std::string::npos) << ended.text;

  words[0] = "--dir=/proc/dfkv-data";
  ended = Run(words);
  EXPECT_EQ(ended.status, 1) << ended.text;
  EXPECT_NE(ended.text.find("/proc/dfkv-data"), std::string::npos) << ended.text;

  words = Flags();
  words[1] = "--cap=4000TB";
  ended = Run(words);
  EXPECT_EQ(ended.status, 1) << ended.text;
  EXPECT_NE(ended.text.find(folder_), std::string::npos) << "names the path: " << ended.text;
}

TEST_F(ServerTest, ATakenPortIsRefused) {
  Start();
  ASSERT_NE(node_, nullptr);
  std::vector<std::string> words = Flags();
  words[0] = Cat("--dir=", folder_, "/other");
  words.push_back(Cat("--port=", node_->port()));
  words.push_back("--port-wait-ms=50");
  const Ended ended = Run(words);
  EXPECT_EQ(ended.status, 1) << ended.text;
  EXPECT_NE(ended.text.find(Cat(node_->port())), std::string::npos) << ended.text;
}

TEST_F(ServerTest, AnnouncementsCostNoMemory) {
  Start({"--max-object-bytes=64MiB", "--ram-tier-bytes=128MiB", "--stall-ms=60000"});
  ASSERT_NE(node_, nullptr);
  ASSERT_EQ(Client().Ping(), Code::kOk);
  const uint64_t before = RssBytes();
  std::vector<WireClient> clients;
  for (int i = 0; i < 60; ++i) {
    clients.push_back(Client());
    (void)clients.back().SendPutHead({{TestKey(static_cast<uint64_t>(i)), "x"}}, {64u << 20});
  }
  for (int i = 0; i < 20; ++i) ASSERT_EQ(Client().Ping(), Code::kOk);
  EXPECT_LT(RssBytes(), before + (24u << 20));
}

TEST_F(ServerTest, GarbageAndHalfOpenPeersDoNotHurtOthers) {
  Start({"--tcp-max-conns=64", "--tcp-first-req-ms=60000"});
  ASSERT_NE(node_, nullptr);
  const uint64_t seed = SeedFromSystem();
  SCOPED_TRACE(seed);
  Random random(seed);
  std::vector<WireClient> idle(520);
  for (WireClient& client : idle) {
    ASSERT_TRUE(client.Connect(node_->port()).ok());
    if (random.OneIn(3)) (void)client.SendRaw("3KFD");
  }
  for (int i = 0; i < 100; ++i) {
    WireClient client;
    ASSERT_TRUE(client.Connect(node_->port()).ok());
    std::string garbage(1 + random.Below(2000), '\0');
    random.Fill({reinterpret_cast<std::byte*>(garbage.data()), garbage.size()});
    (void)client.SendRaw(garbage);
  }
  WireClient client = Client();
  EXPECT_EQ(client.Put(TestKey(1), "still here"), Code::kOk);
  EXPECT_EQ(client.Get(TestKey(1)).value, "still here");
}

}  // namespace
}  // namespace dfkv
