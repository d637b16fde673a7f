// What the commands of dfkv_bench share.
#pragma once

#include <cctype>
#include <cstdio>
#include <string>

#include "base/option.h"
#include "base/text.h"
#include "tools/bench/bed.h"
#include "tools/bench/progress.h"

namespace dfkv::tools {

constexpr int kAllSucceeded = 0;
constexpr int kSomeFailed = 1;
constexpr int kNotRun = 2;

// The variable of a bench option: DFKV_BENCH_KEY_SEED, so that a shell set up for a node does not change a
// run.
inline std::string BenchEnv(std::string_view name) {
  std::string variable = "DFKV_BENCH_";
  for (const char c : name) {
    variable += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return variable;
}
template <typename Field>
Option& Row(OptionSet* set, std::string_view name, Field* field, std::string_view help) {
  return set->Add(name, field, help).Env(BenchEnv(name));
}
template <typename Field>
Option& RowBytes(OptionSet* set, std::string_view name, Field* field, std::string_view help) {
  return set->AddBytes(name, field, help).Env(BenchEnv(name));
}

// Where to run, and what to report where.
struct CommonOptions {
  BedOptions bed;
  ProgressMode progress = ProgressMode::kAuto;
  std::string json;  // file or "-"
};
void RegisterCommon(OptionSet* set, CommonOptions* options);
// Invalid when neither --members nor --serve is given, or both.
Status CheckCommon(const CommonOptions& options);

// Prints the failure to stderr; kNotRun.
int Refuse(std::string_view command, const Status& status);
// The report to stdout, or to stderr when JSON goes to stdout; then the JSON.
Status PrintReport(const CommonOptions& options, const std::string& text, const std::string& json);

int LoadCommand(int argc, const char* const* argv, const ClientFactory& factory);
int ReplayCommand(int argc, const char* const* argv, const ClientFactory& factory);
int DemoCommand(int argc, const char* const* argv, const ClientFactory& factory);

}  // namespace dfkv::tools
