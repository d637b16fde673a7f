#include "net/tcp/output.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "wire/decode.h"

namespace dfkv::net {
namespace {

constexpr wire::FrameLimits kLimits{wire::kMetaBytesMax, 1ull << 32, 1 << 20};

// Counts the values that are held.
struct Hold {
  explicit Hold(int* count) : count_(count) { ++*count_; }
  Hold(Hold&& other) noexcept : count_(std::exchange(other.count_, nullptr)) {}
  ~Hold() {
    if (count_ != nullptr) --*count_;
  }
  int* count_;
};

// Takes everything out, `step` bytes at a time.
std::vector<std::byte> Drain(OutputQueue& queue, uint64_t step) {
  std::vector<std::byte> all;
  while (!queue.empty()) {
    uint64_t left = step;
    uint64_t taken = 0;
    for (const iovec& piece : queue.Next()) {
      const auto* data = static_cast<const std::byte*>(piece.iov_base);
      const uint64_t size = std::min<uint64_t>(piece.iov_len, left);
      all.insert(all.end(), data, data + size);
      taken += size;
      left -= size;
    }
    queue.Taken(taken);
  }
  return all;
}

struct Received {
  std::map<uint32_t, std::string> values;
  std::map<uint32_t, Code> codes;
  int frames = 0;
  int last_frames = 0;
  uint64_t payload_max = 0;
};

Received Parse(ByteSpan bytes) {
  Received got;
  while (!bytes.empty()) {
    auto header = wire::DecodeHeader(bytes, kLimits);
    EXPECT_TRUE(header.ok()) << header.status().ToString();
    auto answer = wire::DecodeAnswer(*header, bytes.first(wire::FrameBytes(*header)));
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    ByteSpan payload = bytes.subspan(wire::FrameBytes(*header), header->payload_bytes);
    for (uint32_t i = 0; i < answer->item_count(); ++i) {
      const wire::AnswerItem item = answer->item(i);
      EXPECT_EQ(got.codes.count(item.index), 0u) << "an item is answered once";
      got.codes[item.index] = static_cast<Code>(item.code);
      got.values[item.index] = AsText(payload.first(item.payload_bytes));
      payload = payload.subspan(item.payload_bytes);
    }
    ++got.frames;
    if (!answer->more) ++got.last_frames;
    got.payload_max = std::max(got.payload_max, header->payload_bytes);
    bytes = bytes.subspan(wire::FrameBytes(*header) + header->payload_bytes);
  }
  return got;
}

class OutputTest : public ::testing::Test {
 protected:
  // Answers one request with these values (an empty one: a miss).
  void Add(const std::vector<std::string>& values, const AnswerFraming& framing, bool last = true) {
    std::vector<wire::AnswerItem> items;
    std::vector<Value> out;
    for (uint32_t i = 0; i < values.size(); ++i) {
      wire::AnswerItem item;
      item.index = i;
      item.payload_bytes = static_cast<uint32_t>(values[i].size());
      item.code = static_cast<uint8_t>(values[i].empty() ? Code::kNotFound : Code::kOk);
      items.push_back(item);
      if (!values[i].empty()) out.push_back({AsBytes(values[i]), Pin(Hold(&held_))});
    }
    queue_.AddAnswer(framing, items, out, last);
  }

  OutputBlockPool pool_{4};
  OutputQueue queue_{&pool_};
  int held_ = 0;
};

TEST_F(OutputTest, ValuesLeaveInOrderAndAreHeldUntilTaken) {
  const std::vector<std::string> values = {"alpha", "", std::string(5000, 'b'), "c"};
  for (uint64_t step : {1u, 7u, 64u, 100000u}) {
    Add(values, {wire::Op::kGet, 9, 1 << 20});
    EXPECT_EQ(held_, 3);
    const Received got = Parse(Drain(queue_, step));
    EXPECT_EQ(got.frames, 1);
    EXPECT_EQ(got.last_frames, 1);
    for (uint32_t i = 0; i < values.size(); ++i) EXPECT_EQ(got.values.at(i), values[i]);
    EXPECT_EQ(got.codes.at(1), Code::kNotFound);
    EXPECT_EQ(held_, 0);
    EXPECT_EQ(queue_.bytes(), 0u);
    EXPECT_EQ(pool_.lent(), 0u) << "an idle connection holds no block";
  }
}

TEST_F(OutputTest, SmallAnswersShareOnePiece) {
  for (int i = 0; i < 10; ++i) queue_.AddMatch(static_cast<uint64_t>(i), 5);
  EXPECT_EQ(queue_.Next().size(), 1u);
  EXPECT_EQ(Parse(Drain(queue_, 1000)).frames, 10);
}

TEST_F(OutputTest, ManyItemsAreSplitIntoFrames) {
  const std::vector<std::string> values(1000, "x");
  Add(values, {wire::Op::kGet, 9, 1 << 20});
  const Received got = Parse(Drain(queue_, 333));
  EXPECT_EQ(got.values.size(), 1000u);
  EXPECT_GT(got.frames, 5);
  EXPECT_EQ(got.last_frames, 1);
  EXPECT_EQ(held_, 0);
}

TEST_F(OutputTest, FramesStayWithinThePeersLimit) {
  const std::vector<std::string> values(20, std::string(300, 'v'));
  Add(values, {wire::Op::kGet, 9, 1000});
  Received got = Parse(Drain(queue_, 10000));
  EXPECT_EQ(got.values.size(), 20u);
  EXPECT_LE(got.payload_max, 1000u);
  EXPECT_EQ(got.last_frames, 1);

  const std::vector<std::string> uneven = {"ok", std::string(1001, 'w'), "also"};
  Add(uneven, {wire::Op::kGet, 10, 1000});
  got = Parse(Drain(queue_, 10000));
  EXPECT_EQ(got.codes.at(0), Code::kOk);
  EXPECT_EQ(got.codes.at(1), Code::kTooLarge);
  EXPECT_EQ(got.codes.at(2), Code::kOk);
  EXPECT_EQ(got.last_frames, 1);
  EXPECT_EQ(held_, 0);
}

TEST_F(OutputTest, PartialAnswersSayMore) {
  const std::vector<std::string> values = {"a"};
  Add(values, {wire::Op::kGet, 1, 1000}, false);
  EXPECT_EQ(Parse(Drain(queue_, 1000)).last_frames, 0);
  Add({}, {wire::Op::kGet, 1, 1000}, true);
  EXPECT_EQ(Parse(Drain(queue_, 1000)).last_frames, 1);
}

TEST_F(OutputTest, TextsErrorsAndHellosAreFrames) {
  queue_.AddText(wire::Op::kStats, 1, std::string(100'000, 't'));
  queue_.AddText(wire::Op::kPing, 2, "");
  queue_.AddError(77, 3, Status(Code::kUnsupported, "what?"));
  const std::vector<std::byte> all = Drain(queue_, 4096);
  ByteSpan bytes(all);
  auto stats = wire::DecodeHeader(bytes, kLimits);
  ASSERT_TRUE(stats.ok());
  EXPECT_EQ(stats->payload_bytes, 100'000u);
  EXPECT_EQ(Parse(bytes).frames, 3);
}

TEST_F(OutputTest, ClearLetsGo) {
  const std::vector<std::string> values(500, std::string(100, 'z'));
  Add(values, {wire::Op::kGet, 9, 1 << 20});
  EXPECT_EQ(held_, 500);
  queue_.Taken(150);
  queue_.Clear();
  EXPECT_EQ(held_, 0);
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(queue_.bytes(), 0u);
  EXPECT_EQ(pool_.lent(), 0u);
}

TEST_F(OutputTest, RandomAnswersAndRandomTakes) {
  const uint64_t seed = SeedFromSystem();
  SCOPED_TRACE(seed);
  Random random(seed);
  for (int round = 0; round < 200; ++round) {
    std::vector<std::vector<std::string>> batches;
    for (uint64_t n = 1 + random.Below(5); n > 0; --n) {
      auto& batch = batches.emplace_back();
      for (uint64_t i = random.Below(300); i > 0; --i) batch.emplace_back(random.Below(200), 'q');
      Add(batch, {wire::Op::kGet, batches.size(), 100 + random.Below(5000)});
      const std::vector<std::byte> all = Drain(queue_, 1 + random.Below(5000));
      const Received got = Parse(all);
      ASSERT_EQ(got.values.size(), batch.size());
      ASSERT_EQ(got.last_frames, 1);
      for (uint32_t i = 0; i < batch.size(); ++i) {
        if (got.codes.at(i) == Code::kTooLarge) continue;
        ASSERT_EQ(got.values.at(i), batch[i]);
      }
    }
  }
  EXPECT_EQ(held_, 0);
}

}  // namespace
}  // namespace dfkv::net
