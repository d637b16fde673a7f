#include "net/tcp/output.h"

#include <algorithm>

#include "base/check.h"
#include "wire/decode.h"
#include "wire/encode.h"

namespace dfkv::net {
namespace {

constexpr uint32_t kItemsPerFrame = 512;
constexpr uint32_t kValuesPerFrame = OutputBlock::kPieces - 1;
static_assert(wire::kHeaderBytes + kItemsPerFrame * sizeof(wire::AnswerItem) <= OutputBlock::kBytes);
static_assert(wire::kErrorAnswerBytesMax <= OutputBlock::kBytes);

}  // namespace

OutputBlock* OutputBlockPool::Borrow() {
  ++lent_;
  if (kept_.empty()) return new OutputBlock;
  OutputBlock* block = kept_.back().release();
  kept_.pop_back();
  block->next = nullptr;
  block->bytes_used = block->pieces = block->sent = 0;
  block->open = false;
  return block;
}

void OutputBlockPool::GiveBack(OutputBlock* block) {
  --lent_;
  std::unique_ptr<OutputBlock> owned(block);
  if (kept_.size() < kept_max_) kept_.push_back(std::move(owned));
}

// A block at the tail with room for one run of meta and that many further pieces.
OutputBlock* OutputQueue::Room(size_t bytes, uint32_t pieces) {
  if (tail_ != nullptr && OutputBlock::kBytes - tail_->bytes_used >= bytes &&
      OutputBlock::kPieces - tail_->pieces >= pieces + 1) {
    return tail_;
  }
  OutputBlock* block = pool_->Borrow();
  (tail_ == nullptr ? head_ : tail_->next) = block;
  tail_ = block;
  return block;
}

MutableByteSpan OutputQueue::MetaRoom(OutputBlock* block) const {
  return MutableByteSpan(block->bytes).subspan(block->bytes_used);
}

void OutputQueue::CommitMeta(OutputBlock* block, size_t bytes) {
  DFKV_CHECK(bytes > 0);
  if (block->open) {
    block->iov[block->pieces - 1].iov_len += bytes;
  } else {
    block->iov[block->pieces++] = {block->bytes.data() + block->bytes_used, bytes};
    block->open = true;
  }
  block->bytes_used += static_cast<uint32_t>(bytes);
  bytes_ += bytes;
}

void OutputQueue::CommitValue(OutputBlock* block, Value value) {
  void* data = const_cast<std::byte*>(value.bytes.data());  // iovec has no const form; only read
  block->iov[block->pieces] = {data, value.bytes.size()};
  block->pins[block->pieces] = std::move(value.pin);
  ++block->pieces;
  block->open = false;
  bytes_ += value.bytes.size();
}

void OutputQueue::AddFrame(const AnswerFraming& framing, std::span<const wire::AnswerItem> items,
                           std::span<Value> values, uint64_t payload, bool more) {
  OutputBlock* block =
      Room(wire::AnswerBytes(framing.op, items.size()), static_cast<uint32_t>(values.size()));
  const wire::AnswerSpec spec{framing.op, framing.request_id, more, payload};
  CommitMeta(block, wire::EncodeAnswer(MetaRoom(block), spec, items));
  for (Value& value : values) CommitValue(block, std::move(value));
}

void OutputQueue::AddAnswer(const AnswerFraming& framing, std::span<const wire::AnswerItem> items,
                            std::span<Value> values, bool last) {
  size_t next_value = 0;
  size_t begin = 0;
  do {
    uint64_t payload = 0;
    uint32_t taken = 0;
    size_t end = begin;
    for (; end < items.size() && end - begin < kItemsPerFrame; ++end) {
      const uint64_t size = items[end].payload_bytes;
      if (size == 0) continue;
      if (taken == kValuesPerFrame || size > framing.payload_bytes_max - payload) break;
      payload += size;
      ++taken;
    }
    if (end == begin && begin < items.size()) {  // a value that no frame of this peer can hold
      wire::AnswerItem refused = items[begin];
      refused.code = static_cast<uint8_t>(Code::kTooLarge);
      refused.payload_bytes = refused.crc = 0;
      values[next_value++].pin.Release();
      ++begin;
      AddFrame(framing, {&refused, 1}, {}, 0, begin < items.size() || !last);
      continue;
    }
    const bool more = end < items.size() || !last;
    AddFrame(framing, items.subspan(begin, end - begin), values.subspan(next_value, taken), payload, more);
    next_value += taken;
    begin = end;
  } while (begin < items.size());
  DFKV_CHECK(next_value == values.size());
}

void OutputQueue::AddMatch(uint64_t request_id, uint32_t present) {
  OutputBlock* block = Room(wire::AnswerBytes(wire::Op::kMatch, 0), 0);
  CommitMeta(block, wire::EncodeMatchAnswer(MetaRoom(block), request_id, {present, 0}));
}

void OutputQueue::AddText(wire::Op op, uint64_t request_id, std::string text) {
  OutputBlock* block = Room(wire::AnswerBytes(op, 0), 1);
  CommitMeta(block, wire::EncodeAnswer(MetaRoom(block), {op, request_id, false, text.size()}));
  if (text.empty()) return;
  auto held = std::make_unique<std::string>(std::move(text));
  const ByteSpan bytes = AsBytes(*held);
  CommitValue(block, Value{bytes, Pin(std::move(held))});
}

void OutputQueue::AddHello(uint64_t request_id, const wire::HelloBody& body) {
  OutputBlock* block = Room(wire::AnswerBytes(wire::Op::kHello, 0), 0);
  CommitMeta(block, wire::EncodeHelloAnswer(MetaRoom(block), request_id, body));
}

void OutputQueue::AddError(uint8_t op, uint64_t request_id, const Status& status) {
  OutputBlock* block = Room(wire::kErrorAnswerBytesMax, 0);
  CommitMeta(block, wire::EncodeErrorAnswer(MetaRoom(block), op, request_id, status));
}

std::span<const iovec> OutputQueue::Next() const {
  if (head_ == nullptr) return {};
  return std::span<const iovec>(head_->iov).subspan(head_->sent, head_->pieces - head_->sent);
}

void OutputQueue::Taken(uint64_t count) {
  DFKV_CHECK(count <= bytes_);
  bytes_ -= count;
  OutputBlock* block = head_;
  while (block->sent < block->pieces) {
    iovec& piece = block->iov[block->sent];
    if (count < piece.iov_len) {
      piece.iov_base = static_cast<std::byte*>(piece.iov_base) + count;
      piece.iov_len -= count;
      return;
    }
    count -= piece.iov_len;
    block->pins[block->sent].Release();
    ++block->sent;
  }
  DFKV_CHECK(count == 0);
  head_ = block->next;
  if (head_ == nullptr) tail_ = nullptr;
  pool_->GiveBack(block);
}

void OutputQueue::Clear() {
  while (head_ != nullptr) {
    OutputBlock* block = head_;
    head_ = block->next;
    for (uint32_t i = block->sent; i < block->pieces; ++i) block->pins[i].Release();
    pool_->GiveBack(block);
  }
  tail_ = nullptr;
  bytes_ = 0;
}

}  // namespace dfkv::net
