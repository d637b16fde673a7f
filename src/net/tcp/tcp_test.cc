// The TCP transport over real sockets, in front of a handler that the tests steer.
#include <gtest/gtest.h>

#include <iterator>
#include <string>

#include "base/random.h"
#include "net/tcp/tcp_testing.h"

namespace dfkv::net {
namespace {

TEST_P(TcpTest, HelloThenPingStatsMatch) {
  START();
  WireClient client = Greeted();
  EXPECT_EQ(client.node().items_max, TcpOptions().items_max);
  EXPECT_EQ(client.Ping(), Code::kOk);
  auto stats = client.Await(client.SendPlain(Op::kStats));
  ASSERT_TRUE(stats.ok());
  EXPECT_EQ(stats->text, std::string(100'000, 's'));
  auto match = client.Await(client.SendKeys(Op::kMatch, {TestKey(1), TestKey(2), TestKey(3)}));
  ASSERT_TRUE(match.ok());
  EXPECT_EQ(match->present, 3u);
  EXPECT_EQ(Metric("dfkv_open_connections"), 1u);
}

TEST_P(TcpTest, ValuesOfManySizesComeBackAsTheyWere) {
  START();
  WireClient client = Greeted();
  for (size_t length : {1u, 100u, 423u, 424u, 425u, 4096u, 65535u, 65536u, 1u << 20, 5u << 20}) {
    const std::string value = TestValue(length, length);
    ASSERT_EQ(client.Put(TestKey(length), value), Code::kOk) << length;
    const ClientItem got = client.Get(TestKey(length));
    ASSERT_EQ(got.code, Code::kOk) << length;
    ASSERT_TRUE(got.value == value) << length;
  }
  EXPECT_EQ(client.Get(TestKey(12345)).code, Code::kNotFound);
}

TEST_P(TcpTest, ManyValuesInOnePutAndInOneGet) {
  START();
  WireClient client = Greeted();
  std::vector<std::string> values;
  std::vector<ClientPut> puts;
  std::vector<ClientGet> gets;
  for (uint64_t i = 0; i < 300; ++i) values.push_back(TestValue(i, 1 + i * 37));
  for (uint64_t i = 0; i < 300; ++i) {
    puts.push_back({TestKey(i), values[i]});
    gets.push_back({TestKey(i)});
  }
  puts[7].depth = 99;  // the handler discards it
  auto put = client.Await(client.SendPut(puts));
  ASSERT_TRUE(put.ok()) << put.status().ToString();
  EXPECT_EQ(put->items.at(7).code, Code::kBusy);
  auto got = client.Await(client.SendGet(gets));
  ASSERT_TRUE(got.ok());
  ASSERT_EQ(got->items.size(), 300u);
  for (uint32_t i = 0; i < 300; ++i) {
    EXPECT_EQ(got->items[i].code, i == 7 ? Code::kNotFound : Code::kOk);
    EXPECT_TRUE(i == 7 || got->items[i].value == values[i]) << i;
  }
  EXPECT_GT(got->frames, 1u) << "more values than a frame takes";
}

TEST_P(TcpTest, PipelinedRequestsShareSends) {
  START();
  WireClient client = Greeted();
  ASSERT_EQ(client.Put(TestKey(1), TestValue(1, 4096)), Code::kOk);
  std::vector<uint64_t> ids;
  const uint64_t sends_before = Metric("dfkv_tcp_sends_total");
  OnReactor([&] {  // the reactor is held while the requests pile up
    for (int i = 0; i < 200; ++i) ids.push_back(client.SendGet({{TestKey(1)}}));
  });
  for (uint64_t id : ids) {
    auto got = client.Await(id);
    ASSERT_TRUE(got.ok());
    EXPECT_EQ(got->items.at(0).value.size(), 4096u);
  }
  EXPECT_LT(Metric("dfkv_tcp_sends_total") - sends_before, 50u);
}

TEST_P(TcpTest, AnswersComeOutOfOrder) {
  START();
  WireClient client = Greeted();
  handler_.hold_pings = 1;
  const uint64_t held = client.SendPlain(Op::kPing);
  const uint64_t match = client.SendKeys(Op::kMatch, {TestKey(1)});
  auto first = client.ReadFrame();
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(*first, match);
  const uint64_t releasing = client.SendPlain(Op::kPing);
  EXPECT_TRUE(client.Await(releasing).ok());
  EXPECT_TRUE(client.Await(held).ok());
}

TEST_P(TcpTest, AFailedRequestTellsWhyAndTheConnectionGoesOn) {
  START();
  WireClient client = Greeted();
  auto refused = client.Await(client.SendKeys(Op::kRemove, {TestKey(1)}));
  ASSERT_TRUE(refused.ok());
  EXPECT_EQ(refused->code, Code::kDenied);
  EXPECT_EQ(refused->message, "nothing is removed here");
  EXPECT_EQ(client.Ping(), Code::kOk);
}

TEST_P(TcpTest, FramesToAPeerStayWithinItsLimit) {
  START();
  WireClient client;
  ASSERT_TRUE(client.Connect(port_).ok());
  client.mine().payload_bytes_max = 10'000;
  ASSERT_TRUE(client.Hello().ok());
  std::vector<ClientGet> gets;
  for (uint64_t i = 0; i < 10; ++i) {
    ASSERT_EQ(client.Put(TestKey(i), TestValue(i, 4000)), Code::kOk);
    gets.push_back({TestKey(i)});
  }
  auto got = client.Await(client.SendGet(gets));
  ASSERT_TRUE(got.ok()) << got.status().ToString();
  EXPECT_EQ(got->items.size(), 10u);
  EXPECT_EQ(got->frames, 5u);
}

TEST_P(TcpTest, AnUnknownOperationIsSkippedWithItsPayload) {
  START();
  WireClient client = Greeted();
  std::vector<std::byte> frame(wire::RequestBytes(Op::kPut, 1));
  const wire::PutItem item{1, 2, 5000, 0, 0};
  (void)wire::EncodeRequest(frame, {Op::kPut, 77, 0, 0, 5000}, {&item, 1});
  frame[5] = std::byte{0x44};
  StoreLe<uint32_t>(frame.data() + 20, 0);
  StoreLe<uint32_t>(frame.data() + 20, Crc32c(frame));
  ASSERT_TRUE(client.SendRaw(frame).ok());
  ASSERT_TRUE(client.SendRaw(std::string(5000, 'p')).ok());
  EXPECT_EQ(client.Ping(), Code::kOk);
  auto unknown = client.Await(77);
  ASSERT_TRUE(unknown.ok());
  EXPECT_EQ(unknown->code, Code::kUnsupported);
}

TEST_P(TcpTest, AValueThatIsNotItsCrcIsCorrupt) {
  START();
  WireClient client = Greeted();
  const std::string value(1000, 'a');
  const uint64_t id = client.SendPutHead({{TestKey(1), value}}, {1000});
  ASSERT_TRUE(client.SendRaw(std::string(1000, 'b')).ok());
  auto put = client.Await(id);
  ASSERT_TRUE(put.ok());
  EXPECT_EQ(put->items.at(0).code, Code::kCorrupt);
}

TEST_P(TcpTest, ASenderIsHeldBackWhileThereIsNoRoom) {
  START();
  WireClient client = Greeted();
  handler_.waits = 5;
  EXPECT_EQ(client.Put(TestKey(1), TestValue(1, 100'000)), Code::kOk);
  EXPECT_EQ(handler_.waits, 0);
}

// --- What peers may do wrong ---

TEST_P(TcpTest, MalformedFramesAreAnsweredThenDropped) {
  START();
  struct Case {
    const char* name;
    std::function<void(wire::FrameHeader&)> damage;
    Code code;
  };
  const Case cases[] = {
      {"payload 2^63", [](wire::FrameHeader& h) { h.payload_bytes = 1ull << 63; }, Code::kTooLarge},
      {"payload 2^64-1", [](wire::FrameHeader& h) { h.payload_bytes = UINT64_MAX; }, Code::kTooLarge},
      {"meta", [](wire::FrameHeader& h) { h.meta_bytes = UINT32_MAX; }, Code::kTooLarge},
      {"items", [](wire::FrameHeader& h) { h.item_count = UINT32_MAX; }, Code::kTooLarge},
      {"version", [](wire::FrameHeader& h) { h.version = 7; }, Code::kUnsupported},
      {"crc", [](wire::FrameHeader& h) { h.crc ^= 1; }, Code::kCorrupt},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    WireClient client = Greeted();
    std::vector<std::byte> frame(wire::RequestBytes(Op::kGet, 1));
    const wire::GetItem item{1, 2, 0, 100};
    (void)wire::EncodeRequest(frame, {Op::kGet, 55, 0, 0, 0}, {&item, 1});
    auto header = LoadLe<wire::FrameHeader>(frame.data());
    c.damage(header);
    StoreLe(frame.data(), header);
    ASSERT_TRUE(client.SendRaw(frame).ok());
    auto answer = client.Await(55);
    ASSERT_TRUE(answer.ok()) << answer.status().ToString();
    EXPECT_EQ(answer->code, c.code);
    EXPECT_FALSE(answer->message.empty());
    EXPECT_TRUE(client.ClosedByNode());
  }
  EXPECT_TRUE(Becomes("dfkv_tcp_closed_total", "protocol", std::size(cases)));
}

TEST_P(TcpTest, NoRequestBeforeHello) {
  START();
  WireClient client;
  ASSERT_TRUE(client.Connect(port_).ok());
  const uint64_t id = client.SendGet({{TestKey(1)}});
  auto answer = client.Await(id);
  ASSERT_TRUE(answer.ok()) << answer.status().ToString();
  EXPECT_EQ(answer->code, Code::kInvalid);
  EXPECT_NE(answer->message.find("wants hello"), std::string::npos) << answer->message;
  EXPECT_TRUE(client.ClosedByNode());
  EXPECT_EQ(handler_.requests, 0);
}

TEST_P(TcpTest, RandomBytesHurtNobody) {
  START();
  const uint64_t seed = SeedFromSystem();
  SCOPED_TRACE(seed);
  Random random(seed);
  WireClient honest = Greeted();
  for (int round = 0; round < 100; ++round) {
    WireClient client;
    ASSERT_TRUE(client.Connect(port_).ok());
    if (random.OneIn(2)) (void)client.Hello();
    std::string garbage(1 + random.Below(3000), '\0');
    random.Fill({reinterpret_cast<std::byte*>(garbage.data()), garbage.size()});
    (void)client.SendRaw(garbage);
    client.ShutdownSending();
    EXPECT_TRUE(client.ClosedByNode());
  }
  EXPECT_EQ(honest.Ping(), Code::kOk);
}

TEST_P(TcpTest, AnAnnouncementAloneTakesNoPlace) {
  START();
  std::vector<WireClient> clients;
  for (int i = 0; i < 60; ++i) {
    clients.push_back(Greeted());
    (void)clients.back().SendPutHead({{TestKey(1), "x"}}, {64u << 20});
  }
  while (handler_.puts < 60) ASSERT_EQ(Greeted().Ping(), Code::kOk);
  EXPECT_EQ(handler_.places, 0);
}

TEST_P(TcpTest, APutThatBreaksOffIsAbandoned) {
  START();
  {
    WireClient client = Greeted();
    const std::string value(100'000, 'v');
    (void)client.SendPutHead({{TestKey(1), value}, {TestKey(2), value}}, {value.size(), value.size()});
    ASSERT_TRUE(client.SendRaw(value).ok());
    ASSERT_TRUE(client.SendRaw(value.substr(0, 7)).ok());
  }
  WireClient other = Greeted();
  while (handler_.abandoned == 0) ASSERT_EQ(other.Ping(), Code::kOk);
  EXPECT_EQ(other.Get(TestKey(1)).code, Code::kOk) << "what arrived whole is kept";
  EXPECT_EQ(other.Get(TestKey(2)).code, Code::kNotFound);
}

// Values that are received together are each what was sent: whole, refused ones and large ones between them,
// whatever pieces the bytes come in.
TEST_P(TcpTest, SmallValuesOfAPutComeTogether) {
  START();
  std::vector<std::string> values;
  std::vector<ClientPut> puts;
  std::vector<uint64_t> lengths;
  for (const size_t size :
       {1u, 4096u, 0u, 4096u, 70'000u, 50'000u, 300'000u, 4096u, 200'000u, 131'072u, 131'073u}) {
    values.push_back(TestValue(values.size(), size));
    lengths.push_back(size);
  }
  for (int i = 0; i < 50; ++i) {  // more than are taken together
    values.push_back(TestValue(values.size(), 100 + static_cast<size_t>(i)));
    lengths.push_back(values.back().size());
  }
  for (const size_t piece : {size_t{1} << 20, size_t{777}, size_t{4096}}) {
    puts.clear();
    std::string payload;
    for (size_t i = 0; i < values.size(); ++i) {
      puts.push_back({TestKey(piece + i), values[i]});
      if (i == 3 || i == 8) puts.back().depth = 99;  // refused
      payload += values[i];
    }
    WireClient client = Greeted();
    const uint64_t id = client.SendPutHead(puts, lengths);
    for (size_t at = 0; at < payload.size(); at += piece) {
      ASSERT_TRUE(client.SendRaw(std::string_view(payload).substr(at, piece)).ok());
    }
    const auto answer = client.Await(id);
    ASSERT_TRUE(answer.ok());
    for (size_t i = 0; i < values.size(); ++i) {
      const bool refused = i == 3 || i == 8;
      EXPECT_EQ(answer->items.at(static_cast<uint32_t>(i)).code, refused ? Code::kBusy : Code::kOk) << i;
      if (refused || values[i].empty()) continue;
      const ClientItem got = client.Get(TestKey(piece + i));
      EXPECT_TRUE(got.value == values[i]) << i;
    }
  }
}

TEST_P(TcpTest, SmallValuesOfAPutTakeFewReceives) {
  START();
  WireClient client = Greeted();
  const std::string value = TestValue(1, 4096);
  std::vector<ClientPut> puts;
  for (uint64_t i = 0; i < 32; ++i) puts.push_back({TestKey(i), value});
  const uint64_t before = Metric("dfkv_tcp_receives_total");
  const uint64_t copied = Metric("dfkv_tcp_copied_bytes_total");
  constexpr uint64_t kRounds = 20;
  for (uint64_t i = 0; i < kRounds; ++i) {
    uint64_t id = 0;
    OnReactor([&] { id = client.SendPut(puts); });  // held until all of it is here
    ASSERT_TRUE(client.Await(id).ok());
  }
  // One receive a value would be 32.
  EXPECT_LE(Metric("dfkv_tcp_receives_total") - before, kRounds * 12);
  EXPECT_LE(Metric("dfkv_tcp_copied_bytes_total") - copied, 64 * 1024 + kRounds * 2048)
      << "after the first PUT, values go straight to their places";
}

TEST_P(TcpTest, APutThatBreaksOffAmongSmallValuesKeepsTheWholeOnes) {
  START();
  {
    WireClient client = Greeted();
    const std::string value(1000, 'v');
    (void)client.SendPutHead({{TestKey(1), value}, {TestKey(2), value}, {TestKey(3), value}},
                             {1000, 1000, 1000});
    ASSERT_TRUE(client.SendRaw(value + value.substr(0, 999)).ok());
  }
  WireClient other = Greeted();
  while (handler_.abandoned == 0) ASSERT_EQ(other.Ping(), Code::kOk);
  EXPECT_EQ(handler_.abandoned_at, 1);
  EXPECT_EQ(other.Get(TestKey(1)).code, Code::kOk) << "what arrived whole is kept";
  EXPECT_EQ(other.Get(TestKey(2)).code, Code::kNotFound);
  EXPECT_EQ(other.Get(TestKey(3)).code, Code::kNotFound);
}

TEST_P(TcpTest, AHalfClosedPeerGetsItsAnswers) {
  START();
  WireClient client = Greeted();
  handler_.hold_pings = 1;
  const uint64_t held = client.SendPlain(Op::kPing);
  client.ShutdownSending();
  WireClient other = Greeted();
  while (handler_.hold_pings > 0)
    ASSERT_EQ(other.Await(other.SendKeys(Op::kMatch, {TestKey(1)}))->code, Code::kOk);
  EXPECT_EQ(other.Ping(), Code::kOk);
  EXPECT_TRUE(client.Await(held).ok());
  EXPECT_TRUE(client.ClosedByNode());
}

TEST_P(TcpTest, IdlePeersMakeRoomForNewOnes) {
  TcpOptions options;
  options.connections_max = 8;
  START(options);
  std::vector<WireClient> clients;
  for (int i = 0; i < 40; ++i) {
    clients.push_back(Greeted());
    ASSERT_EQ(clients.back().Ping(), Code::kOk);
  }
  EXPECT_LE(Metric("dfkv_open_connections"), 9u);
  EXPECT_TRUE(clients[0].ClosedByNode());
  EXPECT_EQ(clients[39].Ping(), Code::kOk);
  EXPECT_EQ(Metric("dfkv_tcp_rejected_connections_total"), 0u);
}

TEST_P(TcpTest, PeersThatNeverSayHelloMakeRoom) {
  TcpOptions options;
  options.connections_max = 8;
  START(options);
  std::vector<WireClient> mute(20);
  for (WireClient& client : mute) {
    ASSERT_TRUE(client.Connect(port_).ok());
    ASSERT_TRUE(client.SendRaw("3").ok());
  }
  EXPECT_EQ(Greeted().Ping(), Code::kOk);
}

TEST_P(TcpTest, WhenAllAreBusyANewPeerIsToldSo) {
  TcpOptions options;
  options.connections_max = 3;
  START(options);
  std::vector<WireClient> busy;
  handler_.hold_pings = 3;
  for (int i = 0; i < 3; ++i) {
    busy.push_back(Greeted());
    (void)busy.back().SendPlain(Op::kPing);
  }
  while (handler_.hold_pings > 0) {
    OnReactor([] {});
  }
  WireClient refused;
  ASSERT_TRUE(refused.Connect(port_).ok());
  const Status status = refused.Hello();
  EXPECT_EQ(status.code(), Code::kBusy) << status.ToString();
  EXPECT_EQ(Metric("dfkv_tcp_rejected_connections_total"), 1u);
  OnReactor([&] { handler_.ReleaseHeld(); });
  EXPECT_EQ(Greeted().Ping(), Code::kOk);
}

TEST_P(TcpTest, RequestsInFlightAreBoundedByNotReading) {
  TcpOptions options;
  options.requests_in_flight_max = 4;
  START(options);
  WireClient client = Greeted();
  handler_.hold_pings = 100;
  std::vector<uint64_t> ids;
  for (int i = 0; i < 20; ++i) ids.push_back(client.SendPlain(Op::kPing));
  while (handler_.requests < 4) OnReactor([] {});
  OnReactor([] {});
  EXPECT_EQ(handler_.requests, 4);
  handler_.hold_pings = 0;
  OnReactor([&] { handler_.ReleaseHeld(); });
  for (uint64_t id : ids) EXPECT_TRUE(client.Await(id).ok());
}

// --- Stopping ---

TEST_P(TcpTest, StopLetsRequestsInFlightEnd) {
  START();
  WireClient client = Greeted();
  WireClient idle = Greeted();
  handler_.hold_pings = 1;
  const uint64_t held = client.SendPlain(Op::kPing);
  while (handler_.hold_pings > 0) OnReactor([] {});
  Thread stopper("stopper", [&] { EXPECT_TRUE(transport_->StopBlocking(5 * kSecond).ok()); });
  EXPECT_TRUE(idle.ClosedByNode()) << "an idle connection is closed at once";
  WireClient late;
  EXPECT_FALSE(late.ConnectAndHello(port_).ok());
  OnReactor([&] { handler_.ReleaseHeld(); });
  EXPECT_TRUE(client.Await(held).ok());
  EXPECT_TRUE(client.ClosedByNode());
  stopper.Join();
  transport_.reset();
}

TEST_P(TcpTest, StopCutsAPutThatDoesNotEnd) {
  TcpOptions options;
  options.stall_ms = 60'000;
  START(options);
  WireClient client = Greeted();
  const std::string value(100'000, 'v');
  (void)client.SendPutHead({{TestKey(1), value}}, {value.size()});
  ASSERT_TRUE(client.SendRaw(value.substr(0, 5000)).ok());
  while (handler_.places == 0) OnReactor([] {});
  EXPECT_TRUE(transport_->StopBlocking(50 * kMillisecond).ok());
  EXPECT_EQ(handler_.abandoned, 1);
  transport_.reset();
}

INSTANTIATE_TEST_SUITE_P(Reactors, TcpTest,
                         ::testing::Values(io::ReactorKind::kEpoll, io::ReactorKind::kUring),
                         [](const auto& param) {
                           return param.param == io::ReactorKind::kEpoll ? "epoll" : "uring";
                         });

}  // namespace
}  // namespace dfkv::net
