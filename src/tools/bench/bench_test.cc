#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "tools/bench/client_suite.h"
#include "tools/bench/cpu.h"
#include "tools/bench/fake_client.h"
#include "tools/bench/latency.h"
#include "tools/bench/load.h"
#include "tools/bench/tally.h"

namespace dfkv::tools {
namespace {

TEST(LatencyRecorder, PercentilesAreWithinOnePercent) {
  const uint64_t seed = SeedFromSystem();
  SCOPED_TRACE(Cat("seed ", seed));
  Random random(seed);
  LatencyRecorder recorder;
  std::vector<Nanos> all;
  for (int i = 0; i < 20'000; ++i) {
    const auto latency = static_cast<Nanos>(random.Next() >> (24 + random.Below(40)));
    all.push_back(std::min(latency, (Nanos{1} << 40) - 1));
    recorder.Add(latency);
  }
  std::sort(all.begin(), all.end());
  for (const double quantile : {0.001, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0}) {
    const size_t rank = static_cast<size_t>(std::ceil(quantile * static_cast<double>(all.size()))) - 1;
    const Nanos exact = all[rank];
    EXPECT_GE(recorder.Quantile(quantile), exact) << quantile;
    EXPECT_LE(recorder.Quantile(quantile), exact + exact / 100 + 1) << quantile;
  }
  EXPECT_EQ(recorder.count(), all.size());
}

TEST(LatencyRecorder, MergedRecordersCountEverythingOnce) {
  LatencyRecorder a;
  LatencyRecorder b;
  for (int i = 1; i <= 100; ++i) (i % 2 == 0 ? b : a).Add(i * kMillisecond);
  a.Merge(b);
  const LatencySummary summary = a.Summary();
  EXPECT_EQ(summary.count, 100u);
  EXPECT_DOUBLE_EQ(summary.mean_us, 50'500);
  EXPECT_DOUBLE_EQ(summary.max_us, 100'000);
  EXPECT_NEAR(summary.p50_us, 50'000, 500);
  EXPECT_EQ(LatencyRecorder().Summary().p999_us, 0);
}

TEST(Tally, WrongBytesAreErrorsAndNeverHits) {
  Tally tally;
  for (int i = 0; i < 5; ++i) tally.Add(Code::kOk);
  tally.Add(Code::kNotFound);
  tally.Add(Code::kCorrupt);
  tally.Add(Code::kBusy);
  tally.wrong = 2;
  EXPECT_EQ(tally.items(), 8u);
  EXPECT_EQ(tally.good(), 3u);
  EXPECT_EQ(tally.misses(), 2u);
  EXPECT_EQ(tally.errors(), 3u);
  EXPECT_EQ(tally.ToText(), "Ok 5, NotFound 1, Busy 1, Corrupt 1, wrong bytes 2");
}

TEST(Values, EveryObjectHasItsOwnBytesAndASpoiltBufferMatchesNothing) {
  for (const size_t size : {size_t{1}, size_t{7}, size_t{8}, size_t{4096}, size_t{10'001}}) {
    std::vector<std::byte> value(size);
    const uint64_t seed = ValueSeed(1, 5);
    FillPattern(seed, 0, value);
    EXPECT_TRUE(PatternMatches(seed, 0, value));
    if (size >= 8) {
      EXPECT_FALSE(PatternMatches(ValueSeed(1, 6), 0, value));
      EXPECT_FALSE(PatternMatches(ValueSeed(2, 5), 0, value));
    }
    for (const size_t at : {size_t{0}, size / 2, size - 1}) {
      value[at] ^= std::byte{1};
      EXPECT_FALSE(PatternMatches(seed, 0, value)) << size << " at " << at;
      value[at] ^= std::byte{1};
    }
    Spoil(seed, value);
    for (size_t page = 0; page < size; page += 4096) {
      const ByteSpan part = ByteSpan(value).subspan(page, std::min<size_t>(4096, size - page));
      EXPECT_FALSE(PatternMatches(seed, page, part)) << size << " at " << page;
    }
    const size_t last = (size - 1) & ~size_t{7};
    EXPECT_FALSE(PatternMatches(seed, last, ByteSpan(value).subspan(last))) << size << ": the end";
  }
}

TEST(FakeClient, KeepsTheClientsContract) {
  FakeClient client;
  ClientSuite(client, "contract/").Run();
}

TEST(FakeClient, EvictsTheLeastRecentlyUsed) {
  FakeClient client(2);
  std::vector<std::byte> value(10);
  const ByteSpan piece = value;
  client::ItemResult result;
  const auto put = [&](std::string_view key) {
    const client::PutItem item{AsBytes(key), {&piece, 1}, 0};
    ASSERT_TRUE(client.Put({&item, 1}, {}, {&result, 1}).ok());
  };
  put("a");
  put("b");
  put("a");
  put("c");
  const std::vector<ByteSpan> keys = {AsBytes("a"), AsBytes("b"), AsBytes("c")};
  std::vector<client::ItemResult> present(3);
  ASSERT_TRUE(client.Exist(keys, {}, present).ok());
  EXPECT_EQ(present[0].code, Code::kOk);
  EXPECT_EQ(present[1].code, Code::kNotFound);
  EXPECT_EQ(present[2].code, Code::kOk);
}

LoadOptions SmallLoad(LoadOp op) {
  LoadOptions options;
  options.op = op;
  options.size_bytes = 1000;
  options.count = 103;
  options.threads = 3;
  options.batch = 4;
  options.progress = ProgressMode::kOff;
  return options;
}

TEST(Load, PutThenGetFindsEveryByte) {
  FakeClient client;
  const Result<LoadReport> report = RunLoad(client, SmallLoad(LoadOp::kBoth), {});
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->phases.size(), 2u);
  const PhaseReport& put = report->phases[0];
  const PhaseReport& get = report->phases[1];
  EXPECT_EQ(put.put.tally.good(), 103u);
  EXPECT_EQ(put.put.tally.bytes, 103'000u);
  EXPECT_EQ(get.get.tally.good(), 103u);
  EXPECT_EQ(get.get.tally.bytes, 103'000u);
  EXPECT_EQ(get.get.operations.count(), 103u);
  EXPECT_EQ(get.get.calls.count(), 26u);
  EXPECT_EQ(client.object_count(), 103u);
  EXPECT_EQ(client.calls(), 52u);
  EXPECT_TRUE(report->Succeeded(false));
}

TEST(Load, ALaterRunReadsWhatAnEarlierOneWrote) {
  FakeClient client;
  ASSERT_TRUE(RunLoad(client, SmallLoad(LoadOp::kPut), {}).ok());
  LoadOptions options = SmallLoad(LoadOp::kGet);
  options.order = LoadOrder::kRandom;
  options.warm = true;
  Result<LoadReport> report = RunLoad(client, options, {});
  ASSERT_EQ(report->phases.size(), 2u) << "warm, get";
  EXPECT_TRUE(report->Succeeded(false));
  options.key_seed = 2;
  report = RunLoad(client, options, {});
  EXPECT_EQ(report->phases[1].get.tally.misses(), 103u);
  EXPECT_FALSE(report->Succeeded(false));
  EXPECT_TRUE(report->Succeeded(true));
}

TEST(Load, AWrongByteFailsTheRun) {
  FakeClient client;
  ASSERT_TRUE(RunLoad(client, SmallLoad(LoadOp::kPut), {}).ok());
  client.FlipByte("1/50", 999);
  LoadOptions options = SmallLoad(LoadOp::kGet);
  Result<LoadReport> report = RunLoad(client, options, {});
  EXPECT_EQ(report->wrong(), 1u);
  EXPECT_EQ(report->phases[0].get.tally.bytes, 102'000u);
  EXPECT_FALSE(report->Succeeded(true));
  options.size_bytes = 1001;  // every stored length is another one
  report = RunLoad(client, options, {});
  EXPECT_EQ(report->wrong(), 103u);
  options.verify = false;
  report = RunLoad(client, options, {});
  EXPECT_EQ(report->wrong(), 103u) << "the length is always compared";
}

TEST(Load, ReportsCodesAndFailsOnErrors) {
  FakeClient client;
  client.SetFault([](bool put, std::string_view key) {
    if (put && key == "1/7") return Code::kBusy;
    return !put && key == "1/8" ? Code::kTimeout : Code::kOk;
  });
  const Result<LoadReport> report = RunLoad(client, SmallLoad(LoadOp::kBoth), {});
  EXPECT_EQ(report->phases[0].put.tally.of(Code::kBusy), 1u);
  EXPECT_EQ(report->phases[1].get.tally.of(Code::kTimeout), 1u);
  EXPECT_EQ(report->phases[1].get.tally.misses(), 1u) << "7 was never stored";
  EXPECT_FALSE(report->Succeeded(true));
}

TEST(Load, MixedReadsTheWorkingSetAndWritesNewObjects) {
  FakeClient client;
  LoadOptions options = SmallLoad(LoadOp::kMixed);
  options.working_set = 20;
  options.count = 400;
  options.get_percent = 50;
  options.batch_concurrency = 2;
  const Result<LoadReport> report = RunLoad(client, options, {});
  ASSERT_EQ(report->phases.size(), 2u);
  const PhaseReport& mixed = report->phases[1];
  EXPECT_EQ(mixed.threads, 6u);
  EXPECT_EQ(mixed.items(), 400u);
  EXPECT_GT(mixed.get.tally.good(), 100u);
  EXPECT_GT(mixed.put.tally.good(), 100u);
  EXPECT_EQ(client.object_count(), 20 + mixed.put.tally.good());
  EXPECT_TRUE(report->Succeeded(false));
}

TEST(Load, RemoveTakesWhatAnEarlierPutStored) {
  FakeClient client;
  ASSERT_TRUE(RunLoad(client, SmallLoad(LoadOp::kPut), {}).ok());
  LoadOptions options = SmallLoad(LoadOp::kRemove);
  options.count = 100;
  const Result<LoadReport> report = RunLoad(client, options, {});
  ASSERT_EQ(report->phases.size(), 1u);
  EXPECT_EQ(report->phases[0].remove.tally.good(), 100u);
  EXPECT_EQ(report->phases[0].bytes(), 0u);
  EXPECT_EQ(client.object_count(), 3u);
  EXPECT_TRUE(report->Succeeded(false));
  const Result<LoadReport> again = RunLoad(client, options, {});
  EXPECT_EQ(again->phases[0].remove.tally.misses(), 100u);
  EXPECT_FALSE(again->Succeeded(false));
  EXPECT_TRUE(again->Succeeded(true));
}

TEST(Load, RefusesWhatMakesNoSense) {
  FakeClient client;
  for (const auto& spoil : std::vector<void (*)(LoadOptions&)>{
           [](LoadOptions& o) { o.size_bytes = 0; }, [](LoadOptions& o) { o.count = 0; },
           [](LoadOptions& o) { o.threads = 0; }, [](LoadOptions& o) { o.batch = 0; },
           [](LoadOptions& o) { o.batch_concurrency = 0; },
           [](LoadOptions& o) { o.size_bytes = 1ull << 62; }}) {
    LoadOptions options = SmallLoad(LoadOp::kGet);
    spoil(options);
    EXPECT_EQ(RunLoad(client, options, {}).code(), Code::kInvalid);
  }
}

TEST(Load, GoesOnWithTheClientOfARestartedNode) {
  FakeClient first;
  FakeClient second;
  ASSERT_TRUE(RunLoad(second, SmallLoad(LoadOp::kPut), {}).ok());
  const auto between = [&]() -> Result<client::Client*> { return static_cast<client::Client*>(&second); };
  const Result<LoadReport> report = RunLoad(first, SmallLoad(LoadOp::kBoth), {}, between);
  EXPECT_TRUE(report->Succeeded(false));
  EXPECT_EQ(first.calls(), 26u);
  EXPECT_EQ(second.calls(), 52u);
}

TEST(Metrics, SumsTheSeriesOfOneName) {
  const std::string text =
      "# HELP a_total x\n# TYPE a_total counter\na_total{x=\"1\"} 2.5\na_total{x=\"2\"} 4\na_total_other "
      "9\nb 7";
  EXPECT_EQ(MetricSum(text, "a_total"), 6.5);
  EXPECT_EQ(MetricSum(text, "b"), 7.0);
  EXPECT_EQ(MetricSum(text, "a"), std::nullopt);
}

TEST(Cpu, AsksTheNodesFirst) {
  FakeClient client;
  const auto members = cluster::ParseMembers("a=127.0.0.1:1,b=127.0.0.1:2").value();
  EXPECT_EQ(NodeCpuProbe(members)(client), std::nullopt) << "no metric, no process";
  client.metrics().AddCallback("dfkv_process_cpu_seconds_total", "CPU time.", "counter", {},
                               [] { return 1.5; });
  EXPECT_EQ(NodeCpuProbe(members)(client), 3.0);
}

TEST(Cpu, FindsThisProcessByItsListeningPort) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
  EXPECT_EQ(PidListeningOn(ntohs(address.sin_port)), getpid());
  close(listener);
  EXPECT_NE(PidListeningOn(ntohs(address.sin_port)), getpid());
  EXPECT_TRUE(ProcessCpuSeconds(getpid()).has_value());
  EXPECT_EQ(ProcessCpuSeconds(0), std::nullopt);
}

}  // namespace
}  // namespace dfkv::tools
