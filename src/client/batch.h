// Batch: one call on its way over the peers. It lives in a lane, which reuses its memory from call to call.
// One thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "client/client.h"
#include "client/metrics.h"
#include "wire/frame.h"

namespace dfkv::client {

// The part of a batch that one peer answers.
struct Share {
  uint32_t peer = 0;
  uint32_t first = 0;  // in Batch::order
  uint32_t count = 0;
  uint32_t next = 0;  // items before it have been put into requests
  uint32_t open = 0;  // items without a code
};

struct Batch {
  static constexpr uint8_t kOpen = 0;
  static constexpr uint8_t kArriving = 1;  // its value is being received
  static constexpr uint8_t kAnswered = 2;

  CallKind kind = CallKind::kPut;
  wire::Op op = wire::Op::kPing;  // of this pass
  int passes = 0;                 // over the peers, begun so far: see Core::NextPass
  TenantHash tenant;
  Nanos deadline = 0;

  std::span<const PutItem> puts;  // PUT
  std::span<const GetItem> gets;  // GET, GET_RANGE
  std::span<ItemResult> results;  // one per item; STATS has one
  std::vector<ObjectId> ids;      // one per item
  std::vector<uint8_t> answered;  // one per item: kOpen, kArriving or kAnswered
  std::vector<uint32_t> order;    // the items that take part, grouped by peer, in the caller's order within
  std::vector<Share> shares;      //
  uint32_t shares_open = 0;       // that have not ended
  std::string text;               // STATS: the answer
  MutableByteSpan text_room;      // STATS: where it is received
  std::vector<uint32_t> peer_count;  // for grouping
  std::vector<uint32_t> owner;       // for grouping: of each item

  std::span<const MutableByteSpan> PiecesOf(uint32_t item) const {
    if (op == wire::Op::kStats) return {&text_room, 1};
    return gets[item].pieces;
  }
  // Gives the item its code, once.
  void Answer(Share& share, uint32_t item, Code code, uint64_t length) {
    if (answered[item] == kAnswered) return;
    answered[item] = kAnswered;
    --share.open;
    results[item] = {code, length};
  }
  void AnswerRest(Share& share, Code code) {
    for (uint32_t i = 0; i < share.count; ++i) Answer(share, order[share.first + i], code, 0);
  }
};

// UINT64_MAX when the sum does not fit.
template <typename Span>
uint64_t TotalBytes(std::span<const Span> pieces) {
  uint64_t total = 0;
  for (const Span& piece : pieces) {
    if (__builtin_add_overflow(total, piece.size(), &total)) return UINT64_MAX;
  }
  return total;
}

}  // namespace dfkv::client
