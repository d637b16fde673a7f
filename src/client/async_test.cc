// Asynchronous calls: the contract of the blocking ones, and what is theirs alone: cancel in every state,
// many calls at once, the end of the client while calls are in flight.
#include "client/async.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include "base/fault.h"
#include "base/log.h"
#include "base/random.h"
#include "client/async_testing.h"
#include "client/completion_queue.h"
#include "client/contract_suite.h"
#include "client/fake_node.h"
#include "client/faults_testing.h"

namespace dfkv::client {
namespace {

struct AsyncNode : FakeNode {
  using FakeNode::FakeNode;
  static std::unique_ptr<AsyncNode> Start() {
    FakeNodeOptions options;
    options.reverse = true;
    options.items_per_frame = 5;
    return std::make_unique<AsyncNode>(options);
  }
  static Result<std::unique_ptr<Client>> Open(const ClientOptions& options) {
    return WaitingClient::Open(options);
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(Async, ClientContract, AsyncNode);

class Async : public ::testing::Test {
 protected:
  Async() {
    SetLogSink([](LogLevel, std::string_view) {});
    options_.key_namespace = "async";
    options_.stall_ms = 60'000;
    options_.peer_cooldown_ms = 60'000;
    options_.peer_cooldown_max_ms = 60'000;
  }
  ~Async() override {
    async_.reset();
    SetLogSink(nullptr);
  }

  void Open(const std::string& address) {
    options_.members = "node-0=" + address;
    core_ = *Core::Open(options_);
    async_ = std::move(*AsyncClient::Start(core_));
    blocking_ = Client::On(core_);
  }
  double Metric(const std::string& name) {
    for (const auto& [key, value] : core_->metrics().registry.Snapshot()) {
      if (key == name) return value;
    }
    ADD_FAILURE() << "no metric " << name;
    return -1;
  }

  Ticket Exist(uint64_t key, Outcome* outcome, CallOptions call = {}) {
    const Key name(key);
    const ByteSpan bytes = name.bytes();
    return *async_->SubmitKeys(std::make_unique<TestCall>(outcome), CallKind::kExist, {&bytes, 1}, call);
  }
  Ticket Get(uint64_t key, const MutableByteSpan& into, Outcome* outcome, CallOptions call = {}) {
    const Key name(key);
    auto get = std::make_unique<TestCall>(outcome);
    get->gets.push_back({name.bytes(), {&into, 1}});
    return *async_->SubmitGet(std::move(get), call);
  }
  // `pieces`: values of keys 0, 1, ...
  Ticket Put(std::span<const ByteSpan> pieces, Outcome* outcome, CallOptions call = {}) {
    std::vector<Key> names;
    for (size_t i = 0; i < pieces.size(); ++i) names.emplace_back(i);
    auto put = std::make_unique<TestCall>(outcome);
    for (size_t i = 0; i < pieces.size(); ++i) put->puts.push_back({names[i].bytes(), {&pieces[i], 1}});
    return *async_->SubmitPut(std::move(put), call);
  }
  void Cancel(Ticket ticket) { async_->Cancel(nullptr, ticket); }
  // The client is as good as before: nothing is avoided, a call finds what is there.
  void ExpectUnharmed() {
    EXPECT_EQ(Metric("dfkv_client_peer_marked_bad_total"), 0);
    Outcome after;
    (void)Exist(1000, &after);
    EXPECT_EQ(after.AwaitItem().code, Code::kNotFound);
    EXPECT_EQ(Metric("dfkv_transport_pool_inflight"), 0);
  }

  ClientOptions options_;
  std::shared_ptr<Core> core_;
  std::unique_ptr<AsyncClient> async_;
  std::unique_ptr<Client> blocking_;
};

void SpinUntil(const std::function<bool()>& done) {
  const Nanos until = SystemClock().Now() + 60 * kSecond;
  while (!done()) ASSERT_LT(SystemClock().Now(), until);
}

// --- Cancel in every state ---

TEST_F(Async, CancelWhileItWaitsForALane) {
  FakeNode node;
  node.set_script(First(wire::Op::kExist, 1, FakeAction::kSlow));
  options_.lanes_max = 1;
  Open(node.address());
  Outcome first, second, third;
  (void)Exist(1, &first);
  SpinUntil([&] { return node.requests(wire::Op::kExist) == 1; });
  const Ticket waiting = Exist(2, &second);
  (void)Exist(3, &third);
  Cancel(waiting);
  EXPECT_EQ(second.Await(), Code::kCancelled);
  EXPECT_EQ(second.AwaitItem().code, Code::kCancelled);
  EXPECT_EQ(first.times(), 0);
  node.Release();
  EXPECT_EQ(first.AwaitItem().code, Code::kNotFound);
  EXPECT_EQ(third.AwaitItem().code, Code::kNotFound);
  EXPECT_EQ(node.requests(wire::Op::kExist), 2u);
  ExpectUnharmed();
}

TEST_F(Async, CancelWhileItConnectsOrGreets) {
  for (const bool connects : {true, false}) {
    SilentPort silent(connects ? 0 : 64);
    if (connects) silent.Fill();
    Open(silent.address());
    Outcome outcome;
    const Ticket ticket = Exist(1, &outcome);
    SpinUntil([&] { return Metric("dfkv_transport_pool_connections") == 1; });
    Cancel(ticket);
    EXPECT_EQ(outcome.Await(), Code::kCancelled);
    EXPECT_EQ(outcome.AwaitItem().code, Code::kCancelled);
    EXPECT_EQ(Metric("dfkv_client_peer_marked_bad_total"), 0);
    EXPECT_EQ(Metric("dfkv_transport_pool_retirements_total{reason=\"cancelled\"}"), 1);
    async_.reset();
  }
}

TEST_F(Async, CancelWhileTheAnswerIsWaitedFor) {
  FakeNode node;
  node.set_script(First(wire::Op::kExist, 1, FakeAction::kHold));
  Open(node.address());
  Outcome outcome;
  const Ticket ticket = Exist(1, &outcome);
  SpinUntil([&] { return node.requests(wire::Op::kExist) == 1; });
  Cancel(ticket);
  Cancel(ticket);
  EXPECT_EQ(outcome.AwaitItem().code, Code::kCancelled);
  node.Release();
  ExpectUnharmed();
  EXPECT_EQ(outcome.times(), 1);
}

TEST_F(Async, CancelWhileAPutIsSent) {
  FakeNode node;
  node.set_script(First(wire::Op::kPut, 1, FakeAction::kHold));
  Open(node.address());
  std::vector<std::byte> value = ValueOf(1, 1 << 20);
  const std::vector<ByteSpan> pieces(64, ByteSpan(value));
  Outcome outcome;
  const Ticket ticket = Put(pieces, &outcome);
  SpinUntil([&] { return node.requests(wire::Op::kPut) == 1; });  // it reads no more of it
  Cancel(ticket);
  EXPECT_EQ(outcome.Await(), Code::kCancelled);
  std::fill(value.begin(), value.end(), std::byte{0});  // the caller's again
  EXPECT_EQ(CountOf(outcome.AwaitItems(), Code::kCancelled), 64u);
  node.Release();
  ExpectUnharmed();
  std::vector<std::byte> into(value.size());
  size_t found = 0;
  for (uint64_t key = 0; key < 64; ++key) {  // what arrived is whole
    const ItemResult got = Caller(*blocking_).Get(key, into);
    ASSERT_TRUE(got.code == Code::kOk || got.code == Code::kNotFound);
    if (got.code == Code::kOk) {
      ASSERT_TRUE(PatternMatches(1, 0, into));
    }
    found += got.code == Code::kOk;
  }
  EXPECT_LT(found, 64u);
}

TEST_F(Async, CancelWhileAValueArrivesLeavesTheMemoryAlone) {
  constexpr size_t kBytes = 16 << 20;  // more than sockets hold: half of it has been received in part
  FakeNode node;
  node.set_script(First(wire::Op::kGet, 1, FakeAction::kStopHalfway));
  Open(node.address());
  ASSERT_EQ(Caller(*blocking_).Put(1, ValueOf(1, kBytes)), Code::kOk);
  Guarded into(kBytes);
  Outcome outcome;
  const Ticket ticket = Get(1, into.piece, &outcome);
  SpinUntil([&] { return node.halves() == 1; });
  Cancel(ticket);
  EXPECT_EQ(outcome.AwaitItem().code, Code::kCancelled);
  EXPECT_NE(into.piece[0], std::byte{0xAA});
  std::fill(into.bytes.begin(), into.bytes.end(), std::byte{0x55});
  node.Release();
  Guarded other(kBytes);
  Outcome second;
  (void)Get(1, other.piece, &second);
  EXPECT_EQ(second.AwaitItem().code, Code::kOk);
  EXPECT_TRUE(PatternMatches(1, 0, other.piece));
  EXPECT_TRUE(other.guards_whole());
  EXPECT_TRUE(
      std::all_of(into.bytes.begin(), into.bytes.end(), [](std::byte b) { return b == std::byte{0x55}; }));
  ExpectUnharmed();
}

TEST_F(Async, CancelOfWhatIsOverOrAnothersDoesNothing) {
  FakeNode node;
  node.set_script(First(wire::Op::kLookup, 1, FakeAction::kSlow));
  Open(node.address());
  Outcome first;
  const Ticket ticket = Exist(1, &first);
  EXPECT_EQ(first.AwaitItem().code, Code::kNotFound);
  Cancel(ticket);
  Cancel(Ticket(ticket.value() + 1000));
  Outcome second;
  const Key name(2);
  const ByteSpan bytes = name.bytes();
  auto call = std::make_unique<TestCall>(&second);
  call->group = &second;
  const Ticket held = *async_->SubmitKeys(std::move(call), CallKind::kLookup, {&bytes, 1}, {});
  SpinUntil([&] { return node.requests(wire::Op::kLookup) == 1; });
  Cancel(held);  // of no group
  async_->CancelAll(&first);
  Outcome third;
  (void)Exist(3, &third);
  EXPECT_EQ(third.AwaitItem().code, Code::kNotFound);
  EXPECT_EQ(second.times(), 0);
  async_->CancelAll(&second);
  EXPECT_EQ(second.Await(), Code::kCancelled);
  EXPECT_EQ(first.times(), 1);
}

TEST_F(Async, ItemsThatHadEndedKeepTheirCodes) {
  FakeNode node;
  node.set_script(First(wire::Op::kGetRange, 1, FakeAction::kSlow));
  Open(node.address());
  ASSERT_EQ(Caller(*blocking_).Put(1, ValueOf(1, 1000)), Code::kOk);
  const Key name(1);
  std::vector<std::byte> whole(1000), part(10);
  const MutableByteSpan to_whole(whole), to_part(part);
  Outcome outcome;
  auto call = std::make_unique<TestCall>(&outcome);
  call->gets = {{name.bytes(), {&to_whole, 1}}, {name.bytes(), {&to_part, 1}}, {{}, {&to_part, 1}}};
  call->gets[1].range = true;
  const Ticket ticket = *async_->SubmitGet(std::move(call), {});
  SpinUntil([&] { return node.requests(wire::Op::kGetRange) == 1; });  // the pass of whole objects is over
  Cancel(ticket);
  EXPECT_EQ(outcome.Await(), Code::kCancelled);
  const auto items = outcome.AwaitItems();
  EXPECT_EQ(items[0].code, Code::kOk);
  EXPECT_TRUE(PatternMatches(1, 0, whole));
  EXPECT_EQ(items[1].code, Code::kCancelled);
  EXPECT_EQ(items[2].code, Code::kInvalid);
}

// --- Deadlines and bounds ---

TEST_F(Async, DeadlinesHoldWhileItRunsAndWhileItWaits) {
  FakeNode node;
  node.set_script(First(wire::Op::kExist, 1, FakeAction::kSlow));
  options_.lanes_max = 1;
  Open(node.address());
  Outcome running, waiting;
  const Nanos begin = SystemClock().Now();
  (void)Exist(1, &running, {300});
  SpinUntil([&] { return node.requests(wire::Op::kExist) == 1; });
  (void)Exist(2, &waiting, {20});
  EXPECT_EQ(waiting.Await(), Code::kBusy);
  EXPECT_EQ(waiting.AwaitItem().code, Code::kBusy);
  EXPECT_EQ(running.Await(), Code::kOk);
  EXPECT_EQ(running.AwaitItem().code, Code::kTimeout);
  EXPECT_GE(SystemClock().Now() - begin, 300 * kMillisecond);
  EXPECT_EQ(Metric("dfkv_transport_pool_retirements_total{reason=\"deadline\"}"), 1);
  ExpectUnharmed();
}

TEST_F(Async, MoreCallsThanLanesAllEnd) {
  FakeNode node;
  options_.lanes_max = 3;
  Open(node.address());
  std::vector<Outcome> outcomes(500);
  for (size_t i = 0; i < outcomes.size(); ++i) (void)Exist(i, &outcomes[i]);
  for (Outcome& outcome : outcomes) EXPECT_EQ(outcome.AwaitItem().code, Code::kNotFound);
  EXPECT_LE(node.connections(), 3u);
  ExpectUnharmed();
}

TEST_F(Async, ADeadNodeIsAvoidedAndEmptyCallsEnd) {
  std::string address;
  { address = SilentPort().address(); }
  Open(address);
  Outcome refused, avoided, empty;
  (void)Exist(1, &refused);
  EXPECT_EQ(refused.AwaitItem().code, Code::kUnavailable);
  (void)Exist(2, &avoided);
  EXPECT_EQ(avoided.AwaitItem().code, Code::kUnavailable);
  EXPECT_EQ(Metric("dfkv_client_unhealthy_skips_total"), 1);
  const Key name(3);
  std::array<std::byte, 8> room;
  const MutableByteSpan into(room);
  Outcome both;  // two passes, neither of which sends anything
  auto call = std::make_unique<TestCall>(&both);
  call->gets = {{name.bytes(), {&into, 1}}, {name.bytes(), {&into, 1}}};
  call->gets[0].range = true;
  (void)*async_->SubmitGet(std::move(call), {});
  EXPECT_EQ(CountOf(both.AwaitItems(), Code::kUnavailable), 2u);
  (void)Put({}, &empty);
  EXPECT_EQ(empty.Await(), Code::kOk);
  EXPECT_TRUE(empty.AwaitItems().empty());
}

// --- The end ---

TEST_F(Async, TheEndOfTheClientEndsItsCalls) {
  FakeNode node;
  node.set_script([](const wire::RequestView&) { return FakeAction::kHold; });
  options_.lanes_max = 2;
  Open(node.address());
  std::vector<Outcome> outcomes(20);
  for (size_t i = 0; i < outcomes.size(); ++i) (void)Exist(i, &outcomes[i]);
  SpinUntil([&] { return node.requests(wire::Op::kExist) == 2; });
  async_.reset();
  for (Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.times(), 1);
    EXPECT_EQ(outcome.AwaitItem().code, Code::kCancelled);
  }
  EXPECT_EQ(Metric("dfkv_transport_pool_connections"), 0);
  node.Release();
}

TEST_F(Async, ItsThreadTakesNoSignals) {
  FakeNode node;
  Open(node.address());
  Outcome outcome;
  (void)Exist(1, &outcome);
  (void)outcome.Await();
  bool found = false;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm") >> std::ws, name);
    if (name != "dfkv-async") continue;
    found = true;
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with("SigBlk:")) continue;
      const uint64_t mask = std::stoull(line.substr(7), nullptr, 16);
      EXPECT_NE(mask & (1u << (SIGTERM - 1)), 0u) << line;
      EXPECT_NE(mask & (1u << (SIGPROF - 1)), 0u) << line;
    }
  }
  EXPECT_TRUE(found);
}

// --- Many threads ---

#if defined(DFKV_SANITIZED)
constexpr int kRounds = 60;
#else
constexpr int kRounds = 300;
#endif

// Threads put, get and cancel at once, over nodes of which one is slow to answer: every call ends once, and a
// hit has the right bytes.
TEST_F(Async, ManyThreadsSubmitAndCancel) {
  FakeNode node;
  options_.lanes_max = 6;
  Open(node.address());
  constexpr size_t kBytes = 20'000;
  std::atomic<size_t> wrong{0}, repeated{0}, hits{0}, cancelled{0};
  const uint64_t seed = SeedFromSystem();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::vector<Thread> threads;
  for (uint64_t t = 0; t < 6; ++t) {
    threads.emplace_back(Cat("user-", t), [&, t] {
      Random random(seed + t);
      for (int round = 0; round < kRounds; ++round) {
        const uint64_t key = 10'000 * t + random.Below(20);
        const auto value = ValueOf(key, kBytes);
        std::vector<std::byte> into(kBytes);
        const MutableByteSpan room(into);
        const ByteSpan piece(value);
        const Key name(key);
        Outcome put, get;
        auto puts = std::make_unique<TestCall>(&put);
        puts->puts.push_back({name.bytes(), {&piece, 1}});
        const Ticket put_ticket = *async_->SubmitPut(std::move(puts), {});
        const Ticket get_ticket = Get(key, room, &get);
        if (random.OneIn(3)) Cancel(put_ticket);
        if (random.OneIn(3)) Cancel(get_ticket);
        (void)put.Await();
        cancelled += get.Await() == Code::kCancelled;
        if (get.AwaitItem().code == Code::kOk) {
          ++hits;
          wrong += !PatternMatches(key, 0, into);
        }
        repeated += put.times() != 1 || get.times() != 1;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(repeated, 0u);
  EXPECT_GT(hits, 0u);
  EXPECT_GT(cancelled, 0u);
  ExpectUnharmed();
}

// --- The queue of completions ---

bool Readable(int fd) {
  pollfd wanted{fd, POLLIN, 0};
  return poll(&wanted, 1, 0) == 1;
}

TEST(CompletionQueueTest, IsBoundedAndReadableWhileItHoldsSomething) {
  auto queue = std::move(*CompletionQueue::Make(2));
  EXPECT_FALSE(Readable(queue->fd()));
  EXPECT_TRUE(queue->TakePlace());
  EXPECT_TRUE(queue->TakePlace());
  EXPECT_FALSE(queue->TakePlace());
  queue->FreePlace();
  EXPECT_TRUE(queue->TakePlace());
  queue->Push({1, 10, Code::kOk, 5});
  queue->Push({2, 20, Code::kBusy, 6});
  EXPECT_TRUE(Readable(queue->fd()));
  EXPECT_FALSE(queue->TakePlace());  // a place is free when its entry is collected
  Completion one[1];
  EXPECT_EQ(queue->Collect(one, 0), 1u);
  EXPECT_EQ(one[0].user_data, 10u);
  EXPECT_TRUE(Readable(queue->fd()));
  EXPECT_TRUE(queue->TakePlace());
  EXPECT_EQ(queue->Collect(one, kNever), 1u);
  EXPECT_EQ(one[0].code, Code::kBusy);
  EXPECT_FALSE(Readable(queue->fd()));
  EXPECT_EQ(queue->Collect(one, 0), 0u);
  EXPECT_EQ(queue->Collect(one, SystemClock().Now() + kMillisecond), 0u);
  EXPECT_EQ(queue->Collect({}, kNever), 0u);
}

TEST(CompletionQueueTest, CloseEndsWaitsAndAwaitAllWaitsForWhatIsInFlight) {
  auto queue = std::move(*CompletionQueue::Make(8));
  ASSERT_TRUE(queue->TakePlace());
  ASSERT_TRUE(queue->TakePlace());
  queue->Push({1, 0, Code::kOk, 0});
  std::atomic<size_t> collected{99};
  Completion two[2];
  ASSERT_EQ(queue->Collect(two, 0), 1u);
  Thread waiter("waiter", [&] {
    Completion room[1];
    collected = queue->Collect(room, kNever);
  });
  queue->Close();
  waiter.Join();
  EXPECT_EQ(collected, 0u);
  EXPECT_FALSE(queue->TakePlace());
  std::atomic<bool> all{false};
  Thread last("last", [&] {
    queue->AwaitAll();
    all = true;
  });
  EXPECT_FALSE(all);
  queue->Push({2, 0, Code::kCancelled, 0});
  last.Join();
  EXPECT_TRUE(all);
}

}  // namespace
}  // namespace dfkv::client
