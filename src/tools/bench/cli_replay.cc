#include <algorithm>
#include <bit>
#include <filesystem>
#include <optional>

#include "base/option_cli.h"
#include "store/evict/offline.h"
#include "tools/bench/cli_common.h"
#include "tools/bench/replay.h"
#include "tools/bench/report.h"

namespace dfkv::tools {

namespace {

using store::evict::TraceRequest;

struct ReplayFlags {
  CommonOptions common;
  ReplayOptions replay;
  std::string trace;
  double cache_fraction = 0;
  uint64_t limit = 0;
  bool offline = true;
};

void RegisterReplay(OptionSet* set, ReplayFlags* flags) {
  RegisterCommon(set, &flags->common);
  ReplayOptions& replay = flags->replay;
  set->Group("Replay");
  Row(set, "trace", &flags->trace, "Trace in Mooncake's format, gzip or plain.").Required();
  RowBytes(set, "block-bytes", &replay.block_bytes, "Bytes stored for a block of 512 tokens.").AtLeast(1);
  Row(set, "speed", &replay.speed, "Send at the trace's times divided by this; 0: as fast as possible.")
      .RealRange(0, 1e9);
  Row(set, "cache-fraction", &flags->cache_fraction,
      "Capacity of the cache as a share of the trace's distinct blocks; 0: it holds all of them.")
      .RealRange(0, 1);
  Row(set, "threads", &replay.threads, "Requests in flight; 1: one at a time, in file order.").Range(1, 256);
  Row(set, "batch", &replay.batch_max, "Blocks of one call; 0: the whole chain, up to 256 MiB.");
  Row(set, "limit", &flags->limit, "Stop after so many requests; 0: all.");
  Row(set, "kill-at", &replay.kill_at,
      "Kill the started node (SIGKILL) in a PUT after so many requests, restart it and check; 0: never.");
  Row(set, "deadline-ms", &replay.deadline_ms, "Deadline of a call; 0: 1 s plus bytes at 64 MiB/s.");
  Row(set, "offline-best", &flags->offline,
      "Work out the best hit ratio that any cache of this size could reach.");
}

// "conversation_trace" of "/x/conversation_trace.jsonl.gz".
std::string TraceName(const std::string& path) {
  const std::string file = std::filesystem::path(path).filename().string();
  return file.substr(0, file.find('.'));
}

constexpr uint64_t kSlotAlign = 4096;

// A cache that holds exactly `blocks` blocks: whole extents of a few slots, so that rounding to them loses
// little (at most 0.2 % of the blocks). The RAM tier is half of it, bounded, so that the disk is read.
void FitNode(BedOptions& bed, uint64_t blocks, uint64_t block_bytes) {
  const uint64_t slot = AlignUp(block_bytes, kSlotAlign);
  if (bed.extent_bytes == 0) {
    constexpr uint64_t kExtentMin = 1u << 20;
    uint64_t slots = std::max<uint64_t>(1, kExtentMin / slot);
    while (slots > 1 && slots * 500 > blocks) slots /= 2;
    bed.extent_bytes = std::max<uint64_t>(64u << 10, std::bit_ceil(slots * slot));  // what the node takes
  }
  const uint64_t per_extent = std::max<uint64_t>(1, bed.extent_bytes / slot);
  bed.capacity_bytes = std::max<uint64_t>(1, (blocks + per_extent / 2) / per_extent) * bed.extent_bytes;
  // A small RAM tier cannot promise room for the largest objects there may be.
  const std::string largest = "--max-object-bytes=";
  const bool given = std::any_of(bed.node_flags.begin(), bed.node_flags.end(),
                                 [&](const std::string& flag) { return flag.starts_with(largest); });
  if (!given) bed.node_flags.push_back(Cat(largest, slot));
  if (bed.ram_bytes == 0) {
    bed.ram_bytes = std::clamp<uint64_t>(AlignDown(bed.capacity_bytes / 2, 1u << 20), 64u << 20, 1ull << 30);
  }
}

struct Plan {
  std::vector<TraceRequest> trace;
  uint64_t footprint = 0;
  uint64_t capacity = 0;
};

Result<Plan> MakePlan(const ReplayFlags& flags) {
  Result<std::vector<TraceRequest>> trace = store::evict::LoadTraceBlocking(flags.trace);
  if (!trace.ok()) return trace.status();
  Plan plan;
  plan.trace = std::move(*trace);
  if (flags.limit != 0 && flags.limit < plan.trace.size()) plan.trace.resize(flags.limit);
  plan.footprint = store::evict::FootprintBlocks(plan.trace);
  plan.capacity = plan.footprint;
  if (flags.cache_fraction > 0) {
    plan.capacity = static_cast<uint64_t>(flags.cache_fraction * static_cast<double>(plan.footprint));
  }
  if (plan.capacity == 0) {
    return Status(Code::kInvalid, Cat("--cache-fraction ", flags.cache_fraction, " of ", plan.footprint,
                                      " distinct blocks is no block"));
  }
  return plan;
}

}  // namespace

int ReplayCommand(int argc, const char* const* argv, const ClientFactory& factory) {
  const char* const name = "dfkv_bench replay";
  OptionSet set;
  ReplayFlags flags;
  RegisterReplay(&set, &flags);
  const ProgramText text = {name,
                            "Replays a trace of LLM-serving requests against a cache, every byte checked."};
  if (const std::optional<int> status = LoadProgramOptions(text, &set, argc, argv)) return *status;
  if (const Status status = CheckCommon(flags.common); !status.ok()) return Refuse(name, status);
  flags.replay.progress = flags.common.progress;
  const Result<Plan> plan = MakePlan(flags);
  if (!plan.ok()) return Refuse(name, plan.status());

  BedOptions& bed_options = flags.common.bed;
  if (bed_options.client.key_namespace.empty()) bed_options.client.key_namespace = TraceName(flags.trace);
  const bool everything_fits = plan->capacity == plan->footprint;
  // A cache that holds everything gets a tenth more, so that nothing depends on the last extent.
  FitNode(bed_options, everything_fits ? plan->footprint + plan->footprint / 10 + 64 : plan->capacity,
          flags.replay.block_bytes);
  Result<std::unique_ptr<Bed>> bed = Bed::Open(bed_options, factory);
  if (!bed.ok()) return Refuse(name, bed.status());

  NodeControl control;
  control.kill = [&bed] { (*bed)->Kill(); };
  control.restart = [&bed] { return (*bed)->Restart(); };
  control.evicts = !everything_fits;
  control.missing_max = 2 * bed_options.extent_bytes / AlignUp(flags.replay.block_bytes, kSlotAlign);
  const CpuProbe cpu = (*bed)->cpu_probe();
  const std::optional<double> cpu_start = cpu((*bed)->client());
  const Result<ReplayReport> report =
      Replay((*bed)->client(), plan->trace, flags.replay, (*bed)->own_node() ? &control : nullptr);
  if (!report.ok()) return Refuse(name, report.status());
  ReplayContext context;
  context.trace = TraceName(flags.trace);
  context.block_bytes = flags.replay.block_bytes;
  context.footprint_blocks = plan->footprint;
  context.capacity_blocks = plan->capacity;
  context.node = (*bed)->Describe();
  const std::optional<double> cpu_end = report->kill ? std::nullopt : cpu((*bed)->client());
  if (cpu_start && cpu_end) context.node_cpu_seconds = *cpu_end - *cpu_start;
  if (flags.offline) {
    context.offline_best_percent = 100 * store::evict::OfflineTokenHitRatio(plan->trace, plan->capacity);
  }
  const Status printed =
      PrintReport(flags.common, ReplayText(*report, context), ReplayJson(*report, context));
  if (!printed.ok()) return Refuse(name, printed);
  if (const Status stopped = (*bed)->Stop(); !stopped.ok()) return Refuse(name, stopped);
  return report->Succeeded() ? kAllSucceeded : kSomeFailed;
}

}  // namespace dfkv::tools
