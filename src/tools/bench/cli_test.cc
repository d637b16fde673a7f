// The commands as a shell would run them, over a fake client.
#include "tools/bench/cli.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/text.h"
#include "tools/bench/chat.h"
#include "tools/bench/fake_client.h"

namespace dfkv::tools {
namespace {

// Forwards to a client that outlives it, as a node outlives its clients.
class Borrowed final : public client::Client {
 public:
  explicit Borrowed(client::Client& client) : client_(client) {}
  Status Put(std::span<const client::PutItem> items, const client::CallOptions& call,
             std::span<client::ItemResult> results) override {
    return client_.Put(items, call, results);
  }
  Status Get(std::span<const client::GetItem> items, const client::CallOptions& call,
             std::span<client::ItemResult> results) override {
    return client_.Get(items, call, results);
  }
  Status Exist(std::span<const ByteSpan> keys, const client::CallOptions& call,
               std::span<client::ItemResult> results) override {
    return client_.Exist(keys, call, results);
  }
  Status Remove(std::span<const ByteSpan> keys, const client::CallOptions& call,
                std::span<client::ItemResult> results) override {
    return client_.Remove(keys, call, results);
  }
  Status Lookup(std::span<const ByteSpan> keys, const client::CallOptions& call,
                std::span<client::ItemResult> results) override {
    return client_.Lookup(keys, call, results);
  }
  Result<uint64_t> Match(std::span<const ByteSpan> keys, const client::CallOptions& call) override {
    return client_.Match(keys, call);
  }
  Result<std::string> Stats(const std::string& member, const client::CallOptions& call) override {
    return client_.Stats(member, call);
  }
  MetricRegistry& metrics() override { return client_.metrics(); }

 private:
  client::Client& client_;
};

class CliTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/dfkv_cli_test.XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    directory_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  int Run(std::vector<std::string> words) {
    words.insert(words.begin(), "dfkv_bench");
    words.push_back("--progress=off");
    words.push_back(Cat("--json=", directory_, "/out.json"));
    std::vector<const char*> argv;
    for (const std::string& word : words) argv.push_back(word.c_str());
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    const int status =
        BenchMain(static_cast<int>(argv.size()), argv.data(),
                  [this](const client::ClientOptions& options) -> Result<std::unique_ptr<client::Client>> {
                    asked_ = options;
                    return std::unique_ptr<client::Client>(new Borrowed(fake_));
                  });
    out_ = testing::internal::GetCapturedStdout();
    err_ = testing::internal::GetCapturedStderr();
    return status;
  }
  nlohmann::json ReadJson() {
    std::ifstream file(directory_ + "/out.json");
    return nlohmann::json::parse(file);
  }
  std::string WriteTrace(const std::string& text) {
    std::ofstream(directory_ + "/small.jsonl") << text;
    return "--trace=" + directory_ + "/small.jsonl";
  }

  FakeClient fake_;
  client::ClientOptions asked_;
  std::string directory_, out_, err_;
};

TEST_F(CliTest, BothReportsAndSucceeds) {
  EXPECT_EQ(Run({"--members=n=127.0.0.1:1", "--op=both", "--size=4KiB", "--count=50", "--threads=2",
                 "--batch=8", "--namespace=x"}),
            0)
      << err_;
  EXPECT_EQ(asked_.key_namespace, "x");
  const nlohmann::json json = ReadJson();
  EXPECT_TRUE(json["ok"]);
  EXPECT_EQ(json["phases"][1]["get"]["good"], 50);
  EXPECT_EQ(json["phases"][1]["get"]["bytes"], 50 * 4096);
  EXPECT_NE(out_.find("hits 50  misses 0  errors 0"), std::string::npos) << out_;
}

TEST_F(CliTest, AMissIsAFailureUnlessAllowed) {
  EXPECT_EQ(Run({"--members=n=127.0.0.1:1", "--op=get", "--size=10", "--count=5"}), 1);
  EXPECT_EQ(Run({"--members=n=127.0.0.1:1", "--op=get", "--size=10", "--count=5", "--allow-misses"}), 0);
  EXPECT_FALSE(ReadJson()["phases"].empty());
}

TEST_F(CliTest, MisuseEndsWithTwoAndSaysWhy) {
  EXPECT_EQ(Run({"--op=get"}), 2);
  EXPECT_NE(err_.find("--members"), std::string::npos) << err_;
  EXPECT_EQ(Run({"--members=nonsense"}), 2);
  EXPECT_NE(err_.find("nonsense"), std::string::npos) << err_;
  EXPECT_EQ(Run({"--members=n=127.0.0.1:1", "--cold"}), 2);
  EXPECT_EQ(Run({"--members=n=127.0.0.1:1", "--no-such-flag"}), 2);
  EXPECT_EQ(Run({"--serve=/no/such/server", "--dir=" + directory_}), 2);
  EXPECT_NE(err_.find("/no/such/server"), std::string::npos) << err_;
  EXPECT_EQ(Run({"replay", "--members=n=127.0.0.1:1"}), 2);
  EXPECT_EQ(Run({"replay", "--members=n=127.0.0.1:1", "--trace=/no/such/trace"}), 2);
  EXPECT_EQ(Run({"replay", "--members=n=127.0.0.1:1", "--kill-at=3",
                 WriteTrace("{\"timestamp\":0,"
                            "\"input_length\":5,\"output_length\":1,\"hash_ids\":[1]}\n")}),
            2);
}

TEST_F(CliTest, AServerThatSaysNothingOfItsPortIsRefused) {
  EXPECT_EQ(Run({"--serve=/bin/false", "--dir=" + directory_}), 2);
  EXPECT_NE(err_.find("ended before it was ready"), std::string::npos) << err_;
  EXPECT_EQ(Run({"--serve=/bin/echo", "--dir=" + directory_}), 2);
  EXPECT_NE(err_.find("instead of PORT n"), std::string::npos) << err_;
}

TEST_F(CliTest, ReplayCountsTokensOfPartialBlocks) {
  const std::string trace = WriteTrace(
      "{\"timestamp\":0,\"input_length\":1000,\"output_length\":1,\"hash_ids\":[1,2]}\n"
      "{\"timestamp\":1,\"input_length\":1000,\"output_length\":1,\"hash_ids\":[1,2]}\n"
      "{\"timestamp\":2,\"input_length\":2000,\"output_length\":1,\"hash_ids\":[1,3,4,5]}\n");
  EXPECT_EQ(Run({"replay", "--members=n=127.0.0.1:1", trace, "--block-bytes=5000"}), 0) << err_;
  EXPECT_EQ(asked_.key_namespace, "small") << "the trace's name";
  const nlohmann::json json = ReadJson();
  EXPECT_EQ(json["requests"], 3);
  EXPECT_EQ(json["footprint_blocks"], 5);
  EXPECT_EQ(json["hit_blocks"], 3);
  EXPECT_DOUBLE_EQ(json["token_hit_percent"], 100.0 * (1000 + 512) / 4000);
  EXPECT_DOUBLE_EQ(json["offline_best_percent"], 100.0 * (1000 + 512) / 4000);
  EXPECT_EQ(json["wrong"], 0);
  fake_.FlipByte("1", 4999);
  EXPECT_EQ(Run({"replay", "--members=n=127.0.0.1:1", trace, "--block-bytes=5000", "--limit=1"}), 1);
  EXPECT_EQ(ReadJson()["wrong"], 1);
}

TEST_F(CliTest, DemoReadsBackWhatTheRunBeforeStored) {
  EXPECT_EQ(Run({"demo", "--members=n=127.0.0.1:1", "--requests=300", "--seconds=60", "--block-bytes=64"}), 0)
      << err_;
  EXPECT_GT(ReadJson()["token_hit_percent"], 50);
  EXPECT_EQ(out_.find("warm start"), std::string::npos);
  EXPECT_EQ(Run({"demo", "--members=n=127.0.0.1:1", "--requests=300", "--seconds=60", "--block-bytes=64",
                 "--run=1"}),
            0)
      << err_;
  EXPECT_NE(out_.find("warm start: the run before left 100.0 % of its first 200 requests"), std::string::npos)
      << out_;
}

TEST_F(CliTest, DemoOnlyReadsOfTheRunBefore) {
  EXPECT_EQ(Run({"demo", "--members=n=127.0.0.1:1", "--requests=1", "--block-bytes=64", "--run=7"}), 0)
      << err_;
  EXPECT_EQ(fake_.object_count(), ReadJson()["blocks"]);
}

TEST(Chat, ConversationsGrowAndShareOnlyPrompts) {
  ChatOptions options;
  options.requests = 400;
  const auto first = MakeChatTrace(options);
  EXPECT_EQ(MakeChatTrace(options).back().blocks, first.back().blocks) << "the same options, the same trace";
  options.run = 1;
  const auto second = MakeChatTrace(options);
  const auto blocks = [](const auto& trace) {
    std::map<uint64_t, size_t> places;
    for (const auto& request : trace) {
      EXPECT_EQ((request.input_tokens + 511) / 512, request.blocks.size());
      for (size_t i = 0; i < request.blocks.size(); ++i) {
        const auto [place, added] = places.emplace(request.blocks[i], i);
        EXPECT_EQ(place->second, i) << "a block stands at one place in its chains";
      }
    }
    return places;
  };
  const auto of_first = blocks(first);
  size_t shared = 0;
  for (const auto& [block, place] : blocks(second)) {
    if (!of_first.contains(block)) continue;
    ++shared;
    EXPECT_LT(place, 24u) << "only prompts are shared";
  }
  EXPECT_GT(shared, 4u);
}

}  // namespace
}  // namespace dfkv::tools
