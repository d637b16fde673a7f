#include "admin/server.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fault.h"
#include "base/metric.h"
#include "base/random.h"
#include "base/text.h"
#include "io/socket.h"

namespace dfkv::admin {
namespace {

// A blocking client; every wait of it ends after 20 seconds at the latest.
class Client {
 public:
  explicit Client(uint16_t port) {
    const io::SocketAddress address = *io::MakeSocketAddress("127.0.0.1", port);
    fd_.Reset(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval limit = {20, 0};
    setsockopt(fd_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    connected_ = connect(fd_.get(), address.get(), address.size) == 0;
  }
  bool connected() const { return connected_; }
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  // All bytes until the server closes; "(timeout)" or "(reset)" in place of an orderly end.
  std::string ReceiveAll() {
    std::string all;
    char buffer[65536];
    ssize_t got = 0;
    while ((got = recv(fd_.get(), buffer, sizeof buffer, 0)) > 0)
      all.append(buffer, static_cast<size_t>(got));
    if (got < 0) all += errno == EAGAIN ? "(timeout)" : "(reset)";
    return all;
  }
  int fd() const { return fd_.get(); }

 private:
  io::UniqueFd fd_;
  bool connected_ = false;
};

std::string Ask(uint16_t port, std::string_view request) {
  Client client(port);
  if (!client.connected()) return "(not connected)";
  client.Send(request);
  return client.ReceiveAll();
}

class AdminServer : public testing::Test {
 protected:
  void Start(HttpOptions options = {}) {
    server = std::make_unique<HttpServer>(options);
    server->Handle("/healthz", [](const Request&) { return Response{.body = "ok\n"}; });
    server->Handle("/echo",
                   [](const Request& r) { return Response{.body = Cat(r.method, " ", r.query, "\n")}; });
    server->Handle("/sick", [](const Request&) { return Response{.status = 503, .body = "sick\n"}; });
    server->Handle("/big", [](const Request&) { return Response{.body = std::string(kBigBytes, 'x')}; });
    const Status status = server->Start();
    ASSERT_TRUE(status.ok()) << status.ToString();
  }
  // Sends a request and waits, without reading, until the server has begun to answer.
  void BeginAnswer(Client* client) {
    ASSERT_TRUE(client->Send("GET /big HTTP/1.1\r\n\r\n"));
    pollfd readable = {client->fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&readable, 1, 20'000), 1);
  }
  uint16_t port() const { return server->port(); }

  static constexpr size_t kBigBytes = 32 << 20;  // more than the socket buffers of both sides hold
  std::unique_ptr<HttpServer> server;
};

TEST_F(AdminServer, AnswersEveryMethodOnAFreeLoopbackPort) {
  Start();
  EXPECT_NE(port(), 0);
  EXPECT_EQ(server->address(), Cat("127.0.0.1:", port()));
  for (const char* method : {"GET", "POST", "PUT", "DELETE", "OPTIONS", "BREW"}) {
    const std::string answer = Ask(port(), Cat(method, " /echo?a=1 HTTP/1.0\r\nX: y\r\n\r\n"));
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 200 OK\r\n")) << answer;
    EXPECT_TRUE(answer.ends_with(Cat("\r\n\r\n", method, " a=1\n"))) << answer;
  }
  const std::string head = Ask(port(), "HEAD /healthz HTTP/1.1\r\n\r\n");
  EXPECT_NE(head.find("Content-Length: 3\r\n"), std::string::npos);
  EXPECT_TRUE(head.ends_with("\r\n\r\n")) << head;
}

TEST_F(AdminServer, StatusOfTheHandlerAndOfErrors) {
  Start();
  EXPECT_TRUE(Ask(port(), "GET /sick HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 503 Service Unavailable\r\n"));
  const std::string missing = Ask(port(), "GET /nope HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(missing.starts_with("HTTP/1.1 404 Not Found\r\n")) << missing;
  EXPECT_TRUE(missing.ends_with("not found; there are /big /echo /healthz /sick\n")) << missing;
  EXPECT_TRUE(Ask(port(), "hello\r\n\r\n").starts_with("HTTP/1.1 400 "));
  EXPECT_TRUE(Ask(port(), "GET /" + std::string(9000, 'a')).starts_with("HTTP/1.1 431 "));
}

TEST_F(AdminServer, ABodyIsReadPastWithoutLosingTheAnswer) {
  Start();
  for (int i = 0; i < 10; ++i) {
    Client client(port());
    const int small = 32 << 10;  // so that Send ends only when the server has read most of the body
    setsockopt(client.fd(), SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    ASSERT_TRUE(client.Send("POST /healthz HTTP/1.1\r\n\r\n" + std::string(2 << 20, 'b')));
    shutdown(client.fd(), SHUT_WR);
    const std::string answer = client.ReceiveAll();
    ASSERT_TRUE(answer.ends_with("\r\n\r\nok\n")) << answer.substr(0, 300);
  }
}

TEST_F(AdminServer, RefusesABadOrTakenAddress) {
  Start();
  HttpServer second({.port = port()});
  const Status taken = second.Start();
  EXPECT_EQ(taken.code(), Code::kUnavailable);
  EXPECT_NE(taken.message().find(Cat("admin port: listening on 127.0.0.1:", port(), ": ")), std::string::npos)
      << taken.message();
  HttpServer third({.bind = "localhost"});
  EXPECT_EQ(third.Start().code(), Code::kInvalid);
}

TEST_F(AdminServer, SilentAndSlowClientsDoNotKeepOthersWaiting) {
  Start();
  std::vector<std::unique_ptr<Client>> slow;
  for (int i = 0; i < 20; ++i) {
    slow.push_back(std::make_unique<Client>(port()));
    if (i % 2 == 0) slow.back()->Send("GET /healthz HTTP/1.1\r\nX:");
  }
  EXPECT_TRUE(Ask(port(), "GET /healthz HTTP/1.1\r\n\r\n").ends_with("ok\n"));
  slow[0]->Send(" y\r\n\r\n");  // late, but within its deadline
  EXPECT_TRUE(slow[0]->ReceiveAll().ends_with("ok\n"));
}

TEST_F(AdminServer, AReaderThatStopsReadingDoesNotKeepOthersWaiting) {
  Start();
  Client stuck(port());
  BeginAnswer(&stuck);
  EXPECT_TRUE(Ask(port(), "GET /healthz HTTP/1.1\r\n\r\n").ends_with("ok\n"));
  EXPECT_GT(stuck.ReceiveAll().size(), kBigBytes);
}

TEST_F(AdminServer, OneConnectionTooManyClosesTheOldest) {
  Start({.connections_max = 3});
  Client first(port());
  Client second(port());
  Client third(port());
  EXPECT_TRUE(Ask(port(), "GET /healthz HTTP/1.1\r\n\r\n").ends_with("ok\n"));
  EXPECT_EQ(first.ReceiveAll(), "");
  EXPECT_TRUE(third.Send("GET /healthz HTTP/1.1\r\n\r\n"));
  EXPECT_TRUE(third.ReceiveAll().ends_with("ok\n"));
}

// Sends a byte whenever the last one is out, until the server has closed.
void TrickleUntilClosed(Client* client) {
  pollfd closed = {client->fd(), POLLRDHUP, 0};
  while (client->Send("G") && ::poll(&closed, 1, 5) == 0) {
  }
}

TEST_F(AdminServer, TheDeadlineOfARequestIsAbsolute) {
  Start({.request_ms = 50, .request_bytes_max = 400});
  Client silent(port());
  EXPECT_EQ(silent.ReceiveAll(), "");
  Client trickle(port());
  TrickleUntilClosed(&trickle);
  EXPECT_EQ(trickle.ReceiveAll().find("431"), std::string::npos);  // it did not live to send 400 bytes
}

TEST_F(AdminServer, TheDeadlineOfAnAnswerIsAbsolute) {
  Start({.answer_ms = 50});
  Client stuck(port());
  BeginAnswer(&stuck);
  TrickleUntilClosed(&stuck);
  EXPECT_LT(stuck.ReceiveAll().size(), kBigBytes);
  Client slow(port());
  BeginAnswer(&slow);
  std::vector<char> piece(64 << 10);
  size_t received = 0;
  ssize_t got = 0;
  while ((got = recv(slow.fd(), piece.data(), piece.size(), 0)) > 0) {
    received += static_cast<size_t>(got);
    pollfd closed = {slow.fd(), POLLRDHUP, 0};
    ::poll(&closed, 1, 1);
  }
  EXPECT_LT(received, kBigBytes);
}

TEST_F(AdminServer, StopClosesTheSilentAndFinishesAnswers) {
  Start({.stop_ms = 20'000});
  Client silent(port());
  Client busy(port());
  BeginAnswer(&busy);
  const uint16_t old_port = port();
  Thread stopper("stopper", [&] { server->Stop(); });
  EXPECT_EQ(silent.ReceiveAll(), "");
  EXPECT_FALSE(Client(old_port).connected());
  const std::string answer = busy.ReceiveAll();
  EXPECT_GT(answer.size(), kBigBytes);
  EXPECT_EQ(answer.find('('), std::string::npos);
  stopper.Join();
  server->Stop();
}

TEST_F(AdminServer, StopDoesNotWaitForAReaderPastItsLimit) {
  Start({.answer_ms = 3'600'000, .stop_ms = 10});
  Client stuck(port());
  BeginAnswer(&stuck);
  server->Stop();  // returns, or the test's own time limit ends it
  EXPECT_LT(stuck.ReceiveAll().size(), kBigBytes);
}

// The thread has looked and found no stop; the stop comes before it waits.
TEST_F(AdminServer, AStopBeforeTheThreadWaitsIsSeen) {
  std::atomic<bool> requested{false};
  SyncPoints::Install([&](const char* name) {
    if (std::string_view(name) == "admin.stop_requested") requested = true;
    while (std::string_view(name) == "admin.before_poll" && !requested) CpuRelax();
  });
  Start();
  std::atomic<bool> stopped{false};
  Thread stopper("stopper", [&] {
    server->Stop();
    stopped = true;
  });
  const Nanos until = SystemClock().Now() + 20 * kSecond;
  while (!stopped && SystemClock().Now() < until) CpuRelax();
  EXPECT_TRUE(stopped) << "it sleeps on";
  if (!stopped) Client(port()).Send("x");  // wakes it
  stopper.Join();
  SyncPoints::Clear();
}

TEST_F(AdminServer, RandomBytesDoNotStopIt) {
  Start();
  const uint64_t seed = SeedFromSystem();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int i = 0; i < 200; ++i) {
    std::string noise(random.Below(3000), '\0');
    random.Fill({reinterpret_cast<std::byte*>(noise.data()), noise.size()});
    if (random.OneIn(2)) noise += "\n\n";
    Client client(port());
    client.Send(noise);
    if (random.OneIn(3)) shutdown(client.fd(), SHUT_WR);
  }
  EXPECT_TRUE(Ask(port(), "GET /healthz HTTP/1.1\r\n\r\n").ends_with("ok\n"));
}

TEST_F(AdminServer, MetricsPassPromtool) {
  if (access("/usr/bin/promtool", X_OK) != 0) GTEST_SKIP() << "no promtool (Debian package prometheus)";
  MetricRegistry registry;
  registry.AddCounter("dfkv_sample_total", "A counter.", {{"op", "get"}}).Add(3);
  registry.AddGauge("dfkv_sample_bytes", "A gauge.").Set(7);
  registry.AddHistogram("dfkv_sample_latency_seconds", "A histogram.").Observe(3 * kMillisecond);
  HttpServer metrics((HttpOptions()));
  metrics.Handle("/metrics", [&](const Request&) {
    return Response{.content_type = kMetricsContentType, .body = registry.Render()};
  });
  ASSERT_TRUE(metrics.Start().ok());
  const std::string answer = Ask(metrics.port(), "GET /metrics HTTP/1.1\r\n\r\n");
  EXPECT_NE(answer.find("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), std::string::npos);
  const std::string text = answer.substr(answer.find("\r\n\r\n") + 4);
  std::FILE* promtool = popen("/usr/bin/promtool check metrics", "w");
  ASSERT_NE(promtool, nullptr);
  std::fwrite(text.data(), 1, text.size(), promtool);
  EXPECT_EQ(pclose(promtool), 0) << text;
}

TEST(AdminOptions, Rows) {
  OptionSet set;
  HttpOptions options;
  RegisterHttpOptions(&set, &options);
  EXPECT_EQ(set.Find("metrics-first-req-ms")->info().default_text, "30000");
  EXPECT_EQ(set.Find("metrics-max-conns")->info().env, "DFKV_METRICS_MAX_CONNS");
  EXPECT_EQ(set.Set("metrics-bind", "nowhere", OptionSource::kFlag, "flag").code(), Code::kInvalid);
  EXPECT_TRUE(set.Set("metrics-bind", "::1", OptionSource::kFlag, "flag").ok());
}

}  // namespace
}  // namespace dfkv::admin
