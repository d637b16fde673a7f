// The table of operations: what the meta of each request and answer is made of. Decoders, encoders and
// docs/PROTOCOL.md follow it. FROZEN within version 1; a new operation is a new row.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "wire/frame.h"

namespace dfkv::wire {

struct OpInfo {
  Op op;
  std::string_view name;           // lower case: the `op` label of metrics
  std::string_view request_fixed;  // struct before the items, empty: none
  uint32_t request_fixed_bytes;    //
  std::string_view request_item;   // struct of one item, empty: the request has no items
  uint32_t request_item_bytes;     //
  bool request_payload;            // the request carries values
  std::string_view answer_fixed;   // struct before the items, empty: none
  uint32_t answer_fixed_bytes;     //
  bool answer_items;               // AnswerItem per item
  bool answer_payload;             // the answer carries values or text
  std::string_view summary;        // one sentence
};

std::span<const OpInfo> OpTable();    // in the order of the numbers
const OpInfo* FindOp(uint8_t op);     // null: unknown. kAnswerBit must be clear
std::string_view OpName(uint8_t op);  // kAnswerBit is ignored; "unknown" where there is none

}  // namespace dfkv::wire
