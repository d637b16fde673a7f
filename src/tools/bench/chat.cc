#include "tools/bench/chat.h"

#include "base/random.h"

namespace dfkv::tools {

namespace {

using store::evict::kTokensPerBlock;

// The name of a block: what it belongs to and its place there; 63 bits, as in the published traces.
uint64_t BlockId(uint64_t owner, uint64_t place) {
  return Mix64(Mix64(owner) ^ place) >> 1;
}

struct Chat {
  uint64_t owner = 0;
  uint64_t turns_left = 0;
  std::vector<uint64_t> history;  // whole blocks
};

// A prompt of 4 to 24 blocks. Popularity falls with the number: half of the chats use the first few.
std::vector<uint64_t> PickPrompt(uint32_t prompts, Random& random) {
  const uint64_t number = random.Below(1 + random.Below(prompts));
  std::vector<uint64_t> blocks;
  const uint64_t length = 4 + Mix64(number) % 21;
  for (uint64_t i = 0; i < length; ++i) blocks.push_back(BlockId(number, i));
  return blocks;
}

}  // namespace

std::vector<store::evict::TraceRequest> MakeChatTrace(const ChatOptions& options) {
  Random random(Mix64(options.run));
  std::vector<Chat> chats(options.open_chats);
  uint64_t started = 0;
  std::vector<store::evict::TraceRequest> trace;
  while (trace.size() < options.requests) {
    Chat& chat = chats[random.Below(chats.size())];
    if (chat.turns_left == 0) {
      chat.owner = Mix64(options.run + 1) ^ ++started;
      chat.history = PickPrompt(options.prompts, random);
      chat.turns_left = 1 + random.Below(static_cast<uint64_t>(2 * options.mean_turns - 1));
    }
    --chat.turns_left;
    for (uint64_t n = 1 + random.Below(4); n > 0; --n) {  // what the user wrote
      chat.history.push_back(BlockId(chat.owner, chat.history.size()));
    }
    store::evict::TraceRequest request;
    request.timestamp_ms = trace.size();
    request.blocks = chat.history;
    // The last block is partial and is another one, once the answer has filled it.
    request.blocks.push_back(BlockId(~chat.owner, chat.history.size()));
    request.input_tokens = kTokensPerBlock * chat.history.size() + 1 + random.Below(kTokensPerBlock);
    trace.push_back(std::move(request));
    for (uint64_t n = random.Below(3); n > 0; --n) {  // the answer
      chat.history.push_back(BlockId(chat.owner, chat.history.size()));
    }
  }
  return trace;
}

}  // namespace dfkv::tools
