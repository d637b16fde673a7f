// Load: what `dfkv_bench --op ...` does. Threads send batches of GETs and PUTs of synthetic objects as fast
// as they are answered; every byte that comes back is checked.
//
// Object i of a run has the key "<key_seed>/<i>" and the value FillPattern(ValueSeed(key_seed, i)), so a
// later run with the same seed and size can read what an earlier one wrote.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/client.h"
#include "tools/bench/cpu.h"
#include "tools/bench/latency.h"
#include "tools/bench/progress.h"
#include "tools/bench/tally.h"

namespace dfkv::tools {

enum class LoadOp : uint8_t {
  kPut,     // objects 0 to count - 1
  kGet,     // `count` GETs from the working set
  kBoth,    // PUT of the working set, then GET
  kMixed,   // PUT of the working set, then `count` operations: GETs from it, PUTs of further objects
  kRemove,  // REMOVE of objects 0 to count - 1
};
enum class LoadOrder : uint8_t { kSequential, kRandom };

struct LoadOptions {
  LoadOp op = LoadOp::kBoth;
  uint64_t size_bytes = 2'752'512;
  uint64_t count = 2000;
  uint32_t threads = 8;
  uint32_t batch = 1;
  uint32_t batch_concurrency = 1;  // batches in flight per thread: each is a further calling thread
  uint64_t key_seed = 1;
  uint64_t working_set = 0;  // objects that GETs choose from; 0: count
  LoadOrder order = LoadOrder::kSequential;
  uint32_t get_percent = 80;  // of mixed: share of batches that are GETs
  bool warm = false;          // one untimed pass over the working set before the GETs are timed
  bool verify = true;         // check every byte
  double seconds_max = 0;     // a phase ends after this time even if operations are left; 0: no limit
  uint32_t deadline_ms = 0;   // of a call; 0: the client's rule
  ProgressMode progress = ProgressMode::kAuto;
};
// Invalid names the option and what is allowed.
Status CheckLoadOptions(const LoadOptions& options);

// One kind of operation within a phase.
struct KindReport {
  Tally tally;
  LatencyRecorder calls;       // one entry per batch
  LatencyRecorder operations;  // one entry per item: the batch's time divided by its items
  double call_seconds = 0;     // sum over threads of the time spent in the client's calls
  void Merge(const KindReport& other);
};

struct PhaseReport {
  std::string name;  // "put", "get", "mixed", "fill", "remove"
  double seconds = 0;
  uint32_t threads = 0;
  KindReport get;
  KindReport put;
  KindReport remove;                       // its tally counts no bytes
  double client_cpu_seconds = 0;           // of this process, making and checking of values left out
  double value_cpu_seconds = 0;            // spent on making and checking values
  std::optional<double> node_cpu_seconds;  // of all members together, where it can be known

  uint64_t bytes() const { return get.tally.bytes + put.tally.bytes; }
  uint64_t items() const { return get.tally.items() + put.tally.items() + remove.tally.items(); }
};

struct LoadReport {
  std::vector<PhaseReport> phases;
  uint64_t wrong() const;
  // True when every operation did what it was asked to; a miss is a failure unless `misses_allowed`.
  bool Succeeded(bool misses_allowed) const;
};

// Runs the phases in order. `between` (may be empty) is called after the fill of kBoth, before its GETs: a
// cold run restarts the node there and returns the client to go on with. Statuses: Invalid, or what `between`
// gave.
using BetweenPhases = std::function<Result<client::Client*>()>;
Result<LoadReport> RunLoad(client::Client& client, const LoadOptions& options, const CpuProbe& node_cpu,
                           const BetweenPhases& between = {});

}  // namespace dfkv::tools
