// Chat: a synthetic workload that looks like LLM serving. Conversations of several turns, behind a few system
// prompts that many share; each turn sends the whole history again, so its prefix should be in the cache.
#pragma once

#include <cstdint>
#include <vector>

#include "store/evict/trace.h"

namespace dfkv::tools {

struct ChatOptions {
  uint64_t run = 0;  // conversations of two runs have no block in common; system prompts are shared
  uint64_t requests = 1000;
  uint32_t prompts = 12;     // system prompts; the first are the most popular
  uint32_t open_chats = 48;  // conversations that take turns
  double mean_turns = 6;     // of a conversation
};

// The requests in order; a pure function of the options.
std::vector<store::evict::TraceRequest> MakeChatTrace(const ChatOptions& options);

}  // namespace dfkv::tools
