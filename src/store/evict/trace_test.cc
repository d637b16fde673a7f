#include "store/evict/trace.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdio>
#include <filesystem>
#include <map>
#include <set>

#include "base/random.h"
#include "base/text.h"
#include "store/evict/offline.h"

namespace dfkv::store::evict {
namespace {

TraceRequest Chain(std::vector<uint64_t> blocks, uint64_t tokens = 0) {
  TraceRequest request;
  request.input_tokens = tokens == 0 ? blocks.size() * kTokensPerBlock : tokens;
  request.blocks = std::move(blocks);
  return request;
}

TEST(TraceLine, ReadsFieldsInAnyOrderAndSkipsUnknownOnes) {
  auto request = ParseTraceLine(
      " { \"hash_ids\" : [ 7,0 , 9223372036854775807],\"x\":\"a\\\"}\", \"y\": [1.5, -2e3], \"z\": [], "
      "\"output_length\": 5, \"timestamp\":3,\"input_length\": 1200 } \r\n");
  ASSERT_TRUE(request.ok()) << request.status().ToString();
  EXPECT_EQ(request->blocks, (std::vector<uint64_t>{7, 0, 9223372036854775807ull}));
  EXPECT_EQ(request->timestamp_ms, 3u);
  EXPECT_EQ(request->input_tokens, 1200u);
  EXPECT_EQ(request->output_tokens, 5u);
  EXPECT_EQ(HitTokens(*request, 2), 1024u);
  EXPECT_EQ(HitTokens(*request, 3), 1200u);
}

TEST(TraceLine, BadLinesNameTheColumn) {
  const std::string rest = "\"timestamp\":0,\"input_length\":1,\"output_length\":1";
  const std::pair<std::string, const char*> cases[] = {
      {"", "column 1: expected '{'"},
      {"[]", "column 1: expected '{'"},
      {"{}", "expected all of timestamp"},
      {Cat("{", rest, "}"), "expected all of timestamp"},
      {Cat("{", rest, ",\"hash_ids\":[]}"), "expected at least one hash id"},
      {Cat("{", rest, ",\"hash_ids\":[1]"), "expected ',' or '}'"},
      {Cat("{", rest, ",\"hash_ids\":[1]} x"), "expected the end of the line"},
      {Cat("{", rest, ",\"hash_ids\":[1,]}"), "expected a number that is not negative"},
      {Cat("{", rest, ",\"hash_ids\":[-1]}"), "expected a number that is not negative"},
      {Cat("{", rest, ",\"hash_ids\":[1.5]}"), "expected a whole number"},
      {Cat("{", rest, ",\"hash_ids\":[9223372036854775808]}"), "expected a number up to 2^63 - 1"},
      {Cat("{", rest, ",\"hash_ids\":[1"), "expected ',' or ']'"},
      {Cat("{", rest, ",\"hash_ids\":1}"), "expected '['"},
      {Cat("{", rest, ",\"timestamp\":1,\"hash_ids\":[1]}"), "expected no second 'timestamp'"},
      {Cat("{", rest, ",\"x\":{}}"), "expected a number, a string or an array"},
      {Cat("{", rest, ",\"x\":[[1]]}"), "expected a number, a string or an array"},
      {Cat("{", rest, ",\"x"), "expected the end of a string"},
      {Cat("{", rest, ",\"x\\"), "expected the end of a string"},
      {"{\"timestamp\" 1}", "column 14: expected ':'"},
  };
  for (const auto& [line, message] : cases) {
    auto request = ParseTraceLine(line);
    ASSERT_EQ(request.code(), Code::kInvalid) << line;
    EXPECT_NE(request.status().message().find(message), std::string::npos)
        << line << "\n -> " << request.status().message();
  }
}

TEST(TraceLine, AnyBytesAreRefusedOrRead) {
  const uint64_t seed = SeedFromSystem();
  std::printf("seed %s\n", Cat(seed).c_str());  // before anything may crash
  Random random(seed);
  const std::string good = R"({"timestamp": 1, "input_length": 2, "output_length": 3, "hash_ids": [4, 5]})";
  for (int i = 0; i < 20000; ++i) {
    std::string line = good;
    for (uint64_t n = 1 + random.Below(3); n > 0 && !line.empty(); --n) {
      const size_t at = random.Below(line.size());
      if (random.OneIn(2)) {
        line[at] = random.OneIn(2) ? static_cast<char>(random.Below(256)) : good[random.Below(good.size())];
      } else if (random.OneIn(2)) {
        line.resize(at);
      } else {
        line.insert(at, good.substr(random.Below(good.size()), random.Below(20)));
      }
    }
    auto request = ParseTraceLine(line);
    ASSERT_TRUE(!request.ok() || !request->blocks.empty()) << line;
  }
}

class TraceFile : public testing::Test {
 protected:
  TraceFile() {
    std::string pattern = std::filesystem::temp_directory_path() / "dfkv-trace-XXXXXX";
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  ~TraceFile() override { std::filesystem::remove_all(dir_); }

  std::string Write(const std::string& text, bool packed) {
    const std::string path = dir_ / (packed ? "t.gz" : "t");
    gzFile file = gzopen(path.c_str(), packed ? "wb" : "wbT");
    EXPECT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
    EXPECT_EQ(gzclose(file), Z_OK);
    return path;
  }

  std::filesystem::path dir_;
};

const char kLine[] = R"({"timestamp": 1, "input_length": 2, "output_length": 3, "hash_ids": [4, 5]})";

TEST_F(TraceFile, ReadsPlainAndPacked) {
  for (bool packed : {false, true}) {
    const std::string path = Write(Cat(kLine, "\n\n", kLine, "\n", kLine), packed);
    auto requests = LoadTraceBlocking(path);
    ASSERT_TRUE(requests.ok()) << requests.status().ToString();
    EXPECT_EQ(requests->size(), 3u);
    EXPECT_EQ(FootprintBlocks(*requests), 2u);
  }
}

TEST_F(TraceFile, NamesTheBadLine) {
  auto requests = LoadTraceBlocking(Write(Cat(kLine, "\n", "{}"), false));
  ASSERT_EQ(requests.code(), Code::kInvalid);
  EXPECT_NE(requests.status().message().find("t:2: column 3: "), std::string::npos)
      << requests.status().message();
  EXPECT_EQ(LoadTraceBlocking(dir_ / "none").code(), Code::kNotFound);
}

TEST_F(TraceFile, ACutGzipFileIsAnError) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += Cat(kLine, "\n");
  const std::string path = Write(text, true);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2);
  EXPECT_FALSE(LoadTraceBlocking(path).ok());
}

TEST(Offline, SmallCases) {
  const std::vector<TraceRequest> requests = {Chain({1, 2}), Chain({3, 4}), Chain({1, 2}), Chain({3, 4, 5})};
  EXPECT_DOUBLE_EQ(OfflineTokenHitRatio(requests, 0), 0.0);
  EXPECT_DOUBLE_EQ(OfflineTokenHitRatio(requests, 1), 1.0 / 9);
  EXPECT_DOUBLE_EQ(OfflineTokenHitRatio(requests, 2), 2.0 / 9);
  EXPECT_DOUBLE_EQ(OfflineTokenHitRatio(requests, 4), 4.0 / 9);
  EXPECT_DOUBLE_EQ(OfflineTokenHitRatio({}, 4), 0.0);
}

// The best of all choices, by trying every subset to keep after every request.
uint64_t BestByTrying(const std::vector<TraceRequest>& requests, size_t capacity) {
  std::map<std::set<uint64_t>, uint64_t> best = {{{}, 0}};
  for (const TraceRequest& request : requests) {
    std::map<std::set<uint64_t>, uint64_t> next;
    for (const auto& [cached, tokens] : best) {
      size_t hit = 0;
      while (hit < request.blocks.size() && cached.count(request.blocks[hit]) > 0) ++hit;
      std::set<uint64_t> all = cached;
      all.insert(request.blocks.begin(), request.blocks.end());
      const std::vector<uint64_t> list(all.begin(), all.end());
      for (uint32_t mask = 0; mask < (1u << list.size()); ++mask) {
        if (static_cast<size_t>(__builtin_popcount(mask)) > capacity) continue;
        std::set<uint64_t> kept;
        for (size_t i = 0; i < list.size(); ++i) {
          if (mask >> i & 1) kept.insert(list[i]);
        }
        uint64_t& value = next[kept];
        value = std::max(value, tokens + HitTokens(request, hit));
      }
    }
    best = std::move(next);
  }
  uint64_t most = 0;
  for (const auto& [cached, tokens] : best) most = std::max(most, tokens);
  return most;
}

TEST(Offline, IsTheBestOfAllChoices) {
  const uint64_t seed = SeedFromSystem();
  std::printf("seed %s\n", Cat(seed).c_str());  // before anything may crash
  Random random(seed);
  for (int round = 0; round < 30; ++round) {
    // Chains of a small tree: node n's children are 2n and 2n + 1; the block of node n is 8 - n.
    std::vector<TraceRequest> requests;
    uint64_t tokens = 0;
    for (int i = 0; i < 7; ++i) {
      std::vector<uint64_t> chain;
      for (uint64_t leaf = 1 + random.Below(7); leaf > 0; leaf /= 2) chain.insert(chain.begin(), 8 - leaf);
      requests.push_back(Chain(chain));
      tokens += requests.back().input_tokens;
    }
    const size_t capacity = 1 + random.Below(3);
    EXPECT_DOUBLE_EQ(OfflineTokenHitRatio(requests, capacity),
                     static_cast<double>(BestByTrying(requests, capacity)) / static_cast<double>(tokens));
  }
}

}  // namespace
}  // namespace dfkv::store::evict
