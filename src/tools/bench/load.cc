#include "tools/bench/load.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "base/random.h"
#include "base/sync.h"
#include "base/text.h"
#include "tools/bench/buffer.h"

namespace dfkv::tools {

using client::GetItem;
using client::ItemResult;
using client::PutItem;

namespace {

enum class PhaseKind : uint8_t { kPut, kGet, kMixed, kRemove };

struct Phase {
  std::string name;
  PhaseKind kind = PhaseKind::kGet;
  uint64_t operations = 0;
  bool in_order = false;  // every object of the working set once, whatever the order asked for
};

// What the threads of one phase share.
struct Shared {
  client::Client& client;
  const LoadOptions& options;
  const Phase& phase;
  LiveCounts live;
  std::atomic<uint64_t> next{0};
  Nanos end = kNever;  // set before the gate opens

  Mutex mutex;
  CondVar changed;
  uint32_t ready GUARDED_BY(mutex) = 0;
  bool open GUARDED_BY(mutex) = false;
};

uint64_t WorkingSet(const LoadOptions& options) {
  return options.working_set != 0 ? options.working_set : options.count;
}

// One calling thread: its buffers, its batch, what it counted.
class Worker {
 public:
  explicit Worker(Shared& shared)
      : shared_(shared),
        batch_(shared.options.batch),
        size_(shared.options.size_bytes),
        buffer_(batch_ * size_),
        keys_(batch_),
        seeds_(batch_),
        writes_(batch_),
        reads_(batch_),
        results_(batch_) {
    for (uint64_t i = 0; i < batch_; ++i) {
      reads_[i] = buffer_.bytes().subspan(i * size_, size_);
      writes_[i] = reads_[i];
    }
  }

  void Run() {
    {
      MutexLock lock(shared_.mutex);
      ++shared_.ready;
      shared_.changed.NotifyAll();
      while (!shared_.open) shared_.changed.Wait(shared_.mutex);
    }
    const uint64_t operations = shared_.phase.operations;
    while (true) {
      const uint64_t first = shared_.next.fetch_add(batch_, std::memory_order_relaxed);
      if (first >= operations || SystemClock().Now() >= shared_.end) return;
      const uint64_t items = std::min(batch_, operations - first);
      ++batches_;
      if (shared_.phase.kind == PhaseKind::kRemove) {
        RemoveBatch(first, items);
      } else if (IsPut(first)) {
        PutBatch(first, items);
      } else {
        GetBatch(first, items);
      }
    }
  }

  KindReport get, put, remove;
  double value_cpu_seconds = 0;

 private:
  bool IsPut(uint64_t first) const {
    if (shared_.phase.kind != PhaseKind::kMixed) return shared_.phase.kind == PhaseKind::kPut;
    return Mix64(shared_.options.key_seed ^ Mix64(first)) % 100 >= shared_.options.get_percent;
  }

  void NameItem(uint64_t i, uint64_t index) {
    keys_[i] = Cat(shared_.options.key_seed, '/', index);
    seeds_[i] = ValueSeed(shared_.options.key_seed, index);
  }

  // Runs `work`, which makes or checks values, and accounts its CPU time: of small batches one in 16 is
  // measured, so that the measuring does not become the load.
  template <typename Work>
  void OnValues(uint64_t items, const Work& work) {
    const uint64_t weight = items * size_ >= (64u << 10) ? 1 : 16;
    if (batches_ % weight != 0) return work();
    const Nanos start = ThreadCpuNow();
    work();
    value_cpu_seconds += static_cast<double>(weight) * static_cast<double>(ThreadCpuNow() - start) * 1e-9;
  }

  void Account(KindReport& kind, uint64_t items, Nanos took, uint64_t good_before) {
    kind.calls.Add(took);
    for (uint64_t i = 0; i < items; ++i) kind.operations.Add(took / static_cast<Nanos>(items));
    kind.call_seconds += static_cast<double>(took) * 1e-9;
    const uint64_t good = kind.tally.good() - good_before;
    kind.tally.bytes += good * size_;
    shared_.live.done.fetch_add(items, std::memory_order_relaxed);
    shared_.live.bytes.fetch_add(good * size_, std::memory_order_relaxed);
    shared_.live.errors.fetch_add(items - good, std::memory_order_relaxed);
  }

  void PutBatch(uint64_t first, uint64_t items) {
    const bool mixed = shared_.phase.kind == PhaseKind::kMixed;
    const uint64_t base = first + (mixed ? WorkingSet(shared_.options) : 0);
    std::vector<PutItem>& asked = put_items_;
    asked.resize(items);
    OnValues(items, [&] {
      for (uint64_t i = 0; i < items; ++i) {
        NameItem(i, base + i);
        FillPattern(seeds_[i], 0, reads_[i]);
        asked[i] = PutItem{AsBytes(keys_[i]), {&writes_[i], 1}, UINT32_MAX};
      }
    });
    const Nanos start = SystemClock().Now();
    const Status status = shared_.client.Put(asked, Call(), Results(items));
    const Nanos took = SystemClock().Now() - start;
    const uint64_t good_before = put.tally.good();
    for (uint64_t i = 0; i < items; ++i) put.tally.Add(status.ok() ? results_[i].code : status.code());
    Account(put, items, took, good_before);
  }

  void GetBatch(uint64_t first, uint64_t items) {
    const LoadOptions& options = shared_.options;
    const uint64_t working_set = WorkingSet(options);
    const bool random = options.order == LoadOrder::kRandom && !shared_.phase.in_order;
    std::vector<GetItem>& asked = get_items_;
    asked.resize(items);
    OnValues(items, [&] {
      for (uint64_t i = 0; i < items; ++i) {
        const uint64_t n = random ? Mix64(ValueSeed(options.key_seed, ~(first + i))) : first + i;
        NameItem(i, n % working_set);
        if (options.verify) Spoil(seeds_[i], reads_[i]);
        asked[i] = GetItem{AsBytes(keys_[i]), {&reads_[i], 1}, false, false, 0};
      }
    });
    const Nanos start = SystemClock().Now();
    const Status status = shared_.client.Get(asked, Call(), Results(items));
    const Nanos took = SystemClock().Now() - start;
    const uint64_t good_before = get.tally.good();
    OnValues(items, [&] {
      for (uint64_t i = 0; i < items; ++i) CheckItem(i, status.ok() ? results_[i].code : status.code());
    });
    Account(get, items, took, good_before);
  }

  void RemoveBatch(uint64_t first, uint64_t items) {
    std::vector<ByteSpan> asked(items);
    for (uint64_t i = 0; i < items; ++i) {
      NameItem(i, first + i);
      asked[i] = AsBytes(keys_[i]);
    }
    const Nanos start = SystemClock().Now();
    const Status status = shared_.client.Remove(asked, Call(), Results(items));
    const Nanos took = SystemClock().Now() - start;
    const uint64_t good_before = remove.tally.good();
    for (uint64_t i = 0; i < items; ++i) remove.tally.Add(status.ok() ? results_[i].code : status.code());
    Account(remove, items, took, good_before);
    remove.tally.bytes = 0;  // none moved
  }

  void CheckItem(uint64_t i, Code code) {
    get.tally.Add(code);
    if (code != Code::kOk) return;
    const bool right =
        results_[i].length == size_ && (!shared_.options.verify || PatternMatches(seeds_[i], 0, reads_[i]));
    if (!right) ++get.tally.wrong;
  }

  client::CallOptions Call() const { return {shared_.options.deadline_ms}; }
  // Results of an earlier batch must not pass for answers of this one.
  std::span<ItemResult> Results(uint64_t items) {
    std::fill_n(results_.begin(), items, ItemResult{});
    return std::span(results_).first(items);
  }

  Shared& shared_;
  const uint64_t batch_;
  const uint64_t size_;
  PageBuffer buffer_;
  std::vector<std::string> keys_;
  std::vector<uint64_t> seeds_;
  std::vector<ByteSpan> writes_;
  std::vector<MutableByteSpan> reads_;
  std::vector<ItemResult> results_;
  std::vector<PutItem> put_items_;
  std::vector<GetItem> get_items_;
  uint64_t batches_ = 0;
};

std::string ProgressLine(const Phase& phase, const LiveCounts& live, Nanos start) {
  const double seconds = static_cast<double>(SystemClock().Now() - start) * 1e-9;
  const uint64_t done = live.done.load(std::memory_order_relaxed);
  return Cat(phase.name, ": ", done, "/", phase.operations, " (", Fixed(Percent(done, phase.operations), 0),
             " %)  ", Fixed(static_cast<double>(done) / std::max(seconds, 1e-9), 0), " ops/s  ",
             Fixed(GigabytesPerSecond(live.bytes.load(std::memory_order_relaxed), seconds), 2),
             " GB/s  not ok ", live.errors.load(std::memory_order_relaxed));
}

PhaseReport RunPhase(client::Client& client, const LoadOptions& options, const Phase& phase,
                     const CpuProbe& node_cpu) {
  Shared shared{client, options, phase, {}, {}, kNever, {}, {}};
  const uint32_t count = options.threads * options.batch_concurrency;
  std::vector<std::unique_ptr<Worker>> workers;
  for (uint32_t i = 0; i < count; ++i) workers.push_back(std::make_unique<Worker>(shared));
  std::vector<Thread> threads;
  for (uint32_t i = 0; i < count; ++i) {
    threads.emplace_back(Cat("load-", i), [&worker = *workers[i]] { worker.Run(); });
  }
  PhaseReport report;
  report.name = phase.name;
  report.threads = count;
  Nanos start = 0;
  Nanos cpu_start = 0;
  const std::optional<double> node_start = node_cpu ? node_cpu(client) : std::nullopt;
  {
    MutexLock lock(shared.mutex);
    while (shared.ready < count) shared.changed.Wait(shared.mutex);
    start = SystemClock().Now();
    cpu_start = ProcessCpuNow();
    if (options.seconds_max > 0) shared.end = start + static_cast<Nanos>(options.seconds_max * 1e9);
    shared.open = true;
    shared.changed.NotifyAll();
  }
  Progress progress(options.progress, [&] { return ProgressLine(phase, shared.live, start); });
  for (Thread& thread : threads) thread.Join();
  report.seconds = static_cast<double>(SystemClock().Now() - start) * 1e-9;
  const double cpu = static_cast<double>(ProcessCpuNow() - cpu_start) * 1e-9;
  progress.Finish();
  const std::optional<double> node_end = node_start ? node_cpu(client) : std::nullopt;
  if (node_end) report.node_cpu_seconds = *node_end - *node_start;
  for (const auto& worker : workers) {
    report.get.Merge(worker->get);
    report.put.Merge(worker->put);
    report.remove.Merge(worker->remove);
    report.value_cpu_seconds += worker->value_cpu_seconds;
  }
  report.client_cpu_seconds = std::max(0.0, cpu - report.value_cpu_seconds);
  return report;
}

}  // namespace

Status CheckLoadOptions(const LoadOptions& options) {
  const auto zero = [](const char* name) {
    return Status(Code::kInvalid, Cat("--", name, " 0 is not allowed; give at least 1"));
  };
  if (options.size_bytes == 0) return zero("size");
  if (options.count == 0) return zero("count");
  if (options.threads == 0) return zero("threads");
  if (options.batch == 0) return zero("batch");
  if (options.batch_concurrency == 0) return zero("bc");
  constexpr uint64_t kBuffersMax = 16ull << 30;
  uint64_t bytes = options.size_bytes;
  for (const uint64_t factor : {options.threads, options.batch_concurrency, options.batch}) {
    if (__builtin_mul_overflow(bytes, factor, &bytes) || bytes > kBuffersMax) {
      return Status(Code::kInvalid, Cat("--size x --threads x --bc x --batch needs more than ",
                                        FormatBytes(kBuffersMax), " of buffers; lower one of them"));
    }
  }
  return Ok();
}

void KindReport::Merge(const KindReport& other) {
  tally.Merge(other.tally);
  calls.Merge(other.calls);
  operations.Merge(other.operations);
  call_seconds += other.call_seconds;
}

uint64_t LoadReport::wrong() const {
  uint64_t sum = 0;
  for (const PhaseReport& phase : phases) sum += phase.get.tally.wrong;
  return sum;
}

bool LoadReport::Succeeded(bool misses_allowed) const {
  for (const PhaseReport& phase : phases) {
    const uint64_t failed = phase.get.tally.errors() + phase.put.tally.errors() + phase.put.tally.misses() +
                            phase.remove.tally.errors();
    const uint64_t absent = phase.get.tally.misses() + phase.remove.tally.misses();
    if (failed != 0 || (!misses_allowed && absent != 0)) return false;
  }
  return true;
}

Result<LoadReport> RunLoad(client::Client& client, const LoadOptions& options, const CpuProbe& node_cpu,
                           const BetweenPhases& between) {
  DFKV_RETURN_IF_ERROR(CheckLoadOptions(options));
  const uint64_t working_set = WorkingSet(options);
  const bool fills = options.op == LoadOp::kBoth || options.op == LoadOp::kMixed;
  LoadReport report;
  client::Client* now = &client;
  const auto run = [&](const Phase& phase) {
    report.phases.push_back(RunPhase(*now, options, phase, node_cpu));
  };
  if (options.op == LoadOp::kRemove) run({"remove", PhaseKind::kRemove, options.count, true});
  if (options.op == LoadOp::kPut) run({"put", PhaseKind::kPut, options.count, true});
  if (fills) {
    run({options.op == LoadOp::kBoth ? "put" : "fill", PhaseKind::kPut, working_set, true});
    if (between) {
      const Result<client::Client*> next = between();
      if (!next.ok()) return next.status();
      now = *next;
    }
  }
  if (options.op == LoadOp::kPut || options.op == LoadOp::kRemove) return report;
  if (options.warm) run({"warm", PhaseKind::kGet, working_set, true});
  const bool mixed = options.op == LoadOp::kMixed;
  run({mixed ? "mixed" : "get", mixed ? PhaseKind::kMixed : PhaseKind::kGet, options.count, false});
  return report;
}

}  // namespace dfkv::tools
