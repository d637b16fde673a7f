#include "wire/ops.h"

namespace dfkv::wire {
namespace {

constexpr uint32_t kPrefix = sizeof(RequestPrefix);
constexpr uint32_t kKey = sizeof(KeyItem);
constexpr uint32_t kGet = sizeof(GetItem);

constexpr OpInfo kOps[] = {
    {Op::kHello, "hello", "HelloBody", sizeof(HelloBody), "", 0, false, "HelloBody", sizeof(HelloBody), false,
     false, "First on a connection: each side states what it accepts; the smaller value holds."},
    {Op::kPing, "ping", "RequestPrefix", kPrefix, "", 0, false, "", 0, false, false,
     "Answered at once, also while the disk is busy: slow is not dead."},
    {Op::kStats, "stats", "RequestPrefix", kPrefix, "", 0, false, "", 0, false, true,
     "The node's metrics; the answer's payload is Prometheus text."},
    {Op::kPut, "put", "RequestPrefix", kPrefix, "PutItem", sizeof(PutItem), true, "", 0, true, false,
     "Stores values; keep-first: a key that is present answers Ok and keeps its bytes."},
    {Op::kGet, "get", "RequestPrefix", kPrefix, "GetItem", kGet, false, "", 0, true, true,
     "Whole objects; an item's length is the asker's capacity, TooSmall tells the stored length."},
    {Op::kGetRange, "get_range", "RequestPrefix", kPrefix, "GetItem", kGet, false, "", 0, true, true,
     "Bytes [offset, offset + length) of objects, fewer at the object's end."},
    {Op::kExist, "exist", "RequestPrefix", kPrefix, "KeyItem", kKey, false, "", 0, true, false,
     "Ok or NotFound for each key."},
    {Op::kRemove, "remove", "RequestPrefix", kPrefix, "KeyItem", kKey, false, "", 0, true, false,
     "Removes; Ok when it was present, NotFound when it was not. Final against operations in flight."},
    {Op::kLookup, "lookup", "RequestPrefix", kPrefix, "KeyItem", kKey, false, "", 0, true, false,
     "The stored length of each key, or NotFound."},
    {Op::kMatch, "match", "RequestPrefix", kPrefix, "KeyItem", kKey, false, "MatchAnswer",
     sizeof(MatchAnswer), false, false, "The number of leading keys that are all present."},
};

constexpr bool NumbersAreDense() {
  uint8_t next = 1;
  for (const OpInfo& row : kOps) {
    if (static_cast<uint8_t>(row.op) != next++) return false;
  }
  return true;
}
static_assert(NumbersAreDense(), "FindOp indexes the table by number");

}  // namespace

std::span<const OpInfo> OpTable() {
  return kOps;
}

const OpInfo* FindOp(uint8_t op) {
  return op >= 1 && op <= std::size(kOps) ? &kOps[op - 1] : nullptr;
}

std::string_view OpName(uint8_t op) {
  const OpInfo* info = FindOp(op & static_cast<uint8_t>(~kAnswerBit));
  return info ? info->name : "unknown";
}

}  // namespace dfkv::wire
