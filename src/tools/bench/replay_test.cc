#include "tools/bench/replay.h"

#include <gtest/gtest.h>

#include <list>
#include <map>
#include <set>

#include "base/random.h"
#include "base/text.h"
#include "tools/bench/fake_client.h"

namespace dfkv::tools {
namespace {

using Requests = std::vector<store::evict::TraceRequest>;

// Conversations that grow by a block or two a turn behind a few shared prompts; the last block is partial.
Requests MakeTrace(uint64_t seed, size_t requests) {
  Random random(seed);
  std::vector<std::vector<uint64_t>> chats;
  uint64_t next_block = 0;
  Requests trace;
  for (size_t i = 0; i < requests; ++i) {
    const uint64_t prompt = random.Below(3);
    if (chats.size() < 4 || random.OneIn(4)) chats.push_back({prompt, 3 + prompt});
    next_block = std::max<uint64_t>(next_block, 6);
    std::vector<uint64_t>& chat = chats[chats.size() - 1 - random.Below(std::min<size_t>(chats.size(), 6))];
    for (uint64_t n = 1 + random.Below(3); n > 0; --n) chat.push_back(next_block++);
    store::evict::TraceRequest request;
    request.timestamp_ms = i;
    request.blocks = chat;
    request.input_tokens = 512 * (chat.size() - 1) + 1 + random.Below(512);
    trace.push_back(request);
  }
  return trace;
}

// The hit tokens of an LRU cache on the trace, worked out without a client: an object touched later is
// hotter, a request touches deepest first.
uint64_t LruHitTokens(const Requests& trace, size_t capacity) {
  std::map<uint64_t, uint64_t> touched;  // block: when
  uint64_t now = 0;
  uint64_t hit_tokens = 0;
  const auto touch = [&](uint64_t block) {
    touched[block] = ++now;
    if (touched.size() <= capacity) return;
    touched.erase(std::min_element(touched.begin(), touched.end(),
                                   [](const auto& a, const auto& b) { return a.second < b.second; }));
  };
  for (const auto& request : trace) {
    size_t hit = 0;
    while (hit < request.blocks.size() && touched.contains(request.blocks[hit])) ++hit;
    for (size_t i = hit; i-- > 0;) touch(request.blocks[i]);                      // GET
    for (size_t i = request.blocks.size(); i-- > hit;) touch(request.blocks[i]);  // PUT
    hit_tokens += std::min<uint64_t>(512 * hit, request.input_tokens);
  }
  return hit_tokens;
}

ReplayOptions Quiet() {
  ReplayOptions options;
  options.block_bytes = 100;
  options.progress = ProgressMode::kOff;
  return options;
}

class ReplayTest : public ::testing::Test {
 protected:
  const uint64_t seed_ = SeedFromSystem();
  const Requests trace_ = MakeTrace(seed_, 200);
  const ::testing::ScopedTrace note_{__FILE__, __LINE__, Cat("seed ", seed_)};
};

TEST_F(ReplayTest, CountsWhatAnEndlessCacheHits) {
  FakeClient client;
  const Result<ReplayReport> report = Replay(client, trace_, Quiet());
  ASSERT_TRUE(report.ok());
  std::set<uint64_t> distinct;
  uint64_t blocks = 0;
  uint64_t tokens = 0;
  for (const auto& request : trace_) {
    distinct.insert(request.blocks.begin(), request.blocks.end());
    blocks += request.blocks.size();
    tokens += request.input_tokens;
  }
  EXPECT_EQ(report->requests, 200u);
  EXPECT_EQ(report->input_tokens, tokens);
  EXPECT_EQ(report->blocks, blocks);
  EXPECT_EQ(report->hit_tokens, LruHitTokens(trace_, SIZE_MAX));
  EXPECT_EQ(report->hit_blocks, blocks - distinct.size());
  EXPECT_EQ(report->put.good(), distinct.size());
  EXPECT_EQ(report->put.bytes, 100 * distinct.size());
  EXPECT_EQ(report->get.bytes, 100 * (blocks - distinct.size()));
  EXPECT_EQ(report->request_time.count(), 200u);
  EXPECT_EQ(report->wrong(), 0u);
  EXPECT_TRUE(report->Succeeded());
}

TEST_F(ReplayTest, CountsWhatAnLruCacheHits) {
  for (const size_t capacity : {40u, 80u, 160u}) {
    FakeClient client(capacity);
    const Result<ReplayReport> report = Replay(client, trace_, Quiet());
    EXPECT_EQ(report->hit_tokens, LruHitTokens(trace_, capacity)) << capacity;
    EXPECT_EQ(report->vanished, 0u);
    EXPECT_TRUE(report->Succeeded());
  }
}

TEST_F(ReplayTest, BatchesHitTheSameAndAreNoLargerThanAsked) {
  FakeClient whole;
  FakeClient single;
  ReplayOptions options = Quiet();
  const uint64_t hit_tokens = Replay(whole, trace_, options)->hit_tokens;
  options.batch_max = 1;
  const Result<ReplayReport> report = Replay(single, trace_, options);
  EXPECT_EQ(report->hit_tokens, hit_tokens);
  EXPECT_EQ(single.calls(), 200 + report->get.items() + report->put.items());
}

TEST_F(ReplayTest, ManyThreadsMoveTheSameBytesRight) {
  FakeClient client;
  ReplayOptions options = Quiet();
  options.threads = 4;
  options.speed = 1000;
  const Result<ReplayReport> report = Replay(client, trace_, options);
  EXPECT_EQ(report->requests, 200u);
  EXPECT_EQ(report->wrong(), 0u);
  EXPECT_TRUE(report->Succeeded());
}

TEST_F(ReplayTest, AWrongByteIsNoHitAndFailsTheReplay) {
  FakeClient client;
  ASSERT_TRUE(Replay(client, trace_, Quiet())->Succeeded());
  const std::vector<uint64_t>& chain = trace_.back().blocks;
  client.FlipByte(Cat(chain[1]), 57);
  const Requests again = {trace_.back()};
  const Result<ReplayReport> report = Replay(client, again, Quiet());
  EXPECT_EQ(report->wrong(), 1u);
  EXPECT_EQ(report->hit_blocks, 1u) << "the chain is cut at the wrong block";
  EXPECT_EQ(report->vanished, chain.size() - 1);
  EXPECT_FALSE(report->Succeeded());
}

TEST_F(ReplayTest, ABusyPutIsTriedAgainAndAFailedOneFailsTheReplay) {
  FakeClient client;
  int busy = 2;
  client.SetFault([&](bool put, std::string_view) { return put && busy-- > 0 ? Code::kBusy : Code::kOk; });
  Result<ReplayReport> report = Replay(client, trace_, Quiet());
  EXPECT_TRUE(report->Succeeded());
  EXPECT_EQ(report->busy_retries, 2u);
  client.SetFault([](bool put, std::string_view) { return put ? Code::kOk : Code::kTimeout; });
  report = Replay(client, trace_, Quiet());
  EXPECT_FALSE(report->Succeeded());
  EXPECT_EQ(report->hit_tokens, 0u);
}

// A node whose PUTs fail from the middle of the batch in which it is killed until it is restarted.
class KillTest : public ReplayTest {
 protected:
  // The first request from number 100 on that stores two new blocks or more: its second one fails.
  void ChooseKill() {
    std::set<uint64_t> distinct;
    for (kill_at_ = 0;; ++kill_at_) {
      ASSERT_LT(kill_at_, trace_.size());
      const size_t before = distinct.size();
      distinct.insert(trace_[kill_at_].blocks.begin(), trace_[kill_at_].blocks.end());
      puts_left_ = before + 1;
      if (kill_at_ >= 100 && distinct.size() >= before + 2) return;
    }
  }

  Result<ReplayReport> Run(FakeClient& client, bool evicts, const std::function<void()>& while_down) {
    ChooseKill();
    client.SetFault([puts_left = puts_left_](bool put, std::string_view) mutable {
      if (put && puts_left == 0) return Code::kUnavailable;
      if (put) --puts_left;
      return Code::kOk;
    });
    NodeControl control;
    control.evicts = evicts;
    control.kill = [this] { ++kills_; };
    control.restart = [&]() -> Result<client::Client*> {
      client.SetFault({});
      while_down();
      return static_cast<client::Client*>(&client);
    };
    ReplayOptions options = Quiet();
    options.kill_at = kill_at_;
    return Replay(client, trace_, options, &control);
  }

  std::atomic<int> kills_ = 0;
  uint64_t kill_at_ = 0;
  uint64_t puts_left_ = 0;
};

TEST_F(KillTest, EveryAcknowledgedBlockIsThereAfterTheRestart) {
  FakeClient client;
  const Result<ReplayReport> report = Run(client, false, [] {});
  ASSERT_TRUE(report.ok());
  ASSERT_TRUE(report->kill.has_value());
  EXPECT_EQ(kills_, 1);
  EXPECT_EQ(report->kill->request, kill_at_);
  EXPECT_EQ(report->kill->batch_acknowledged, 1u);
  EXPECT_GT(report->kill->batch_blocks, 1u);
  EXPECT_EQ(report->kill->checked, report->kill->acknowledged);
  EXPECT_EQ(report->kill->missing, 0u);
  EXPECT_EQ(report->requests, 200u) << "it goes on";
}

TEST_F(KillTest, ALostBlockFailsTheReplay) {
  FakeClient client;
  const Result<ReplayReport> report = Run(client, false, [&] {
    const std::string name = Cat(trace_[0].blocks[0]);
    const ByteSpan key = AsBytes(name);
    client::ItemResult result;
    ASSERT_TRUE(client.Remove({&key, 1}, {}, {&result, 1}).ok());
  });
  EXPECT_EQ(report->kill->missing, 1u);
  EXPECT_FALSE(report->Succeeded());
}

TEST_F(KillTest, ALostBlockOfTheCutPutFailsTheReplay) {
  FakeClient client;
  const Result<ReplayReport> report = Run(client, false, [&] { client.RemoveNewest(); });
  EXPECT_EQ(report->kill->missing, 1u);
  EXPECT_FALSE(report->Succeeded());
}

TEST_F(KillTest, AWrongByteAfterTheRestartFailsTheReplay) {
  FakeClient client;
  const Result<ReplayReport> report =
      Run(client, false, [&] { client.FlipByte(Cat(trace_[0].blocks[0]), 9); });
  EXPECT_EQ(report->kill->wrong, 1u);
  EXPECT_EQ(report->wrong(), report->get.wrong + 1);
  EXPECT_FALSE(report->kill->Succeeded());
  EXPECT_FALSE(report->Succeeded());
}

TEST_F(KillTest, WhatEvictionTookBeforeIsNotMissed) {
  FakeClient client(60);
  const Result<ReplayReport> report = Run(client, true, [] {});
  ASSERT_TRUE(report->kill.has_value());
  EXPECT_LE(report->kill->checked, 60 + report->kill->batch_blocks);
  EXPECT_LE(report->kill->missing, report->kill->missing_allowed);
  EXPECT_TRUE(report->kill->Succeeded());
}

TEST_F(ReplayTest, RefusesWhatMakesNoSense) {
  FakeClient client;
  ReplayOptions options = Quiet();
  EXPECT_EQ(Replay(client, {}, options).code(), Code::kInvalid);
  options.kill_at = 1;
  EXPECT_EQ(Replay(client, trace_, options).code(), Code::kInvalid) << "nothing to kill";
  NodeControl control;
  options.threads = 2;
  EXPECT_EQ(Replay(client, trace_, options, &control).code(), Code::kInvalid);
  options = Quiet();
  options.block_bytes = 0;
  EXPECT_EQ(Replay(client, trace_, options).code(), Code::kInvalid);
}

}  // namespace
}  // namespace dfkv::tools
