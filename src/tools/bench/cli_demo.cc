#include <optional>

#include "base/option_cli.h"
#include "tools/bench/chat.h"
#include "tools/bench/cli_common.h"
#include "tools/bench/replay.h"
#include "tools/bench/report.h"

namespace dfkv::tools {

namespace {

struct DemoFlags {
  CommonOptions common;
  ReplayOptions replay;
  ChatOptions chat;
};

void RegisterDemo(OptionSet* set, DemoFlags* flags) {
  flags->common.bed.client.key_namespace = "dfkv_demo";
  flags->common.bed.capacity_bytes = 4ull << 30;
  RegisterCommon(set, &flags->common);
  flags->replay.block_bytes = 256u << 10;
  flags->replay.seconds_max = 15;
  flags->replay.threads = 2;
  flags->chat.requests = 200'000;
  set->Group("Where");
  RowBytes(set, "cap", &flags->common.bed.capacity_bytes, "Capacity of the started node.");
  set->Group("Demo");
  Row(set, "seconds", &flags->replay.seconds_max, "How long the workload runs.")
      .RealRange(0.1, 1e6)
      .Unit("s");
  Row(set, "run", &flags->chat.run,
      "Number of this run; after the first one, what the run before stored is read back to begin with.");
  Row(set, "requests", &flags->chat.requests, "Requests at most.").Range(1, 10'000'000);
  RowBytes(set, "block-bytes", &flags->replay.block_bytes, "Bytes stored for a block of 512 tokens.")
      .AtLeast(1);
  Row(set, "threads", &flags->replay.threads, "Requests in flight.").Range(1, 64);
}

std::string DemoText(const ReplayReport& report, uint32_t threads) {
  const auto rates = [&](const char* what, const Tally& tally, const LatencyRecorder& time) {
    const LatencySummary s = time.Summary();
    const double busy = s.mean_us * 1e-6 * static_cast<double>(s.count) / threads;
    return Cat("  ", what, ": ", FormatBytes(tally.bytes), " at ",
               Fixed(GigabytesPerSecond(tally.bytes, busy), 2), " GB/s   per request p50 ",
               Fixed(s.p50_us * 1e-3, 2), " ms  p99 ", Fixed(s.p99_us * 1e-3, 2), " ms\n");
  };
  return Cat(
      "  requests: ", report.requests, " in ", Fixed(report.seconds, 1), " s, ", report.blocks, " blocks\n",
      "  token hit ratio: ", Fixed(report.token_hit_percent(), 1), " %\n",
      rates("GET of the stored prefix", report.get, report.get_time),
      rates("PUT of what was missing ", report.put, report.put_time),
      "  together: ", Fixed(GigabytesPerSecond(report.get.bytes + report.put.bytes, report.seconds), 2),
      " GB/s by the clock, making and checking of every byte included\n", "  wrong bytes: ", report.wrong(),
      report.Succeeded() ? "\n"
                         : Cat("   not ok: get ", report.get.ToText(), ", put ", report.put.ToText(), "\n"));
}

// Reads back some of what the run before stored.
Result<std::string> WarmStart(Bed& bed, const DemoFlags& flags, bool* good) {
  ChatOptions before = flags.chat;
  before.run = flags.chat.run - 1;
  before.requests = 200;
  ReplayOptions options = flags.replay;
  options.seconds_max = 5;
  options.threads = 1;
  options.store = false;
  options.label = "warm start";
  const std::vector<store::evict::TraceRequest> trace = MakeChatTrace(before);
  const Result<ReplayReport> report = Replay(bed.client(), trace, options);
  if (!report.ok()) return report.status();
  *good = report->Succeeded();
  return Cat("warm start: the run before left ", Fixed(report->token_hit_percent(), 1), " % of its first ",
             report->requests, " requests (", FormatBytes(report->get.bytes), " read back, wrong bytes ",
             report->wrong(), ")\n");
}

}  // namespace

int DemoCommand(int argc, const char* const* argv, const ClientFactory& factory) {
  const char* const name = "dfkv_bench demo";
  OptionSet set;
  DemoFlags flags;
  RegisterDemo(&set, &flags);
  const ProgramText text = {
      name, "Runs chat-like requests with shared system prompts against a cache, every byte checked."};
  if (const std::optional<int> status = LoadProgramOptions(text, &set, argc, argv)) return *status;
  if (const Status status = CheckCommon(flags.common); !status.ok()) return Refuse(name, status);
  flags.replay.progress = flags.common.progress;
  flags.replay.label = "demo";
  Result<std::unique_ptr<Bed>> bed = Bed::Open(flags.common.bed, factory);
  if (!bed.ok()) return Refuse(name, bed.status());

  bool warm_good = true;
  if (flags.chat.run > 0) {
    const Result<std::string> warm = WarmStart(**bed, flags, &warm_good);
    if (!warm.ok()) return Refuse(name, warm.status());
    std::fputs(warm->c_str(), flags.common.json == "-" ? stderr : stdout);
  }
  const std::vector<store::evict::TraceRequest> trace = MakeChatTrace(flags.chat);
  const Result<ReplayReport> report = Replay((*bed)->client(), trace, flags.replay);
  if (!report.ok()) return Refuse(name, report.status());
  ReplayContext context;
  context.trace = "demo";
  context.block_bytes = flags.replay.block_bytes;
  context.footprint_blocks = context.capacity_blocks = store::evict::FootprintBlocks(trace);
  const Status printed =
      PrintReport(flags.common, DemoText(*report, flags.replay.threads), ReplayJson(*report, context));
  if (!printed.ok()) return Refuse(name, printed);
  if (const Status stopped = (*bed)->Stop(); !stopped.ok()) return Refuse(name, stopped);
  return warm_good && report->Succeeded() ? kAllSucceeded : kSomeFailed;
}

}  // namespace dfkv::tools
