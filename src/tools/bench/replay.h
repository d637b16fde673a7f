// Replay: runs a trace of LLM-serving requests against a cache, as an engine would, and checks every byte.
//
// A request is a chain of blocks. MATCH says how long its stored prefix is; that prefix is read (GET), the
// rest is stored (PUT) with its depth. Block `id` has the key "<id>" in decimal and the value
// FillPattern(id), so a wrong byte shows wherever it comes from.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/client.h"
#include "store/evict/trace.h"
#include "tools/bench/latency.h"
#include "tools/bench/progress.h"
#include "tools/bench/tally.h"

namespace dfkv::tools {

using Trace = std::span<const store::evict::TraceRequest>;

// How a replay stops its node in the middle of a PUT and gets it back.
struct NodeControl {
  std::function<void()> kill;                        // any thread; at once, nothing is flushed
  std::function<Result<client::Client*>()> restart;  // the thread that called Replay; on the same data
  uint64_t missing_max = 0;  // blocks that eviction may take while the node dies and comes back
  bool evicts = true;        // false: the cache holds everything, so no acknowledged block may be missing
};

struct ReplayOptions {
  uint64_t block_bytes = 64u << 10;
  double speed = 0;        // requests are sent at their timestamps divided by this; 0: at once
  uint32_t threads = 1;    // 1: one request at a time, in file order, on the calling thread
  uint32_t batch_max = 0;  // keys of one GET or PUT; 0: the whole chain, up to 256 MiB
  uint32_t deadline_ms = 0;
  double seconds_max = 0;  // no request is begun after this time; 0: no limit
  bool store = true;       // false: only look and read, nothing is PUT
  // The node is killed in the first PUT of several blocks after so many requests; 0: never.
  uint64_t kill_at = 0;
  ProgressMode progress = ProgressMode::kAuto;
  std::string label = "replay";  // begins the progress line
};

// What the kill did, and what the restarted node still had.
struct KillReport {
  uint64_t request = 0;             // number of the request, from 0
  uint64_t batch_blocks = 0;        // of the PUT that was cut
  uint64_t batch_acknowledged = 0;  // of those, answered Ok
  uint64_t acknowledged = 0;        // distinct blocks acknowledged in the run so far
  uint64_t checked = 0;             // of those, present before the kill or in its batch: must be hits
  uint64_t missing = 0;             // of the checked
  uint64_t missing_allowed = 0;     // what eviction may have taken
  uint64_t wrong = 0;               // bytes wrong in any block, acknowledged or not
  double restart_seconds = 0;       // until the node was ready
  bool Succeeded() const { return wrong == 0 && missing <= missing_allowed; }
};

struct ReplayReport {
  uint64_t requests = 0;
  uint64_t input_tokens = 0;
  uint64_t hit_tokens = 0;
  uint64_t blocks = 0;
  uint64_t hit_blocks = 0;
  uint64_t vanished = 0;  // blocks that MATCH counted and GET did not find
  uint64_t busy_retries = 0;
  Tally match;  // one entry per request
  Tally get;
  Tally put;                                                     // without the PUT that the kill cut
  LatencyRecorder match_time, get_time, put_time, request_time;  // per request
  double seconds = 0;
  double client_cpu_seconds = 0;  // making and checking of values included
  std::optional<KillReport> kill;

  double token_hit_percent() const { return Percent(hit_tokens, input_tokens); }
  uint64_t wrong() const { return get.wrong + (kill ? kill->wrong : 0); }
  bool Succeeded() const;
  void Merge(const ReplayReport& other);
};

// Invalid: options that exclude each other, or kill_at without `control`. Unavailable: the node did not come
// back. Failures of single operations are in the report.
Result<ReplayReport> Replay(client::Client& client, Trace trace, const ReplayOptions& options,
                            const NodeControl* control = nullptr);

}  // namespace dfkv::tools
