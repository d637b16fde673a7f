#include "tools/bench/block_io.h"

#include <algorithm>

#include "base/clock.h"
#include "base/random.h"
#include "base/sync.h"
#include "base/text.h"

namespace dfkv::tools {

using client::GetItem;
using client::ItemResult;
using client::PutItem;

namespace {
constexpr uint64_t kBatchBytesMax = 256ull << 20;
constexpr int kBusyRetriesMax = 3;
constexpr Nanos kBusyPause = 20 * kMillisecond;

uint64_t BatchBlocks(uint64_t block_bytes, uint32_t batch_max, uint64_t chain_max) {
  uint64_t blocks = std::max<uint64_t>(1, kBatchBytesMax / block_bytes);
  if (batch_max != 0) blocks = std::min<uint64_t>(blocks, batch_max);
  return std::max<uint64_t>(1, std::min(blocks, chain_max));
}
}  // namespace

BlockIo::BlockIo(uint64_t block_bytes, uint32_t batch_max, uint64_t chain_max, uint32_t deadline_ms)
    : block_bytes_(block_bytes),
      batch_max_(BatchBlocks(block_bytes, batch_max, chain_max)),
      call_{deadline_ms},
      buffer_(batch_max_ * block_bytes) {
  for (uint64_t i = 0; i < batch_max_; ++i) {
    reads_.push_back(buffer_.bytes().subspan(i * block_bytes, block_bytes));
    writes_.push_back(reads_.back());
  }
}

void BlockIo::Name(std::span<const uint64_t> blocks) {
  names_.resize(blocks.size());
  keys_.resize(blocks.size());
  for (size_t i = 0; i < blocks.size(); ++i) {
    names_[i] = Cat(blocks[i]);
    keys_[i] = AsBytes(names_[i]);
  }
  results_.assign(blocks.size(), ItemResult{});
}

Result<uint64_t> BlockIo::Match(client::Client& client, std::span<const uint64_t> chain) {
  Name(chain);
  return Timed([&] { return client.Match(keys_, call_); });
}

void BlockIo::Get(client::Client& client, std::span<const uint64_t> blocks, Tally& tally,
                  std::vector<Code>& codes) {
  codes.clear();
  std::vector<GetItem> items;
  for (; !blocks.empty(); blocks = blocks.subspan(items.size())) {
    const std::span<const uint64_t> part = blocks.first(std::min<size_t>(blocks.size(), batch_max_));
    Name(part);
    items.clear();
    for (size_t i = 0; i < part.size(); ++i) {
      Spoil(part[i], reads_[i]);
      items.push_back({keys_[i], {&reads_[i], 1}, false, false, 0});
    }
    const Status status = Timed([&] { return client.Get(items, call_, results_); });
    for (size_t i = 0; i < part.size(); ++i) {
      Code code = status.ok() ? results_[i].code : status.code();
      tally.Add(code);
      if (code == Code::kOk) {
        if (results_[i].length == block_bytes_ && PatternMatches(part[i], 0, reads_[i])) {
          tally.bytes += block_bytes_;
        } else {
          ++tally.wrong;
          code = Code::kCorrupt;
        }
      }
      codes.push_back(code);
    }
  }
}

Code BlockIo::PutAgain(client::Client& client, const PutItem& item) {
  Mutex mutex;
  CondVar never;
  ItemResult result{Code::kBusy, 0};
  for (int i = 0; i < kBusyRetriesMax && result.code == Code::kBusy; ++i) {
    ++busy_retries_;
    {
      MutexLock lock(mutex);
      never.WaitFor(mutex, kBusyPause);
    }
    const Status status = Timed([&] { return client.Put({&item, 1}, call_, {&result, 1}); });
    if (!status.ok()) result.code = status.code();
  }
  return result.code;
}

void BlockIo::Put(client::Client& client, std::span<const uint64_t> blocks, uint64_t depth, Tally& tally,
                  std::vector<Code>& codes) {
  codes.clear();
  std::vector<PutItem> items;
  for (; !blocks.empty(); blocks = blocks.subspan(items.size())) {
    const std::span<const uint64_t> part = blocks.first(std::min<size_t>(blocks.size(), batch_max_));
    Name(part);
    items.clear();
    for (size_t i = 0; i < part.size(); ++i) {
      FillPattern(part[i], 0, reads_[i]);
      items.push_back({keys_[i], {&writes_[i], 1}, static_cast<uint32_t>(depth + codes.size() + i)});
    }
    if (on_put_) on_put_();
    const Status status = Timed([&] { return client.Put(items, call_, results_); });
    for (size_t i = 0; i < part.size(); ++i) {
      Code code = status.ok() ? results_[i].code : status.code();
      if (code == Code::kBusy) code = PutAgain(client, items[i]);
      tally.Add(code);
      if (code == Code::kOk) tally.bytes += block_bytes_;
      codes.push_back(code);
    }
  }
}

void BlockIo::Exist(client::Client& client, std::span<const uint64_t> blocks, std::vector<Code>& codes) {
  constexpr size_t kKeysMax = 1024;
  codes.clear();
  for (size_t at = 0; at < blocks.size(); at += kKeysMax) {
    const std::span<const uint64_t> part = blocks.subspan(at, std::min(kKeysMax, blocks.size() - at));
    Name(part);
    const Status status = client.Exist(keys_, call_, results_);
    for (const ItemResult& result : results_) codes.push_back(status.ok() ? result.code : status.code());
  }
}

}  // namespace dfkv::tools
