// The frame: one wire message, header | meta | payload. Versioned, little-endian, FROZEN within version 1.
//
//   header   40 bytes, below
//   meta     meta_bytes: the operation's fixed prefix, then item_count items, then options (the last
//   options_bytes) payload  payload_bytes: the values of the items that carry one, in the order of the items,
//   without gaps
//
// Header and meta are under one CRC; every value is under its own. Options are {u16 type, u16 zero, u32
// length, bytes}, each padded to 8; an unknown type is skipped, so later features need no new version.
// Everything here is a pure function over byte spans: no sockets, any thread. Bytes from a peer are
// validated, never trusted: a malformed frame is a Status, never a CHECK.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/status.h"

namespace dfkv::wire {

constexpr uint32_t kMagic = 0x334B4644;  // "DFK3"
constexpr uint8_t kVersion = 1;

// FROZEN. An answer has the request's op with kAnswerBit set.
enum class Op : uint8_t {
  kHello = 1,
  kPing = 2,
  kStats = 3,  // answer payload: Prometheus text
  kPut = 4,
  kGet = 5,       // whole objects; an item's length is the caller's capacity
  kGetRange = 6,  // offset and length within the object
  kExist = 7,
  kRemove = 8,
  kLookup = 9,  // stored length
  kMatch = 10,  // number of leading keys that are all present
};
constexpr uint8_t kAnswerBit = 0x80;

enum FrameFlags : uint8_t {
  kMore = 1,  // answer: further answer frames of this request follow, with other items
};

struct FrameHeader {
  uint32_t magic = kMagic;
  uint8_t version = kVersion;
  uint8_t op = 0;
  uint8_t flags = 0;
  uint8_t code = 0;         // answers: the Code of the whole request; items have their own
  uint64_t request_id = 0;  // chosen by the asker, unique among its requests in flight on the connection
  uint32_t meta_bytes = 0;
  uint32_t crc = 0;  // CRC32C of the header with this field zero, then meta
  uint64_t payload_bytes = 0;
  uint32_t item_count = 0;
  uint32_t options_bytes = 0;  // of meta; a multiple of 8
};
static_assert(sizeof(FrameHeader) == 40);

// First in the meta of every request but HELLO.
struct RequestPrefix {
  uint64_t tenant = 0;
  uint32_t deadline_ms = 0;  // what is left of the asker's deadline; 0: the node's default
  uint32_t reserved = 0;
};
static_assert(sizeof(RequestPrefix) == 16);

struct KeyItem {  // EXIST, REMOVE, LOOKUP, MATCH
  uint64_t id_hi = 0;
  uint64_t id_lo = 0;
};
static_assert(sizeof(KeyItem) == 16);

struct GetItem {  // GET, GET_RANGE
  uint64_t id_hi = 0;
  uint64_t id_lo = 0;
  uint64_t offset = 0;  // GET: zero
  uint64_t length = 0;  // GET: the caller's capacity; GET_RANGE: bytes wanted, fewer at the end of the object
};
static_assert(sizeof(GetItem) == 32);

struct PutItem {
  uint64_t id_hi = 0;
  uint64_t id_lo = 0;
  uint64_t length = 0;          // of its value in the payload
  uint32_t crc = 0;             // CRC32C of the value
  uint32_t depth = UINT32_MAX;  // position in the prefix chain; UINT32_MAX: unknown
};
static_assert(sizeof(PutItem) == 32);

struct AnswerItem {    // answers of PUT, GET, GET_RANGE, EXIST, REMOVE, LOOKUP
  uint32_t index = 0;  // of the item in the request
  uint8_t code = 0;    // Code
  uint8_t reserved[3] = {};
  uint64_t stored_length = 0;  // of the object, where known: GET, LOOKUP, also with TooSmall
  uint32_t payload_bytes = 0;  // of this item in this frame's payload
  uint32_t crc = 0;            // CRC32C of those bytes
};
static_assert(sizeof(AnswerItem) == 24);

struct MatchAnswer {     // meta of MATCH's answer
  uint32_t present = 0;  // leading keys that are present
  uint32_t reserved = 0;
};
static_assert(sizeof(MatchAnswer) == 8);

// Meta of HELLO and of its answer. Each side states what it accepts; the smaller value holds.
struct HelloBody {
  uint16_t version_min = kVersion;
  uint16_t version_max = kVersion;
  uint32_t features = 0;           // bit set, none defined yet
  uint64_t payload_bytes_max = 0;  // of one frame
  uint64_t object_bytes_max = 0;
  uint32_t items_max = 0;               // of one request
  uint32_t requests_in_flight_max = 0;  // of one connection
  uint64_t incarnation = 0;             // of the node; zero from clients
};
static_assert(sizeof(HelloBody) == 40);

enum class OptionType : uint16_t {  // FROZEN
  kPeerName = 1,                    // text, for logs and metrics
  kAuthToken = 2,                   // HELLO
  kMessage = 3,                     // answers: text that explains a code
};

constexpr uint32_t kMetaBytesMax = 4u << 20;   // a decoder refuses more, whatever was negotiated
constexpr uint32_t kHelloMetaBytesMax = 4096;  // before HELLO

}  // namespace dfkv::wire
