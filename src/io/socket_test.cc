// What every reactor with descriptors does with sockets, and the socket helpers.
#include "io/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>

#include <cstring>
#include <deque>
#include <set>

#include "base/fault.h"
#include "base/random.h"
#include "base/text.h"
#include "io/reactor_testing.h"

namespace dfkv::io {
namespace {

class SocketTest : public OnReactor {
 protected:
  static std::pair<UniqueFd, UniqueFd> MakePair() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    return {UniqueFd(fds[0]), UniqueFd(fds[1])};
  }
  // Ends when all ops have been called back.
  bool RunUntilDone(const int* pending) {
    return reactor_->RunUntil([=] { return *pending == 0; }, reactor_->Now() + 60 * kSecond);
  }
  Nanos In(Nanos after) const { return reactor_->Now() + after; }
};
INSTANTIATE_TEST_SUITE_P(All, SocketTest, testing::Values("epoll", "uring"), ReactorName);

// An op that counts down when it is done.
struct CountedOp {
  Op op;
  iovec piece{};
  int* pending = nullptr;

  CountedOp(Op::Kind kind, int fd, int* counter) : pending(counter) {
    op.kind = kind;
    op.fd = fd;
    op.context = this;
    op.on_done = [](Op* done) { --*static_cast<CountedOp*>(done->context)->pending; };
    ++*pending;
  }
  CountedOp(Op::Kind kind, int fd, std::string* buffer, int* counter) : CountedOp(kind, fd, counter) {
    piece = {buffer->data(), buffer->size()};
    op.iov = &piece;
    op.iov_count = 1;
  }
  CountedOp(const CountedOp&) = delete;
  CountedOp& operator=(const CountedOp&) = delete;
};

Task<int64_t> Transfer(Op::Kind kind, int fd, std::string* buffer, Nanos deadline) {
  const iovec piece{buffer->data(), buffer->size()};
  Op op;
  op.kind = kind;
  op.fd = fd;
  op.iov = &piece;
  op.iov_count = 1;
  op.deadline = deadline;
  co_return co_await Reactor::Current()->Await(&op);
}

TEST_P(SocketTest, ReceivesWhatIsThereAndWaitsForWhatIsNot) {
  auto [a, b] = MakePair();
  int pending = 0;
  std::string in(100, '?');
  CountedOp recv(Op::Kind::kRecv, a.get(), &in, &pending);
  reactor_->Submit(&recv.op);
  reactor_->RunUntil([] { return false; }, reactor_->Now());
  EXPECT_EQ(pending, 1);
  std::string out = "hello";
  EXPECT_EQ(reactor_->RunTask(Transfer(Op::Kind::kSend, b.get(), &out, kNever)), 5);
  EXPECT_TRUE(RunUntilDone(&pending));
  EXPECT_EQ(recv.op.result, 5);
  EXPECT_EQ(in.substr(0, 5), "hello");
  EXPECT_EQ(reactor_->RunTask(Transfer(Op::Kind::kSend, b.get(), &out, kNever)), 5);
  EXPECT_EQ(reactor_->RunTask(Transfer(Op::Kind::kRecv, a.get(), &in, kNever)), 5);
  b.Reset();
  EXPECT_EQ(reactor_->RunTask(Transfer(Op::Kind::kRecv, a.get(), &in, kNever)), 0);
}

TEST_P(SocketTest, PollFirstFindsWhatIsThereAlready) {
  auto [a, b] = MakePair();
  ASSERT_EQ(write(b.get(), "abc", 3), 3);
  int pending = 0;
  std::string in(100, '?');
  CountedOp recv(Op::Kind::kRecv, a.get(), &in, &pending);
  recv.op.poll_first = true;
  reactor_->Submit(&recv.op);
  EXPECT_TRUE(RunUntilDone(&pending));
  EXPECT_EQ(recv.op.result, 3);
}

TEST_P(SocketTest, ScattersAndGathersAlsoAfterWaiting) {
  auto [a, b] = MakePair();
  std::string x(3, '?');
  std::string y(1000, '?');
  iovec into[2] = {{x.data(), x.size()}, {y.data(), y.size()}};
  int pending = 0;
  CountedOp recv(Op::Kind::kRecv, a.get(), &pending);
  recv.op.iov = into;
  recv.op.iov_count = 2;
  reactor_->Submit(&recv.op);
  reactor_->RunUntil([] { return false; }, reactor_->Now());
  iovec from[2] = {{const_cast<char*>("abcd"), 4}, {const_cast<char*>("ef"), 2}};
  CountedOp send(Op::Kind::kSend, b.get(), &pending);
  send.op.iov = from;
  send.op.iov_count = 2;
  reactor_->Submit(&send.op);
  EXPECT_TRUE(RunUntilDone(&pending));
  EXPECT_EQ(send.op.result, 6);
  EXPECT_EQ(recv.op.result, 6);
  EXPECT_EQ(x + y.substr(0, 3), "abcdef");
}

Task<void> SendAll(int fd, const std::string* data, bool gather, int64_t* error) {
  size_t done = 0;
  while (done < data->size()) {
    const size_t half = (data->size() - done) / 2;
    char* const begin = const_cast<char*>(data->data()) + done;
    iovec pieces[2] = {{begin, data->size() - done}, {}};
    if (gather && half > 0) {
      pieces[0].iov_len = half;
      pieces[1] = {begin + half, data->size() - done - half};
    }
    Op op;
    op.kind = Op::Kind::kSend;
    op.fd = fd;
    op.iov = pieces;
    op.iov_count = gather && half > 0 ? 2 : 1;
    const int64_t sent = co_await Reactor::Current()->Await(&op);
    if (sent <= 0) {
      *error = sent;
      co_return;
    }
    done += static_cast<size_t>(sent);
  }
}

Task<void> ReceiveAll(int fd, std::string* data, int64_t* error) {
  size_t done = 0;
  while (done < data->size()) {
    const iovec piece{data->data() + done, data->size() - done};
    Op op;
    op.kind = Op::Kind::kRecv;
    op.fd = fd;
    op.iov = &piece;
    op.iov_count = 1;
    const int64_t got = co_await Reactor::Current()->Await(&op);
    if (got <= 0) {
      *error = got;
      co_return;
    }
    done += static_cast<size_t>(got);
  }
}

Task<void> Counted(Task<void> task, int* ended) {
  co_await std::move(task);
  ++*ended;
}

TEST_P(SocketTest, LargeTransfersInBothDirectionsOfOneDescriptor) {
  const uint64_t seed = SeedFromSystem();
  SCOPED_TRACE(seed);
  Random random(seed);
  auto [a, b] = MakePair();
  std::string to_b(8 << 20, '\0');
  std::string to_a(5 << 20, '\0');
  random.Fill({reinterpret_cast<std::byte*>(to_b.data()), to_b.size()});
  random.Fill({reinterpret_cast<std::byte*>(to_a.data()), to_a.size()});
  std::string at_a(to_a.size(), '\0');
  std::string at_b(to_b.size(), '\0');
  int64_t error = 0;
  int ended = 0;
  reactor_->QueueReady(Counted(SendAll(a.get(), &to_b, false, &error), &ended).Release());
  reactor_->QueueReady(Counted(SendAll(b.get(), &to_a, true, &error), &ended).Release());
  reactor_->QueueReady(Counted(ReceiveAll(a.get(), &at_a, &error), &ended).Release());
  reactor_->QueueReady(Counted(ReceiveAll(b.get(), &at_b, &error), &ended).Release());
  EXPECT_TRUE(reactor_->RunUntil([&] { return ended == 4; }, In(60 * kSecond)));
  EXPECT_EQ(error, 0);
  EXPECT_TRUE(at_a == to_a);
  EXPECT_TRUE(at_b == to_b);
}

TEST_P(SocketTest, SendingToAGonePeerIsAnErrorNotASignal) {
  auto [a, b] = MakePair();
  b.Reset();
  std::string out = "x";
  EXPECT_EQ(reactor_->RunTask(Transfer(Op::Kind::kSend, a.get(), &out, kNever)), -EPIPE);
}

TEST_P(SocketTest, APeerThatGoesEndsAWaitingSend) {
  auto [a, b] = MakePair();
  std::string out(1 << 20, 'x');
  while (true) {
    const iovec piece{out.data(), out.size()};
    if (SendNow(a.get(), &piece, 1) == -EAGAIN) break;
  }
  int pending = 0;
  CountedOp send(Op::Kind::kSend, a.get(), &out, &pending);
  reactor_->Submit(&send.op);
  reactor_->RunUntil([] { return false; }, reactor_->Now());
  EXPECT_EQ(pending, 1);
  b.Reset();
  EXPECT_TRUE(RunUntilDone(&pending));
  EXPECT_TRUE(send.op.result == -EPIPE || send.op.result == -ECONNRESET) << send.op.result;
}

TEST_P(SocketTest, BadDescriptors) {
  std::string in(1, '?');
  EXPECT_EQ(reactor_->RunTask(Transfer(Op::Kind::kRecv, -1, &in, kNever)), -EBADF);
  EXPECT_EQ(reactor_->RunTask(Transfer(Op::Kind::kRecv, 1'000'000, &in, kNever)), -EBADF);
  int pending = 0;
  CountedOp readable(Op::Kind::kReadable, 1'000'000, &pending);
  reactor_->Submit(&readable.op);
  EXPECT_TRUE(RunUntilDone(&pending));
  EXPECT_EQ(readable.op.result, -EBADF);
}

TEST_P(SocketTest, DeadlinesEndWaitingOps) {
  auto [a, b] = MakePair();
  std::string in(10, '?');
  const Nanos at = In(3 * kMillisecond);
  EXPECT_EQ(reactor_->RunTask(Transfer(Op::Kind::kRecv, a.get(), &in, at)), -ETIME);
  EXPECT_GE(reactor_->Now(), at);
  // A deadline that has passed ends the op though bytes are there.
  ASSERT_EQ(write(b.get(), "abc", 3), 3);
  EXPECT_EQ(reactor_->RunTask(Transfer(Op::Kind::kRecv, a.get(), &in, at)), -ETIME);
  EXPECT_EQ(reactor_->RunTask(Transfer(Op::Kind::kRecv, a.get(), &in, In(60 * kSecond))), 3);
}

TEST_P(SocketTest, TenThousandDeadlinesOnOneDescriptor) {
  const uint64_t seed = SeedFromSystem();
  SCOPED_TRACE(seed);
  Random random(seed);
  auto [a, b] = MakePair();
  int pending = 0;
  std::deque<CountedOp> ops;
  std::set<int64_t> results;
  for (int i = 0; i < 10'000; ++i) {
    CountedOp& op = ops.emplace_back(Op::Kind::kReadable, a.get(), &pending);
    op.op.deadline = In(static_cast<Nanos>(random.Below(30 * kMillisecond)));
    if (random.OneIn(10)) op.op.deadline = kNever;
    reactor_->Submit(&op.op);
  }
  reactor_->RunUntil([] { return false; }, In(40 * kMillisecond));
  for (CountedOp& op : ops) {
    if (op.op.deadline == kNever) reactor_->Cancel(&op.op);
  }
  EXPECT_TRUE(RunUntilDone(&pending));
  for (const CountedOp& op : ops) {
    ASSERT_EQ(op.op.result, op.op.deadline == kNever ? -ECANCELED : -ETIME);
  }
}

TEST_P(SocketTest, CancelEndsAnOpOnceAndSparesTheOthers) {
  auto [a, b] = MakePair();
  int pending = 0;
  std::string first_in(10, '?');
  std::string second_in(10, '?');
  CountedOp first(Op::Kind::kRecv, a.get(), &first_in, &pending);
  CountedOp second(Op::Kind::kRecv, a.get(), &second_in, &pending);
  first.op.deadline = In(60 * kSecond);
  reactor_->Submit(&first.op);
  reactor_->Submit(&second.op);
  reactor_->RunUntil([] { return false; }, reactor_->Now());
  reactor_->Cancel(&first.op);
  reactor_->Cancel(&first.op);
  EXPECT_TRUE(reactor_->RunUntil([&] { return pending == 1; }, In(60 * kSecond)));
  EXPECT_EQ(first.op.result, -ECANCELED);
  reactor_->Cancel(&first.op);  // over already: nothing happens
  ASSERT_EQ(write(b.get(), "abc", 3), 3);
  EXPECT_TRUE(RunUntilDone(&pending));
  EXPECT_EQ(second.op.result, 3);
  EXPECT_EQ(second_in.substr(0, 3), "abc");
}

TEST_P(SocketTest, CancelOfWhatIsJustSubmittedOrJustDone) {
  auto [a, b] = MakePair();
  int pending = 0;
  std::string in(10, '?');
  CountedOp waits(Op::Kind::kRecv, a.get(), &in, &pending);
  reactor_->Submit(&waits.op);
  reactor_->Cancel(&waits.op);
  EXPECT_TRUE(RunUntilDone(&pending));
  EXPECT_EQ(waits.op.result, -ECANCELED);
  ASSERT_EQ(write(b.get(), "abc", 3), 3);
  CountedOp done(Op::Kind::kRecv, a.get(), &in, &pending);
  reactor_->Submit(&done.op);
  reactor_->Cancel(&done.op);
  EXPECT_TRUE(RunUntilDone(&pending));
  EXPECT_TRUE(done.op.result == 3 || done.op.result == -ECANCELED);
}

// The number of a closed descriptor is given out again; nothing of the old one may stick to it.
TEST_P(SocketTest, DescriptorNumbersAreReused) {
  std::string in(10, '?');
  for (int i = 0; i < 50; ++i) {
    auto [a, b] = MakePair();
    int pending = 0;
    CountedOp recv(Op::Kind::kRecv, a.get(), &in, &pending);
    CountedOp other(Op::Kind::kRecv, b.get(), &in, &pending);
    reactor_->Submit(&recv.op);
    reactor_->Submit(&other.op);
    reactor_->RunUntil([] { return false; }, reactor_->Now());
    ASSERT_EQ(write(b.get(), "abc", 3), 3);
    if (i % 2 == 0) reactor_->Cancel(&other.op);
    if (i % 2 == 1) {
      ASSERT_EQ(write(a.get(), "abc", 3), 3);
    }
    ASSERT_TRUE(RunUntilDone(&pending)) << i;
    ASSERT_EQ(recv.op.result, 3);
  }
}

TEST_P(SocketTest, ReadableAndWritable) {
  const UniqueFd event(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  int pending = 0;
  CountedOp readable(Op::Kind::kReadable, event.get(), &pending);
  CountedOp writable(Op::Kind::kWritable, event.get(), &pending);
  reactor_->Submit(&readable.op);
  reactor_->Submit(&writable.op);
  EXPECT_TRUE(reactor_->RunUntil([&] { return pending == 1; }, In(60 * kSecond)));
  EXPECT_EQ(writable.op.result, 0);
  const uint64_t one = 1;
  ASSERT_EQ(write(event.get(), &one, sizeof one), 8);
  EXPECT_TRUE(RunUntilDone(&pending));
  EXPECT_EQ(readable.op.result, 0);
}

class TcpTest : public SocketTest {
 protected:
  Result<UniqueFd> ListenOn(const char* ip) {
    const Result<SocketAddress> any = MakeSocketAddress(ip, 0);
    EXPECT_TRUE(any.ok());
    return Listen(*any);
  }
};
INSTANTIATE_TEST_SUITE_P(All, TcpTest, testing::Values("epoll", "uring"), ReactorName);

TEST_P(TcpTest, ConnectAcceptAndTalk) {
  for (const char* ip : {"127.0.0.1", "::1"}) {
    const Result<UniqueFd> listener = ListenOn(ip);
    if (!listener.ok() && std::strcmp(ip, "::1") == 0) GTEST_SKIP() << listener.status().message();
    ASSERT_TRUE(listener.ok()) << listener.status().message();
    const Result<SocketAddress> bound = BoundAddress(listener->get());
    ASSERT_TRUE(bound.ok());
    EXPECT_NE(bound->port(), 0);
    const Result<UniqueFd> client = MakeStreamSocket(bound->family());
    ASSERT_TRUE(client.ok());
    int pending = 0;
    CountedOp accept(Op::Kind::kAccept, listener->get(), &pending);
    CountedOp connect(Op::Kind::kConnect, client->get(), &pending);
    connect.op.address = bound->get();
    connect.op.address_size = bound->size;
    reactor_->Submit(&accept.op);
    reactor_->Submit(&connect.op);
    ASSERT_TRUE(RunUntilDone(&pending));
    EXPECT_EQ(connect.op.result, 0);
    ASSERT_GE(accept.op.result, 0);
    const UniqueFd server(static_cast<int>(accept.op.result));
    EXPECT_NE(fcntl(server.get(), F_GETFL) & O_NONBLOCK, 0);
    EXPECT_NE(fcntl(server.get(), F_GETFD) & FD_CLOEXEC, 0);
    EXPECT_EQ(PeerAddress(client->get())->ToString(), bound->ToString());
    EXPECT_EQ(PeerAddress(server.get())->ToString(), BoundAddress(client->get())->ToString());
    std::string out = "hello";
    std::string in(5, '?');
    EXPECT_EQ(reactor_->RunTask(Transfer(Op::Kind::kSend, server.get(), &out, kNever)), 5);
    EXPECT_EQ(reactor_->RunTask(Transfer(Op::Kind::kRecv, client->get(), &in, kNever)), 5);
    EXPECT_EQ(in, out);
  }
}

TEST_P(TcpTest, ConnectRefused) {
  Result<UniqueFd> listener = ListenOn("127.0.0.1");
  const Result<SocketAddress> bound = BoundAddress(listener->get());
  listener->Reset();  // nobody listens there now
  const Result<UniqueFd> client = MakeStreamSocket(AF_INET);
  int pending = 0;
  CountedOp connect(Op::Kind::kConnect, client->get(), &pending);
  connect.op.address = bound->get();
  connect.op.address_size = bound->size;
  reactor_->Submit(&connect.op);
  ASSERT_TRUE(RunUntilDone(&pending));
  EXPECT_EQ(connect.op.result, -ECONNREFUSED);
}

TEST_P(TcpTest, AcceptKeepsItsDeadlineAndManyMayWait) {
  const Result<UniqueFd> listener = ListenOn("127.0.0.1");
  const Result<SocketAddress> bound = BoundAddress(listener->get());
  int pending = 0;
  CountedOp first(Op::Kind::kAccept, listener->get(), &pending);
  CountedOp second(Op::Kind::kAccept, listener->get(), &pending);
  first.op.deadline = In(2 * kMillisecond);
  reactor_->Submit(&first.op);
  reactor_->Submit(&second.op);
  EXPECT_TRUE(reactor_->RunUntil([&] { return pending == 1; }, In(60 * kSecond)));
  EXPECT_EQ(first.op.result, -ETIME);
  const Result<UniqueFd> client = MakeStreamSocket(AF_INET);
  CountedOp connect(Op::Kind::kConnect, client->get(), &pending);
  connect.op.address = bound->get();
  connect.op.address_size = bound->size;
  reactor_->Submit(&connect.op);
  ASSERT_TRUE(RunUntilDone(&pending));
  ASSERT_GE(second.op.result, 0);
  const UniqueFd accepted(static_cast<int>(second.op.result));
}

TEST_P(TcpTest, ResetByPeer) {
  const Result<UniqueFd> listener = ListenOn("127.0.0.1");
  const Result<SocketAddress> bound = BoundAddress(listener->get());
  UniqueFd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(connect(client.get(), bound->get(), bound->size), 0);
  int pending = 0;
  CountedOp accept(Op::Kind::kAccept, listener->get(), &pending);
  reactor_->Submit(&accept.op);
  ASSERT_TRUE(RunUntilDone(&pending));
  const UniqueFd server(static_cast<int>(accept.op.result));
  std::string in(5, '?');
  CountedOp recv(Op::Kind::kRecv, server.get(), &in, &pending);
  reactor_->Submit(&recv.op);
  reactor_->RunUntil([] { return false; }, reactor_->Now());
  const linger hard{1, 0};
  setsockopt(client.get(), SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
  client.Reset();
  ASSERT_TRUE(RunUntilDone(&pending));
  EXPECT_EQ(recv.op.result, -ECONNRESET);
}

TEST_P(TcpTest, MoreOpsThanTheRingIsDeep) {
  ReactorOptions options;
  options.kind = GetParam() == "uring" ? ReactorKind::kUring : ReactorKind::kEpoll;
  options.depth = 4;
  Result<std::unique_ptr<Reactor>> made = MakeReactor(options);
  ASSERT_TRUE(made.ok());
  reactor_ = std::move(*made);
  std::vector<std::pair<UniqueFd, UniqueFd>> pairs;
  std::vector<std::string> in(64, std::string(3, '?'));
  std::deque<CountedOp> ops;
  int pending = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    pairs.push_back(MakePair());
    CountedOp& op = ops.emplace_back(Op::Kind::kRecv, pairs.back().first.get(), &in[i], &pending);
    op.op.deadline = i < 4 ? In(kMillisecond) : In(60 * kSecond);
    reactor_->Submit(&op.op);
  }
  reactor_->Cancel(&ops[63].op);  // still in the queue
  for (const auto& pair : pairs) ASSERT_EQ(write(pair.second.get(), "abc", 3), 3);
  ASSERT_TRUE(RunUntilDone(&pending));
  for (size_t i = 4; i < 63; ++i) ASSERT_EQ(ops[i].op.result, 3) << i;
  EXPECT_EQ(ops[63].op.result, -ECANCELED);
}

TEST(SocketAddressTest, TextBothWays) {
  for (const char* text : {"127.0.0.1:9000", "0.0.0.0:0", "255.1.2.3:65535", "[::1]:80", "[2001:db8::1]:1"}) {
    const Result<SocketAddress> address = ParseSocketAddress(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_EQ(address->ToString(), text);
  }
  for (const char* text :
       {"", ":", "127.0.0.1", "127.0.0.1:", ":80", "::1:80", "[::1]", "[127.0.0.1]:80", "1.2.3:80",
        "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:80x", "host:80", "[::1:80", "[]:80"}) {
    const Result<SocketAddress> address = ParseSocketAddress(text);
    EXPECT_EQ(address.code(), Code::kInvalid) << text;
    EXPECT_NE(address.status().message().find(Cat("'", text, "'")), std::string::npos);
  }
}

TEST(SocketAddressTest, Loopback) {
  EXPECT_TRUE(ParseSocketAddress("127.9.9.9:1")->IsLoopback());
  EXPECT_TRUE(ParseSocketAddress("[::1]:1")->IsLoopback());
  EXPECT_TRUE(ParseSocketAddress("[::ffff:127.0.0.1]:1")->IsLoopback());
  EXPECT_FALSE(ParseSocketAddress("10.0.0.1:1")->IsLoopback());
  EXPECT_FALSE(ParseSocketAddress("[2001:db8::1]:1")->IsLoopback());
}

TEST(ListenTest, ATakenPortIsWaitedFor) {
  Result<UniqueFd> first = Listen(*ParseSocketAddress("127.0.0.1:0"));
  ASSERT_TRUE(first.ok());
  const Result<SocketAddress> bound = BoundAddress(first->get());
  ASSERT_TRUE(bound.ok());
  // It is let go of when the second one has found it taken.
  SyncPoints::Install([&](const char* name) {
    if (std::string_view(name) == "io.listen_in_use") first->Reset();
  });
  ListenOptions patient;
  patient.in_use_wait = 60 * kSecond;
  const Result<UniqueFd> second = Listen(*bound, patient);
  SyncPoints::Clear();
  EXPECT_TRUE(second.ok()) << second.status().ToString();
  EXPECT_FALSE(first->valid());
}

TEST(ListenTest, ATakenPortIsNamed) {
  const Result<UniqueFd> first = Listen(*ParseSocketAddress("127.0.0.1:0"));
  ASSERT_TRUE(first.ok());
  const Result<SocketAddress> bound = BoundAddress(first->get());
  const Result<UniqueFd> second = Listen(*bound);
  EXPECT_EQ(second.code(), Code::kUnavailable);
  EXPECT_NE(second.status().message().find(bound->ToString()), std::string::npos);
}

}  // namespace
}  // namespace dfkv::io
