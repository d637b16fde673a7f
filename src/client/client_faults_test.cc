// What a node may do to a client, and what the client makes of it: never a wrong byte, never a write to
// memory that was given back, never more than the deadline, and no effect on the items of other nodes.
#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include "base/fault.h"
#include "base/identity.h"
#include "base/log.h"
#include "client/client.h"
#include "client/contract_suite.h"
#include "client/fake_node.h"
#include "client/faults_testing.h"

namespace dfkv::client {
namespace {

// Of the tests about silence; the others have a stall time that no busy machine reaches. Upper bounds on time
// are generous: they tell a promise kept from one broken, not a fast machine from a slow one.
constexpr uint32_t kStallMs = 600;
constexpr Nanos kSoon = 10 * kSecond;

class ClientFaults : public ::testing::Test {
 protected:
  ClientFaults() {
    SetLogSink([](LogLevel, std::string_view) {});
    options_.key_namespace = "faults";
    options_.stall_ms = 60'000;
    options_.peer_cooldown_ms = 60'000;  // unless a test says otherwise, an avoided peer stays so
    options_.peer_cooldown_max_ms = 60'000;
  }
  ~ClientFaults() override { SetLogSink(nullptr); }

  Client& Open(const std::vector<std::string>& addresses) {
    options_.members.clear();
    for (size_t i = 0; i < addresses.size(); ++i) options_.members += Cat("node-", i, "=", addresses[i], ",");
    auto client = Client::Open(options_);
    EXPECT_TRUE(client.ok()) << client.status().ToString();
    client_ = std::move(*client);
    return *client_;
  }
  double Metric(const std::string& name) {
    for (const auto& [key, value] : client_->metrics().Snapshot()) {
      if (key == name) return value;
    }
    ADD_FAILURE() << "no metric " << name;
    return -1;
  }
  static Nanos Now() { return SystemClock().Now(); }

  ClientOptions options_;
  std::unique_ptr<Client> client_;
};

std::string UnusedAddress() {
  SilentPort port;
  return port.address();
}

ItemResult GetGuarded(Client& client, uint64_t key, Guarded& into, uint32_t deadline_ms = 0) {
  const Key name(key);
  const MutableByteSpan piece = into.piece;
  const GetItem item{name.bytes(), {&piece, 1}};
  ItemResult result;
  EXPECT_TRUE(client.Get({&item, 1}, {deadline_ms}, {&result, 1}).ok());
  return result;
}

// A client of a node that holds object 1, and treats the first GET as `action` says.
class DelayedGet : public ClientFaults {
 protected:
  Client& OpenToDelayedGet(FakeNode& node, FakeAction action) {
    options_.stall_ms = kStallMs;
    node.set_script(First(wire::Op::kGet, 1, action));
    Client& client = Open({node.address()});
    EXPECT_EQ(Caller(client).Put(1, ValueOf(1, 100)), Code::kOk);
    return client;
  }
};

// --- Wrong answers ---

class WrongAnswers : public ClientFaults, public ::testing::WithParamInterface<FakeAction> {};

TEST_P(WrongAnswers, AreNoHits) {
  FakeNode node;
  node.set_script(First(wire::Op::kGet, 1, GetParam()));
  Client& client = Open({node.address()});
  Caller caller(client);
  for (const size_t size : {100ul, 100'000ul}) {
    ASSERT_EQ(caller.Put(size, ValueOf(size, size)), Code::kOk);
  }
  Guarded into(100'000);
  const ItemResult result = GetGuarded(client, 100'000, into);
  EXPECT_EQ(result.code, GetParam() == FakeAction::kFlipByte ? Code::kCorrupt : Code::kUnavailable);
  EXPECT_TRUE(into.guards_whole());
}

INSTANTIATE_TEST_SUITE_P(Kinds, WrongAnswers,
                         ::testing::Values(FakeAction::kFlipByte, FakeAction::kGarbage, FakeAction::kTwice,
                                           FakeAction::kTooLong, FakeAction::kMissing, FakeAction::kShort,
                                           FakeAction::kWrongIndex, FakeAction::kCloseHalfway));

// What one request's answer says of an item of the next.
TEST_F(ClientFaults, AnAnswerSpeaksOfItsOwnRequestOnly) {
  FakeNodeOptions one;
  one.items_max = 1;
  FakeNode node(one);
  Caller caller(Open({node.address()}));
  ASSERT_EQ(caller.Put(1, ValueOf(1, 10)), Code::kOk);
  node.set_script(First(wire::Op::kExist, 1, FakeAction::kWrongIndex));
  const Key there(1);
  const Key absent(2);
  const ByteSpan keys[] = {there.bytes(), absent.bytes()};
  ItemResult results[2];
  ASSERT_TRUE(client_->Exist(keys, {}, results).ok());
  EXPECT_EQ(results[0].code, Code::kUnavailable);
  EXPECT_EQ(results[1].code, Code::kUnavailable);
}

TEST_F(ClientFaults, AFlippedByteOfASmallValueIsCorrupt) {
  FakeNode node;
  node.set_script(First(wire::Op::kGet, 1, FakeAction::kFlipByte));
  Client& client = Open({node.address()});
  Caller caller(client);
  ASSERT_EQ(caller.Put(1, ValueOf(1, 100)), Code::kOk);
  std::vector<std::byte> into(100);
  EXPECT_EQ(caller.Get(1, into).code, Code::kCorrupt);
  EXPECT_EQ(Metric("dfkv_client_corrupt_total"), 1);
  EXPECT_EQ(caller.Get(1, into).code, Code::kOk);  // the connection is as good as before
}

TEST_F(ClientFaults, WithoutVerifyAFlippedByteGoesUnseen) {  // what the option gives up
  FakeNode node;
  node.set_script(First(wire::Op::kGet, 1, FakeAction::kFlipByte));
  options_.verify = false;
  Caller caller(Open({node.address()}));
  ASSERT_EQ(caller.Put(1, ValueOf(1, 100)), Code::kOk);
  std::vector<std::byte> into(100);
  EXPECT_EQ(caller.Get(1, into).code, Code::kOk);
  EXPECT_NE(into, ValueOf(1, 100));
}

TEST_F(ClientFaults, ABusyNodeIsNotAvoided) {
  FakeNode node;
  node.set_script(First(wire::Op::kPut, 1, FakeAction::kBusy));
  Caller caller(Open({node.address()}));
  EXPECT_EQ(caller.Put(1, ValueOf(1, 100)), Code::kBusy);
  EXPECT_EQ(Metric("dfkv_client_busy_suppressed_total"), 1);
  EXPECT_EQ(caller.Put(1, ValueOf(1, 100)), Code::kOk);
}

TEST_F(ClientFaults, ARefusedHelloNamesItsCode) {
  for (const Code code : {Code::kBusy, Code::kDenied}) {
    FakeNodeOptions refusing;
    refusing.hello_code = code;
    FakeNode node(refusing);
    Caller caller(Open({node.address()}));
    EXPECT_EQ(caller.Exist(1), code);
    EXPECT_EQ(caller.Exist(1), code);  // asked again: it is not avoided
    EXPECT_EQ(node.connections(), 2u);
  }
}

TEST_F(ClientFaults, ObjectsPastTheNodesLimitAreTooLarge) {
  FakeNodeOptions small;
  small.object_bytes_max = 1000;
  FakeNode node(small);
  Caller caller(Open({node.address()}));
  const auto results = caller.PutAll(0, {1000, 1001, 5, 4000, 999});
  const std::vector<Code> expected = {Code::kOk, Code::kTooLarge, Code::kOk, Code::kTooLarge, Code::kOk};
  for (size_t i = 0; i < results.size(); ++i) EXPECT_EQ(results[i].code, expected[i]) << i;
  EXPECT_EQ(node.object_count(), 3u);
  EXPECT_EQ(caller.Put(9, ValueOf(9, 2000)), Code::kTooLarge);
}

TEST_F(ClientFaults, ObjectsPastTheNodesFrameAreTooLarge) {
  FakeNodeOptions small;
  small.payload_bytes_max = 1000;
  small.object_bytes_max = 5000;
  FakeNode node(small);
  Caller caller(Open({node.address()}));
  EXPECT_EQ(caller.Put(1, ValueOf(1, 1001)), Code::kTooLarge);
  EXPECT_EQ(CountOf(caller.PutAll(10, {600, 600, 1000, 1, 999}), Code::kOk), 5u);
  EXPECT_EQ(node.requests(wire::Op::kPut), 4u) << "no request is larger than a frame";
}

TEST_F(ClientFaults, ALimitOfZeroIsNoLimitToKeep) {
  FakeNodeOptions zero[3];
  zero[0].items_max = 0;
  zero[1].payload_bytes_max = 0;
  zero[2].requests_in_flight_max = 0;
  for (const FakeNodeOptions& options : zero) {
    FakeNode node(options);
    EXPECT_EQ(Caller(Open({node.address()})).Exist(1), Code::kUnavailable);
  }
}

TEST_F(ClientFaults, AMatchOfMoreThanWasAskedForIsNone) {
  FakeNode node;
  node.set_script(First(wire::Op::kMatch, 1, FakeAction::kTooMany));
  Client& client = Open({node.address()});
  const Key key(1);
  const ByteSpan bytes = key.bytes();
  EXPECT_EQ(*client.Match({&bytes, 1}, {}), 0u);
  EXPECT_EQ(Metric("dfkv_client_peer_marked_bad_total"), 1);
}

TEST_F(ClientFaults, StatsAreBounded) {
  FakeNodeOptions chatty;
  chatty.stats_bytes = (64 << 20) + 1;
  FakeNode node(chatty);
  EXPECT_EQ(Open({node.address()}).Stats("node-0", {60'000}).code(), Code::kUnavailable);
}

TEST_F(ClientFaults, TheDeadlineReachesTheNode) {
  FakeNode node;
  std::atomic<uint32_t> stated{0};
  node.set_script([&](const wire::RequestView& request) {
    stated = request.prefix.deadline_ms;
    return FakeAction::kAnswer;
  });
  Client& client = Open({node.address()});
  for (const uint32_t ms : {30'000u, 3'000'000u}) {
    EXPECT_EQ(Caller(client, ms).Exist(1), Code::kNotFound);
    EXPECT_LE(stated, ms);
    EXPECT_GE(stated, ms / 2);
  }
}

TEST_F(ClientFaults, DepthReachesTheNode) {
  FakeNode node;
  Caller caller(Open({node.address()}));
  ASSERT_EQ(caller.Put(1, ValueOf(1, 10), 17), Code::kOk);
  const Key key(1);
  EXPECT_EQ(node.depth_of(KeyHasher(AsBytes("faults")).KeyOf(key.bytes())), 17u);
}

// One absurd size must not push away the deadline of the whole call.
TEST_F(ClientFaults, AnAbsurdSizeDoesNotLengthenTheDeadline) {
  options_.stall_ms = 5000;
  FakeNode node;
  std::atomic<uint32_t> deadline_ms{0};
  node.set_script([&](const wire::RequestView& request) {
    deadline_ms = request.prefix.deadline_ms;
    return FakeAction::kAnswer;
  });
  Client& client = Open({node.address()});
  const auto value = ValueOf(1, 100);
  const ByteSpan whole(value);
  const ByteSpan endless[] = {{value.data(), SIZE_MAX}, {value.data(), 2}};
  const ByteSpan huge(value.data(), SIZE_MAX / 2);  // refused before a byte of it is read
  const Key a(1), b(2), c(3);
  const PutItem items[] = {{a.bytes(), {&whole, 1}}, {b.bytes(), endless}, {c.bytes(), {&huge, 1}}};
  std::array<ItemResult, 3> results;
  ASSERT_TRUE(client.Put(items, {}, results).ok());
  EXPECT_EQ(results[0].code, Code::kOk);
  EXPECT_EQ(results[1].code, Code::kInvalid);
  EXPECT_EQ(results[2].code, Code::kTooLarge);
  EXPECT_LE(deadline_ms, 5000u + 64'000u);  // 4 GiB at 64 MiB a second
}

// Gets `keys` into memory of `room` bytes each; returns how many requests that took.
uint64_t RequestsOfGet(FakeNode& node, Client& client, const std::vector<uint64_t>& keys, size_t room) {
  std::vector<Key> names(keys.begin(), keys.end());
  std::vector<std::vector<std::byte>> memory(keys.size(), std::vector<std::byte>(room));
  std::vector<MutableByteSpan> pieces(memory.begin(), memory.end());
  std::vector<GetItem> items;
  for (size_t i = 0; i < keys.size(); ++i) items.push_back({names[i].bytes(), {&pieces[i], 1}});
  std::vector<ItemResult> results(keys.size());
  const uint64_t before = node.requests(wire::Op::kGet);
  EXPECT_TRUE(client.Get(items, {}, results).ok());
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(results[i].code, Code::kOk) << i;
    const std::vector<std::byte> value = ValueOf(keys[i], results[i].length);
    EXPECT_TRUE(std::equal(value.begin(), value.end(), memory[i].begin())) << i;
  }
  return node.requests(wire::Op::kGet) - before;
}

TEST_F(ClientFaults, LargeValuesAreAskedForAMegabyteAtATime) {
  FakeNode node;
  Caller caller(Open({node.address()}));
  std::vector<uint64_t> large;
  std::vector<uint64_t> small;
  for (uint64_t i = 0; i < 12; ++i) {
    large.push_back(i);
    ASSERT_EQ(caller.Put(i, ValueOf(i, 400'000)), Code::kOk);
    small.push_back(100 + i);
    ASSERT_EQ(caller.Put(100 + i, ValueOf(100 + i, 100)), Code::kOk);
  }
  EXPECT_EQ(RequestsOfGet(node, *client_, large, 400'000), 4u);
  // Memory that is larger than the values does not split a batch, once it is known how large they are.
  EXPECT_EQ(RequestsOfGet(node, *client_, {100}, 4 << 20), 1u);
  EXPECT_EQ(RequestsOfGet(node, *client_, small, 1 << 20), 1u);
}

// --- Dead, silent and slow nodes ---

TEST_F(ClientFaults, ARefusedConnectionFailsAtOnceAndIsAvoided) {
  Caller caller(Open({UnusedAddress()}));
  EXPECT_EQ(caller.Put(1, ValueOf(1, 10)), Code::kUnavailable);
  EXPECT_EQ(Metric("dfkv_client_peer_marked_bad_total"), 1);
  EXPECT_EQ(Metric("dfkv_client_peer_errors_total{peer=\"node-0\"}"), 1);
  EXPECT_EQ(Metric("dfkv_client_io_errors_total"), 1);
  EXPECT_EQ(caller.Exist(1), Code::kUnavailable);
  EXPECT_EQ(Metric("dfkv_client_unhealthy_skips_total"), 1);
  const Key key(1);
  const ByteSpan bytes = key.bytes();
  EXPECT_EQ(*client_->Match({&bytes, 1}, {}), 0u);
  EXPECT_EQ(client_->Stats("node-0", {}).code(), Code::kUnavailable);
  EXPECT_EQ(client_->Stats("node-9", {}).code(), Code::kInvalid);
}

TEST_F(ClientFaults, OtherNodesItemsAreNotAffected) {
  options_.stall_ms = kStallMs;
  FakeNode good;
  SilentPort silent;
  Client& client = Open({good.address(), silent.address(), UnusedAddress()});
  Caller caller(client, 20 * kStallMs);
  const std::vector<size_t> sizes(60, 5000);
  const auto put = caller.PutAll(0, sizes);
  const size_t stored = CountOf(put, Code::kOk);
  EXPECT_GT(stored, 5u);
  EXPECT_EQ(stored, good.object_count());
  EXPECT_EQ(CountOf(put, Code::kUnavailable), sizes.size() - stored);
  size_t wrong = 0;
  EXPECT_EQ(CountOf(caller.GetAll(0, sizes, &wrong), Code::kOk), stored);
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(Metric("dfkv_client_unhealthy_skips_total"), sizes.size() - stored);  // both others are avoided
}

TEST_F(ClientFaults, AStoppedNodeCostsOneStallThenNothing) {
  options_.stall_ms = 3000;  // whose last sixteenth is what a busy machine may be late
  SilentPort silent;
  Caller caller(Open({silent.address()}));
  const Nanos begin = Now();
  EXPECT_EQ(caller.Exist(1), Code::kUnavailable);
  EXPECT_LE(Now() - begin, kSoon);
  EXPECT_GE(Now() - begin, options_.stall_ms * kMillisecond / 2);
  EXPECT_EQ(caller.Exist(1), Code::kUnavailable);
  EXPECT_EQ(Metric("dfkv_client_unhealthy_skips_total"), 1);
  EXPECT_EQ(Metric("dfkv_client_peer_marked_bad_total"), 1);
}

TEST_F(ClientFaults, ABlackHoleCostsOneStallThenNothing) {
  options_.stall_ms = kStallMs;
  SilentPort hole(0);
  hole.Fill();
  Caller caller(Open({hole.address()}), 20 * kStallMs);
  const Nanos begin = Now();
  EXPECT_EQ(caller.Exist(1), Code::kUnavailable);
  EXPECT_LE(Now() - begin, kSoon);
  EXPECT_EQ(caller.Exist(1), Code::kUnavailable);
  EXPECT_EQ(Metric("dfkv_client_peer_marked_bad_total"), 1);
}

TEST_F(ClientFaults, ConnectHasItsOwnLimit) {
  SilentPort hole(0);
  hole.Fill();
  options_.stall_ms = 20'000;
  options_.connect_ms = 100;
  Caller caller(Open({hole.address()}));
  const Nanos begin = Now();
  EXPECT_EQ(caller.Exist(1), Code::kUnavailable);
  EXPECT_LT(Now() - begin, 10 * kSecond);
}

// A node that stops in the middle is found out by its silence on PING, also when the deadline is far away.
TEST_F(DelayedGet, SilenceIsFoundOutLongBeforeADistantDeadline) {
  FakeNode node;
  Client& client = OpenToDelayedGet(node, FakeAction::kHold);
  Guarded into(100);
  const Nanos begin = Now();
  EXPECT_EQ(GetGuarded(client, 1, into, 60'000).code, Code::kUnavailable);
  EXPECT_LT(Now() - begin, 10 * kSecond);
  EXPECT_GE(Metric("dfkv_client_health_checks_total"), 1);
}

// A node that answers PING is slow, not dead: the call waits for its deadline, and the node is not avoided.
TEST_F(DelayedGet, ASlowNodeIsWaitedForAndNotAvoided) {
  FakeNode node;
  Client& client = OpenToDelayedGet(node, FakeAction::kSlow);
  Guarded into(100);
  const Nanos begin = Now();
  EXPECT_EQ(GetGuarded(client, 1, into, 4 * kStallMs).code, Code::kTimeout);
  EXPECT_GE(Now() - begin, 4 * kStallMs * kMillisecond);
  EXPECT_EQ(Metric("dfkv_client_peer_marked_bad_total"), 0);
  EXPECT_GE(node.requests(wire::Op::kPing), 4u);
  EXPECT_EQ(GetGuarded(client, 1, into).code, Code::kOk);
}

TEST_F(DelayedGet, ASlowAnswerWithinTheDeadlineIsAHit) {
  FakeNode node;
  Client& client = OpenToDelayedGet(node, FakeAction::kSlow);
  Guarded into(100);
  Thread releaser("releaser", [&] {
    while (node.requests(wire::Op::kPing) < 3) {
    }
    node.Release();
  });
  EXPECT_EQ(GetGuarded(client, 1, into, 60'000).code, Code::kOk);
  EXPECT_TRUE(PatternMatches(1, 0, into.piece));
}

// A caller that got no CPU for longer than the stall time has not asked yet: the node may well live.
TEST_F(ClientFaults, ACallerThatSleptAsksBeforeItGivesUp) {
  options_.stall_ms = 1000;
  FakeNode node;
  node.set_script(First(wire::Op::kGet, 1, FakeAction::kSlow));
  Client& client = Open({node.address()});
  ASSERT_EQ(Caller(client).Put(1, ValueOf(1, 100)), Code::kOk);
  std::atomic<bool> ended{false};
  Thread releaser("releaser", [&] {
    while (node.requests(wire::Op::kPing) == 0 && !ended) CpuRelax();
    node.Release();
  });
  std::atomic<bool> slept{false};
  SyncPoints::Install([&](const char* name) {
    if (std::string_view(name) != "reactor.sleep" || slept.exchange(true)) return;
    const Nanos awake = Now() + 1200 * kMillisecond;
    while (Now() < awake) CpuRelax();
  });
  Guarded into(100);
  EXPECT_EQ(GetGuarded(client, 1, into, 60'000).code, Code::kOk);
  SyncPoints::Clear();
  ended = true;
  EXPECT_TRUE(slept);
  EXPECT_EQ(Metric("dfkv_client_peer_marked_bad_total"), 0);
  EXPECT_GE(Metric("dfkv_client_health_checks_total"), 1);
}

// Deadlines shorter than the stall time: calls end in time, and the silence adds up to a dead node.
TEST_F(ClientFaults, ShortDeadlinesHoldAndAddUp) {
  options_.stall_ms = kStallMs;
  SilentPort silent;
  Caller caller(Open({silent.address()}), 60);
  int timeouts = 0;
  while (timeouts < 50) {
    const Nanos begin = Now();
    const Code code = caller.Exist(1);
    EXPECT_LE(Now() - begin, kSoon);
    if (code == Code::kUnavailable) break;
    ASSERT_EQ(code, Code::kTimeout);
    ++timeouts;
  }
  EXPECT_GE(timeouts, 1);
  EXPECT_LE(timeouts, 10);
  EXPECT_EQ(Metric("dfkv_client_peer_marked_bad_total"), 1);
}

TEST_F(ClientFaults, ALateAnswerIsNeverWritten) {
  for (const size_t size : {500ul, 300'000ul}) {
    FakeNode node;
    node.set_script(First(wire::Op::kGet, 1, FakeAction::kHold));
    Client& client = Open({node.address()});
    ASSERT_EQ(Caller(client).Put(1, ValueOf(1, size)), Code::kOk);
    Guarded into(size);
    EXPECT_EQ(GetGuarded(client, 1, into, 50).code, Code::kTimeout);
    std::fill(into.bytes.begin(), into.bytes.end(), std::byte{0x55});
    node.Release();
    Guarded other(size);
    EXPECT_EQ(GetGuarded(client, 1, other, 10'000).code, Code::kOk);
    EXPECT_TRUE(
        std::all_of(into.bytes.begin(), into.bytes.end(), [](std::byte b) { return b == std::byte{0x55}; }));
    EXPECT_EQ(Metric("dfkv_transport_pool_retirements_total{reason=\"deadline\"}"), 1);
  }
}

// A node without room stops reading a PUT, and the PING behind it: it is asked on a second connection.
TEST_F(ClientFaults, APutThatTheNodeDoesNotReadEndsAtItsDeadline) {
  options_.stall_ms = kStallMs;
  FakeNode node;
  node.set_script(First(wire::Op::kPut, 1, FakeAction::kHold));
  Caller caller(Open({node.address()}), 4 * kStallMs);
  const Nanos begin = Now();
  // The first request is read and held; the rest fills the socket.
  const auto results = caller.PutAll(0, std::vector<size_t>(64, 1 << 20));
  EXPECT_EQ(CountOf(results, Code::kTimeout), 64u);
  EXPECT_GE(Now() - begin, 4 * kStallMs * kMillisecond);
  EXPECT_LT(Now() - begin, 60 * kSecond);
  EXPECT_EQ(Metric("dfkv_client_peer_marked_bad_total"), 0);
  EXPECT_GE(node.connections(), 3u);
  node.Release();
  EXPECT_EQ(caller.Put(1, ValueOf(1, 100)), Code::kOk);
}

TEST_F(ClientFaults, APutIsWaitedForWhileTheNodeLives) {
  options_.stall_ms = kStallMs;
  FakeNode node;
  node.set_script(First(wire::Op::kPut, 1, FakeAction::kHold));
  Caller caller(Open({node.address()}), 60'000);
  const uint64_t answered = ProbeHits("client.connection.second_answered");
  Thread releaser("releaser", [&] {
    while (ProbeHits("client.connection.second_answered") < answered + 2) {
    }
    node.Release();
  });
  EXPECT_EQ(CountOf(caller.PutAll(0, std::vector<size_t>(20, 1 << 20)), Code::kOk), 20u);
}

// Bytes that leave are a sign of life; and the default deadline allows for how many there are.
TEST_F(ClientFaults, APutThatTheNodeReadsSlowlyIsNotGivenUp) {
  options_.stall_ms = 1000;
  options_.min_rate = 1 << 20;
  FakeNodeOptions slow;
  slow.slow_read_bytes = 128 << 10;
  FakeNode node(slow);
  node.refuse_hello_after(1);
  Caller caller(Open({node.address()}));
  const Nanos begin = Now();
  EXPECT_EQ(caller.Put(1, ValueOf(1, 60 << 20)), Code::kOk);
  EXPECT_GT(Now() - begin, 1000 * kMillisecond);
  EXPECT_EQ(Metric("dfkv_client_peer_marked_bad_total"), 0);
}

TEST_F(ClientFaults, APutToANodeThatStopsIsGivenUp) {
  options_.stall_ms = kStallMs;
  FakeNode node;
  node.set_script(First(wire::Op::kPut, 1, FakeAction::kHold));
  node.refuse_hello_after(1);
  Caller caller(Open({node.address()}), 60'000);
  const Nanos begin = Now();
  EXPECT_EQ(CountOf(caller.PutAll(0, std::vector<size_t>(20, 1 << 20)), Code::kUnavailable), 20u);
  EXPECT_LT(Now() - begin, 20 * kSecond);
  EXPECT_EQ(Metric("dfkv_client_peer_marked_bad_total"), 1);
}

// --- Recovery ---

TEST_F(ClientFaults, ANodeThatIsBackIsFoundByAProbe) {
  options_.peer_cooldown_ms = 1;
  options_.peer_cooldown_max_ms = 1;
  auto node = std::make_unique<FakeNode>();
  FakeNodeOptions same;
  same.port = node->port();
  Caller caller(Open({node->address()}));
  ASSERT_EQ(caller.Put(1, ValueOf(1, 10)), Code::kOk);
  node.reset();
  EXPECT_EQ(caller.Exist(1), Code::kUnavailable);
  node = std::make_unique<FakeNode>(same);
  const Nanos until = Now() + 20 * kSecond;
  Code code = Code::kUnavailable;
  while (code == Code::kUnavailable && Now() < until) code = caller.Exist(1);
  EXPECT_EQ(code, Code::kNotFound);
  EXPECT_GE(Metric("dfkv_client_peer_recovered_total"), 1);
}

TEST_F(ClientFaults, AProbeThatHangsDelaysACallOnlyBriefly) {
  options_.peer_cooldown_ms = 1;
  options_.peer_cooldown_max_ms = 60'000;
  options_.stall_ms = 2000;
  SilentPort silent;
  Client& client = Open({silent.address()});
  Caller caller(client, 1);
  while (caller.Exist(1) == Code::kTimeout) {
  }  // short silences add up until it is avoided
  const uint64_t left_behind = ProbeHits("client.lane.probe_left_behind");
  Caller patient(client);
  const Nanos until = Now() + 20 * kSecond;
  while (ProbeHits("client.lane.probe_left_behind") < left_behind + 3 && Now() < until) {
    const Nanos begin = Now();
    EXPECT_EQ(patient.Exist(1), Code::kUnavailable);
    EXPECT_LT(Now() - begin, kSoon);
  }
  EXPECT_GE(ProbeHits("client.lane.probe_left_behind"), left_behind + 3);
  Caller hasty(client, 60);  // waits for a probe half of its time, and then knows
  while (ProbeHits("client.lane.probe_left_behind") < left_behind + 5 && Now() < until) {
    EXPECT_EQ(hasty.Exist(1), Code::kUnavailable);
  }
  EXPECT_GE(ProbeHits("client.lane.probe_left_behind"), left_behind + 5);
}

// --- Pooled connections ---

TEST_F(ClientFaults, AStalePooledConnectionIsReplacedUnseen) {
  FakeNode node;
  Caller caller(Open({node.address()}));
  ASSERT_EQ(caller.Put(1, ValueOf(1, 100'000)), Code::kOk);
  std::vector<std::byte> into(100'000);
  for (int i = 0; i < 20; ++i) {
    node.CloseConnections();
    ASSERT_EQ(caller.Get(1, into).code, Code::kOk);
    node.CloseConnections();
    ASSERT_EQ(caller.Put(2, ValueOf(2, 3 << 20)), Code::kOk);
  }
  EXPECT_EQ(Metric("dfkv_client_peer_marked_bad_total"), 0);
  EXPECT_EQ(Metric("dfkv_client_io_errors_total"), 0);
  EXPECT_EQ(node.connections(), 41u);
}

TEST_F(ClientFaults, OnlyOneRetry) {
  FakeNode node;
  Caller caller(Open({node.address()}));
  ASSERT_EQ(caller.Put(1, ValueOf(1, 10)), Code::kOk);
  node.set_script(First(wire::Op::kGet, 100, FakeAction::kClose));
  std::vector<std::byte> into(10);
  EXPECT_EQ(caller.Get(1, into).code, Code::kUnavailable);
  EXPECT_EQ(node.requests(wire::Op::kGet), 2u);
}

TEST_F(ClientFaults, OneThreadUsesOneConnection) {
  FakeNode node;
  Caller caller(Open({node.address()}));
  for (int i = 0; i < 50; ++i) ASSERT_EQ(caller.Exist(1), Code::kNotFound);
  EXPECT_EQ(node.connections(), 1u);
}

TEST_F(ClientFaults, IdleConnectionsAreClosed) {
  FakeNode node;
  options_.idle_ms = 1;
  Caller caller(Open({node.address()}));
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(caller.Exist(1), Code::kNotFound);
    const Nanos idle = Now() + 2 * kMillisecond;
    while (Now() < idle) {
    }
  }
  EXPECT_EQ(node.connections(), 3u);
  EXPECT_EQ(Metric("dfkv_transport_pool_retirements_total{reason=\"idle\"}"), 2);
  EXPECT_EQ(Metric("dfkv_transport_pool_stale_retries_total"), 0);
}

TEST_F(ClientFaults, LanesAreBoundedAndWaitedFor) {
  FakeNode node;
  node.set_script(First(wire::Op::kExist, 1, FakeAction::kSlow));
  options_.lanes_max = 1;
  options_.stall_ms = 60'000;
  Client& client = Open({node.address()});
  std::atomic<Code> held{Code::kCancelled};
  Thread holder("holder", [&] { held = Caller(client).Exist(1); });
  while (node.requests(wire::Op::kExist) == 0) {
  }
  EXPECT_EQ(Caller(client, 50).Exist(2), Code::kBusy);
  std::atomic<Code> waited{Code::kCancelled};
  const uint64_t waiting = ProbeHits("client.lane_pool.wait");
  Thread waiter("waiter", [&] { waited = Caller(client).Exist(3); });
  while (ProbeHits("client.lane_pool.wait") == waiting) {
  }
  node.Release();
  holder.Join();
  waiter.Join();
  EXPECT_EQ(held, Code::kNotFound);
  EXPECT_EQ(waited, Code::kNotFound);
  EXPECT_EQ(node.connections(), 1u);
}

}  // namespace
}  // namespace dfkv::client
