#include <nlohmann/json.hpp>

#include "base/text.h"
#include "base/version.h"
#include "tools/bench/report.h"

namespace dfkv::tools {

namespace {

using Json = nlohmann::ordered_json;

Json LatencyJson(const LatencyRecorder& recorder) {
  const LatencySummary s = recorder.Summary();
  return {{"count", s.count}, {"mean", s.mean_us}, {"p50", s.p50_us}, {"p90", s.p90_us},
          {"p99", s.p99_us},  {"p999", s.p999_us}, {"max", s.max_us}};
}

Json CodesJson(const Tally& tally) {
  Json codes = Json::object();
  for (size_t i = 0; i < Tally::kCodes; ++i) {
    if (tally.by_code[i] != 0) codes[std::string(CodeName(static_cast<Code>(i)))] = tally.by_code[i];
  }
  return codes;
}

Json TallyJson(const Tally& tally) {
  return {{"items", tally.items()},   {"good", tally.good()}, {"misses", tally.misses()},
          {"errors", tally.errors()}, {"wrong", tally.wrong}, {"bytes", tally.bytes},
          {"codes", CodesJson(tally)}};
}

Json PerGigabyte(std::optional<double> seconds, uint64_t bytes) {
  if (!seconds || bytes == 0) return nullptr;
  return *seconds / (static_cast<double>(bytes) * 1e-9);
}

Json KindJson(const KindReport& kind, const PhaseReport& phase) {
  Json json = TallyJson(kind.tally);
  json["ops_per_s"] = static_cast<double>(kind.tally.items()) / phase.seconds;
  json["gb_per_s"] = GigabytesPerSecond(kind.tally.bytes, phase.seconds);
  json["gb_per_s_in_calls"] =
      GigabytesPerSecond(kind.tally.bytes, kind.call_seconds / std::max(1u, phase.threads));
  json["ops_per_s_in_calls"] =
      kind.call_seconds > 0 ? static_cast<double>(kind.tally.items()) * phase.threads / kind.call_seconds : 0;
  json["batch_us"] = LatencyJson(kind.calls);
  json["op_us"] = LatencyJson(kind.operations);
  return json;
}

const char* OpName(LoadOp op) {
  constexpr const char* kNames[] = {"put", "get", "both", "mixed", "remove"};
  return kNames[static_cast<size_t>(op)];
}

}  // namespace

std::string LoadJson(const LoadReport& report, const LoadOptions& options, bool misses_allowed) {
  Json json;
  json["tool"] = "dfkv_bench";
  json["version"] = DFKV_VERSION;
  json["options"] = {{"op", OpName(options.op)},
                     {"size", options.size_bytes},
                     {"count", options.count},
                     {"threads", options.threads},
                     {"batch", options.batch},
                     {"bc", options.batch_concurrency},
                     {"key_seed", options.key_seed},
                     {"working_set", options.working_set},
                     {"order", options.order == LoadOrder::kRandom ? "random" : "sequential"},
                     {"verify", options.verify}};
  json["phases"] = Json::array();
  for (const PhaseReport& phase : report.phases) {
    Json entry = {{"name", phase.name}, {"seconds", phase.seconds}, {"threads", phase.threads}};
    if (phase.get.tally.items() != 0) entry["get"] = KindJson(phase.get, phase);
    if (phase.put.tally.items() != 0) entry["put"] = KindJson(phase.put, phase);
    if (phase.remove.tally.items() != 0) entry["remove"] = KindJson(phase.remove, phase);
    entry["cpu_s_per_gb"] = {{"client", PerGigabyte(phase.client_cpu_seconds, phase.bytes())},
                             {"values", PerGigabyte(phase.value_cpu_seconds, phase.bytes())},
                             {"node", PerGigabyte(phase.node_cpu_seconds, phase.bytes())}};
    json["phases"].push_back(entry);
  }
  json["wrong"] = report.wrong();
  json["ok"] = report.Succeeded(misses_allowed);
  return json.dump(2) + "\n";
}

std::string ReplayJson(const ReplayReport& report, const ReplayContext& context) {
  const uint64_t moved = report.get.bytes + report.put.bytes;
  Json json;
  json["tool"] = "dfkv_bench replay";
  json["version"] = DFKV_VERSION;
  json["trace"] = context.trace;
  json["block_bytes"] = context.block_bytes;
  json["footprint_blocks"] = context.footprint_blocks;
  json["capacity_blocks"] = context.capacity_blocks;
  json["requests"] = report.requests;
  json["blocks"] = report.blocks;
  json["hit_blocks"] = report.hit_blocks;
  json["token_hit_percent"] = report.token_hit_percent();
  json["offline_best_percent"] = context.offline_best_percent ? Json(*context.offline_best_percent) : Json();
  json["wrong"] = report.wrong();
  json["vanished"] = report.vanished;
  json["busy_retries"] = report.busy_retries;
  json["seconds"] = report.seconds;
  json["gb_per_s"] = GigabytesPerSecond(moved, report.seconds);
  json["get"] = TallyJson(report.get);
  json["put"] = TallyJson(report.put);
  json["match_us"] = LatencyJson(report.match_time);
  json["get_us"] = LatencyJson(report.get_time);
  json["put_us"] = LatencyJson(report.put_time);
  json["request_us"] = LatencyJson(report.request_time);
  json["cpu_s_per_gb"] = {{"client_and_values", PerGigabyte(report.client_cpu_seconds, moved)},
                          {"node", PerGigabyte(context.node_cpu_seconds, moved)}};
  if (report.kill) {
    const KillReport& kill = *report.kill;
    json["kill"] = {{"request", kill.request},
                    {"batch_blocks", kill.batch_blocks},
                    {"batch_acknowledged", kill.batch_acknowledged},
                    {"acknowledged", kill.acknowledged},
                    {"checked", kill.checked},
                    {"missing", kill.missing},
                    {"missing_allowed", kill.missing_allowed},
                    {"wrong", kill.wrong},
                    {"restart_seconds", kill.restart_seconds}};
  }
  json["ok"] = report.Succeeded();
  return json.dump(2) + "\n";
}

}  // namespace dfkv::tools
