#include "wire/protocol_doc.h"

#include <cstddef>
#include <span>
#include <string_view>

#include "base/text.h"
#include "wire/decode.h"
#include "wire/encode.h"
#include "wire/ops.h"
#include "wire/options.h"

namespace dfkv::wire {
namespace {

struct Field {
  std::string_view name;
  size_t offset;
  size_t size;
  std::string_view meaning;
};

#define DFKV_FIELD(type, name, meaning)                      \
  Field {                                                    \
    #name, offsetof(type, name), sizeof(type::name), meaning \
  }

constexpr Field kHeaderFields[] = {
    DFKV_FIELD(FrameHeader, magic, "\"DFK3\", 0x334B4644"),
    DFKV_FIELD(FrameHeader, version, "of the frame's layout"),
    DFKV_FIELD(FrameHeader, op, "operation; an answer has 0x80 set"),
    DFKV_FIELD(FrameHeader, flags, "1: further answer frames of this request follow"),
    DFKV_FIELD(FrameHeader, code, "answers: code of the whole request; requests: 0"),
    DFKV_FIELD(FrameHeader, request_id, "chosen by the asker, unique among its requests in flight"),
    DFKV_FIELD(FrameHeader, meta_bytes, "fixed part, items and options"),
    DFKV_FIELD(FrameHeader, crc, "CRC32C of the header with this field zero, then meta"),
    DFKV_FIELD(FrameHeader, payload_bytes, "values that follow the meta"),
    DFKV_FIELD(FrameHeader, item_count, "items in the meta"),
    DFKV_FIELD(FrameHeader, options_bytes, "last bytes of the meta; a multiple of 8"),
};
constexpr Field kPrefixFields[] = {
    DFKV_FIELD(RequestPrefix, tenant, "owner of the keys"),
    DFKV_FIELD(RequestPrefix, deadline_ms, "left of the asker's deadline; 0: the node's default"),
    DFKV_FIELD(RequestPrefix, reserved, "0"),
};
constexpr Field kKeyFields[] = {
    DFKV_FIELD(KeyItem, id_hi, "object id"),
    DFKV_FIELD(KeyItem, id_lo, ""),
};
constexpr Field kGetFields[] = {
    DFKV_FIELD(GetItem, id_hi, "object id"),
    DFKV_FIELD(GetItem, id_lo, ""),
    DFKV_FIELD(GetItem, offset, "get_range: first byte; get: 0"),
    DFKV_FIELD(GetItem, length, "get: the asker's capacity; get_range: bytes wanted"),
};
constexpr Field kPutFields[] = {
    DFKV_FIELD(PutItem, id_hi, "object id"),
    DFKV_FIELD(PutItem, id_lo, ""),
    DFKV_FIELD(PutItem, length, "of its value in the payload"),
    DFKV_FIELD(PutItem, crc, "CRC32C of the value"),
    DFKV_FIELD(PutItem, depth, "position in the prefix chain; 0xFFFFFFFF: unknown"),
};
constexpr Field kAnswerFields[] = {
    DFKV_FIELD(AnswerItem, index, "of the item in the request"),
    DFKV_FIELD(AnswerItem, code, "of this item"),
    DFKV_FIELD(AnswerItem, reserved, "0"),
    DFKV_FIELD(AnswerItem, stored_length, "of the object, where known"),
    DFKV_FIELD(AnswerItem, payload_bytes, "of this item in this frame's payload"),
    DFKV_FIELD(AnswerItem, crc, "CRC32C of those bytes"),
};
constexpr Field kMatchFields[] = {
    DFKV_FIELD(MatchAnswer, present, "leading keys that are present"),
    DFKV_FIELD(MatchAnswer, reserved, "0"),
};
constexpr Field kHelloFields[] = {
    DFKV_FIELD(HelloBody, version_min, "lowest version spoken"),
    DFKV_FIELD(HelloBody, version_max, "highest version spoken"),
    DFKV_FIELD(HelloBody, features, "bit set, none defined"),
    DFKV_FIELD(HelloBody, payload_bytes_max, "of one frame"),
    DFKV_FIELD(HelloBody, object_bytes_max, "largest object"),
    DFKV_FIELD(HelloBody, items_max, "of one request"),
    DFKV_FIELD(HelloBody, requests_in_flight_max, "of one connection"),
    DFKV_FIELD(HelloBody, incarnation, "of the node; 0 from clients"),
};
constexpr Field kOptionFields[] = {
    DFKV_FIELD(OptionHeader, type, "what it is; unknown types are skipped"),
    DFKV_FIELD(OptionHeader, reserved, "0, ignored"),
    DFKV_FIELD(OptionHeader, length, "of the bytes that follow, padded with zeros to 8"),
};
#undef DFKV_FIELD

void AppendStruct(std::string& out, std::string_view name, size_t size, std::span<const Field> fields) {
  out += Cat("### ", name, " (", size, " bytes)\n\n| offset | size | field | meaning |\n|---|---|---|---|\n");
  for (const Field& f : fields) {
    out += Cat("| ", f.offset, " | ", f.size, " | ", f.name, " | ", f.meaning, " |\n");
  }
  out += "\n";
}

std::string_view OrNone(std::string_view text) {
  return text.empty() ? "–" : text;
}

void AppendOps(std::string& out) {
  out +=
      "### Operations\n\n| op | name | request: fixed | item | payload | answer: fixed | item | payload | "
      "what |\n"
      "|---|---|---|---|---|---|---|---|---|\n";
  for (const OpInfo& row : OpTable()) {
    out +=
        Cat("| ", static_cast<unsigned>(row.op), " | ", row.name, " | ", OrNone(row.request_fixed), " | ",
            OrNone(row.request_item), " | ", row.request_payload ? "values" : "–", " | ",
            OrNone(row.answer_fixed), " | ", row.answer_items ? "AnswerItem" : "–", " | ",
            !row.answer_payload ? "–" : (row.answer_items ? "values" : "text"), " | ", row.summary, " |\n");
  }
  out += "\n";
}

void AppendCodes(std::string& out) {
  out += "### Codes\n\n| number | code |\n|---|---|\n";
  for (uint64_t number = 0; IsKnownCode(number); ++number) {
    out += Cat("| ", number, " | ", CodeName(static_cast<Code>(number)), " |\n");
  }
  out += "\n";
}

}  // namespace

std::string ProtocolTables() {
  std::string out;
  AppendOps(out);
  AppendStruct(out, "FrameHeader", sizeof(FrameHeader), kHeaderFields);
  AppendStruct(out, "RequestPrefix", sizeof(RequestPrefix), kPrefixFields);
  AppendStruct(out, "KeyItem", sizeof(KeyItem), kKeyFields);
  AppendStruct(out, "GetItem", sizeof(GetItem), kGetFields);
  AppendStruct(out, "PutItem", sizeof(PutItem), kPutFields);
  AppendStruct(out, "AnswerItem", sizeof(AnswerItem), kAnswerFields);
  AppendStruct(out, "MatchAnswer", sizeof(MatchAnswer), kMatchFields);
  AppendStruct(out, "HelloBody", sizeof(HelloBody), kHelloFields);
  AppendStruct(out, "Option", sizeof(OptionHeader), kOptionFields);
  out +=
      Cat("### Options\n\n| type | name | bytes |\n|---|---|---|\n",  //
          "| ", static_cast<unsigned>(OptionType::kPeerName), " | peer name | text, for logs and metrics |\n",
          "| ", static_cast<unsigned>(OptionType::kAuthToken), " | auth token | hello |\n",  //
          "| ", static_cast<unsigned>(OptionType::kMessage),
          " | message | text that explains an answer's code, at most ", kMessageBytesMax, " bytes |\n\n");
  AppendCodes(out);
  out += Cat("### Limits of the format\n\n| what | limit |\n|---|---|\n| meta before hello | ",
             kHelloMetaBytesMax, " bytes, no items, no payload |\n| meta, whatever was negotiated | ",
             kMetaBytesMax, " bytes |\n");
  return out;
}

}  // namespace dfkv::wire
