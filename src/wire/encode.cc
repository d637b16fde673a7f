#include "wire/encode.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/crc32c.h"
#include "wire/ops.h"
#include "wire/options.h"

namespace dfkv::wire {
namespace {

template <typename T>
ByteSpan BytesOf(const T& value) {
  return {reinterpret_cast<const std::byte*>(&value), sizeof value};
}

struct Meta {
  ByteSpan fixed;
  ByteSpan items;
  uint32_t item_count = 0;
  ByteSpan options;
};

// Fills in the sizes and the CRC of `header` and writes everything.
size_t WriteFrame(MutableByteSpan out, FrameHeader header, const Meta& meta) {
  DFKV_CHECK(meta.options.size() % 8 == 0);
  const uint64_t meta_bytes = meta.fixed.size() + meta.items.size() + meta.options.size();
  const uint64_t whole = sizeof header + meta_bytes;
  if (meta_bytes > kMetaBytesMax || whole > out.size()) return 0;
  header.meta_bytes = static_cast<uint32_t>(meta_bytes);
  header.item_count = meta.item_count;
  header.options_bytes = static_cast<uint32_t>(meta.options.size());
  header.crc = 0;
  ByteWriter writer(out);
  writer.Write(header);
  writer.WriteBytes(meta.fixed);
  writer.WriteBytes(meta.items);
  writer.WriteBytes(meta.options);
  header.crc = Crc32c(out.first(whole));
  StoreLe(out.data() + offsetof(FrameHeader, crc), header.crc);
  return whole;
}

template <typename Item>
size_t WriteRequest(MutableByteSpan out, const RequestSpec& spec, std::span<const Item> items,
                    ByteSpan options) {
  const OpInfo* info = FindOp(static_cast<uint8_t>(spec.op));
  DFKV_CHECK(info != nullptr && info->request_fixed_bytes == sizeof(RequestPrefix));
  DFKV_CHECK(items.empty() || info->request_item_bytes == sizeof(Item));
  DFKV_CHECK(info->request_payload || spec.payload_bytes == 0);
  FrameHeader header;
  header.op = static_cast<uint8_t>(spec.op);
  header.request_id = spec.request_id;
  header.payload_bytes = spec.payload_bytes;
  const RequestPrefix prefix{spec.tenant, spec.deadline_ms, 0};
  return WriteFrame(out, header,
                    {BytesOf(prefix), std::as_bytes(items), static_cast<uint32_t>(items.size()), options});
}

FrameHeader AnswerHeader(Op op, uint64_t request_id) {
  FrameHeader header;
  header.op = static_cast<uint8_t>(op) | kAnswerBit;
  header.request_id = request_id;
  return header;
}

}  // namespace

uint64_t RequestBytes(Op op, uint64_t item_count, uint64_t options_bytes) {
  const OpInfo* info = FindOp(static_cast<uint8_t>(op));
  DFKV_CHECK(info != nullptr);
  return sizeof(FrameHeader) + info->request_fixed_bytes + item_count * info->request_item_bytes +
         options_bytes;
}

uint64_t AnswerBytes(Op op, uint64_t item_count, uint64_t options_bytes) {
  const OpInfo* info = FindOp(static_cast<uint8_t>(op));
  DFKV_CHECK(info != nullptr);
  return sizeof(FrameHeader) + info->answer_fixed_bytes + item_count * sizeof(AnswerItem) + options_bytes;
}

size_t EncodeRequest(MutableByteSpan out, const RequestSpec& spec, ByteSpan options) {
  return WriteRequest(out, spec, std::span<const KeyItem>(), options);
}
size_t EncodeRequest(MutableByteSpan out, const RequestSpec& spec, std::span<const KeyItem> items,
                     ByteSpan options) {
  return WriteRequest(out, spec, items, options);
}
size_t EncodeRequest(MutableByteSpan out, const RequestSpec& spec, std::span<const GetItem> items,
                     ByteSpan options) {
  DFKV_CHECK(spec.op == Op::kGet || spec.op == Op::kGetRange);
  return WriteRequest(out, spec, items, options);
}
size_t EncodeRequest(MutableByteSpan out, const RequestSpec& spec, std::span<const PutItem> items,
                     ByteSpan options) {
  DFKV_CHECK(spec.op == Op::kPut);
  return WriteRequest(out, spec, items, options);
}

size_t EncodeHello(MutableByteSpan out, uint64_t request_id, const HelloBody& body, ByteSpan options) {
  FrameHeader header;
  header.op = static_cast<uint8_t>(Op::kHello);
  header.request_id = request_id;
  return WriteFrame(out, header, {BytesOf(body), {}, 0, options});
}

size_t EncodeAnswer(MutableByteSpan out, const AnswerSpec& spec, std::span<const AnswerItem> items,
                    ByteSpan options) {
  const OpInfo* info = FindOp(static_cast<uint8_t>(spec.op));
  DFKV_CHECK(info != nullptr && info->answer_fixed_bytes == 0);
  DFKV_CHECK(info->answer_items || items.empty());
  DFKV_CHECK(info->answer_payload || spec.payload_bytes == 0);
  FrameHeader header = AnswerHeader(spec.op, spec.request_id);
  if (spec.more) header.flags |= kMore;
  header.payload_bytes = spec.payload_bytes;
  return WriteFrame(out, header, {{}, std::as_bytes(items), static_cast<uint32_t>(items.size()), options});
}

size_t EncodeMatchAnswer(MutableByteSpan out, uint64_t request_id, const MatchAnswer& body) {
  return WriteFrame(out, AnswerHeader(Op::kMatch, request_id), {BytesOf(body), {}, 0, {}});
}

size_t EncodeHelloAnswer(MutableByteSpan out, uint64_t request_id, const HelloBody& body, ByteSpan options) {
  return WriteFrame(out, AnswerHeader(Op::kHello, request_id), {BytesOf(body), {}, 0, options});
}

size_t EncodeErrorAnswer(MutableByteSpan out, uint8_t op, uint64_t request_id, const Status& status) {
  DFKV_CHECK(!status.ok());
  FrameHeader header;
  header.op = op | kAnswerBit;
  header.code = static_cast<uint8_t>(status.code());
  header.request_id = request_id;
  std::array<std::byte, OptionBytes(kMessageBytesMax)> room;
  OptionWriter options(room);
  const std::string_view message = status.message();
  if (!message.empty()) {
    (void)options.Add(OptionType::kMessage, AsBytes(message.substr(0, kMessageBytesMax)));
  }
  return WriteFrame(out, header, {{}, {}, 0, options.block()});
}

}  // namespace dfkv::wire
