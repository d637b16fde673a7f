// BlockIo: reads and writes runs of blocks of a chain in batches; one thread's buffers and counts.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "client/client.h"
#include "tools/bench/buffer.h"
#include "tools/bench/tally.h"

namespace dfkv::tools {

class BlockIo {
 public:
  // `batch_max` blocks per call at most; 0: as many as fit in 256 MiB.
  BlockIo(uint64_t block_bytes, uint32_t batch_max, uint64_t chain_max, uint32_t deadline_ms);

  // The stored prefix of the chain, in blocks.
  Result<uint64_t> Match(client::Client& client, std::span<const uint64_t> chain);

  // Reads the blocks and compares every byte. `codes` gets one entry per block; a block that is not what was
  // stored is counted as wrong and gets Corrupt.
  void Get(client::Client& client, std::span<const uint64_t> blocks, Tally& tally, std::vector<Code>& codes);

  // Stores the blocks, the first at `depth`; each Busy one is tried again up to three times after a pause.
  void Put(client::Client& client, std::span<const uint64_t> blocks, uint64_t depth, Tally& tally,
           std::vector<Code>& codes);

  // One entry per block: Ok or NotFound, or why it is not known.
  void Exist(client::Client& client, std::span<const uint64_t> blocks, std::vector<Code>& codes);

  uint64_t busy_retries() const { return busy_retries_; }
  // Time spent in the client's calls since this was last asked; making and checking of values left out.
  Nanos TakeCallTime() { return std::exchange(call_time_, 0); }
  // Called just before each PUT goes out; empty: nothing. For tests that interfere with one.
  void OnPut(std::function<void()> hook) { on_put_ = std::move(hook); }

 private:
  void Name(std::span<const uint64_t> blocks);
  template <typename Call>
  auto Timed(const Call& call) {
    const Nanos start = SystemClock().Now();
    auto result = call();
    call_time_ += SystemClock().Now() - start;
    return result;
  }
  Code PutAgain(client::Client& client, const client::PutItem& item);

  uint64_t block_bytes_;
  uint64_t batch_max_;
  client::CallOptions call_;
  PageBuffer buffer_;
  std::vector<std::string> names_;
  std::vector<ByteSpan> keys_;
  std::vector<ByteSpan> writes_;
  std::vector<MutableByteSpan> reads_;
  std::vector<client::ItemResult> results_;
  std::function<void()> on_put_;
  Nanos call_time_ = 0;
  uint64_t busy_retries_ = 0;
};

}  // namespace dfkv::tools
