// The floor of large GETs: one-way streams over loopback TCP, a thread for each end, nothing between the
// socket and the memory. The sender goes through `--source` bytes, so that they come from memory as a cache's
// objects do, and the receiver puts every object into the same `--size` bytes, as a client's buffer would be.
#include <sys/socket.h>

#include "base/option_cli.h"
#include "base/sync.h"
#include "base/text.h"
#include "bench/floor/common.h"

namespace dfkv::floor {
namespace {

struct Options {
  uint32_t connections = 1;
  uint64_t size = 1 << 20;
  uint64_t source = 256 << 20;
  uint64_t sink = 0;  // 0: size
  TimeOptions time;
};

// Sends from its share of the source until the other side closes.
void SendForever(int socket, const std::byte* source, uint64_t share, uint64_t size, Shared& shared,
                 CpuMeter& cpu) {
  for (uint64_t at = 0;; at = at + 2 * size <= share ? at + size : 0) {
    cpu.StartOnGo(shared);
    for (uint64_t sent = 0; sent < size;) {
      const ssize_t n = send(socket, source + at + sent, size - sent, MSG_NOSIGNAL);
      if (n <= 0) return;
      sent += static_cast<uint64_t>(n);
    }
  }
}

void Serve(const std::vector<int>& sockets, Shared& shared, const Memory& source, uint64_t size) {
  const uint64_t share = source.size() / sockets.size();
  CpuMeter cpu;
  std::vector<Thread> threads;
  for (size_t i = 0; i < sockets.size(); ++i) {
    threads.emplace_back(Cat("send-", i), [&, i] {
      SendForever(sockets[i], source.data() + i * share, share, size, shared, cpu);
    });
  }
  for (Thread& thread : threads) thread.Join();
  shared.server_cpu_ns.store(cpu.Used());
}

// Receives whole objects until told to stop; the bytes that came after `go`.
uint64_t Receive(int socket, MutableByteSpan sink, uint64_t size, const Shared& shared) {
  uint64_t bytes = 0;
  for (uint64_t at = 0; !shared.stop.load(std::memory_order_relaxed);
       at = at + 2 * size <= sink.size() ? at + size : 0) {
    if (recv(socket, sink.data() + at, size, MSG_WAITALL) != static_cast<ssize_t>(size)) Fail("recv");
    if (shared.go.load(std::memory_order_relaxed)) bytes += size;
  }
  return bytes;
}

int Main(int argc, char** argv) {
  Options options;
  OptionSet set;
  set.Add("connections", &options.connections, "Streams.").Range(1, 256);
  set.AddBytes("size", &options.size, "Bytes of a send and of a receive.").Range(1, 1 << 30);
  set.AddBytes("source", &options.source, "Memory that is sent, of all streams together.")
      .Range(1, 1ll << 34);
  set.AddBytes("sink", &options.sink, "Memory that each stream is received into; 0: --size.");
  RegisterTime(&set, &options.time);
  const ProgramText text = {"floor_tcp", "One-way TCP streams over loopback, no cache in them."};
  if (const auto status = LoadProgramOptions(text, &set, argc, argv)) return *status;
  options.sink = std::max(options.sink, options.size);

  Shared& shared = MakeShared();
  const Memory source(std::max(options.source, options.size * options.connections));
  double seconds = 0;
  std::atomic<uint64_t> bytes{0};
  Nanos client_cpu = 0;
  RunPair(
      options.connections,
      [&](const std::vector<int>& sockets, Shared& both) { Serve(sockets, both, source, options.size); },
      [&](const std::vector<int>& sockets, Shared& both) {
        const Memory sink(options.sink * sockets.size());
        std::vector<Thread> threads;
        for (size_t i = 0; i < sockets.size(); ++i) {
          threads.emplace_back(Cat("recv-", i), [&, i] {
            bytes += Receive(sockets[i], {sink.data() + i * options.sink, options.sink}, options.size, both);
          });
        }
        CpuMeter cpu;
        seconds = KeepTime(options.time, both, cpu);
        for (Thread& thread : threads) thread.Join();
        client_cpu = cpu.Used();
      },
      shared);
  const auto total = static_cast<double>(bytes.load());
  Json()
      .Add("program", "floor_tcp")
      .Add("connections", options.connections)
      .Add("size", static_cast<double>(options.size))
      .Add("seconds", seconds)
      .Add("gb_per_s", total / seconds / 1e9)
      .Add("ops_per_s", total / static_cast<double>(options.size) / seconds)
      .Add("server_cpu_s_per_gb", static_cast<double>(shared.server_cpu_ns.load()) / total)
      .Add("client_cpu_s_per_gb", static_cast<double>(client_cpu) / total)
      .Print();
  return 0;
}

}  // namespace
}  // namespace dfkv::floor

int main(int argc, char** argv) {
  return dfkv::floor::Main(argc, argv);
}
