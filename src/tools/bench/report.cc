#include "tools/bench/report.h"

#include <cerrno>
#include <cstdio>

#include "base/text.h"

namespace dfkv::tools {

namespace {

std::string Micros(double us) {
  if (us >= 1e6) return Cat(Fixed(us * 1e-6, 2), " s");
  if (us >= 1e3) return Cat(Fixed(us * 1e-3, us >= 1e5 ? 0 : 2), " ms");
  return Cat(Fixed(us, us >= 100 ? 0 : 1), " us");
}

std::string LatencyLine(const char* what, const LatencyRecorder& recorder) {
  if (recorder.count() == 0) return {};
  const LatencySummary s = recorder.Summary();
  return Cat("  ", what, ": p50 ", Micros(s.p50_us), "  p90 ", Micros(s.p90_us), "  p99 ", Micros(s.p99_us),
             "  p99.9 ", Micros(s.p999_us), "  max ", Micros(s.max_us), "\n");
}

std::string PerGigabyte(double seconds, uint64_t bytes) {
  return bytes == 0 ? "-" : Fixed(seconds / (static_cast<double>(bytes) * 1e-9), 3);
}

enum class Kind : uint8_t { kGet, kPut, kRemove };

std::string KindText(const char* name, const KindReport& report, const PhaseReport& phase, Kind kind) {
  const Tally& tally = report.tally;
  if (tally.items() == 0) return {};
  const double in_calls = report.call_seconds / std::max(1u, phase.threads);
  std::string text = Cat("  ", name, ": ", Fixed(static_cast<double>(tally.items()) / phase.seconds, 1),
                         " ops/s  ", Fixed(GigabytesPerSecond(tally.bytes, phase.seconds), 3), " GB/s");
  if (phase.get.tally.items() == 0 || phase.put.tally.items() == 0) {
    text += Cat("  (in calls ", Fixed(GigabytesPerSecond(tally.bytes, in_calls), 3), " GB/s)");
  }
  if (kind == Kind::kGet) {
    text += Cat("  hits ", tally.good(), "  misses ", tally.misses(), "  errors ", tally.errors());
  } else if (kind == Kind::kRemove) {
    text += Cat("  removed ", tally.good(), "  absent ", tally.misses(), "  errors ", tally.errors());
  } else {
    text += Cat("  stored ", tally.good(), "  failed ", tally.items() - tally.good());
  }
  text += Cat("\n  codes: ", tally.ToText(), "\n");
  text += LatencyLine("per batch", report.calls);
  text += LatencyLine("per op   ", report.operations);
  return text;
}

std::string KillText(const KillReport& kill) {
  return Cat("  kill -9: in request ", kill.request, ", ", kill.batch_acknowledged, " of ", kill.batch_blocks,
             " blocks of its PUT acknowledged; back after ", Fixed(kill.restart_seconds, 2), " s; ",
             kill.checked, " acknowledged blocks asked for, ", kill.missing, " missing (",
             kill.missing_allowed, " allowed), wrong bytes ", kill.wrong, kill.Succeeded() ? "" : "  FAILED",
             "\n");
}

}  // namespace

std::string LoadText(const LoadReport& report, const LoadOptions& options) {
  std::string text;
  for (const PhaseReport& phase : report.phases) {
    text += Cat(phase.name, ": ", phase.items(), " objects of ", FormatBytes(options.size_bytes), " in ",
                Fixed(phase.seconds, 2), " s, ", phase.threads, " threads, batches of ", options.batch, "\n");
    text += KindText("get", phase.get, phase, Kind::kGet);
    text += KindText("put", phase.put, phase, Kind::kPut);
    text += KindText("remove", phase.remove, phase, Kind::kRemove);
    text += Cat("  CPU s/GB: client ", PerGigabyte(phase.client_cpu_seconds, phase.bytes()), ", node ",
                phase.node_cpu_seconds ? PerGigabyte(*phase.node_cpu_seconds, phase.bytes()) : "not known",
                "  (making and checking values apart: ", PerGigabyte(phase.value_cpu_seconds, phase.bytes()),
                ")\n");
  }
  return text;
}

std::string ReplayText(const ReplayReport& report, const ReplayContext& context) {
  const uint64_t moved = report.get.bytes + report.put.bytes;
  std::string text =
      Cat("replay of ", context.trace, ": ", report.requests, " requests, ", report.blocks, " blocks of ",
          FormatBytes(context.block_bytes), " in ", Fixed(report.seconds, 1), " s\n");
  text += Cat("  cache: ", context.capacity_blocks, " blocks, ",
              Fixed(Percent(context.capacity_blocks, context.footprint_blocks), 2), " % of the footprint of ",
              context.footprint_blocks, "; ", context.node, "\n");
  text += Cat("  token hit ratio: ", Fixed(report.token_hit_percent(), 2), " %");
  if (context.offline_best_percent) {
    text += Cat("   offline best: ", Fixed(*context.offline_best_percent, 2), " %");
  }
  text += Cat("\n  wrong bytes: ", report.wrong(), "\n");
  text += Cat("  moved: ", FormatBytes(report.get.bytes), " read, ", FormatBytes(report.put.bytes),
              " written, ", Fixed(GigabytesPerSecond(moved, report.seconds), 2), " GB/s\n");
  text += Cat("  get: ", report.get.ToText(), "\n  put: ", report.put.ToText(), "\n");
  if (report.match.good() != report.match.items()) text += Cat("  match: ", report.match.ToText(), "\n");
  if (report.vanished != 0) text += Cat("  gone between match and get: ", report.vanished, " blocks\n");
  if (report.busy_retries != 0) text += Cat("  busy, tried again: ", report.busy_retries, "\n");
  text += LatencyLine("match      ", report.match_time);
  text += LatencyLine("get prefix ", report.get_time);
  text += LatencyLine("put rest   ", report.put_time);
  text += LatencyLine("per request", report.request_time);
  text +=
      Cat("  CPU s/GB: client ", PerGigabyte(report.client_cpu_seconds, moved), " (values included), node ",
          context.node_cpu_seconds ? PerGigabyte(*context.node_cpu_seconds, moved) : "not known", "\n");
  if (report.kill) text += KillText(*report.kill);
  return text;
}

Status WriteText(const std::string& path, const std::string& text) {
  std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "w");
  if (file == nullptr) return Status(Code::kIoError, Cat("cannot write ", path, ": ", ErrnoText(errno)));
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool flushed = (file == stdout ? std::fflush(file) : std::fclose(file)) == 0;
  if (written && flushed) return Ok();
  return Status(Code::kIoError, Cat("cannot write ", path, ": ", ErrnoText(errno)));
}

}  // namespace dfkv::tools
