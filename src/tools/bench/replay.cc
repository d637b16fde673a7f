#include "tools/bench/replay.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/sync.h"
#include "base/text.h"
#include "tools/bench/block_io.h"
#include "tools/bench/kill.h"

namespace dfkv::tools {

namespace {

// What the threads of one replay share.
struct Shared {
  Trace trace;
  const ReplayOptions& options;
  const NodeControl* control = nullptr;
  client::Client* client = nullptr;  // another one after a restart; then there is one thread
  Nanos start = 0;
  Nanos end = kNever;
  LiveCounts live;  // bytes: read and written
  std::atomic<uint64_t> hit_tokens{0};
  std::atomic<uint64_t> input_tokens{0};
  std::atomic<uint64_t> next{0};
};

class Replayer {
 public:
  Replayer(Shared& shared, uint64_t chain_max)
      : shared_(shared),
        io_(shared.options.block_bytes, shared.options.batch_max, chain_max, shared.options.deadline_ms),
        killer_(shared.options.kill_at != 0) {}

  // Takes requests until there are none left.
  Status Run() {
    while (true) {
      const uint64_t number = shared_.next.fetch_add(1, std::memory_order_relaxed);
      if (number >= shared_.trace.size() || SystemClock().Now() >= shared_.end) return Ok();
      WaitForTurn(shared_.trace[number].timestamp_ms);
      DFKV_RETURN_IF_ERROR(Serve(number));
    }
  }

  ReplayReport TakeReport() {
    report_.busy_retries = io_.busy_retries();
    return std::move(report_);
  }

 private:
  void WaitForTurn(uint64_t timestamp_ms) {
    if (shared_.options.speed <= 0) return;
    const double first_ms = static_cast<double>(shared_.trace.front().timestamp_ms);
    const double after_ms = (static_cast<double>(timestamp_ms) - first_ms) / shared_.options.speed;
    const Nanos due = shared_.start + static_cast<Nanos>(after_ms * 1e6);
    Mutex mutex;
    CondVar never;
    MutexLock lock(mutex);
    for (Nanos left = due - SystemClock().Now(); left > 0; left = due - SystemClock().Now()) {
      never.WaitFor(mutex, left);
    }
  }

  Status Serve(uint64_t number) {
    const store::evict::TraceRequest& request = shared_.trace[number];
    const std::span<const uint64_t> chain = request.blocks;
    Nanos request_time = 0;
    const auto take_time = [&](LatencyRecorder& recorder) {
      const Nanos took = io_.TakeCallTime();
      recorder.Add(took);
      request_time += took;
    };
    const uint64_t matched = Match(chain);
    take_time(report_.match_time);
    uint64_t hit = 0;
    if (matched != 0) {
      hit = GetPrefix(chain.first(matched));
      take_time(report_.get_time);
    }
    if (hit < chain.size() && shared_.options.store) {
      DFKV_RETURN_IF_ERROR(PutRest(number, chain.subspan(hit), hit));
      take_time(report_.put_time);
    }
    report_.request_time.Add(request_time);
    Count(request, hit);
    return Ok();
  }

  uint64_t Match(std::span<const uint64_t> chain) {
    const Result<uint64_t> matched = io_.Match(*shared_.client, chain);
    report_.match.Add(matched.ok() ? Code::kOk : matched.code());
    if (matched.ok()) return std::min<uint64_t>(*matched, chain.size());
    shared_.live.errors.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }

  // The number of leading blocks that were read and are right.
  uint64_t GetPrefix(std::span<const uint64_t> blocks) {
    const uint64_t bytes_before = report_.get.bytes;
    const uint64_t errors_before = report_.get.errors();
    io_.Get(*shared_.client, blocks, report_.get, codes_);
    shared_.live.bytes.fetch_add(report_.get.bytes - bytes_before, std::memory_order_relaxed);
    shared_.live.errors.fetch_add(report_.get.errors() - errors_before, std::memory_order_relaxed);
    const auto first_bad = std::find_if(codes_.begin(), codes_.end(), [](Code c) { return c != Code::kOk; });
    const auto hit = static_cast<uint64_t>(first_bad - codes_.begin());
    report_.vanished += blocks.size() - hit;
    return hit;
  }

  Status PutRest(uint64_t number, std::span<const uint64_t> blocks, uint64_t depth) {
    const bool kill_due = shared_.options.kill_at != 0 && number >= shared_.options.kill_at;
    if (kill_due && !report_.kill && blocks.size() > 1) return PutAndKill(number, blocks, depth);
    const uint64_t bytes_before = report_.put.bytes;
    const uint64_t good_before = report_.put.good();
    io_.Put(*shared_.client, blocks, depth, report_.put, codes_);
    shared_.live.bytes.fetch_add(report_.put.bytes - bytes_before, std::memory_order_relaxed);
    shared_.live.errors.fetch_add(blocks.size() - (report_.put.good() - good_before),
                                  std::memory_order_relaxed);
    if (killer_.tracks()) killer_.NoteAcknowledged(blocks, codes_);
    return Ok();
  }

  Status PutAndKill(uint64_t number, std::span<const uint64_t> blocks, uint64_t depth) {
    // Half of the time that so many blocks have taken so far.
    const uint64_t stored = std::max<uint64_t>(1, report_.put.items());
    const double per_block_us = report_.put_time.Summary().mean_us *
                                static_cast<double>(report_.put_time.count()) / static_cast<double>(stored);
    const auto delay = static_cast<Nanos>(per_block_us * static_cast<double>(blocks.size()) * 500);
    Result<KillReport> report = killer_.Kill(*shared_.control, shared_.client, io_, blocks, depth, delay);
    if (!report.ok()) return report.status();
    report->request = number;
    report_.kill = *report;
    return Ok();
  }

  void Count(const store::evict::TraceRequest& request, uint64_t hit) {
    const uint64_t hit_tokens = store::evict::HitTokens(request, hit);
    ++report_.requests;
    report_.input_tokens += request.input_tokens;
    report_.hit_tokens += hit_tokens;
    report_.blocks += request.blocks.size();
    report_.hit_blocks += hit;
    shared_.live.done.fetch_add(1, std::memory_order_relaxed);
    shared_.hit_tokens.fetch_add(hit_tokens, std::memory_order_relaxed);
    shared_.input_tokens.fetch_add(request.input_tokens, std::memory_order_relaxed);
  }

  Shared& shared_;
  BlockIo io_;
  Killer killer_;
  std::vector<Code> codes_;
  ReplayReport report_;
};

std::string ProgressLine(const Shared& shared) {
  const auto get = [](const std::atomic<uint64_t>& value) { return value.load(std::memory_order_relaxed); };
  const double seconds = static_cast<double>(SystemClock().Now() - shared.start) * 1e-9;
  const uint64_t done = get(shared.live.done);
  const double seconds_max = shared.options.seconds_max;
  const std::string so_far =
      seconds_max > 0 ? Cat(Fixed(seconds, 0), "/", Fixed(seconds_max, 0), " s, ", done, " requests")
                      : Cat(done, "/", shared.trace.size(), " requests (",
                            Fixed(Percent(done, shared.trace.size()), 0), " %)");
  return Cat(shared.options.label, ": ", so_far, "  token hits ",
             Fixed(Percent(get(shared.hit_tokens), get(shared.input_tokens)), 1), " %  ",
             Fixed(static_cast<double>(done) / std::max(seconds, 1e-9), 0), " req/s  ",
             Fixed(GigabytesPerSecond(get(shared.live.bytes), seconds), 2), " GB/s  not ok ",
             get(shared.live.errors));
}

Status CheckOptions(const ReplayOptions& options, Trace trace, const NodeControl* control) {
  if (trace.empty()) return Status(Code::kInvalid, "the trace holds no request");
  if (options.block_bytes == 0) return Status(Code::kInvalid, "--block-bytes 0 is not allowed");
  if (options.threads == 0) return Status(Code::kInvalid, "--threads 0 is not allowed; give at least 1");
  if (options.kill_at == 0) return Ok();
  if (control == nullptr)
    return Status(Code::kInvalid, "--kill-at needs --serve: only an own node is killed");
  if (options.threads != 1) return Status(Code::kInvalid, "--kill-at needs --threads 1");
  return Ok();
}

Status RunThreads(std::vector<std::unique_ptr<Replayer>>& replayers) {
  if (replayers.size() == 1) return replayers[0]->Run();
  std::vector<Status> statuses(replayers.size());
  {
    std::vector<Thread> threads;
    for (size_t i = 0; i < replayers.size(); ++i) {
      threads.emplace_back(Cat("replay-", i),
                           [&replayers, &statuses, i] { statuses[i] = replayers[i]->Run(); });
    }
  }
  for (const Status& status : statuses) DFKV_RETURN_IF_ERROR(status);
  return Ok();
}

}  // namespace

bool ReplayReport::Succeeded() const {
  const bool all_ok = match.good() == match.items() && get.errors() == 0 && put.good() == put.items();
  return all_ok && (!kill || kill->Succeeded());
}

void ReplayReport::Merge(const ReplayReport& other) {
  requests += other.requests;
  input_tokens += other.input_tokens;
  hit_tokens += other.hit_tokens;
  blocks += other.blocks;
  hit_blocks += other.hit_blocks;
  vanished += other.vanished;
  busy_retries += other.busy_retries;
  match.Merge(other.match);
  get.Merge(other.get);
  put.Merge(other.put);
  match_time.Merge(other.match_time);
  get_time.Merge(other.get_time);
  put_time.Merge(other.put_time);
  request_time.Merge(other.request_time);
  if (other.kill) kill = other.kill;
}

Result<ReplayReport> Replay(client::Client& client, Trace trace, const ReplayOptions& options,
                            const NodeControl* control) {
  DFKV_RETURN_IF_ERROR(CheckOptions(options, trace, control));
  uint64_t chain_max = 1;
  for (const auto& request : trace) chain_max = std::max<uint64_t>(chain_max, request.blocks.size());
  Shared shared{trace, options, control, &client, 0, kNever, {}, {}, {}, {}};
  std::vector<std::unique_ptr<Replayer>> replayers;
  for (uint32_t i = 0; i < options.threads; ++i) {
    replayers.push_back(std::make_unique<Replayer>(shared, chain_max));
  }
  shared.start = SystemClock().Now();
  if (options.seconds_max > 0) shared.end = shared.start + static_cast<Nanos>(options.seconds_max * 1e9);
  const Nanos cpu_start = ProcessCpuNow();
  Progress progress(options.progress, [&] { return ProgressLine(shared); });
  DFKV_RETURN_IF_ERROR(RunThreads(replayers));
  ReplayReport report;
  report.seconds = static_cast<double>(SystemClock().Now() - shared.start) * 1e-9;
  report.client_cpu_seconds = static_cast<double>(ProcessCpuNow() - cpu_start) * 1e-9;
  progress.Finish();
  for (const auto& replayer : replayers) report.Merge(replayer->TakeReport());
  return report;
}

}  // namespace dfkv::tools
