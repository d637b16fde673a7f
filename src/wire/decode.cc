#include "wire/decode.h"

#include <algorithm>

#include "base/crc32c.h"
#include "base/text.h"
#include "wire/ops.h"
#include "wire/options.h"

namespace dfkv::wire {
namespace {

Status Invalid(std::string text) {
  return Status(Code::kInvalid, std::move(text));
}

// Of an answer, the fixed part and items are there only when the request succeeded.
bool HasBody(const FrameHeader& header) {
  return !IsAnswer(header) || header.code == 0;
}

// The sizes that the op's row demands. 64-bit arithmetic: items_max < 2^32 times a small constant.
Status CheckShape(const FrameHeader& header, const OpInfo& info) {
  const bool answer = IsAnswer(header);
  uint64_t fixed = answer ? info.answer_fixed_bytes : info.request_fixed_bytes;
  uint64_t item_bytes = answer ? (info.answer_items ? sizeof(AnswerItem) : 0) : info.request_item_bytes;
  bool payload = answer ? info.answer_payload : info.request_payload;
  if (!HasBody(header)) {
    fixed = item_bytes = 0;
    payload = false;
  }
  if (item_bytes == 0 && header.item_count != 0) {
    return Invalid(Cat(info.name, " carries no items, got ", header.item_count));
  }
  if (!answer && item_bytes != 0 && header.item_count == 0) return Invalid(Cat(info.name, " without items"));
  const uint64_t wanted = fixed + item_bytes * header.item_count + header.options_bytes;
  if (header.meta_bytes != wanted) {
    return Invalid(Cat(info.name, " with ", header.item_count, " items has ", header.meta_bytes,
                       " bytes of meta, wants ", wanted));
  }
  if (!payload && header.payload_bytes != 0) {
    return Invalid(Cat(info.name, " carries no payload, got ", header.payload_bytes, " bytes"));
  }
  return Ok();
}

Status CheckFrame(const FrameHeader& header, ByteSpan frame) {
  DFKV_CHECK(frame.size() == FrameBytes(header));
  FrameHeader blank = header;
  blank.crc = 0;
  uint32_t crc = Crc32c({reinterpret_cast<const std::byte*>(&blank), sizeof blank});
  crc = Crc32cExtend(crc, frame.subspan(kHeaderBytes));
  if (crc != header.crc) {
    return Status(Code::kCorrupt, Cat("frame of ", OpName(header.op), " fails its CRC"));
  }
  return CheckOptions(frame.last(header.options_bytes));
}

Status CheckPutItems(const RequestView& request) {
  uint64_t left = request.header.payload_bytes;
  for (uint32_t i = 0; i < request.item_count(); ++i) {
    const uint64_t length = request.item<PutItem>(i).length;
    if (length > left) {
      return Invalid(Cat("put item ", i, " has length ", length, " with ", left, " bytes of payload left"));
    }
    left -= length;
  }
  if (left != 0) return Invalid(Cat("put has ", left, " bytes of payload beyond its items"));
  return Ok();
}

Status CheckGetItems(const RequestView& request) {
  for (uint32_t i = 0; i < request.item_count(); ++i) {
    const auto item = request.item<GetItem>(i);
    if (item.offset != 0) return Invalid(Cat("get item ", i, " has offset ", item.offset, ", wants 0"));
  }
  return Ok();
}

Status CheckAnswerItems(const AnswerView& answer) {
  uint64_t left = answer.header.payload_bytes;
  for (uint32_t i = 0; i < answer.item_count(); ++i) {
    const AnswerItem item = answer.item(i);
    if (!IsKnownCode(item.code)) return Invalid(Cat("answer item ", i, " has unknown code ", item.code));
    if (item.payload_bytes > left) {
      return Invalid(Cat("answer item ", i, " has ", item.payload_bytes, " bytes with ", left, " left"));
    }
    if (item.payload_bytes != 0 && item.code != 0) {
      return Invalid(Cat("answer item ", i, " failed, yet has ", item.payload_bytes, " bytes"));
    }
    left -= item.payload_bytes;
  }
  if (left != 0) return Invalid(Cat("answer has ", left, " bytes of payload beyond its items"));
  return Ok();
}

Status CheckHelloBody(const HelloBody& body) {
  if (body.version_min == 0 || body.version_min > body.version_max) {
    return Invalid(Cat("hello with versions ", body.version_min, " to ", body.version_max));
  }
  if (body.payload_bytes_max == 0 || body.object_bytes_max == 0 || body.items_max == 0 ||
      body.requests_in_flight_max == 0) {
    return Invalid("hello with a limit of zero");
  }
  return Ok();
}

}  // namespace

Result<FrameHeader> DecodeHeader(ByteSpan bytes, const FrameLimits& limits) {
  DFKV_CHECK(bytes.size() >= kHeaderBytes);
  const auto header = LoadLe<FrameHeader>(bytes.data());
  if (header.magic != kMagic) return Invalid(Cat("not a dfkv frame: it begins with ", header.magic));
  if (header.version != kVersion) {
    return Status(Code::kUnsupported, Cat("frame version ", header.version, ", this side speaks ", kVersion));
  }
  if (header.meta_bytes > limits.meta_bytes_max) {
    return Status(Code::kTooLarge,
                  Cat("frame with ", header.meta_bytes, " bytes of meta, limit ", limits.meta_bytes_max));
  }
  if (header.payload_bytes > limits.payload_bytes_max) {
    return Status(Code::kTooLarge, Cat("frame with ", header.payload_bytes, " bytes of payload, limit ",
                                       limits.payload_bytes_max));
  }
  if (header.item_count > limits.items_max) {
    return Status(Code::kTooLarge, Cat("frame with ", header.item_count, " items, limit ", limits.items_max));
  }
  if (header.options_bytes > header.meta_bytes || header.options_bytes % 8 != 0) {
    return Invalid(Cat("frame with ", header.options_bytes, " bytes of options in ", header.meta_bytes,
                       " bytes of meta"));
  }
  if (IsAnswer(header) ? !IsKnownCode(header.code) : header.code != 0) {
    return Invalid(Cat("frame of ", OpName(header.op), " has code ", header.code));
  }
  if (const OpInfo* info = FindOp(header.op & static_cast<uint8_t>(~kAnswerBit))) {
    DFKV_RETURN_IF_ERROR(CheckShape(header, *info));
  }
  return header;
}

Result<FrameHeader> DecodeHelloHeader(ByteSpan bytes) {
  Result<FrameHeader> header = DecodeHeader(bytes, kHelloLimits);
  const auto raw = LoadLe<FrameHeader>(bytes.data());
  if (raw.magic == kMagic && raw.version == kVersion &&
      (raw.op & ~kAnswerBit) != static_cast<uint8_t>(Op::kHello)) {
    return Invalid(Cat("the first frame is ", OpName(raw.op), ", wants hello"));
  }
  return header;
}

Result<RequestView> DecodeRequest(const FrameHeader& header, ByteSpan frame) {
  DFKV_RETURN_IF_ERROR(CheckFrame(header, frame));
  const OpInfo* info = IsAnswer(header) ? nullptr : FindOp(header.op);
  if (info == nullptr) return Status(Code::kUnsupported, Cat("unknown operation ", header.op));
  if (info->op == Op::kHello) return Invalid("hello is only the first frame");
  RequestView request;
  request.header = header;
  request.prefix = LoadLe<RequestPrefix>(frame.data() + kHeaderBytes);
  request.options = frame.last(header.options_bytes);
  request.items = frame.subspan(kHeaderBytes + info->request_fixed_bytes,
                                uint64_t{header.item_count} * info->request_item_bytes);
  if (info->op == Op::kPut) DFKV_RETURN_IF_ERROR(CheckPutItems(request));
  if (info->op == Op::kGet) DFKV_RETURN_IF_ERROR(CheckGetItems(request));
  return request;
}

Result<HelloView> DecodeHello(const FrameHeader& header, ByteSpan frame) {
  DFKV_RETURN_IF_ERROR(CheckFrame(header, frame));
  if ((header.op & ~kAnswerBit) != static_cast<uint8_t>(Op::kHello)) {
    return Invalid(Cat("the first frame is ", OpName(header.op), ", wants hello"));
  }
  if (!HasBody(header)) return Invalid("a refused hello has no body");
  HelloView hello;
  hello.body = LoadLe<HelloBody>(frame.data() + kHeaderBytes);
  hello.options = frame.last(header.options_bytes);
  DFKV_RETURN_IF_ERROR(CheckHelloBody(hello.body));
  return hello;
}

Result<HelloBody> Negotiate(const HelloBody& mine, const HelloBody& theirs) {
  const uint16_t version = std::min(mine.version_max, theirs.version_max);
  if (version < std::max(mine.version_min, theirs.version_min)) {
    return Status(Code::kUnsupported,
                  Cat("no common version: this side speaks ", mine.version_min, " to ", mine.version_max,
                      ", the other ", theirs.version_min, " to ", theirs.version_max));
  }
  HelloBody both;
  both.version_min = both.version_max = version;
  both.features = mine.features & theirs.features;
  both.payload_bytes_max = std::min(mine.payload_bytes_max, theirs.payload_bytes_max);
  both.object_bytes_max = std::min(mine.object_bytes_max, theirs.object_bytes_max);
  both.items_max = std::min(mine.items_max, theirs.items_max);
  both.requests_in_flight_max = std::min(mine.requests_in_flight_max, theirs.requests_in_flight_max);
  both.incarnation = mine.incarnation != 0 ? mine.incarnation : theirs.incarnation;
  return both;
}

std::string_view AnswerView::message() const {
  return AsText(FindOption(options, OptionType::kMessage).value_or(ByteSpan()));
}

Result<AnswerView> DecodeAnswer(const FrameHeader& header, ByteSpan frame) {
  DFKV_RETURN_IF_ERROR(CheckFrame(header, frame));
  const OpInfo* info = IsAnswer(header) ? FindOp(header.op & static_cast<uint8_t>(~kAnswerBit)) : nullptr;
  AnswerView answer;
  answer.header = header;
  answer.code = static_cast<Code>(header.code);
  answer.more = (header.flags & kMore) != 0;
  answer.options = frame.last(header.options_bytes);
  if (!HasBody(header)) {
    if (header.payload_bytes != 0 || header.item_count != 0) return Invalid("a failed answer with a body");
    return answer;
  }
  if (info == nullptr) return Status(Code::kUnsupported, Cat("unknown operation ", header.op));
  const ByteSpan body = frame.subspan(kHeaderBytes);
  if (info->op == Op::kMatch) answer.match = LoadLe<MatchAnswer>(body.data());
  if (info->answer_items) {
    answer.items = body.first(uint64_t{header.item_count} * sizeof(AnswerItem));
    DFKV_RETURN_IF_ERROR(CheckAnswerItems(answer));
  }
  return answer;
}

}  // namespace dfkv::wire
