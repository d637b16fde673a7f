// Invariants of the loop, all on its one thread:
// - connections_ is in the order of arrival and holds at most connections_max.
// - A connection reads its request, then writes its answer, then lingers until the client has closed, so that
// the
//   answer is not lost to a reset; each of the three has a deadline that only the step to the next one moves.
#include "admin/server.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/fault.h"
#include "base/log.h"
#include "base/text.h"
#include "io/socket.h"

namespace dfkv::admin {
namespace {

constexpr Nanos kLingerTime = kSecond;
constexpr Nanos kAcceptPause = 100 * kMillisecond;  // when the process has no descriptors left
constexpr int kAcceptsPerTurn = 16;
constexpr int kReadsPerTurn = 16;

struct Connection {
  enum class Step { kRead, kWrite, kLinger, kDone };
  io::UniqueFd fd;
  Nanos deadline = 0;
  Step step = Step::kRead;
  std::string in = {};
  std::string out = {};
  size_t sent = 0;
};

bool WouldWait(int64_t result) {
  return result == -EAGAIN || result == -EINTR;
}

}  // namespace

class HttpServer::Loop {
 public:
  Loop(const HttpOptions& options, const std::map<std::string, Handler>& handlers, io::UniqueFd listener)
      : options_(options),
        handlers_(handlers),
        listener_(std::move(listener)),
        wake_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

  bool valid() const { return wake_.valid(); }

  void Run() {
    for (;;) {
      const Nanos now = SystemClock().Now();
      CloseExpired(now);
      if (Stopped(now)) return;  // after closing: without a connection Poll would not end
      DFKV_SYNC_POINT("admin.before_poll");
      Poll(now);
      Accept();
      for (Connection& connection : connections_) Advance(&connection);
    }
  }

  void RequestStop() {
    stop_.store(true, std::memory_order_release);
    const uint64_t one = 1;
    const ssize_t written = ::write(wake_.get(), &one, sizeof one);
    DFKV_CHECK(written == sizeof one || errno == EAGAIN);  // EAGAIN: it is readable already
  }

 private:
  using Step = Connection::Step;

  // Whether the thread may end. The first call after RequestStop drops what has not asked anything yet.
  bool Stopped(Nanos now) {
    if (!stop_.load(std::memory_order_acquire)) return false;
    if (listener_.valid()) {
      listener_.Reset();
      const Nanos limit = now + options_.stop_ms * kMillisecond;
      for (Connection& connection : connections_) {
        if (connection.step != Step::kWrite) connection.step = Step::kDone;
        connection.deadline = std::min(connection.deadline, limit);
      }
    }
    std::erase_if(connections_, [](const Connection& c) { return c.step != Step::kWrite; });
    return connections_.empty();
  }

  void CloseExpired(Nanos now) {
    std::erase_if(connections_,
                  [&](const Connection& c) { return c.step == Step::kDone || c.deadline <= now; });
  }

  // Waits until something can move, the next deadline or a stop; fills polled_.
  void Poll(Nanos now) {
    Nanos wake_at = accept_again_at_ > now ? accept_again_at_ : kNever;
    polled_.clear();
    // Watched until Stopped has seen the request; stop_ itself may be set between that look and this one.
    polled_.push_back({wake_.get(), listener_.valid() ? short{POLLIN} : short{0}, 0});
    polled_.push_back({accept_again_at_ > now ? -1 : listener_.get(), POLLIN, 0});
    for (const Connection& connection : connections_) {
      const short events = connection.step == Step::kWrite ? POLLOUT : POLLIN;
      polled_.push_back({connection.fd.get(), events, 0});
      wake_at = std::min(wake_at, connection.deadline);
    }
    const Nanos wait_ms = wake_at == kNever ? -1 : (wake_at - now + kMillisecond - 1) / kMillisecond;
    ::poll(polled_.data(), polled_.size(), static_cast<int>(std::min<Nanos>(wait_ms, INT32_MAX)));
  }

  void Accept() {
    if (polled_[1].fd < 0 || (polled_[1].revents & POLLIN) == 0) return;
    for (int i = 0; i < kAcceptsPerTurn; ++i) {
      const int fd = io::AcceptNow(listener_.get());
      const Nanos now = SystemClock().Now();
      if (fd == -EMFILE || fd == -ENFILE || fd == -ENOBUFS || fd == -ENOMEM) {
        accept_again_at_ = now + kAcceptPause;
        if (!connections_.empty()) connections_.erase(connections_.begin());
        return;
      }
      if (fd < 0) return;
      if (connections_.size() >= options_.connections_max) connections_.erase(connections_.begin());
      connections_.push_back({.fd = io::UniqueFd(fd), .deadline = now + options_.request_ms * kMillisecond});
    }
  }

  void Advance(Connection* connection) {
    if (connection->step == Step::kRead) Read(connection);
    if (connection->step == Step::kWrite) Write(connection);
    if (connection->step == Step::kLinger) Discard(connection);
  }

  // What can be read now, empty for nothing; at the peer's end the connection is done.
  std::string_view Receive(Connection* connection) {
    const iovec piece = {received_.data(), received_.size()};
    const int64_t got = io::RecvNow(connection->fd.get(), &piece, 1);
    if (WouldWait(got)) return {};
    if (got > 0) return {received_.data(), static_cast<size_t>(got)};
    connection->step = Step::kDone;
    return {};
  }

  void Read(Connection* connection) {
    for (int i = 0; i < kReadsPerTurn; ++i) {
      const std::string_view received = Receive(connection);
      if (received.empty()) return;
      connection->in.append(received);
      Request request;
      const ParseState state = ParseRequest(connection->in, &request);
      if (state == ParseState::kComplete)
        return Answer(connection, Dispatch(request), request.method == "HEAD");
      if (state == ParseState::kMalformed)
        return Answer(connection, {.status = 400, .body = "bad request\n"}, false);
      if (connection->in.size() > options_.request_bytes_max) {
        return Answer(connection, {.status = 431, .body = "request too large\n"}, false);
      }
    }
  }

  Response Dispatch(const Request& request) {
    const auto handler = handlers_.find(request.path);
    if (handler != handlers_.end()) return handler->second(request);
    std::string body = "not found; there are";
    for (const auto& [path, unused] : handlers_) body += Cat(" ", path);
    return {.status = 404, .body = Cat(body, "\n")};
  }

  void Answer(Connection* connection, const Response& response, bool head) {
    connection->out = FormatResponse(response, head);
    connection->in = {};
    connection->step = Step::kWrite;
    connection->deadline = SystemClock().Now() + options_.answer_ms * kMillisecond;
  }

  void Write(Connection* connection) {
    while (connection->sent < connection->out.size()) {
      const iovec piece = {connection->out.data() + connection->sent,
                           connection->out.size() - connection->sent};
      const int64_t sent = io::SendNow(connection->fd.get(), &piece, 1);
      if (WouldWait(sent)) return;
      if (sent <= 0) {
        connection->step = Step::kDone;
        return;
      }
      connection->sent += static_cast<size_t>(sent);
    }
    ::shutdown(connection->fd.get(), SHUT_WR);
    connection->out = {};
    connection->step = Step::kLinger;
    connection->deadline = SystemClock().Now() + kLingerTime;
  }

  void Discard(Connection* connection) {
    for (int i = 0; i < kReadsPerTurn && !Receive(connection).empty(); ++i) {
    }
  }

  const HttpOptions& options_;
  const std::map<std::string, Handler>& handlers_;
  io::UniqueFd listener_;
  io::UniqueFd wake_;
  std::atomic<bool> stop_{false};
  std::vector<Connection> connections_;
  std::vector<pollfd> polled_;
  std::array<char, 2048> received_;
  Nanos accept_again_at_ = 0;
};

void RegisterHttpOptions(OptionSet* set, HttpOptions* options) {
  set->Add("metrics-bind", &options->bind, "Address of the admin port.").Check([](std::string_view text) {
    return io::MakeSocketAddress(text, 0).status();
  });
  set->Add("metrics-max-conns", &options->connections_max, "Admin connections; one more closes the oldest.")
      .Range(1, 4096);
  set->Add("metrics-first-req-ms", &options->request_ms,
           "A connection to the admin port that has sent no whole request by then is closed.")
      .Range(1, 3'600'000);
}

HttpServer::HttpServer(HttpOptions options) : options_(std::move(options)) {}

HttpServer::~HttpServer() {
  Stop();
}

void HttpServer::Handle(std::string path, Handler handler) {
  DFKV_CHECK(loop_ == nullptr && path.starts_with('/'));
  handlers_[std::move(path)] = std::move(handler);
}

Status HttpServer::Start() {
  DFKV_CHECK(loop_ == nullptr);
  Result<io::SocketAddress> wanted = io::MakeSocketAddress(options_.bind, options_.port);
  if (!wanted.ok()) return Status(wanted.code(), Cat("admin port: ", wanted.status().message()));
  Result<io::UniqueFd> listener = io::Listen(*wanted, {.backlog = 128});
  if (!listener.ok()) return Status(listener.code(), Cat("admin port: ", listener.status().message()));
  Result<io::SocketAddress> bound = io::BoundAddress(listener->get());
  if (!bound.ok()) return bound.status();
  auto loop = std::make_unique<Loop>(options_, handlers_, std::move(*listener));
  if (!loop->valid()) return Status(Code::kUnavailable, Cat("admin port: eventfd: ", ErrnoText(errno)));
  port_ = bound->port();
  address_ = bound->ToString();
  loop_ = std::move(loop);
  thread_ = Thread("admin", [loop = loop_.get()] { loop->Run(); });
  return Ok();
}

void HttpServer::Stop() {
  if (loop_ == nullptr) return;
  loop_->RequestStop();
  DFKV_SYNC_POINT("admin.stop_requested");
  thread_.Join();
}

}  // namespace dfkv::admin
