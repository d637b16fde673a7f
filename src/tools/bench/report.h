// Reports as text for people and as JSON for scripts.
#pragma once

#include <optional>
#include <string>

#include "tools/bench/load.h"
#include "tools/bench/replay.h"

namespace dfkv::tools {

std::string LoadText(const LoadReport& report, const LoadOptions& options);
// {"tool", "version", "options": {...}, "phases": [{...}], "ok": bool}
std::string LoadJson(const LoadReport& report, const LoadOptions& options, bool misses_allowed);

// What a replay is judged against.
struct ReplayContext {
  std::string trace;
  uint64_t block_bytes = 0;
  uint64_t footprint_blocks = 0;               // distinct blocks of the requests replayed
  uint64_t capacity_blocks = 0;                // of the cache; the footprint when it holds everything
  std::optional<double> offline_best_percent;  // token hit ratio of the offline optimum at capacity_blocks
  std::optional<double> node_cpu_seconds;
  std::string node;  // "2 members", or how it was started
};
std::string ReplayText(const ReplayReport& report, const ReplayContext& context);
std::string ReplayJson(const ReplayReport& report, const ReplayContext& context);

// Writes to a file, or to stdout when `path` is "-". IoError names the path.
Status WriteText(const std::string& path, const std::string& text);

}  // namespace dfkv::tools
