// Frames as an enemy, a bug or a bad cable would send them: each is refused with a clear text, none is read
// past its end (the address sanitizer watches).
#include <gtest/gtest.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/random.h"
#include "wire/decode.h"
#include "wire/encode.h"
#include "wire/ops.h"
#include "wire/options.h"

namespace dfkv::wire {
namespace {

constexpr FrameLimits kLimits{1 << 16, 64ull << 20, 4096};

// A frame in memory of exactly its size, so that a read past the end is seen.
struct Exact {
  explicit Exact(ByteSpan bytes) : size(bytes.size()), data(new std::byte[bytes.size()]) {
    std::copy(bytes.begin(), bytes.end(), data.get());
  }
  ByteSpan span() const { return {data.get(), size}; }
  size_t size;
  std::unique_ptr<std::byte[]> data;
};

void Seal(std::vector<std::byte>& frame) {
  StoreLe<uint32_t>(frame.data() + offsetof(FrameHeader, crc), 0);
  StoreLe<uint32_t>(frame.data() + offsetof(FrameHeader, crc), Crc32c(frame));
}

// What a receiver does with bytes: header, then the rest.
Status Receive(ByteSpan bytes, const FrameLimits& limits = kLimits) {
  if (bytes.size() < kHeaderBytes) return Status(Code::kInvalid, "short");
  auto header = DecodeHeader(bytes, limits);
  if (!header.ok()) return header.status();
  if (bytes.size() < FrameBytes(*header)) return Status(Code::kInvalid, "short");
  const Exact frame(bytes.first(FrameBytes(*header)));
  if ((header->op & ~kAnswerBit) == static_cast<uint8_t>(Op::kHello) && header->code == 0) {
    auto hello = DecodeHello(*header, frame.span());
    return hello.ok() ? Ok() : hello.status();
  }
  if (IsAnswer(*header)) {
    auto answer = DecodeAnswer(*header, frame.span());
    if (!answer.ok()) return answer.status();
    uint64_t sum = 0;
    for (uint32_t i = 0; i < answer->item_count() && !answer->items.empty(); ++i) {
      sum += answer->item(i).payload_bytes;
    }
    EXPECT_TRUE(answer->items.empty() || sum == header->payload_bytes);
    return Ok();
  }
  auto request = DecodeRequest(*header, frame.span());
  if (!request.ok()) return request.status();
  if (request->op() == Op::kPut) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < request->item_count(); ++i) sum += request->item<PutItem>(i).length;
    EXPECT_EQ(sum, header->payload_bytes);
  }
  return Ok();
}

std::vector<std::byte> PutFrame(const std::vector<PutItem>& items, uint64_t payload) {
  std::vector<std::byte> out(RequestBytes(Op::kPut, items.size()));
  EXPECT_EQ(EncodeRequest(out, {Op::kPut, 1, 2, 3, payload}, items), out.size());
  return out;
}

std::vector<std::byte> GetFrame(Op op, const std::vector<GetItem>& items) {
  std::vector<std::byte> out(RequestBytes(op, items.size()));
  EXPECT_EQ(EncodeRequest(out, {op, 1, 2, 3, 0}, items), out.size());
  return out;
}

struct BadHeader {
  const char* name;
  std::function<void(FrameHeader&)> damage;
  Code code;
  const char* text;
};

TEST(Malformed, HeadersAreRefusedWithATextThatNamesTheField) {
  const BadHeader cases[] = {
      {"magic", [](FrameHeader& h) { h.magic = 0x20544547; }, Code::kInvalid, "not a dfkv frame"},
      {"version", [](FrameHeader& h) { h.version = 9; }, Code::kUnsupported, "frame version 9"},
      {"meta huge", [](FrameHeader& h) { h.meta_bytes = UINT32_MAX; }, Code::kTooLarge, "bytes of meta"},
      {"payload 2^63", [](FrameHeader& h) { h.payload_bytes = 1ull << 63; }, Code::kTooLarge, "of payload"},
      {"payload 2^64-1", [](FrameHeader& h) { h.payload_bytes = UINT64_MAX; }, Code::kTooLarge, "of payload"},
      {"items", [](FrameHeader& h) { h.item_count = 5000; }, Code::kTooLarge, "5000 items"},
      {"options odd", [](FrameHeader& h) { h.options_bytes = 3; }, Code::kInvalid, "bytes of options"},
      {"options long", [](FrameHeader& h) { h.options_bytes = 4096; }, Code::kInvalid, "bytes of options"},
      {"code in a request", [](FrameHeader& h) { h.code = 2; }, Code::kInvalid, "has code 2"},
      {"item missing", [](FrameHeader& h) { h.item_count = 3; }, Code::kInvalid, "3 items"},
      {"no items",
       [](FrameHeader& h) {
         h.item_count = 0;
         h.meta_bytes = 16;
       },
       Code::kInvalid, "without items"},
      {"meta short", [](FrameHeader& h) { h.meta_bytes = 79; }, Code::kInvalid, "79 bytes of meta, wants 80"},
      {"get with payload", [](FrameHeader& h) { h.op = 5; }, Code::kInvalid, "no payload"},
      {"ping with items", [](FrameHeader& h) { h.op = 2; }, Code::kInvalid, "carries no items"},
      {"answer code",
       [](FrameHeader& h) {
         h.op |= kAnswerBit;
         h.code = 200;
       },
       Code::kInvalid, "code 200"},
  };
  for (const BadHeader& c : cases) {
    SCOPED_TRACE(c.name);
    auto frame = PutFrame({{1, 2, 10, 0, 0}, {3, 4, 20, 0, 0}}, 30);
    auto header = LoadLe<FrameHeader>(frame.data());
    c.damage(header);
    StoreLe(frame.data(), header);
    const auto got = DecodeHeader(Exact(ByteSpan(frame).first(kHeaderBytes)).span(), kLimits);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.code(), c.code) << got.status().ToString();
    EXPECT_NE(got.status().message().find(c.text), std::string::npos) << got.status().ToString();
  }
}

TEST(Malformed, SumsOfLengthsDoNotWrap) {
  const uint64_t big = 1ull << 63;
  EXPECT_EQ(Receive(PutFrame({{1, 2, big, 0, 0}, {3, 4, big, 0, 0}, {5, 6, 30, 0, 0}}, 30)).code(),
            Code::kInvalid);
  EXPECT_EQ(Receive(PutFrame({{1, 2, UINT64_MAX, 0, 0}, {3, 4, 31, 0, 0}}, 30)).code(), Code::kInvalid);
  EXPECT_EQ(Receive(PutFrame({{1, 2, 10, 0, 0}, {3, 4, 19, 0, 0}}, 30)).code(), Code::kInvalid);
  EXPECT_TRUE(Receive(PutFrame({{1, 2, 10, 0, 0}, {3, 4, 20, 0, 0}}, 30)).ok());
}

TEST(Malformed, AnswerItemsMustAddUp) {
  std::vector<std::byte> out(4096);
  auto receive = [&](uint64_t payload, std::vector<AnswerItem> items) {
    const size_t size = EncodeAnswer(out, {Op::kGet, 1, false, payload}, items);
    return Receive(ByteSpan(out).first(size));
  };
  EXPECT_TRUE(receive(30, {{0, 0, {}, 10, 10, 0}, {1, 0, {}, 20, 20, 0}}).ok());
  EXPECT_EQ(receive(30, {{0, 0, {}, 10, 10, 0}}).code(), Code::kInvalid);
  EXPECT_EQ(receive(30, {{0, 0, {}, 10, UINT32_MAX, 0}, {1, 0, {}, 0, 31, 0}}).code(), Code::kInvalid);
  EXPECT_EQ(receive(30, {{0, 1, {}, 30, 30, 0}}).code(), Code::kInvalid) << "a miss with bytes";
  EXPECT_EQ(receive(0, {{0, 99, {}, 0, 0, 0}}).code(), Code::kInvalid) << "an unknown code";
}

TEST(Malformed, GetWithOffset) {
  EXPECT_EQ(Receive(GetFrame(Op::kGet, {{1, 2, 8, 8}})).code(), Code::kInvalid);
  EXPECT_TRUE(Receive(GetFrame(Op::kGetRange, {{1, 2, UINT64_MAX, UINT64_MAX}})).ok()) << "the store clamps";
}

TEST(Malformed, EveryFlippedBitIsSeen) {
  const auto good = GetFrame(Op::kGet, {{1, 2, 0, 4096}, {3, 4, 0, 4096}});
  ASSERT_TRUE(Receive(good).ok());
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto bad = good;
    bad[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(Receive(bad).ok()) << "bit " << bit;
  }
}

TEST(Malformed, OptionsThatReachTooFar) {
  std::vector<std::byte> frame(kHeaderBytes + sizeof(RequestPrefix) + 16);
  std::array<std::byte, 16> room;
  OptionWriter options(room);
  ASSERT_TRUE(options.Add(OptionType::kPeerName, AsBytes("12345678")));
  ASSERT_EQ(EncodeRequest(frame, {Op::kPing, 1, 0, 0, 0}, options.block()), frame.size());
  ASSERT_TRUE(Receive(frame).ok());
  std::byte* length = frame.data() + frame.size() - 12;
  for (uint32_t bad : {9u, 16u, UINT32_MAX, UINT32_MAX - 7}) {
    StoreLe<uint32_t>(length, bad);
    Seal(frame);
    EXPECT_EQ(Receive(frame).code(), Code::kInvalid) << bad;
  }
  StoreLe<uint32_t>(length, 3);  // shorter, padded: fine
  Seal(frame);
  EXPECT_TRUE(Receive(frame).ok());
}

TEST(Malformed, HelloBodiesWithoutSense) {
  const HelloBody good{1, 1, 0, 1, 1, 1, 1, 0};
  auto receive = [](const HelloBody& body) {
    std::vector<std::byte> out(kHeaderBytes + sizeof body);
    EXPECT_EQ(EncodeHello(out, 1, body), out.size());
    return Receive(out, kHelloLimits);
  };
  EXPECT_TRUE(receive(good).ok());
  for (int field = 0; field < 6; ++field) {
    HelloBody bad = good;
    if (field == 0) bad.version_min = bad.version_max = 0;
    if (field == 1) bad.version_min = 2;
    if (field == 2) bad.payload_bytes_max = 0;
    if (field == 3) bad.object_bytes_max = 0;
    if (field == 4) bad.items_max = 0;
    if (field == 5) bad.requests_in_flight_max = 0;
    EXPECT_EQ(receive(bad).code(), Code::kInvalid) << field;
  }
}

TEST(Malformed, BeforeHelloOnlyHello) {
  const auto get = GetFrame(Op::kGet, {{1, 2, 0, 4096}});
  const auto header = DecodeHelloHeader(get);
  EXPECT_EQ(header.code(), Code::kInvalid);
  EXPECT_NE(header.status().message().find("first frame is get, wants hello"), std::string::npos);
}

TEST(Malformed, UnknownOpsAreUnsupportedAndCanBeSkipped) {
  auto frame = GetFrame(Op::kGet, {{1, 2, 0, 4096}});
  frame[offsetof(FrameHeader, op)] = std::byte{0x55};
  StoreLe<uint64_t>(frame.data() + offsetof(FrameHeader, payload_bytes), 12345);
  Seal(frame);
  auto header = DecodeHeader(frame, kLimits);
  ASSERT_TRUE(header.ok()) << header.status().ToString();
  EXPECT_EQ(header->payload_bytes, 12345u);
  EXPECT_EQ(DecodeRequest(*header, frame).code(), Code::kUnsupported);
}

TEST(Malformed, RandomBytesAndDamagedFrames) {
  const uint64_t seed = SeedFromSystem();
  SCOPED_TRACE(seed);
  Random random(seed);
  std::vector<std::byte> frame;
  for (int round = 0; round < 20'000; ++round) {
    const uint64_t kind = random.Below(4);
    if (kind == 0) {
      frame.resize(kHeaderBytes + random.Below(200));
      random.Fill(frame);
      if (random.OneIn(2)) StoreLe<uint32_t>(frame.data(), kMagic);
    } else {
      frame = kind == 1 ? PutFrame({{1, 2, 10, 0, 0}, {3, 4, 20, 0, 0}}, 30)
                        : GetFrame(Op::kGetRange, {{1, 2, 3, 4}});
      for (uint64_t n = 1 + random.Below(4); n > 0; --n) {
        frame[random.Below(frame.size())] = static_cast<std::byte>(random.Next());
      }
      if (random.OneIn(2)) Seal(frame);
    }
    (void)Receive(frame);  // any answer will do; the sanitizers and EXPECTs inside judge
  }
}

}  // namespace
}  // namespace dfkv::wire
