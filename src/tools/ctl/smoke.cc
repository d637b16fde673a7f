#include "tools/ctl/smoke.h"

#include <cstdio>

#include "base/clock.h"
#include "base/option_cli.h"
#include "base/random.h"
#include "base/text.h"
#include "tools/ctl/common.h"

namespace dfkv::tools {
namespace {

double MillisSince(Nanos begin) {
  return static_cast<double>(SystemClock().Now() - begin) * 1e-6;
}

// One line for a step; false when it failed.
bool Step(const std::string& what, Code code, Code wanted, Nanos begin) {
  const bool good = code == wanted;
  std::printf("%-4s %s: %s in %.3f ms\n", good ? "ok" : "FAIL", what.c_str(),
              std::string(CodeName(code)).c_str(), MillisSince(begin));
  return good;
}

int Verdict(bool good, Nanos begin) {
  std::printf("%s in %.3f ms\n", good ? "PASS" : "FAIL", MillisSince(begin));
  return good ? kDone : kFailed;
}

// Absent, put, there with its length, the same bytes back, removed, absent.
bool RoundTrip(client::Client& client, const std::string& key, uint64_t size,
               const client::CallOptions& call) {
  const uint64_t seed = SeedFromSystem();
  std::vector<std::byte> value(size);
  FillPattern(seed, 0, value);
  const std::string label = FormatBytes(size);
  Nanos begin = SystemClock().Now();
  bool good = Step("miss " + label, GetValue(client, key, call).code(), Code::kNotFound, begin);
  begin = SystemClock().Now();
  good &= Step("put " + label, PutValue(client, key, value, call), Code::kOk, begin);
  begin = SystemClock().Now();
  const auto found = OnKey(client, &client::Client::Lookup, key, call);
  good &=
      Step("exist " + label, found.code == Code::kOk && found.length != size ? Code::kCorrupt : found.code,
           Code::kOk, begin);
  begin = SystemClock().Now();
  const auto back = GetValue(client, key, call);
  const bool same = back.ok() && back->size() == size && PatternMatches(seed, 0, *back);
  good &= Step("get " + label, back.ok() && !same ? Code::kCorrupt : back.code(), Code::kOk, begin);
  begin = SystemClock().Now();
  good &= Step("remove " + label, OnKey(client, &client::Client::Remove, key, call).code, Code::kOk, begin);
  begin = SystemClock().Now();
  good &=
      Step("gone " + label, OnKey(client, &client::Client::Exist, key, call).code, Code::kNotFound, begin);
  return good;
}

}  // namespace

int SmokeMain(int argc, const char* const* argv) {
  OptionSet set;
  CtlOptions options;
  options.client.key_namespace = "dfkv-smoke";
  std::vector<std::string> sizes = {"1", "4096", "65537", "1MiB"};
  RegisterCtlOptions(&set, &options);
  set.Group("Smoke test");
  set.Add("size", &sizes, "Sizes of the objects that make the round trip.");
  const ProgramText text = {"dfkv_smoke", "Round trip of objects of several sizes; PASS or FAIL."};
  if (const std::optional<int> status = LoadProgramOptions(text, &set, argc, argv)) return *status;
  const auto client = client::Client::Open(options.client);
  if (!client.ok()) return Complain(text.name, client.status(), kUsage);
  const Nanos begin = SystemClock().Now();
  bool good = true;
  for (const std::string& size : sizes) {
    const auto bytes = ParseBytes(size);
    if (!bytes.ok()) return Complain(text.name, bytes.status(), kUsage);
    good &= RoundTrip(**client, Cat("smoke-", SeedFromSystem()), *bytes, options.call());
  }
  return Verdict(good, begin);
}

int DiscoverSmokeMain(int argc, const char* const* argv) {
  OptionSet set;
  CtlOptions options;
  options.client.key_namespace = "dfkv-discover-smoke";
  uint64_t count = 64;
  uint64_t size = 4096;
  RegisterCtlOptions(&set, &options);
  set.Group("Smoke test");
  set.Add("count", &count, "Objects that make the round trip.").Range(1, 1'000'000);
  set.AddBytes("size", &size, "Size of each object.").AtLeast(1);
  const ProgramText text = {"dfkv_discover_smoke",
                            "Asks every member, then moves objects over the whole ring; PASS or FAIL."};
  if (const std::optional<int> status = LoadProgramOptions(text, &set, argc, argv)) return *status;
  const auto client = client::Client::Open(options.client);
  if (!client.ok()) return Complain(text.name, client.status(), kUsage);
  const Nanos start = SystemClock().Now();
  bool good = true;
  const auto members = cluster::ParseMembers(options.client.members);
  for (const cluster::Member& member : *members) {
    const Nanos begin = SystemClock().Now();
    const auto stats = (*client)->Stats(member.name, options.call());
    good &= Step(Cat("member ", member.name, " ", member.address), stats.code(), Code::kOk, begin);
  }
  uint64_t moved = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const std::string key = Cat("discover-", SeedFromSystem());
    std::vector<std::byte> value(size);
    FillPattern(i, 0, value);
    if (PutValue(**client, key, value, options.call()) != Code::kOk) continue;
    const auto back = GetValue(**client, key, options.call());
    moved += back.ok() && *back == value;
    (void)OnKey(**client, &client::Client::Remove, key, options.call());
  }
  std::printf("%-4s %llu of %llu objects of %s made the round trip\n", moved == count ? "ok" : "FAIL",
              static_cast<unsigned long long>(moved), static_cast<unsigned long long>(count),
              FormatBytes(size).c_str());
  return Verdict(good && moved == count, start);
}

}  // namespace dfkv::tools
