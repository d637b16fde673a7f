// The floor of durable PUTs and of GETs from disk: O_DIRECT reads and overwrites of one file through
// io_uring,
// `--depth` of them in flight. The file is kept, so that every run finds written blocks: overwriting them is
// steady, writing fresh ones is not.
#include <fcntl.h>
#include <liburing.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "base/option_cli.h"
#include "base/random.h"
#include "base/text.h"
#include "bench/floor/common.h"

namespace dfkv::floor {
namespace {

enum class DiskOp : uint8_t { kRead, kWrite };
enum class DiskOrder : uint8_t { kRandom, kSequential };

struct Options {
  std::string file;
  uint64_t file_bytes = 1 << 30;
  DiskOp op = DiskOp::kRead;
  DiskOrder order = DiskOrder::kRandom;
  uint64_t size = 1 << 20;
  uint32_t depth = 4;
  TimeOptions time;
};

// The file, filled when it is not as long as it should be.
int OpenFilled(const Options& options) {
  const int file = static_cast<int>(
      Must(open(options.file.c_str(), O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600), "open"));
  struct stat info = {};
  Must(fstat(file, &info), "fstat");
  if (static_cast<uint64_t>(info.st_size) >= options.file_bytes) return file;
  const Memory block(4 << 20);
  for (uint64_t at = 0; at < options.file_bytes; at += block.size()) {
    const uint64_t size = std::min(block.size(), options.file_bytes - at);
    if (pwrite(file, block.data(), size, static_cast<off_t>(at)) != static_cast<ssize_t>(size))
      Fail("pwrite");
  }
  Must(fdatasync(file), "fdatasync");
  return file;
}

struct Slot {
  std::byte* buffer;
  Nanos start;
};

// Keeps `depth` operations in flight until the time is over.
class Loop {
 public:
  Loop(const Options& options, int file)
      : options_(options),
        file_(file),
        blocks_(options.file_bytes / options.size),
        memory_(options.depth * options.size) {
    Must(io_uring_queue_init(options.depth, &ring_, 0), "io_uring_queue_init");
    for (uint32_t i = 0; i < options.depth; ++i) slots_.push_back({memory_.data() + i * options.size, 0});
  }
  ~Loop() { io_uring_queue_exit(&ring_); }

  void Run() {
    const Nanos go = SystemClock().Now() + static_cast<Nanos>(options_.time.warm_up_seconds * 1e9);
    const auto length = static_cast<Nanos>(options_.time.seconds * 1e9);
    for (Slot& slot : slots_) Start(&slot);
    Nanos counted_from = 0;
    Nanos cpu_start = 0;
    while (true) {
      Must(io_uring_submit_and_wait(&ring_, 1), "io_uring_submit_and_wait");
      const Nanos now = SystemClock().Now();
      if (counted_from == 0 && now >= go) {
        counted_from = now;
        cpu_start = ProcessCpuNow();
        done = 0;
      }
      const uint64_t before = done;
      Reap(now, counted_from != 0);
      if (counted_from == now) done = before;  // finished before the count began
      if (counted_from != 0 && now - counted_from >= length) {
        seconds = static_cast<double>(now - counted_from) * 1e-9;
        cpu = ProcessCpuNow() - cpu_start;
        return Drain();
      }
    }
  }

  uint64_t done = 0;
  double seconds = 0;
  Nanos cpu = 0;
  Samples samples;

 private:
  void Start(Slot* slot) {
    const uint64_t block = options_.order == DiskOrder::kRandom ? random_.Below(blocks_) : next_++ % blocks_;
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    const auto size = static_cast<unsigned>(options_.size);
    if (options_.op == DiskOp::kRead) {
      io_uring_prep_read(entry, file_, slot->buffer, size, block * options_.size);
    } else {
      io_uring_prep_write(entry, file_, slot->buffer, size, block * options_.size);
    }
    io_uring_sqe_set_data(entry, slot);
    slot->start = SystemClock().Now();
    ++in_flight_;
  }

  void Take(io_uring_cqe* completion, Slot** slot) {
    if (completion->res != static_cast<int>(options_.size)) {
      errno = completion->res < 0 ? -completion->res : EIO;
      Fail("a transfer");
    }
    *slot = static_cast<Slot*>(io_uring_cqe_get_data(completion));
    io_uring_cqe_seen(&ring_, completion);
    --in_flight_;
  }

  void Reap(Nanos now, bool counted) {
    io_uring_cqe* completion = nullptr;
    while (io_uring_peek_cqe(&ring_, &completion) == 0) {
      Slot* slot = nullptr;
      Take(completion, &slot);
      ++done;
      if (counted) samples.Add(now - slot->start);
      Start(slot);
    }
  }

  void Drain() {
    while (in_flight_ > 0) {
      io_uring_cqe* completion = nullptr;
      Must(io_uring_submit(&ring_), "io_uring_submit");
      Must(io_uring_wait_cqe(&ring_, &completion), "io_uring_wait_cqe");
      Slot* slot = nullptr;
      Take(completion, &slot);
    }
  }

  const Options& options_;
  const int file_;
  const uint64_t blocks_;
  Memory memory_;
  std::vector<Slot> slots_;
  io_uring ring_;
  Random random_{7};
  uint64_t next_ = 0;
  uint32_t in_flight_ = 0;
};

int Main(int argc, char** argv) {
  Options options;
  OptionSet set;
  set.Add("file", &options.file, "The file; made and filled when it is missing or short.").Required();
  set.AddBytes("file-bytes", &options.file_bytes, "Its size.").Range(4096, 1ll << 40);
  set.AddEnum("op", &options.op, {{"read", DiskOp::kRead}, {"write", DiskOp::kWrite}}, "What is done.");
  set.AddEnum("order", &options.order,
              {{"random", DiskOrder::kRandom}, {"sequential", DiskOrder::kSequential}}, "Where.");
  set.AddBytes("size", &options.size, "Bytes of an operation, a multiple of 4 KiB.").Range(4096, 1 << 30);
  set.Add("depth", &options.depth, "Operations in flight.").Range(1, 1024);
  RegisterTime(&set, &options.time);
  const ProgramText text = {"floor_disk", "O_DIRECT reads and overwrites through io_uring."};
  if (const auto status = LoadProgramOptions(text, &set, argc, argv)) return *status;
  if (options.size % 4096 != 0 || options.file_bytes < options.size) {
    std::fprintf(stderr, "floor_disk: --size must be a multiple of 4 KiB and at most --file-bytes\n");
    return 2;
  }
  Loop loop(options, OpenFilled(options));
  loop.Run();
  const auto operations = static_cast<double>(loop.done);
  const double bytes = operations * static_cast<double>(options.size);
  Json()
      .Add("program", "floor_disk")
      .Add("op", options.op == DiskOp::kRead ? "read" : "write")
      .Add("order", options.order == DiskOrder::kRandom ? "random" : "sequential")
      .Add("size", static_cast<double>(options.size))
      .Add("depth", options.depth)
      .Add("seconds", loop.seconds)
      .Add("ops_per_s", operations / loop.seconds)
      .Add("gb_per_s", bytes / loop.seconds / 1e9)
      .Add("p50_us", loop.samples.Percentile(50))
      .Add("p99_us", loop.samples.Percentile(99))
      .Add("cpu_s_per_gb", static_cast<double>(loop.cpu) / bytes)
      .Print();
  return 0;
}

}  // namespace
}  // namespace dfkv::floor

int main(int argc, char** argv) {
  return dfkv::floor::Main(argc, argv);
}
