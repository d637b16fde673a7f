#include "tools/bench/cli.h"

#include <optional>
#include <vector>

#include "base/option_cli.h"
#include "tools/bench/cli_common.h"
#include "tools/bench/load.h"
#include "tools/bench/report.h"

namespace dfkv::tools {

void RegisterCommon(OptionSet* set, CommonOptions* options) {
  BedOptions& bed = options->bed;
  set->Group("Where");
  set->Add("members", &bed.client.members, "Running nodes: name=ip:port[*weight],...");
  Row(set, "namespace", &bed.client.key_namespace, "Namespace of the keys.");
  Row(set, "ready-timeout", &bed.ready_timeout_s, "How long to wait for every node to answer.").Unit("s");
  Row(set, "serve", &bed.serve,
      "Start a node for this run: the path of dfkv_server, or auto for the one beside this program.");
  Row(set, "dir", &bed.directory,
      "Directory of the started node; unset: a new one that is removed afterwards.");
  RowBytes(set, "ram-tier-bytes", &bed.ram_bytes, "RAM tier of the started node; 0: its default.");
  RowBytes(set, "extent-bytes", &bed.extent_bytes, "Extents of the started node; 0: chosen.");
  Row(set, "node-flags", &bed.node_flags, "Further flags of the started node, comma-separated.");
  set->Group("Client");
  Row(set, "spin-us", &bed.client.spin_us, "Busy-poll this long before sleeping.");
  Row(set, "client-verify", &bed.client.verify, "Let the client check the CRC of every value.");
  set->Group("Report");
  set->AddEnum("progress", &options->progress,
               {{"auto", ProgressMode::kAuto}, {"on", ProgressMode::kOn}, {"off", ProgressMode::kOff}},
               "Progress line on stderr; auto: in place on a terminal, else every 5 s.")
      .Env(BenchEnv("progress"));
  Row(set, "json", &options->json, "Write the report as JSON to this file; - is stdout.");
}

Status CheckCommon(const CommonOptions& options) {
  const bool members = !options.bed.client.members.empty();
  const bool serve = !options.bed.serve.empty();
  if (members && serve) return Status(Code::kInvalid, "--members and --serve exclude each other");
  if (!members && !serve) {
    return Status(Code::kInvalid, "give --members name=ip:port[,...] or --serve PATH_TO_dfkv_server");
  }
  return Ok();
}

int Refuse(std::string_view command, const Status& status) {
  std::fprintf(stderr, "%.*s: %s\n", static_cast<int>(command.size()), command.data(),
               status.message().empty() ? status.ToString().c_str() : status.message().c_str());
  return kNotRun;
}

Status PrintReport(const CommonOptions& options, const std::string& text, const std::string& json) {
  std::FILE* out = options.json == "-" ? stderr : stdout;
  std::fputs(text.c_str(), out);
  std::fflush(out);
  return options.json.empty() ? Ok() : WriteText(options.json, json);
}

namespace {

struct LoadFlags {
  CommonOptions common;
  LoadOptions load;
  bool cold = false;
  bool misses_allowed = false;
};

void RegisterLoad(OptionSet* set, LoadFlags* flags) {
  flags->common.bed.client.key_namespace = "dfkv_bench";
  flags->common.bed.capacity_bytes = 4ull << 30;
  RegisterCommon(set, &flags->common);
  set->Group("Where");
  RowBytes(set, "cap", &flags->common.bed.capacity_bytes, "Capacity of the started node.");
  LoadOptions& load = flags->load;
  set->Group("Load");
  set->AddEnum("op", &load.op,
               {{"put", LoadOp::kPut},
                {"get", LoadOp::kGet},
                {"both", LoadOp::kBoth},
                {"mixed", LoadOp::kMixed},
                {"remove", LoadOp::kRemove}},
               "put; get; both: put, then get; mixed: put the working set, then gets of it among puts; "
               "remove: objects that "
               "were put.")
      .Env(BenchEnv("op"));
  RowBytes(set, "size", &load.size_bytes, "Bytes of an object.").AtLeast(1);
  Row(set, "count", &load.count, "Operations of a phase.").AtLeast(1).Unit("objects");
  Row(set, "threads", &load.threads, "Calling threads.").Range(1, 1024);
  Row(set, "batch", &load.batch, "Objects of one call.").Range(1, 65'536);
  Row(set, "bc", &load.batch_concurrency, "Calls in flight per thread; each is a further calling thread.")
      .Range(1, 64);
  Row(set, "key-seed", &load.key_seed, "Another seed: other objects.");
  Row(set, "working-set", &load.working_set, "Objects that gets choose from; 0: as many as --count.");
  set->AddEnum("order", &load.order, {{"sequential", LoadOrder::kSequential}, {"random", LoadOrder::kRandom}},
               "How gets go through the working set.")
      .Env(BenchEnv("order"));
  Row(set, "get-percent", &load.get_percent, "Share of gets in mixed.").Range(0, 100).Unit("%");
  Row(set, "warm", &load.warm, "Read the working set once before gets are timed.").Switch();
  Row(set, "cold", &flags->cold, "Restart the started node between put and get: gets begin on disk.")
      .Switch();
  Row(set, "verify", &load.verify, "Compare every byte that was read.");
  Row(set, "allow-misses", &flags->misses_allowed,
      "A miss, or an object that is absent when it is removed, is no failure.")
      .Switch();
  Row(set, "seconds", &load.seconds_max, "End a phase after this time; 0: when all is done.").Unit("s");
  Row(set, "deadline-ms", &load.deadline_ms, "Deadline of a call; 0: 1 s plus bytes at 64 MiB/s.");
}

Status CheckLoadFlags(const LoadFlags& flags) {
  DFKV_RETURN_IF_ERROR(CheckCommon(flags.common));
  if (flags.cold && (flags.common.bed.serve.empty() || flags.load.op != LoadOp::kBoth)) {
    return Status(Code::kInvalid, "--cold needs --serve and --op both: it restarts the node in between");
  }
  if (flags.cold && flags.load.warm) return Status(Code::kInvalid, "--cold and --warm exclude each other");
  return CheckLoadOptions(flags.load);
}

}  // namespace

int LoadCommand(int argc, const char* const* argv, const ClientFactory& factory) {
  OptionSet set;
  LoadFlags flags;
  RegisterLoad(&set, &flags);
  const ProgramText text = {"dfkv_bench",
                            "Measures a cache: GETs and PUTs of synthetic objects, every byte checked. "
                            "See also: dfkv_bench replay --help, dfkv_bench demo --help."};
  if (const std::optional<int> status = LoadProgramOptions(text, &set, argc, argv)) return *status;
  flags.load.progress = flags.common.progress;
  if (const Status status = CheckLoadFlags(flags); !status.ok()) return Refuse("dfkv_bench", status);
  Result<std::unique_ptr<Bed>> bed = Bed::Open(flags.common.bed, factory);
  if (!bed.ok()) return Refuse("dfkv_bench", bed.status());
  BetweenPhases between;
  if (flags.cold) between = [&bed] { return (*bed)->StopAndRestart(); };
  const Result<LoadReport> report = RunLoad((*bed)->client(), flags.load, (*bed)->cpu_probe(), between);
  if (!report.ok()) return Refuse("dfkv_bench", report.status());
  const Status printed = PrintReport(flags.common, LoadText(*report, flags.load),
                                     LoadJson(*report, flags.load, flags.misses_allowed));
  if (!printed.ok()) return Refuse("dfkv_bench", printed);
  if (const Status stopped = (*bed)->Stop(); !stopped.ok()) return Refuse("dfkv_bench", stopped);
  return report->Succeeded(flags.misses_allowed) ? kAllSucceeded : kSomeFailed;
}

int BenchMain(int argc, const char* const* argv, const ClientFactory& factory) {
  using Command = int (*)(int, const char* const*, const ClientFactory&);
  Command command = LoadCommand;
  const std::string_view first = argc > 1 ? argv[1] : "";
  if (first == "replay") command = ReplayCommand;
  if (first == "demo") command = DemoCommand;
  if (command == LoadCommand) return command(argc, argv, factory);
  std::vector<const char*> rest = {argv[0]};
  rest.insert(rest.end(), argv + 2, argv + argc);
  return command(static_cast<int>(rest.size()), rest.data(), factory);
}

}  // namespace dfkv::tools
