// A whole node over real sockets and a real store in a temporary directory, on each kind of reactor.
#include "node/node.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include "base/log.h"
#include "net/testing/wire_client.h"
#include "store/store_testing.h"

namespace dfkv::node {
namespace {

using net::ClientGet;
using net::ClientItem;
using net::ClientPut;
using net::TestKey;
using net::TestValue;
using net::WireClient;
using wire::Op;

class NodeTest : public ::testing::TestWithParam<io::ReactorKind> {
 protected:
  NodeTest() {
    options_.io = GetParam();
    options_.dir = {dir_.path()};
    options_.cap_bytes = 256 << 20;
    options_.ram_tier_bytes = 64 << 20;
    options_.ram_populate = false;
    options_.threads = 2;
    options_.put_inflight_bytes = 16 << 20;
    options_.max_object_bytes = 4 << 20;
  }
  void SetUp() override {
    SetLogSink([](LogLevel, std::string_view) {});
  }
  void TearDown() override {
    node_.reset();
    SetLogSink(nullptr);
  }
  void Start() {
    node_.reset();
    Result<NodeConfig> config = ResolveNodeOptions(options_);
    ASSERT_TRUE(config.ok()) << config.status().ToString();
    Result<std::unique_ptr<Node>> node = Node::StartBlocking(*config);
    if (!node.ok() && node.code() == Code::kUnavailable && GetParam() == io::ReactorKind::kUring) {
      GTEST_SKIP() << node.status().ToString();
    }
    ASSERT_TRUE(node.ok()) << node.status().ToString();
    node_ = std::move(*node);
  }
  WireClient Client() {
    WireClient client;
    const Status status = client.ConnectAndHello(node_->port());
    EXPECT_TRUE(status.ok()) << status.ToString();
    return client;
  }
  double Metric(const std::string& name, const std::string& label = "") {
    double sum = 0;
    for (const auto& [key, value] : node_->metrics().Snapshot()) {
      if (key.substr(0, key.find('{')) == name && key.find(label) != std::string::npos) sum += value;
    }
    return sum;
  }

  store::TempDir dir_;
  NodeOptions options_;
  std::unique_ptr<Node> node_;
};

#define START()            \
  Start();                 \
  if (IsSkipped()) return; \
  ASSERT_NE(node_, nullptr)

TEST_P(NodeTest, PutGetExistLookupRemove) {
  START();
  WireClient client = Client();
  const std::string value = TestValue(1, 10'000);
  EXPECT_EQ(client.Get(TestKey(1)).code, Code::kNotFound);
  EXPECT_EQ(client.Exist(TestKey(1)), Code::kNotFound);
  EXPECT_EQ(client.Put(TestKey(1), value), Code::kOk);
  EXPECT_EQ(client.Put(TestKey(1), TestValue(2, 500)), Code::kOk) << "keep-first";
  const ClientItem got = client.Get(TestKey(1));
  EXPECT_EQ(got.code, Code::kOk);
  EXPECT_TRUE(got.crc_ok);
  EXPECT_TRUE(got.value == value);
  auto lookup = client.Await(client.SendKeys(Op::kLookup, {TestKey(1), TestKey(2)}));
  ASSERT_TRUE(lookup.ok());
  EXPECT_EQ(lookup->items.at(0).stored_length, 10'000u);
  EXPECT_EQ(lookup->items.at(1).code, Code::kNotFound);
  EXPECT_EQ(client.Remove(TestKey(1)), Code::kOk);
  EXPECT_EQ(client.Remove(TestKey(1)), Code::kNotFound);
  EXPECT_EQ(client.Get(TestKey(1)).code, Code::kNotFound);
  EXPECT_EQ(Metric("dfkv_cache_put_total"), 2);
  EXPECT_EQ(Metric("dfkv_cache_hit_total"), 1);
  EXPECT_EQ(Metric("dfkv_cache_miss_total"), 2);
  EXPECT_EQ(Metric("dfkv_remove_ok_total"), 1);
  EXPECT_EQ(Metric("dfkv_remove_miss_total"), 1);
  EXPECT_EQ(Metric("dfkv_exist_hit_total"), 1);
  EXPECT_EQ(Metric("dfkv_exist_miss_total"), 2);
  EXPECT_EQ(Metric("dfkv_bytes_written_total"), 10'000);
  EXPECT_EQ(Metric("dfkv_bytes_read_total"), 10'000);
}

// What comes after its request's deadline takes no memory.
TEST_P(NodeTest, APutPastItsDeadlineIsDiscarded) {
  START();
  WireClient client = Client();
  client.deadline_ms = 1;
  const std::string value = TestValue(1, 10'000);
  const uint64_t id = client.SendPutHead({{TestKey(1), value}, {TestKey(2), value}}, {10'000, 10'000});
  pollfd nothing{client.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&nothing, 1, 20), 0);
  ASSERT_TRUE(client.SendRaw(value + value).ok());
  const auto answer = client.Await(id);
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  for (uint32_t i : {0u, 1u}) EXPECT_EQ(answer->items.at(i).code, Code::kTimeout);
  client.deadline_ms = 0;
  EXPECT_EQ(client.Get(TestKey(1)).code, Code::kNotFound);
  EXPECT_EQ(client.Put(TestKey(1), value), Code::kOk) << "the connection goes on";
  EXPECT_EQ(Metric("dfkv_errors_total", "Timeout"), 2);
}

TEST_P(NodeTest, TenantsDoNotMeet) {
  START();
  WireClient client = Client();
  EXPECT_EQ(client.Put(TestKey(1), "mine"), Code::kOk);
  client.tenant = 8;
  EXPECT_EQ(client.Get(TestKey(1)).code, Code::kNotFound);
}

TEST_P(NodeTest, CapacityRangesAndBadLengths) {
  START();
  WireClient client = Client();
  const std::string value = TestValue(3, 100'000);
  ASSERT_EQ(client.Put(TestKey(3), value), Code::kOk);
  const ClientItem small = client.Get(TestKey(3), 99'999);
  EXPECT_EQ(small.code, Code::kTooSmall);
  EXPECT_EQ(small.stored_length, 100'000u);
  EXPECT_EQ(client.Get(TestKey(3), 100'000).code, Code::kOk);

  struct Range {
    uint64_t offset, length;
    Code code;
    size_t got;
  };
  const Range ranges[] = {{0, 10, Code::kOk, 10},
                          {5000, 64'000, Code::kOk, 64'000},
                          {99'990, 50, Code::kOk, 10},
                          {100'000, 10, Code::kOk, 0},
                          {100'001, 10, Code::kInvalid, 0},
                          {1, UINT64_MAX, Code::kOk, 99'999},
                          {UINT64_MAX, UINT64_MAX, Code::kInvalid, 0}};
  for (const Range& range : ranges) {
    SCOPED_TRACE(range.offset);
    auto answer = client.Await(client.SendGet({{TestKey(3), range.length, range.offset}}, Op::kGetRange));
    ASSERT_TRUE(answer.ok());
    const ClientItem& item = answer->items.at(0);
    EXPECT_EQ(item.code, range.code);
    EXPECT_TRUE(item.crc_ok);
    EXPECT_EQ(item.value, value.substr(std::min<size_t>(range.offset, value.size()), range.got));
    EXPECT_EQ(item.stored_length, 100'000u);
  }
  EXPECT_EQ(client.Put(TestKey(4), ""), Code::kInvalid);
  EXPECT_EQ(client.Put(TestKey(4), std::string((4 << 20) + 1, 'x')), Code::kTooLarge);
  EXPECT_EQ(client.Ping(), Code::kOk);
}

TEST_P(NodeTest, MatchCountsTheLeadingKeys) {
  START();
  WireClient client = Client();
  for (uint64_t i : {0u, 1u, 2u, 4u}) ASSERT_EQ(client.Put(TestKey(i), TestValue(i, 100)), Code::kOk);
  std::vector<ObjectKey> keys;
  for (uint64_t i = 0; i < 6; ++i) keys.push_back(TestKey(i));
  EXPECT_EQ(client.Await(client.SendKeys(Op::kMatch, keys))->present, 3u);
  EXPECT_EQ(client.Await(client.SendKeys(Op::kMatch, {TestKey(9)}))->present, 0u);
}

TEST_P(NodeTest, BatchesOfEverySize) {
  START();
  WireClient client = Client();
  std::vector<std::string> values;
  std::vector<ClientPut> puts;
  std::vector<ClientGet> gets;
  std::vector<ObjectKey> keys;
  for (uint64_t i = 0; i < 500; ++i) values.push_back(TestValue(i, 1 + (i * 997) % 20'000));
  for (uint64_t i = 0; i < 500; ++i) {
    puts.push_back({TestKey(i), values[i], static_cast<uint32_t>(i)});
    gets.push_back({TestKey(i)});
    keys.push_back(TestKey(i));
  }
  auto put = client.Await(client.SendPut(puts));
  ASSERT_TRUE(put.ok()) << put.status().ToString();
  for (const auto& [index, item] : put->items) ASSERT_EQ(item.code, Code::kOk) << index;
  gets.push_back({TestKey(1000)});
  auto got = client.Await(client.SendGet(gets));
  ASSERT_TRUE(got.ok());
  ASSERT_EQ(got->items.size(), 501u);
  for (uint32_t i = 0; i < 500; ++i) ASSERT_TRUE(got->items[i].value == values[i]) << i;
  EXPECT_EQ(got->items[500].code, Code::kNotFound);
  keys.push_back(TestKey(1000));
  auto exist = client.Await(client.SendKeys(Op::kExist, keys));
  ASSERT_TRUE(exist.ok());
  EXPECT_EQ(exist->items.at(499).code, Code::kOk);
  EXPECT_EQ(exist->items.at(500).code, Code::kNotFound);
  auto removed = client.Await(client.SendKeys(Op::kRemove, keys));
  ASSERT_TRUE(removed.ok());
  EXPECT_EQ(removed->items.size(), 501u);
  EXPECT_EQ(client.Await(client.SendKeys(Op::kMatch, keys))->present, 0u);
}

TEST_P(NodeTest, OneKeyTwiceInOneBatch) {
  START();
  WireClient client = Client();
  const std::string value = TestValue(5, 50'000);
  auto put = client.Await(client.SendPut({{TestKey(5), value}, {TestKey(5), value}, {TestKey(5), value}}));
  ASSERT_TRUE(put.ok());
  for (const auto& [index, item] : put->items) EXPECT_EQ(item.code, Code::kOk) << index;
  EXPECT_TRUE(client.Get(TestKey(5)).value == value);
}

TEST_P(NodeTest, WhatDoesNotFitIntoRamComesFromDisk) {
  options_.ram_tier_bytes = 16 << 20;
  options_.put_inflight_bytes = 4 << 20;
  START();
  WireClient client = Client();
  std::vector<ClientGet> gets;
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_EQ(client.Put(TestKey(i), TestValue(i, 500'000)), Code::kOk) << i;
    gets.push_back({TestKey(i)});
  }
  for (int round = 0; round < 3; ++round) {
    auto got = client.Await(client.SendGet(gets));
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    ASSERT_EQ(got->items.size(), 100u);
    for (uint32_t i = 0; i < 100; ++i) {
      ASSERT_EQ(got->items[i].code, Code::kOk) << i;
      ASSERT_TRUE(got->items[i].value == TestValue(i, 500'000)) << i;
    }
  }
  auto cold = client.Await(client.SendGet({{TestKey(0), 1000, 100'000}}, Op::kGetRange));
  ASSERT_TRUE(cold.ok());
  EXPECT_EQ(cold->items.at(0).value, TestValue(0, 500'000).substr(100'000, 1000));
}

TEST_P(NodeTest, ARestartBringsEverythingBack) {
  START();
  {
    WireClient client = Client();
    for (uint64_t i = 0; i < 50; ++i) ASSERT_EQ(client.Put(TestKey(i), TestValue(i, 3000 + i)), Code::kOk);
  }
  EXPECT_TRUE(node_->StopBlocking(5 * kSecond).ok());
  START();
  EXPECT_EQ(node_->object_count(), 50u);
  WireClient client = Client();
  for (uint64_t i = 0; i < 50; ++i) EXPECT_TRUE(client.Get(TestKey(i)).value == TestValue(i, 3000 + i)) << i;
}

TEST_P(NodeTest, AValueThatIsNotItsCrcIsRefused) {
  START();
  WireClient client = Client();
  const std::string value(5000, 'a');
  const uint64_t id = client.SendPutHead({{TestKey(1), value}}, {5000});
  ASSERT_TRUE(client.SendRaw(std::string(5000, 'b')).ok());
  auto put = client.Await(id);
  ASSERT_TRUE(put.ok());
  EXPECT_EQ(put->items.at(0).code, Code::kCorrupt);
  EXPECT_EQ(client.Get(TestKey(1)).code, Code::kNotFound);
  EXPECT_EQ(Metric("dfkv_errors_total", "Corrupt"), 1);
  EXPECT_EQ(client.Put(TestKey(1), value), Code::kOk) << "the key is free again";
}

// PUTs that stall hold the whole budget; others are answered Busy, and served again once it is given back.
TEST_P(NodeTest, ThePutBudgetIsBusyThenRecovers) {
  options_.put_inflight_bytes = 8 << 20;
  options_.busy_wait_ms = 20;
  options_.stall_ms = 60'000;
  options_.min_rate_bytes = 1024;
  START();
  std::vector<WireClient> stalled;
  const std::string value(4 << 20, 'v');
  for (uint64_t i = 0; i < 4; ++i) {
    stalled.push_back(Client());
    (void)stalled.back().SendPutHead({{TestKey(i), value}}, {value.size()});
    ASSERT_TRUE(stalled.back().SendRaw(value.substr(0, 100'000)).ok());
  }
  WireClient client = Client();
  const std::string mine = TestValue(99, 1 << 20);
  Code code = client.Put(TestKey(99), mine);
  while (code == Code::kOk) {  // the stalled ones may not have taken everything yet
    ASSERT_EQ(client.Remove(TestKey(99)), Code::kOk);
    code = client.Put(TestKey(99), mine);
  }
  EXPECT_EQ(code, Code::kBusy);
  EXPECT_GT(Metric("dfkv_put_busy_total"), 0);
  EXPECT_EQ(client.Ping(), Code::kOk);
  stalled.clear();
  while (client.Put(TestKey(99), mine) == Code::kBusy) {
  }
  EXPECT_TRUE(client.Get(TestKey(99)).value == mine);
}

// Values that were to be received together have their places taken ahead; all of them come back.
TEST_P(NodeTest, APutThatBreaksOffGivesAllItsPlacesBack) {
  START();
  const auto used_is = [&](WireClient& client, double bytes) {
    const Nanos until = SystemClock().Now() + 20 * kSecond;
    while (Metric("dfkv_ram_used_bytes") != bytes && SystemClock().Now() < until) (void)client.Ping();
    return Metric("dfkv_ram_used_bytes") == bytes;
  };
  const std::string value(32 << 10, 'v');
  WireClient client = Client();
  for (int round = 0; round < 3; ++round) {
    WireClient stalled = Client();
    const std::vector<ClientPut> puts = {
        {TestKey(1), value}, {TestKey(2), value}, {TestKey(1), value}, {TestKey(3), value}};
    (void)stalled.SendPutHead(puts, {value.size(), value.size(), value.size(), value.size()});
    EXPECT_TRUE(used_is(client, 0)) << "an announcement takes nothing";
    ASSERT_TRUE(stalled.SendRaw(value.substr(0, 1000)).ok());
    EXPECT_TRUE(used_is(client, 3 * (32 << 10))) << "of one key, once";
    stalled.Close();
    EXPECT_TRUE(used_is(client, 0));
    EXPECT_EQ(client.Get(TestKey(1)).code, Code::kNotFound);
  }
  EXPECT_EQ(client.Put(TestKey(1), value), Code::kOk);
}

// Each item of a PUT waits for room on its own account.
TEST_P(NodeTest, ABusyItemLeavesTheNextItsTime) {
  options_.put_inflight_bytes = 8 << 20;
  options_.busy_wait_ms = 1500;
  options_.stall_ms = 60'000;
  options_.min_rate_bytes = 1024;
  START();
  std::vector<WireClient> stalled;
  const std::string value(4 << 20, 'v');
  for (uint64_t i = 0; i < 2; ++i) {
    stalled.push_back(Client());
    (void)stalled.back().SendPutHead({{TestKey(i), value}}, {value.size()});
    ASSERT_TRUE(stalled.back().SendRaw(value.substr(0, 100'000)).ok());
  }
  while (Metric("dfkv_put_inflight_bytes") < 8 << 20) ASSERT_EQ(Client().Ping(), Code::kOk);
  WireClient client = Client();
  client.deadline_ms = 60'000;
  const std::string mine = TestValue(99, 1 << 20);
  const uint64_t id = client.SendPut({{TestKey(98), mine}, {TestKey(99), mine}});
  while (Metric("dfkv_put_busy_total") < 1) ASSERT_EQ(Client().Ping(), Code::kOk);
  stalled.clear();
  const auto answer = client.Await(id);
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->items.at(0).code, Code::kBusy);
  EXPECT_EQ(answer->items.at(1).code, Code::kOk);
}

// A PUT of a key that another one is storing waits for that one, but not past its own deadline.
TEST_P(NodeTest, JoiningAPutEndsAtTheDeadline) {
  options_.stall_ms = 60'000;
  options_.min_rate_bytes = 1024;
  START();
  WireClient first = Client();
  const std::string value = TestValue(1, 10'000);
  const uint64_t storing = first.SendPutHead({{TestKey(1), value}}, {value.size()});
  ASSERT_TRUE(first.SendRaw(value.substr(0, 100)).ok());
  while (Metric("dfkv_put_inflight_bytes") == 0) ASSERT_EQ(Client().Ping(), Code::kOk);
  WireClient second = Client();
  second.deadline_ms = 100;
  const auto joined = second.Await(second.SendPut({{TestKey(1), value}}));
  ASSERT_TRUE(joined.ok()) << joined.status().ToString();
  EXPECT_EQ(joined->items.at(0).code, Code::kTimeout);
  ASSERT_TRUE(first.SendRaw(value.substr(100)).ok());
  const auto stored = first.Await(storing);
  ASSERT_TRUE(stored.ok());
  EXPECT_EQ(stored->items.at(0).code, Code::kOk);
}

// One GET of far more than may be queued: what has no room waits, though all of it is in RAM.
TEST_P(NodeTest, AnswersWaitForRoom) {
  options_.output_bytes = 4 << 20;
  START();
  WireClient client = Client();
  std::vector<ClientGet> gets;
  for (uint64_t i = 0; i < 56; ++i) {
    ASSERT_EQ(client.Put(TestKey(i), TestValue(i, 512 << 10)), Code::kOk);
    gets.push_back({TestKey(i)});
  }
  const uint64_t id = client.SendGet(gets);
  pollfd readable{client.fd(), POLLIN, 0};
  ASSERT_EQ(::poll(&readable, 1, 20'000), 1);
  for (int look = 0; look < 20; ++look) {
    EXPECT_LE(Metric("dfkv_tcp_output_bytes"), (4 << 20) + (512 << 10)) << "the limit, and one value";
    ASSERT_EQ(Client().Ping(), Code::kOk);
  }
  const auto got = client.Await(id);
  ASSERT_TRUE(got.ok());
  for (uint32_t i = 0; i < 56; ++i) EXPECT_TRUE(got->items.at(i).value == TestValue(i, 512 << 10)) << i;
}

TEST_P(NodeTest, ConcurrentClientsOfOneKeySpace) {
  START();
  constexpr int kClients = 8;
  std::vector<Thread> threads;
  std::atomic<int> wrong{0}, failed{0};
  for (int t = 0; t < kClients; ++t) {
    threads.emplace_back("client", [&, t] {
      WireClient client;
      if (!client.ConnectAndHello(node_->port()).ok()) {
        ++failed;
        return;
      }
      Random random(static_cast<uint64_t>(t));
      for (int i = 0; i < 300; ++i) {
        const uint64_t n = random.Below(50);
        const std::string value = TestValue(n, 1000 + n * 501);
        const uint64_t what = random.Below(10);
        if (what < 4) {
          Code code = client.Put(TestKey(n), value);
          while (code == Code::kBusy)
            code = client.Put(TestKey(n), value);  // it met a PUT that a REMOVE ended
          if (code != Code::kOk) ++failed;
          EXPECT_EQ(CodeName(code), "Ok") << "put";
        } else if (what < 9) {
          const ClientItem got = client.Get(TestKey(n));
          if (got.code != Code::kOk && got.code != Code::kNotFound) ++failed;
          EXPECT_TRUE(got.code == Code::kOk || got.code == Code::kNotFound) << "get: " << CodeName(got.code);
          if (got.code == Code::kOk && got.value != value) ++wrong;
        } else {
          const Code code = client.Remove(TestKey(n));
          EXPECT_TRUE(code == Code::kOk || code == Code::kNotFound) << "remove: " << CodeName(code);
        }
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(failed, 0);
}

TEST_P(NodeTest, StatsAreMetrics) {
  START();
  WireClient client = Client();
  ASSERT_EQ(client.Put(TestKey(1), "x"), Code::kOk);
  auto stats = client.Await(client.SendPlain(Op::kStats));
  ASSERT_TRUE(stats.ok());
  for (const char* name : {"dfkv_build_info{", "dfkv_cache_put_total 1", "dfkv_open_connections 1",
                           "dfkv_uptime_seconds", "dfkv_accepts_total 1", "dfkv_op_latency_seconds_bucket"}) {
    EXPECT_NE(stats->text.find(name), std::string::npos) << name << " in\n" << stats->text;
  }
}

// One request to the admin port; the whole answer.
std::string Fetch(const std::string& address, const std::string& path) {
  const size_t colon = address.rfind(':');
  WireClient client;
  if (!client.Connect(static_cast<uint16_t>(std::stoi(address.substr(colon + 1)))).ok()) return "";
  if (!client.SendRaw("GET " + path + " HTTP/1.0\r\n\r\n").ok()) return "";
  std::string answer;
  char buffer[4096];
  for (ssize_t got = 0; (got = ::recv(client.fd(), buffer, sizeof buffer, 0)) > 0;) {
    answer.append(buffer, static_cast<size_t>(got));
  }
  return answer;
}

TEST_P(NodeTest, TheAdminPortTellsMetricsHealthAndStats) {
  options_.metrics_port = 0;
  START();
  ASSERT_EQ(Client().Put(TestKey(1), "x"), Code::kOk);
  const std::string address = node_->metrics_address();
  const std::string metrics = Fetch(address, "/metrics");
  EXPECT_NE(metrics.find(" 200 "), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("dfkv_cache_put_total 1"), std::string::npos) << metrics;
  EXPECT_NE(Fetch(address, "/healthz").find(" 200 "), std::string::npos);
  EXPECT_NE(Fetch(address, "/readyz").find(" 200 "), std::string::npos);
  EXPECT_NE(Fetch(address, "/nothing").find(" 404 "), std::string::npos);
  const std::string stats = Fetch(address, "/stats");
  for (const char* part : {"\"ready\": true", "\"objects\": 1", "\"dfkv_cache_put_total\": 1,"}) {
    EXPECT_NE(stats.find(part), std::string::npos) << stats;
  }
}

// --- Start and stop ---

TEST_P(NodeTest, ASecondNodeOnTheDirectoryIsRefused) {
  START();
  Result<NodeConfig> config = ResolveNodeOptions(options_);
  ASSERT_TRUE(config.ok());
  auto second = Node::StartBlocking(*config);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.code(), Code::kLocked) << second.status().ToString();
  EXPECT_EQ(Client().Ping(), Code::kOk);
}

TEST_P(NodeTest, ATakenPortIsRefused) {
  START();
  store::TempDir other;
  NodeOptions options = options_;
  options.dir = {other.path()};
  options.port = node_->port();
  options.port_wait_ms = 50;
  Result<NodeConfig> config = ResolveNodeOptions(options);
  ASSERT_TRUE(config.ok());
  auto second = Node::StartBlocking(*config);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.code(), Code::kUnavailable);
  EXPECT_NE(second.status().message().find(std::to_string(options.port)), std::string::npos)
      << second.status().ToString();
  EXPECT_TRUE(std::filesystem::is_empty(other.path())) << "told before space is allocated";
}

TEST_P(NodeTest, StopInTheMiddleOfAPut) {
  options_.stall_ms = 60'000;
  START();
  WireClient client = Client();
  const std::string value(1 << 20, 'v');
  (void)client.SendPutHead({{TestKey(1), value}}, {value.size()});
  ASSERT_TRUE(client.SendRaw(value.substr(0, 100'000)).ok());
  ASSERT_EQ(Client().Put(TestKey(2), "whole"), Code::kOk);
  EXPECT_TRUE(node_->StopBlocking(50 * kMillisecond).ok());
  EXPECT_TRUE(client.ClosedByNode());
  options_.stall_ms = 1000;
  START();
  WireClient again = Client();
  EXPECT_EQ(again.Get(TestKey(1)).code, Code::kNotFound);
  EXPECT_EQ(again.Get(TestKey(2)).value, "whole");
}

TEST_P(NodeTest, StopAnswersWhatHasArrived) {
  START();
  WireClient client = Client();
  std::vector<std::string> values;
  std::vector<uint64_t> ids;
  for (uint64_t i = 0; i < 20; ++i) values.push_back(TestValue(i, 100'000));
  for (uint64_t i = 0; i < 20; ++i) ids.push_back(client.SendPut({{TestKey(i), values[i]}}));
  Thread stopper("stopper", [&] { EXPECT_TRUE(node_->StopBlocking(5 * kSecond).ok()); });
  std::vector<uint64_t> acknowledged;
  for (uint64_t i = 0; i < 20; ++i) {
    auto answer = client.Await(ids[i]);
    if (answer.ok() && answer->items.at(0).code == Code::kOk) acknowledged.push_back(i);
  }
  stopper.Join();
  START();
  WireClient again = Client();
  for (uint64_t i : acknowledged) EXPECT_TRUE(again.Get(TestKey(i)).value == values[i]) << i;
}

INSTANTIATE_TEST_SUITE_P(Reactors, NodeTest,
                         ::testing::Values(io::ReactorKind::kEpoll, io::ReactorKind::kUring),
                         [](const auto& param) {
                           return param.param == io::ReactorKind::kEpoll ? "epoll" : "uring";
                         });

// --- Options ---

TEST(NodeOptionsTest, WhatIsMissingOrWrongIsNamed) {
  NodeOptions options;
  EXPECT_NE(ResolveNodeOptions(options).status().message().find("--dir"), std::string::npos);
  options.dir = {"/a", "/b"};
  EXPECT_NE(ResolveNodeOptions(options).status().message().find("--cap"), std::string::npos);
  options.cap_bytes = 1 << 30;
  EXPECT_TRUE(ResolveNodeOptions(options).ok());
  options.disk_hash_weight = {"10", "65"};
  EXPECT_NE(ResolveNodeOptions(options).status().message().find("65"), std::string::npos);
  options.disk_hash_weight = {"10"};
  EXPECT_EQ(ResolveNodeOptions(options)->store.disk_weights, (std::vector<uint32_t>{10, 10}));
  options.disk_hash_weight = {"10", "20", "30"};
  EXPECT_FALSE(ResolveNodeOptions(options).ok());
}

TEST(NodeOptionsTest, TheAddressIsLoopbackUnlessNamed) {
  NodeOptions options;
  options.store_engine = store::EngineKind::kRam;
  EXPECT_EQ(ResolveNodeOptions(options)->tcp.address, "127.0.0.1");
  options.advertise = "10.1.2.3:7000";
  EXPECT_EQ(ResolveNodeOptions(options)->tcp.address, "10.1.2.3");
  options.listen = "0.0.0.0";
  EXPECT_EQ(ResolveNodeOptions(options)->tcp.address, "0.0.0.0");
  options.listen.clear();
  options.advertise = "nonsense";
  EXPECT_FALSE(ResolveNodeOptions(options).ok());
}

TEST(NodeOptionsTest, MemoryDefaultsAreWithinTheMachine) {
  NodeOptions options;
  options.store_engine = store::EngineKind::kRam;
  const auto config = ResolveNodeOptions(options);
  ASSERT_TRUE(config.ok());
  EXPECT_LE(config->store.ram_bytes, std::max<uint64_t>(MemoryLimitBytes() / 4, 1));
  EXPECT_LE(config->store.ram_bytes, 16ull << 30);
  EXPECT_GE(config->threads, 1u);
  options.store_engine = store::EngineKind::kSlab;
  options.dir = {"/a"};
  options.cap_bytes = 300ull << 20;
  EXPECT_EQ(ResolveNodeOptions(options)->store.ram_bytes, options.cap_bytes) << "no more than it can hold";
}

}  // namespace
}  // namespace dfkv::node
