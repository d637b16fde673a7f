// One logical request may arrive as several batches: MATCH of a chain, GET of what hit, PUT of the rest. Here
// the batches that continue a request are told from those that begin one.
//
// Every id counts the requests that asked for it and whose answer is still to come: a MATCH asks for all its
// keys, a GET for those that are absent. A GET of a live key or a PUT answers one. A batch that answers
// belongs to the request that asked; of its other keys, those that this request or a later one has touched
// are not touched again.
//
// A MATCH that asks again what is asked already, key by key, is the same request still waiting: schedulers
// poll. It counts once until it is answered. Of two clients that ask for one chain at a time the second is
// therefore noticed by its GET.
//
// A client that never answers leaves a count behind; the worst it does is that a later GET, or a MATCH within
// kRepeatsMax batches, is not counted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "store/evict/node_table.h"
#include "store/evict/policy.h"

namespace dfkv::store::evict {

// Times are Request::now + 1, so that 0 means never. 48 bits last centuries.
inline constexpr uint64_t kTimeMask = (uint64_t{1} << 48) - 1;

// A GET or PUT continues a request at most this many batches old.
inline constexpr uint64_t kContinuesMax = uint64_t{1} << 20;

// A MATCH repeats one that is at most this many batches old: what only ever asks counts again after that.
inline constexpr uint64_t kRepeatsMax = uint64_t{1} << 16;

inline constexpr unsigned kAskedMax = 7;

struct Step {  // one id of a batch
  Index node = kNil;
  uint32_t depth = 0;
};

namespace logical_request_internal {

template <typename Node>
void Answer(Node& node) {
  node.asked = (node.asked - 1u) & kAskedMax;
}

// The time of the request that this batch continues, or 0.
template <typename Node>
uint64_t ContinuedTime(const NodeTable<Node>& table, RequestKind kind, uint64_t time,
                       const std::vector<Step>& steps) {
  if (kind != RequestKind::kGet && kind != RequestKind::kPut) return 0;
  for (const Step& step : steps) {
    const Node& node = table[step.node];
    if (node.asked > 0 && time - node.last <= kContinuesMax) return node.last;
  }
  return 0;
}

// Whether every key's question is still open.
template <typename Node>
bool Repeats(const NodeTable<Node>& table, uint64_t time, const std::vector<Step>& steps) {
  return !steps.empty() && std::all_of(steps.begin(), steps.end(), [&](const Step& step) {
    const Node& node = table[step.node];
    return node.asked > 0 && time - node.last <= kRepeatsMax;
  });
}

}  // namespace logical_request_internal

// Leaves in `steps` what the batch touches anew. True: it begins a request. Node has the bit fields `last`
// (the time of its last touch), `asked` (3 bits), `put_seen` and a member live().
template <typename Node>
bool BeginsRequest(NodeTable<Node>& table, RequestKind kind, uint64_t time, std::vector<Step>& steps) {
  if (kind == RequestKind::kPut) {
    for (const Step& step : steps) table[step.node].put_seen = !table[step.node].live();
  }
  if (kind == RequestKind::kMatch && logical_request_internal::Repeats(table, time, steps)) {
    steps.clear();
    return false;
  }
  const uint64_t since = logical_request_internal::ContinuedTime(table, kind, time, steps);
  if (since == 0) {
    for (const Step& step : steps) {
      Node& node = table[step.node];
      const bool asks = kind == RequestKind::kMatch || (kind == RequestKind::kGet && !node.live());
      if (asks && node.asked < kAskedMax) node.asked = (node.asked + 1u) & kAskedMax;
    }
    return kind != RequestKind::kOther;
  }
  std::erase_if(steps, [&](const Step& step) {
    Node& node = table[step.node];
    if (node.asked == 0) return node.last >= since;
    // A GET that still misses leaves the question open for the PUT.
    if (kind == RequestKind::kPut || node.live()) logical_request_internal::Answer(node);
    return true;
  });
  return false;
}

// The id becomes live. Without a PUT before it (a promotion after a GET) this is the answer.
template <typename Node>
void AnswerByInsert(Node& node) {
  if (node.asked > 0 && !node.put_seen) logical_request_internal::Answer(node);
  node.put_seen = 0;
}

}  // namespace dfkv::store::evict
