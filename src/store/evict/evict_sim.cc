// evict_sim TRACE [policy=a,b] [share=1,5,10] [pattern=one-batch,...|all] [batch-max=N] [in-flight=N]
//           [bytes-per-object=N]
// Token hit % of each policy at caches of these shares (in %) of the trace's distinct blocks, beside the
// offline optimum; what a key costs the policy in time, and an object in memory.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/text.h"
#include "store/evict/offline.h"
#include "store/evict/simulate.h"
#include "store/evict/trace.h"

namespace dfkv::store::evict {
namespace {

std::optional<CallPattern> PatternOf(const std::string& name) {
  for (size_t i = 0; i < std::size(kCallPatternNames); ++i) {
    if (kCallPatternNames[i] == name) return static_cast<CallPattern>(i);
  }
  return std::nullopt;
}

// Prints one row per policy and pattern. False: a bad argument, already reported.
bool PrintRow(const std::vector<TraceRequest>& requests, SimOptions options,
              const std::vector<std::string>& shares) {
  const auto footprint = static_cast<double>(FootprintBlocks(requests));
  std::printf("%-11s %-17s", options.policy.c_str(),
              std::string(kCallPatternNames[static_cast<size_t>(options.pattern)]).c_str());
  SimResult worst;
  double ns = 0;
  for (const std::string& share : shares) {
    options.capacity = static_cast<uint64_t>(footprint * ParseDouble(share).value() / 100);
    Result<SimResult> result = Simulate(requests, options);
    if (!result.ok()) {
      std::fprintf(stderr, "%s\n", result.status().ToString().c_str());
      return false;
    }
    std::printf(" %6.2f", 100 * result->token_hit_ratio);
    worst.ns_per_id = std::max(worst.ns_per_id, result->ns_per_id);
    worst.ns_max = std::max(worst.ns_max, result->ns_max);
    worst.bytes_per_object = std::max(worst.bytes_per_object, result->bytes_per_object);
    ns += result->ns_per_id / static_cast<double>(shares.size());
  }
  std::printf("   %4.0f ns/id, longest call %.0f us, %.0f bytes/object\n", ns, worst.ns_max / 1000,
              worst.bytes_per_object);
  return true;
}

struct Arguments {
  std::string trace;
  std::map<std::string, std::string> values;
};

std::optional<Arguments> ReadArguments(int argc, char** argv) {
  Arguments arguments;
  arguments.values = {{"policy", ""},           {"share", "1,2,5,10,20,50"},
                      {"pattern", "one-batch"}, {"batch-max", "0"},
                      {"in-flight", "1"},       {"bytes-per-object", Cat(Config().bytes_per_object_max)}};
  for (std::string_view name : PolicyNames()) arguments.values["policy"] += Cat(name, ",");
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.starts_with('-')) return std::nullopt;
    const size_t equals = argument.find('=');
    if (equals == std::string::npos) {
      arguments.trace = argument;
    } else if (arguments.values.count(argument.substr(0, equals)) == 0) {
      return std::nullopt;
    } else {
      arguments.values[argument.substr(0, equals)] = argument.substr(equals + 1);
    }
  }
  std::string& patterns = arguments.values["pattern"];
  if (patterns == "all") {
    patterns.clear();
    for (std::string_view name : kCallPatternNames) patterns += Cat(name, ",");
  }
  for (const std::string& share : SplitTrimmed(arguments.values["share"], ',')) {
    if (!ParseDouble(share).ok()) return std::nullopt;
  }
  for (const char* name : {"batch-max", "in-flight", "bytes-per-object"}) {
    if (!ParseUint(arguments.values[name]).ok()) return std::nullopt;
  }
  return arguments.trace.empty() ? std::nullopt : std::optional(arguments);
}

int Run(Arguments arguments) {
  Result<std::vector<TraceRequest>> requests = LoadTraceBlocking(arguments.trace);
  if (!requests.ok()) {
    std::fprintf(stderr, "%s\n", requests.status().ToString().c_str());
    return 1;
  }
  const uint64_t footprint = FootprintBlocks(*requests);
  const std::vector<std::string> shares = SplitTrimmed(arguments.values["share"], ',');
  std::printf("%s: %zu requests, %s distinct blocks, token hit %% at a share of them\n",
              arguments.trace.c_str(), requests->size(), Cat(footprint).c_str());
  std::printf("%-29s", "share %");
  for (const std::string& share : shares) std::printf(" %6s", share.c_str());
  std::printf("\n%-29s", "offline optimum");
  for (const std::string& share : shares) {
    const auto capacity = static_cast<uint64_t>(static_cast<double>(footprint) * *ParseDouble(share) / 100);
    std::printf(" %6.2f", 100 * OfflineTokenHitRatio(*requests, capacity));
  }
  std::printf("   infinite %.2f\n", 100 * OfflineTokenHitRatio(*requests, footprint));
  SimOptions options;
  options.batch_max = static_cast<uint32_t>(*ParseUint(arguments.values["batch-max"]));
  options.in_flight = static_cast<uint32_t>(*ParseUint(arguments.values["in-flight"]));
  options.bytes_per_object_max = static_cast<uint32_t>(*ParseUint(arguments.values["bytes-per-object"]));
  for (const std::string& policy : SplitTrimmed(arguments.values["policy"], ',')) {
    for (const std::string& name : SplitTrimmed(arguments.values["pattern"], ',')) {
      const std::optional<CallPattern> pattern = PatternOf(name);
      if (!pattern) {
        std::fprintf(stderr, "unknown pattern '%s'\n", name.c_str());
        return 2;
      }
      options.policy = policy;
      options.pattern = *pattern;
      if (!PrintRow(*requests, options, shares)) return 2;
    }
  }
  return 0;
}

}  // namespace
}  // namespace dfkv::store::evict

int main(int argc, char** argv) {
  auto arguments = dfkv::store::evict::ReadArguments(argc, argv);
  if (!arguments) {
    std::fprintf(
        stderr,
        "usage: evict_sim TRACE [policy=a,b] [share=1,5,10] [pattern=one-batch,...|all] [batch-max=N]\n"
        "                 [in-flight=N] [bytes-per-object=N]\n");
    return 2;
  }
  return dfkv::store::evict::Run(std::move(*arguments));
}
