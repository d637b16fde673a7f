// Measures the reactors: the same coroutines on io_uring and on epoll, nothing of the cache in them.
//
//   --mode=reply       answers requests of connections, as floor_reply's server does; compare with it
//   --mode=read|write  O_DIRECT transfers of a file, `--depth` in flight; compare with floor_disk
#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "base/option_cli.h"
#include "base/random.h"
#include "base/sync.h"
#include "base/text.h"
#include "bench/floor/common.h"
#include "io/disk.h"
#include "io/reactor.h"

namespace dfkv::floor {
namespace {

constexpr uint64_t kRequestBytes = 96;
constexpr uint32_t kAnswersMax = 512;  // of one send

enum class Mode : uint8_t { kReply, kRead, kWrite };

struct Options {
  io::ReactorOptions reactor;
  uint32_t spin_us = 0;
  Mode mode = Mode::kReply;
  uint32_t connections = 1;
  uint32_t batch = 64;
  uint64_t size = 4096;
  uint32_t depth = 8;
  std::string file;
  uint64_t file_bytes = 256 << 20;
  TimeOptions time;
};

std::unique_ptr<io::Reactor> Make(const Options& options) {
  io::ReactorOptions wanted = options.reactor;
  wanted.spin.max = Nanos{options.spin_us} * 1000;
  Result<std::unique_ptr<io::Reactor>> reactor = io::MakeReactor(wanted);
  if (!reactor.ok()) {
    std::fprintf(stderr, "io_bench: %s\n", reactor.status().ToString().c_str());
    std::_Exit(1);
  }
  return std::move(*reactor);
}

// Runs `count` tasks on the reactor until all have ended.
template <typename MakeTask>
void RunAll(io::Reactor& reactor, uint32_t count, const MakeTask& make) {
  const std::unique_ptr<bool[]> done(new bool[count]());
  for (uint32_t i = 0; i < count; ++i) {
    reactor.QueueReady(io::reactor_internal::CaptureVoid(make(i), &done[i]).Release());
  }
  reactor.RunUntil([&] { return std::all_of(done.get(), done.get() + count, [](bool one) { return one; }); });
}

// --- Answers ---

io::Task<bool> SendAll(io::Reactor& reactor, int fd, std::vector<iovec>& pieces) {
  size_t first = 0;
  while (first < pieces.size()) {
    io::Op op;
    op.kind = io::Op::Kind::kSend;
    op.fd = fd;
    op.iov = &pieces[first];
    op.iov_count = static_cast<uint32_t>(pieces.size() - first);
    int64_t sent = co_await reactor.Await(&op);
    if (sent < 0) co_return false;
    while (first < pieces.size() && sent >= static_cast<int64_t>(pieces[first].iov_len)) {
      sent -= static_cast<int64_t>(pieces[first++].iov_len);
    }
    if (sent > 0) {
      pieces[first].iov_base = static_cast<std::byte*>(pieces[first].iov_base) + sent;
      pieces[first].iov_len -= static_cast<size_t>(sent);
    }
  }
  co_return true;
}

io::Task<void> Answer(io::Reactor& reactor, int fd, const Memory& source, const Options& options,
                      Shared& shared, CpuMeter& cpu) {
  std::vector<std::byte> requests(kRequestBytes * kAnswersMax);
  std::vector<iovec> pieces;
  uint64_t filled = 0;
  uint64_t slot = 0;
  while (true) {
    iovec room = {requests.data() + filled, requests.size() - filled};
    io::Op op;
    op.kind = io::Op::Kind::kRecv;
    op.fd = fd;
    op.iov = &room;
    op.iov_count = 1;
    const int64_t got = co_await reactor.Await(&op);
    cpu.StartOnGo(shared);
    if (got <= 0) co_return;
    filled += static_cast<uint64_t>(got);
    pieces.clear();
    for (; filled >= kRequestBytes; filled -= kRequestBytes) {
      pieces.push_back(
          {source.data() + slot++ % (source.size() / options.size) * options.size, options.size});
    }
    if (!co_await SendAll(reactor, fd, pieces)) co_return;
  }
}

void Serve(const std::vector<int>& sockets, Shared& shared, const Memory& source, const Options& options) {
  for (const int socket : sockets) {
    Must(fcntl(socket, F_SETFL, static_cast<int>(Must(fcntl(socket, F_GETFL), "fcntl")) | O_NONBLOCK),
         "fcntl");
  }
  const std::unique_ptr<io::Reactor> reactor = Make(options);
  CpuMeter cpu;
  RunAll(*reactor, options.connections,
         [&](uint32_t i) { return Answer(*reactor, sockets[i], source, options, shared, cpu); });
  shared.server_cpu_ns.store(cpu.Used());
}

struct Count {
  std::atomic<uint64_t> operations{0};
  double seconds = 0;
  Nanos client_cpu = 0;
};

void Ask(int socket, const Options& options, const Shared& shared, Count* count) {
  const std::vector<std::byte> requests(options.batch * kRequestBytes);
  const Memory answers(options.batch * options.size);
  while (!shared.stop.load(std::memory_order_relaxed)) {
    Must(send(socket, requests.data(), requests.size(), MSG_NOSIGNAL), "send");
    const auto wanted = static_cast<ssize_t>(options.batch * options.size);
    if (recv(socket, answers.data(), static_cast<size_t>(wanted), MSG_WAITALL) != wanted) Fail("recv");
    if (shared.go.load(std::memory_order_relaxed)) count->operations += options.batch;
  }
}

void Client(const std::vector<int>& sockets, const Options& options, Shared& shared, Count* count) {
  std::vector<Thread> threads;
  for (size_t i = 0; i < sockets.size(); ++i) {
    threads.emplace_back(Cat("ask-", i), [&, i] { Ask(sockets[i], options, shared, count); });
  }
  CpuMeter cpu;
  count->seconds = KeepTime(options.time, shared, cpu);
  count->client_cpu = cpu.Used();
  for (Thread& thread : threads) thread.Join();
}

// --- Transfers ---

io::Task<void> Transfer(io::File& file, std::byte* buffer, const Options& options, Random& random, Nanos go,
                        Nanos end, Count* count) {
  while (true) {
    const uint64_t at = random.Below(options.file_bytes / options.size) * options.size;
    Status status;  // not by a conditional expression: g++ 12 destroys a temporary of it twice
    if (options.mode == Mode::kRead) {
      status = co_await io::ReadFull(&file, at, {buffer, options.size}, kNever);
    } else {
      status = co_await io::WriteFull(&file, at, {buffer, options.size}, kNever);
    }
    if (!status.ok()) Fail("a transfer");
    const Nanos now = SystemClock().Now();
    if (now >= end) co_return;
    if (now >= go) ++count->operations;
  }
}

void RunDisk(const Options& options, Count* count) {
  Result<std::unique_ptr<io::File>> file =
      io::PosixDisk().Open(options.file, {.create = true, .direct = true});
  if (!file.ok()) Fail(file.status().ToString());
  const Memory memory(std::max<uint64_t>(options.depth * options.size, 4 << 20));
  for (uint64_t at = 0; at < options.file_bytes; at += 4 << 20) {
    const Status status = (*file)->WriteBlocking(at, {memory.data(), 4 << 20});
    if (!status.ok()) Fail(status.ToString());
  }
  const std::unique_ptr<io::Reactor> reactor = Make(options);
  Random random(7);
  const Nanos go = SystemClock().Now() + static_cast<Nanos>(options.time.warm_up_seconds * 1e9);
  const Nanos end = go + static_cast<Nanos>(options.time.seconds * 1e9);
  const Nanos cpu = ProcessCpuNow();
  RunAll(*reactor, options.depth, [&](uint32_t i) {
    return Transfer(**file, memory.data() + i * options.size, options, random, go, end, count);
  });
  count->client_cpu = ProcessCpuNow() - cpu;
  count->seconds = options.time.seconds;
}

void Register(OptionSet* set, Options* options) {
  set->AddEnum("reactor", &options->reactor.kind,
               {{"auto", io::ReactorKind::kAuto},
                {"uring", io::ReactorKind::kUring},
                {"epoll", io::ReactorKind::kEpoll}},
               "Which reactor serves.");
  set->AddEnum("mode", &options->mode,
               {{"reply", Mode::kReply}, {"read", Mode::kRead}, {"write", Mode::kWrite}}, "What it does.");
  set->Add("spin-us", &options->spin_us, "The reactor busy-polls this long.");
  set->Add("connections", &options->connections, "reply: connections, a blocking client thread each.")
      .Range(1, 1024);
  set->Add("batch", &options->batch, "reply: requests sent at once.").Range(1, kAnswersMax);
  set->AddBytes("size", &options->size, "Bytes of an answer or a transfer.").Range(1, 1 << 26);
  set->Add("depth", &options->depth, "read, write: transfers in flight.").Range(1, 1024);
  set->Add("file", &options->file, "read, write: the file; it is overwritten.");
  set->AddBytes("file-bytes", &options->file_bytes, "read, write: its size, a multiple of 4 MiB.")
      .AtLeast(4 << 20);
  RegisterTime(set, &options->time);
}

int Main(int argc, char** argv) {
  Options options;
  OptionSet set;
  Register(&set, &options);
  const ProgramText text = {"io_bench", "The reactors, without a cache."};
  if (const auto status = LoadProgramOptions(text, &set, argc, argv)) return *status;
  options.file_bytes = options.file_bytes / (4 << 20) * (4 << 20);
  Shared& shared = MakeShared();
  Count count;
  if (options.mode == Mode::kReply) {
    const Memory source(std::max<uint64_t>(256 << 20, options.size));
    RunPair(
        options.connections,
        [&](const std::vector<int>& sockets, Shared& both) { Serve(sockets, both, source, options); },
        [&](const std::vector<int>& sockets, Shared& both) { Client(sockets, options, both, &count); },
        shared);
  } else {
    if (options.file.empty()) Fail("--file is needed");
    RunDisk(options, &count);
  }
  const auto operations = static_cast<double>(count.operations.load());
  const double bytes = operations * static_cast<double>(options.size);
  Json()
      .Add("program", "io_bench")
      .Add("reactor", Make(options)->name())
      .Add("seconds", count.seconds)
      .Add("ops_per_s", operations / count.seconds)
      .Add("gb_per_s", bytes / count.seconds / 1e9)
      .Add("server_cpu_s_per_gb", static_cast<double>(shared.server_cpu_ns.load()) / bytes)
      .Add("client_cpu_s_per_gb", static_cast<double>(count.client_cpu) / bytes)
      .Print();
  return 0;
}

}  // namespace
}  // namespace dfkv::floor

int main(int argc, char** argv) {
  return dfkv::floor::Main(argc, argv);
}
