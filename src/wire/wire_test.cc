#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "wire/decode.h"
#include "wire/encode.h"
#include "wire/ops.h"
#include "wire/options.h"

namespace dfkv::wire {
namespace {

constexpr FrameLimits kLimits{kMetaBytesMax, 64ull << 20, 4096};

class Frames : public ::testing::Test {
 protected:
  // Takes what an encoder wrote as a received frame.
  FrameHeader Header(size_t size) {
    EXPECT_GE(size, kHeaderBytes);
    frame_ = ByteSpan(out_).first(size);
    auto header = DecodeHeader(frame_, kLimits);
    EXPECT_TRUE(header.ok()) << header.status().ToString();
    EXPECT_EQ(FrameBytes(*header), size);
    return *header;
  }
  RequestView Request(size_t size) {
    const FrameHeader header = Header(size);
    auto request = DecodeRequest(header, frame_);
    EXPECT_TRUE(request.ok()) << request.status().ToString();
    return *request;
  }
  AnswerView Answer(size_t size) {
    const FrameHeader header = Header(size);
    auto answer = DecodeAnswer(header, frame_);
    EXPECT_TRUE(answer.ok()) << answer.status().ToString();
    return *answer;
  }

  std::vector<std::byte> out_ = std::vector<std::byte>(1 << 16);
  ByteSpan frame_;
};

TEST_F(Frames, PutRoundTrip) {
  const std::vector<PutItem> items = {{1, 2, 100, 7, 3}, {4, 5, 28, 8, UINT32_MAX}};
  const RequestSpec spec{Op::kPut, 99, 0xABCDEF, 1500, 128};
  const size_t size = EncodeRequest(out_, spec, items);
  EXPECT_EQ(size, RequestBytes(Op::kPut, 2));
  const RequestView view = Request(size);
  EXPECT_EQ(view.op(), Op::kPut);
  EXPECT_EQ(view.header.request_id, 99u);
  EXPECT_EQ(view.header.payload_bytes, 128u);
  EXPECT_EQ(view.prefix.tenant, 0xABCDEFu);
  EXPECT_EQ(view.prefix.deadline_ms, 1500u);
  ASSERT_EQ(view.item_count(), 2u);
  EXPECT_EQ(view.item<PutItem>(0).id_lo, 2u);
  EXPECT_EQ(view.item<PutItem>(0).depth, 3u);
  EXPECT_EQ(view.item<PutItem>(1).length, 28u);
  EXPECT_EQ(view.item<PutItem>(1).crc, 8u);
}

TEST_F(Frames, EveryRequestOfTheTableRoundTrips) {
  for (const OpInfo& row : OpTable()) {
    if (row.op == Op::kHello) continue;
    SCOPED_TRACE(row.name);
    RequestSpec spec{row.op, 5, 6, 7, 0};
    const std::array<KeyItem, 3> keys = {KeyItem{1, 2}, KeyItem{3, 4}, KeyItem{5, 6}};
    const std::array<GetItem, 2> gets = {GetItem{1, 2, 0, 4096}, GetItem{3, 4, 0, UINT64_MAX}};
    const std::array<PutItem, 1> puts = {PutItem{1, 2, 0, 0, 0}};
    size_t size = 0;
    uint32_t count = 0;
    if (row.request_item == "KeyItem") {
      size = EncodeRequest(out_, spec, keys), count = 3;
    } else if (row.request_item == "GetItem") {
      size = EncodeRequest(out_, spec, gets), count = 2;
    } else if (row.request_item == "PutItem") {
      size = EncodeRequest(out_, spec, puts), count = 1;
    } else {
      size = EncodeRequest(out_, spec);
    }
    const RequestView view = Request(size);
    EXPECT_EQ(view.op(), row.op);
    EXPECT_EQ(view.item_count(), count);
    EXPECT_EQ(view.items.size(), count * row.request_item_bytes);
  }
}

TEST_F(Frames, RangeItemsKeepTheirOffsets) {
  const std::array<GetItem, 1> gets = {GetItem{1, 2, 1u << 20, 77}};
  const size_t size = EncodeRequest(out_, {Op::kGetRange, 1, 0, 0, 0}, gets);
  EXPECT_EQ(Request(size).item<GetItem>(0).offset, 1u << 20);
}

TEST_F(Frames, HelloRoundTripWithOptions) {
  HelloBody body;
  body.payload_bytes_max = 1 << 20;
  body.object_bytes_max = 1 << 19;
  body.items_max = 64;
  body.requests_in_flight_max = 8;
  std::array<std::byte, 64> room;
  OptionWriter options(room);
  EXPECT_TRUE(options.Add(OptionType::kPeerName, AsBytes("bench-1")));
  EXPECT_TRUE(options.Add(static_cast<OptionType>(999), AsBytes("from the future")));
  EXPECT_FALSE(options.Add(OptionType::kPeerName, AsBytes("does not fit any more")));
  const FrameHeader header = Header(EncodeHello(out_, 1, body, options.block()));
  auto hello = DecodeHello(header, frame_);
  ASSERT_TRUE(hello.ok()) << hello.status().ToString();
  EXPECT_EQ(hello->body.items_max, 64u);
  EXPECT_EQ(AsText(*FindOption(hello->options, OptionType::kPeerName)), "bench-1");
  EXPECT_FALSE(FindOption(hello->options, OptionType::kAuthToken).has_value());
  EXPECT_TRUE(DecodeHelloHeader(frame_).ok());
}

TEST_F(Frames, HelloAnswerAndNegotiation) {
  HelloBody node{1, 1, 0, 64u << 20, 32u << 20, 4096, 256, 77};
  const FrameHeader header = Header(EncodeHelloAnswer(out_, 1, node));
  EXPECT_TRUE(IsAnswer(header));
  auto hello = DecodeHello(header, frame_);
  ASSERT_TRUE(hello.ok());
  const HelloBody client{1, 3, 9, 1u << 20, 64u << 20, 100, 1000, 0};
  auto both = Negotiate(client, hello->body);
  ASSERT_TRUE(both.ok());
  EXPECT_EQ(both->version_max, 1u);
  EXPECT_EQ(both->features, 0u);
  EXPECT_EQ(both->payload_bytes_max, 1u << 20);
  EXPECT_EQ(both->object_bytes_max, 32u << 20);
  EXPECT_EQ(both->items_max, 100u);
  EXPECT_EQ(both->requests_in_flight_max, 256u);
  EXPECT_EQ(both->incarnation, 77u);
  const HelloBody newer{2, 3, 0, 1, 1, 1, 1, 0};
  EXPECT_EQ(Negotiate(newer, hello->body).code(), Code::kUnsupported);
}

TEST_F(Frames, AnswersRoundTrip) {
  const std::vector<AnswerItem> items = {{3, 0, {}, 10, 10, 1}, {1, 1, {}, 0, 0, 0}, {0, 5, {}, 99, 0, 0}};
  const size_t size = EncodeAnswer(out_, {Op::kGet, 12, true, 10}, items);
  EXPECT_EQ(size, AnswerBytes(Op::kGet, 3));
  const AnswerView view = Answer(size);
  EXPECT_EQ(view.op(), Op::kGet);
  EXPECT_EQ(view.header.request_id, 12u);
  EXPECT_TRUE(view.more);
  EXPECT_EQ(view.code, Code::kOk);
  ASSERT_EQ(view.item_count(), 3u);
  EXPECT_EQ(view.item(0).index, 3u);
  EXPECT_EQ(view.item(2).stored_length, 99u);

  EXPECT_EQ(Answer(EncodeMatchAnswer(out_, 3, {41, 0})).match.present, 41u);
  EXPECT_EQ(Answer(EncodeAnswer(out_, {Op::kPing, 4, false, 0})).item_count(), 0u);
  EXPECT_EQ(Answer(EncodeAnswer(out_, {Op::kStats, 4, false, 1234})).header.payload_bytes, 1234u);
}

TEST_F(Frames, ErrorAnswersCarryCodeAndText) {
  for (uint8_t op : {uint8_t{4}, uint8_t{1}, uint8_t{77}}) {
    const AnswerView view =
        Answer(EncodeErrorAnswer(out_, op, 8, Status(Code::kBusy, "all slots are taken")));
    EXPECT_EQ(view.code, Code::kBusy);
    EXPECT_EQ(view.message(), "all slots are taken");
    EXPECT_EQ(view.header.request_id, 8u);
  }
  const std::string longer(5000, 'x');
  const size_t size = EncodeErrorAnswer(out_, 4, 8, Status(Code::kInvalid, longer));
  EXPECT_LE(size, kErrorAnswerBytesMax);
  EXPECT_EQ(Answer(size).message().size(), kMessageBytesMax);
  EXPECT_EQ(Answer(EncodeErrorAnswer(out_, 4, 8, Status(Code::kBusy))).message(), "");
}

TEST_F(Frames, EncodersSayWhenTheRoomIsTooSmall) {
  const std::vector<KeyItem> keys(10);
  const uint64_t wanted = RequestBytes(Op::kExist, 10);
  EXPECT_EQ(EncodeRequest(MutableByteSpan(out_).first(wanted - 1), {Op::kExist, 1, 0, 0, 0}, keys), 0u);
  EXPECT_EQ(EncodeRequest(MutableByteSpan(out_).first(wanted), {Op::kExist, 1, 0, 0, 0}, keys), wanted);
}

TEST(Ops, NamesAndUnknown) {
  EXPECT_EQ(OpName(4), "put");
  EXPECT_EQ(OpName(4 | kAnswerBit), "put");
  EXPECT_EQ(OpName(0), "unknown");
  EXPECT_EQ(OpName(11), "unknown");
  EXPECT_EQ(FindOp(0), nullptr);
  EXPECT_EQ(FindOp(11), nullptr);
}

TEST(Options, PeerTextIsMadePrintable) {
  EXPECT_EQ(PrintableText(AsBytes(std::string_view("a\n\x1b[2J\xff", 7))), "a??[2J?");
  EXPECT_EQ(PrintableText(AsBytes("abcdef"), 3), "abc");
}

}  // namespace
}  // namespace dfkv::wire
