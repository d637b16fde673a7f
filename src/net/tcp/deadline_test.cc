// The deadlines of the TCP transport: of bytes on their way in, of answers on their way out, of waiting for
// room.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <utility>
#include <vector>

#include "net/tcp/tcp_testing.h"

namespace dfkv::net {
namespace {

constexpr Nanos kSoon = 20 * kSecond;  // tells a promise kept from one broken, also on a busy machine

class DeadlineTest : public TcpTest {};

TEST_P(DeadlineTest, ASilentPeerIsDroppedAtTheFirstFrameDeadline) {
  TcpOptions options;
  options.first_frame_ms = 50;
  options.linger_ms = 20;
  START(options);
  WireClient silent, slow;
  ASSERT_TRUE(silent.Connect(port_).ok());
  ASSERT_TRUE(slow.Connect(port_).ok());
  ASSERT_TRUE(slow.SendRaw("3KFD").ok());
  EXPECT_TRUE(silent.ClosedByNode());
  EXPECT_TRUE(slow.ClosedByNode());
  EXPECT_TRUE(Becomes("dfkv_tcp_closed_total", "deadline", 2));
  WireClient drip;
  ASSERT_TRUE(drip.Connect(port_).ok());
  size_t sent = 0;
  pollfd closed{drip.fd(), POLLIN, 0};
  while (sent < wire::kHeaderBytes - 1 && ::poll(&closed, 1, 20) == 0 && drip.SendRaw("3").ok()) ++sent;
  EXPECT_LT(sent, wire::kHeaderBytes - 1);
  EXPECT_TRUE(Becomes("dfkv_tcp_closed_total", "deadline", 3));
}

TEST_P(DeadlineTest, AnIdlePeerIsClosed) {
  TcpOptions options;
  options.idle_ms = 50;
  START(options);
  WireClient client = Greeted();
  EXPECT_EQ(client.Ping(), Code::kOk);
  EXPECT_TRUE(client.ClosedByNode());
  EXPECT_TRUE(Becomes("dfkv_tcp_closed_total", "idle", 1));
}

TEST_P(DeadlineTest, APeerThatWaitsForItsAnswerIsNotIdle) {
  TcpOptions options;
  options.idle_ms = 30;
  START(options);
  WireClient client = Greeted();
  handler_.hold_pings = 1;
  const uint64_t held = client.SendPlain(Op::kPing);
  pollfd nothing{client.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&nothing, 1, 150), 0) << "not closed, not answered";
  OnReactor([&] { handler_.ReleaseHeld(); });
  EXPECT_TRUE(client.Await(held).ok());
}

// A byte now and then keeps each receive alive, and what was announced would take a minute; yet the bytes
// that came are too few for their time.
TEST_P(DeadlineTest, ADripFeederIsDropped) {
  TcpOptions options;
  options.stall_ms = 200;
  options.min_rate = 1 << 20;
  options.linger_ms = 20;
  START(options);
  WireClient client = Greeted();
  (void)client.SendPutHead({{TestKey(1), "v"}}, {60u << 20});
  const Nanos until = SystemClock().Now() + kSoon;
  pollfd closed{client.fd(), POLLIN, 0};
  while (::poll(&closed, 1, 10) == 0 && SystemClock().Now() < until && client.SendRaw("v").ok()) {
  }
  EXPECT_LT(SystemClock().Now(), until);
  EXPECT_TRUE(Becomes("dfkv_tcp_closed_total", "deadline", 1));
  EXPECT_EQ(handler_.abandoned, 1);
  EXPECT_EQ(handler_.places, 1);
}

// So is one whose frame has not even a whole head.
TEST_P(DeadlineTest, ADrippedHeadIsDropped) {
  TcpOptions options;
  options.stall_ms = 200;
  options.linger_ms = 20;
  START(options);
  WireClient client = Greeted();
  const Nanos until = SystemClock().Now() + kSoon;
  const std::string head(wire::kHeaderBytes, 'K');
  pollfd closed{client.fd(), POLLIN, 0};
  size_t sent = 0;
  while (sent < head.size() - 1 && ::poll(&closed, 1, 20) == 0) (void)client.SendRaw(head.substr(sent++, 1));
  EXPECT_LT(sent, head.size() - 1);
  EXPECT_LT(SystemClock().Now(), until);
  EXPECT_TRUE(Becomes("dfkv_tcp_closed_total", "deadline", 1));
}

// A sender whom the node does not read from loses no time by it.
TEST_P(DeadlineTest, TimeHeldBackDoesNotCountAgainstTheSender) {
  TcpOptions options;
  options.stall_ms = 300;
  options.min_rate = 1ull << 40;
  options.requests_in_flight_max = 1;
  START(options);
  WireClient client = Greeted();
  handler_.hold_pings = 1;
  const uint64_t held = client.SendPlain(Op::kPing);
  while (handler_.hold_pings > 0) OnReactor([] {});
  const std::string value = TestValue(1, 1000);
  const uint64_t put = client.SendPutHead({{TestKey(1), value}}, {value.size()});
  pollfd nothing{client.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&nothing, 1, 600), 0);  // the node does not look at the PUT meanwhile
  OnReactor([&] { handler_.ReleaseHeld(); });
  EXPECT_TRUE(client.Await(held).ok());
  EXPECT_EQ(::poll(&nothing, 1, 50), 0);  // longer than the moment that a late node gives
  ASSERT_TRUE(client.SendRaw(value).ok());
  const auto answer = client.Await(put);
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->items.at(0).code, Code::kOk);
}

TEST_P(DeadlineTest, AStalledSenderGivesItsPlaceBack) {
  TcpOptions options;
  options.stall_ms = 50;
  options.min_rate = 1024;  // the bytes that came are early by seconds
  options.linger_ms = 20;
  START(options);
  WireClient client = Greeted();
  const std::string value(100'000, 'v');
  (void)client.SendPutHead({{TestKey(1), value}}, {value.size()});
  ASSERT_TRUE(client.SendRaw(value.substr(0, 60'000)).ok());
  EXPECT_TRUE(client.ClosedByNode());
  EXPECT_EQ(handler_.abandoned, 1);
}

TEST_P(DeadlineTest, APeerThatReadsNothingIsHeldBackThenDropped) {
  TcpOptions options;
  options.output_bytes_max = 1 << 20;
  options.write_stall_ms = 300;
  options.min_rate = 1024;  // what is queued may take minutes, but not without a byte
  START(options);
  WireClient client = Greeted();
  ASSERT_EQ(client.Put(TestKey(1), TestValue(1, 512 << 10)), Code::kOk);
  WireClient greedy = Greeted();
  for (int i = 0; i < 100; ++i) (void)greedy.SendGet({{TestKey(1)}});
  while (Metric("dfkv_tcp_closed_total", "write_stall") == 0) {
    EXPECT_LE(Metric("dfkv_tcp_output_bytes"), (1u << 20) + (600u << 10))
        << "bounded by the limit and one request";
    ASSERT_EQ(client.Ping(), Code::kOk) << "the others are served";
  }
  while (Metric("dfkv_tcp_output_bytes") > 0) ASSERT_EQ(client.Ping(), Code::kOk);
}

// The node itself looks too late: of what came meanwhile, the part behind the first receive is overdue by
// then.
TEST_P(DeadlineTest, ANodeThatIsLateDoesNotBlameTheSender) {
  TcpOptions options;
  options.stall_ms = 100;
  START(options);
  WireClient client = Greeted();
  const std::string value = TestValue(1, 900'000);
  for (int round = 0; round < 2; ++round) {
    const int puts = handler_.puts;
    const uint64_t id = client.SendPutHead({{TestKey(1), value}}, {value.size()});
    ASSERT_TRUE(Comes([&] { return handler_.puts > puts; }));
    OnReactor([&] {
      pollfd nothing{client.fd(), POLLIN, 0};
      EXPECT_EQ(::poll(&nothing, 1, 400), 0);
      EXPECT_TRUE(client.SendRaw(value).ok());
    });
    const auto answer = client.Await(id);
    ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  }
}

// Takes a little now and then: every send makes progress, but not at the rate that is asked for.
TEST_P(DeadlineTest, APeerThatReadsInDripsIsDropped) {
  TcpOptions options;
  options.output_bytes_max = 64 << 20;
  options.write_stall_ms = 500;
  options.min_rate = 256 << 20;
  options.stall_ms = 600'000;  // the rate is for the reader
  START(options);
  ASSERT_EQ(Greeted().Put(TestKey(1), TestValue(1, 32 << 20)), Code::kOk);
  WireClient greedy = Greeted();
  (void)greedy.SendGet({{TestKey(1)}});
  const Nanos until = SystemClock().Now() + kSoon;
  std::vector<char> little(16 << 10);
  pollfd closed{greedy.fd(), POLLRDHUP, 0};
  while (Metric("dfkv_tcp_closed_total", "write_stall") == 0 && SystemClock().Now() < until) {
    (void)::recv(greedy.fd(), little.data(), little.size(), MSG_DONTWAIT);
    (void)::poll(&closed, 1, 10);
  }
  EXPECT_TRUE(Becomes("dfkv_tcp_closed_total", "write_stall", 1));
  EXPECT_LT(SystemClock().Now(), until);
  EXPECT_TRUE(Becomes("dfkv_tcp_output_bytes", "", 0));
}

// All answers together take longer than write_stall_ms, and never is nothing queued; but the rate is good.
TEST_P(DeadlineTest, ASteadyReaderIsServedHoweverLongItTakes) {
  TcpOptions options;
  options.write_stall_ms = 1000;
  options.min_rate = 1 << 20;
  START(options);
  const std::string value = TestValue(1, 512 << 10);
  WireClient client = Greeted();
  ASSERT_EQ(client.Put(TestKey(1), value), Code::kOk);
  std::vector<uint64_t> ids;
  for (int i = 0; i < 40; ++i) ids.push_back(client.SendGet({{TestKey(1)}}));
  const Nanos begin = SystemClock().Now();
  pollfd nothing{client.fd(), 0, 0};
  for (const uint64_t id : ids) {
    EXPECT_EQ(::poll(&nothing, 1, 50), 0);
    const auto got = client.Await(id);
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    EXPECT_TRUE(got->items.at(0).value == value);
  }
  EXPECT_GT(SystemClock().Now() - begin, options.write_stall_ms * kMillisecond);
}

// --- Room for answers ---

constexpr uint64_t kSocketBytesMax = 16 << 20;  // what the system may hold on both sides

class RoomTest : public TcpTest {
 protected:
  static constexpr uint64_t kValue = 24 << 20;
  // `greedy` leaves 2 * kValue unread; at least `2 * kValue - kSocketBytesMax` of it wait in the node.
  void FillOutput(WireClient& greedy) {
    ASSERT_EQ(greedy.Put(TestKey(1), TestValue(1, kValue)), Code::kOk);
    unread_ = {greedy.SendGet({{TestKey(1)}}), greedy.SendGet({{TestKey(1)}})};
    ASSERT_TRUE(Comes([&] { return Metric("dfkv_tcp_output_bytes") >= 2 * kValue - kSocketBytesMax; }));
  }
  static TcpOptions Options() {
    TcpOptions options;
    options.write_stall_ms = options.stall_ms = 600'000;
    options.output_bytes_max = 2 * kValue;
    return options;
  }
  std::vector<uint64_t> unread_;
};

TEST_P(RoomTest, WaitingForRoomEndsAtTheRequestsDeadline) {
  START(Options());
  WireClient client = Greeted();
  ASSERT_NO_FATAL_FAILURE(FillOutput(client));
  client.deadline_ms = 50;
  const uint64_t waiting = client.SendKeys(Op::kLookup, {TestKey(1)});
  ASSERT_TRUE(Comes([&] { return handler_.room_code != Code::kUnsupported; }));
  EXPECT_EQ(handler_.room_code, Code::kTimeout);
  for (uint64_t id : unread_) EXPECT_TRUE(client.Await(id).ok());
  const auto answer = client.Await(waiting);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->items.at(0).code, Code::kTimeout);
}

TEST_P(RoomTest, WaitingForWhatOthersHoldEndsAtTheRequestsDeadline) {
  TcpOptions options = Options();
  options.output_bytes_total_max = kValue;
  START(options);
  WireClient greedy = Greeted();
  ASSERT_NO_FATAL_FAILURE(FillOutput(greedy));
  WireClient client = Greeted();
  client.deadline_ms = 50;
  auto answer = client.Await(client.SendKeys(Op::kLookup, {TestKey(1)}));
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->items.at(0).code, Code::kTimeout);
  client.deadline_ms = 600'000;
  const uint64_t waiting = client.SendKeys(Op::kLookup, {TestKey(1)});
  ASSERT_TRUE(Comes([&] { return handler_.awaiting_room > 0; }));
  greedy.Close();  // gives back what it held
  answer = client.Await(waiting);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->items.at(0).code, Code::kOk);
}

TEST_P(RoomTest, RoomThatIsThereIsWaitedForAndFound) {
  START(Options());
  WireClient client = Greeted();
  ASSERT_NO_FATAL_FAILURE(FillOutput(client));
  client.deadline_ms = 600'000;
  const uint64_t waiting = client.SendKeys(Op::kLookup, {TestKey(1)});
  ASSERT_TRUE(Comes([&] { return handler_.awaiting_room > 0; }));
  EXPECT_EQ(handler_.room_code, Code::kUnsupported) << "it waits";
  for (uint64_t id : unread_) EXPECT_TRUE(client.Await(id).ok());
  const auto answer = client.Await(waiting);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->items.at(0).code, Code::kOk);
}

TEST_P(RoomTest, WaitingForRoomEndsWithTheConnection) {
  TcpOptions options = Options();
  options.write_stall_ms = 300;
  options.min_rate = 1ull << 40;
  START(options);
  WireClient client = Greeted();
  ASSERT_NO_FATAL_FAILURE(FillOutput(client));
  client.deadline_ms = 600'000;
  (void)client.SendKeys(Op::kLookup, {TestKey(1)});
  ASSERT_TRUE(Comes([&] { return handler_.room_code != Code::kUnsupported; }));
  EXPECT_EQ(handler_.room_code, Code::kCancelled);
  EXPECT_TRUE(Becomes("dfkv_tcp_closed_total", "write_stall", 1));
  EXPECT_TRUE(Becomes("dfkv_tcp_output_bytes", "", 0));
}

TEST_P(DeadlineTest, ARequestsDeadlineIsItsOwnUpToTheMost) {
  TcpOptions options;
  options.request_ms = 20'000;
  options.request_ms_max = 40'000;
  START(options);
  WireClient client = Greeted();
  const std::pair<uint32_t, Nanos> cases[] = {{0, 20}, {30'000, 30}, {50'000, 40}, {UINT32_MAX, 40}};
  for (const auto& [stated_ms, expected_s] : cases) {
    client.deadline_ms = stated_ms;
    ASSERT_EQ(client.Put(TestKey(1), "value"), Code::kOk);
    EXPECT_LE(handler_.deadline_left, expected_s * kSecond) << stated_ms;
    EXPECT_GT(handler_.deadline_left, (expected_s - 9) * kSecond) << stated_ms;
  }
}

INSTANTIATE_TEST_SUITE_P(Reactors, DeadlineTest,
                         ::testing::Values(io::ReactorKind::kEpoll, io::ReactorKind::kUring),
                         [](const auto& param) {
                           return param.param == io::ReactorKind::kEpoll ? "epoll" : "uring";
                         });
INSTANTIATE_TEST_SUITE_P(Reactors, RoomTest,
                         ::testing::Values(io::ReactorKind::kEpoll, io::ReactorKind::kUring),
                         [](const auto& param) {
                           return param.param == io::ReactorKind::kEpoll ? "epoll" : "uring";
                         });

}  // namespace
}  // namespace dfkv::net
