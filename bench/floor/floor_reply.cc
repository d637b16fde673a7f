// The floor of small GETs: a server that answers each request with `--size` bytes of memory, in its best form
// (one thread, an event loop, one vectored send for all answers of a wake-up), and clients as a cache's are:
// they send `--batch` requests at once and wait for all answers.
//
//   --client=threads  a blocking thread for each connection
//   --client=loop     one thread, an event loop over all connections
//   --spin            both sides busy-poll instead of sleeping
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/option_cli.h"
#include "base/random.h"
#include "base/sync.h"
#include "base/text.h"
#include "bench/floor/common.h"

namespace dfkv::floor {
namespace {

constexpr uint64_t kHeaderBytes = 32;   // of an answer, before its payload
constexpr uint64_t kRequestBytes = 96;  // a header and a short key
constexpr size_t kRequestsMax = 512;    // answered in one send; two pieces of an iovec each
constexpr int kEventsMax = 64;          // of one wake-up

enum class ClientKind : uint8_t { kThreads, kLoop };

struct Options {
  uint32_t connections = 1;
  uint32_t batch = 64;
  uint64_t size = 4096;
  uint64_t source = 256 << 20;
  ClientKind client = ClientKind::kThreads;
  bool spin = false;
  TimeOptions time;
};

struct Request {
  uint64_t object;
  std::array<std::byte, kRequestBytes - sizeof(uint64_t)> key;
};
static_assert(sizeof(Request) == kRequestBytes);

void SetNonBlocking(int socket) {
  Must(fcntl(socket, F_SETFL, static_cast<int>(Must(fcntl(socket, F_GETFL), "fcntl")) | O_NONBLOCK), "fcntl");
}

// --- The server ---

// One connection: what has arrived of a request, and the answers that are not sent yet.
class Answerer {
 public:
  Answerer(int socket, const Memory& source, uint64_t size) : socket_(socket), source_(source), size_(size) {
    SetNonBlocking(socket);
  }

  // After a wake-up: sends what is left, or receives once and answers all of it.
  enum class State : uint8_t { kOpen, kBlocked, kClosed };
  State Serve(Shared& shared) {
    if (first_ == pieces_) {
      const ssize_t n = recv(socket_, buffer_.data() + filled_, buffer_.size() - filled_, 0);
      if (n < 0 && errno == EAGAIN) return State::kOpen;
      if (n <= 0) return State::kClosed;
      filled_ += static_cast<uint64_t>(n);
      Answer();
    }
    if (Send(shared)) return State::kOpen;
    return errno == EAGAIN ? State::kBlocked : State::kClosed;
  }
  int socket() const { return socket_; }

 private:
  void Answer() {
    const uint64_t slots = source_.size() / size_;
    const uint64_t whole = filled_ / kRequestBytes;
    first_ = pieces_ = 0;
    for (uint64_t i = 0; i < whole; ++i) {
      Request request;
      std::memcpy(&request, buffer_.data() + i * kRequestBytes, sizeof request);
      std::memcpy(headers_[i].data(), &request.object, sizeof request.object);
      iov_[pieces_++] = {headers_[i].data(), kHeaderBytes};
      iov_[pieces_++] = {source_.data() + request.object % slots * size_, size_};
    }
    filled_ -= whole * kRequestBytes;
    std::memmove(buffer_.data(), buffer_.data() + whole * kRequestBytes, filled_);
  }

  bool Send(Shared& shared) {
    while (first_ != pieces_) {
      msghdr message = {};
      message.msg_iov = &iov_[first_];
      message.msg_iovlen = pieces_ - first_;
      ssize_t n = sendmsg(socket_, &message, MSG_NOSIGNAL);
      if (n < 0) return false;
      shared.server_sends.fetch_add(1, std::memory_order_relaxed);
      while (first_ != pieces_ && n >= static_cast<ssize_t>(iov_[first_].iov_len)) {
        n -= static_cast<ssize_t>(iov_[first_++].iov_len);
      }
      if (first_ == pieces_) break;
      iov_[first_].iov_base = static_cast<std::byte*>(iov_[first_].iov_base) + n;
      iov_[first_].iov_len -= static_cast<size_t>(n);
    }
    return true;
  }

  const int socket_;
  const Memory& source_;
  const uint64_t size_;
  uint64_t filled_ = 0;
  size_t first_ = 0, pieces_ = 0;
  std::array<std::byte, kRequestsMax * kRequestBytes> buffer_;
  std::array<std::array<std::byte, kHeaderBytes>, kRequestsMax> headers_ = {};
  std::array<iovec, 2 * kRequestsMax> iov_;
};

void Watch(int poller, int operation, uint32_t events, Answerer* connection) {
  epoll_event event = {};
  event.events = events;
  event.data.ptr = connection;
  Must(epoll_ctl(poller, operation, connection->socket(), &event), "epoll_ctl");
}

void Serve(const std::vector<int>& sockets, Shared& shared, const Memory& source, const Options& options) {
  const int poller = static_cast<int>(Must(epoll_create1(EPOLL_CLOEXEC), "epoll_create1"));
  std::vector<std::unique_ptr<Answerer>> connections;
  for (const int socket : sockets) {
    connections.push_back(std::make_unique<Answerer>(socket, source, options.size));
    Watch(poller, EPOLL_CTL_ADD, EPOLLIN, connections.back().get());
  }
  CpuMeter cpu;
  size_t open = sockets.size();
  std::array<epoll_event, kEventsMax> events;
  while (open > 0) {
    const int ready = epoll_wait(poller, events.data(), kEventsMax, options.spin ? 0 : -1);
    cpu.StartOnGo(shared);
    for (int i = 0; i < ready; ++i) {
      const epoll_event& event = events[static_cast<size_t>(i)];
      auto* connection = static_cast<Answerer*>(event.data.ptr);
      const Answerer::State state = connection->Serve(shared);
      const bool was_blocked = (event.events & EPOLLOUT) != 0;
      if (state == Answerer::State::kClosed) {
        Watch(poller, EPOLL_CTL_DEL, 0, connection);
        --open;
      } else if (was_blocked != (state == Answerer::State::kBlocked)) {
        Watch(poller, EPOLL_CTL_MOD, was_blocked ? EPOLLIN : EPOLLOUT, connection);
      }
    }
  }
  shared.server_cpu_ns.store(cpu.Used());
}

// --- The clients ---

// One connection's batches: sends a batch of requests, receives the answers into one buffer.
class Asker {
 public:
  Asker(int socket, const Options& options, uint64_t seed)
      : socket_(socket),
        wanted_(options.batch * (kHeaderBytes + options.size)),
        batch_(options.batch),
        answers_(wanted_),
        requests_(options.batch),
        random_(seed) {}

  void Ask() {
    for (Request& request : requests_) request.object = random_.Next() >> 16;
    received_ = 0;
    start_ = SystemClock().Now();
    const auto* bytes = reinterpret_cast<const std::byte*>(requests_.data());
    const uint64_t size = requests_.size() * sizeof(Request);
    for (uint64_t sent = 0; sent < size;) {
      const ssize_t n = send(socket_, bytes + sent, size - sent, MSG_NOSIGNAL);
      if (n < 0 && errno == EAGAIN) continue;  // the server always reads: room comes
      sent += static_cast<uint64_t>(Must(n, "send"));
    }
  }

  // Receives once; true when the batch is whole.
  bool Receive(int flags, const Shared& shared) {
    const ssize_t n = recv(socket_, answers_.data() + received_, wanted_ - received_, flags);
    if (n < 0 && errno == EAGAIN) return false;
    if (n <= 0) Fail("recv");
    received_ += static_cast<uint64_t>(n);
    if (received_ < wanted_) return false;
    if (shared.go.load(std::memory_order_relaxed) && !shared.stop.load(std::memory_order_relaxed)) {
      done += batch_;
      samples.Add(SystemClock().Now() - start_);
    }
    return true;
  }

  uint64_t done = 0;
  Samples samples;

 private:
  const int socket_;
  const uint64_t wanted_;
  const uint64_t batch_;
  Memory answers_;
  std::vector<Request> requests_;
  Random random_;
  uint64_t received_ = 0;
  Nanos start_ = 0;
};

void RunThread(Asker& asker, const Options& options, const Shared& shared) {
  while (!shared.stop.load(std::memory_order_relaxed)) {
    asker.Ask();
    while (!asker.Receive(options.spin ? MSG_DONTWAIT : MSG_WAITALL, shared)) {
    }
  }
}

void RunLoop(const std::vector<int>& sockets, std::vector<std::unique_ptr<Asker>>& askers,
             const Options& options, const Shared& shared) {
  const int poller = static_cast<int>(Must(epoll_create1(EPOLL_CLOEXEC), "epoll_create1"));
  for (size_t i = 0; i < sockets.size(); ++i) {
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.ptr = askers[i].get();
    Must(epoll_ctl(poller, EPOLL_CTL_ADD, sockets[i], &event), "epoll_ctl");
    askers[i]->Ask();
  }
  std::array<epoll_event, kEventsMax> events;
  while (!shared.stop.load(std::memory_order_relaxed)) {
    const int ready = epoll_wait(poller, events.data(), kEventsMax, options.spin ? 0 : 100);
    for (int i = 0; i < ready; ++i) {
      auto* asker = static_cast<Asker*>(events[static_cast<size_t>(i)].data.ptr);
      if (asker->Receive(MSG_DONTWAIT, shared)) asker->Ask();
    }
  }
}

struct Totals {
  uint64_t operations = 0;
  double seconds = 0;
  Nanos client_cpu = 0;
  Samples samples;
};

void RunClient(const std::vector<int>& sockets, const Options& options, Shared& shared, Totals* totals) {
  std::vector<std::unique_ptr<Asker>> askers;
  for (size_t i = 0; i < sockets.size(); ++i) {
    askers.push_back(std::make_unique<Asker>(sockets[i], options, i + 1));
  }
  std::vector<Thread> threads;
  if (options.client == ClientKind::kLoop) {
    threads.emplace_back("ask", [&] { RunLoop(sockets, askers, options, shared); });
  } else {
    for (size_t i = 0; i < sockets.size(); ++i) {
      threads.emplace_back(Cat("ask-", i), [&, i] { RunThread(*askers[i], options, shared); });
    }
  }
  CpuMeter cpu;
  totals->seconds = KeepTime(options.time, shared, cpu);
  totals->client_cpu = cpu.Used();
  for (Thread& thread : threads) thread.Join();
  for (auto& asker : askers) {
    totals->operations += asker->done;
    totals->samples.Merge(asker->samples);
  }
}

int Main(int argc, char** argv) {
  Options options;
  OptionSet set;
  set.Add("connections", &options.connections, "Connections.").Range(1, 1024);
  set.Add("batch", &options.batch, "Requests that a client sends at once on one connection.").Range(1, 512);
  set.AddBytes("size", &options.size, "Bytes of an answer.").Range(1, 1 << 26);
  set.AddBytes("source", &options.source, "Memory that the answers come from.").Range(1, 1ll << 34);
  set.AddEnum("client", &options.client, {{"threads", ClientKind::kThreads}, {"loop", ClientKind::kLoop}},
              "A blocking thread for each connection, or one thread for all.");
  set.Add("spin", &options.spin, "Both sides busy-poll.").Switch();
  RegisterTime(&set, &options.time);
  const ProgramText text = {"floor_reply", "Requests and answers over loopback TCP, no cache in them."};
  if (const auto status = LoadProgramOptions(text, &set, argc, argv)) return *status;

  Shared& shared = MakeShared();
  const Memory source(std::max(options.source, options.size));
  Totals totals;
  RunPair(
      options.connections,
      [&](const std::vector<int>& sockets, Shared& both) { Serve(sockets, both, source, options); },
      [&](const std::vector<int>& sockets, Shared& both) { RunClient(sockets, options, both, &totals); },
      shared);
  const auto operations = static_cast<double>(totals.operations);
  const double bytes = operations * static_cast<double>(options.size);
  Json()
      .Add("program", "floor_reply")
      .Add("client", options.client == ClientKind::kLoop ? "loop" : "threads")
      .Add("spin", options.spin ? 1.0 : 0.0)
      .Add("connections", options.connections)
      .Add("batch", options.batch)
      .Add("size", static_cast<double>(options.size))
      .Add("seconds", totals.seconds)
      .Add("ops_per_s", operations / totals.seconds)
      .Add("gb_per_s", bytes / totals.seconds / 1e9)
      .Add("p50_us", totals.samples.Percentile(50))
      .Add("p99_us", totals.samples.Percentile(99))
      .Add("server_sends", static_cast<double>(shared.server_sends.load()))
      .Add("server_cpu_s_per_gb", static_cast<double>(shared.server_cpu_ns.load()) / bytes)
      .Add("client_cpu_s_per_gb", static_cast<double>(totals.client_cpu) / bytes)
      .Print();
  return 0;
}

}  // namespace
}  // namespace dfkv::floor

int main(int argc, char** argv) {
  return dfkv::floor::Main(argc, argv);
}
