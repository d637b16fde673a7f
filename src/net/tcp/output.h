// OutputQueue: the answers of one connection on their way out, as iovecs over borrowed blocks and pinned
// values.
//
// Invariants: pieces leave in the order added; a value's pin is held until its last byte was taken; blocks
// are borrowed from the reactor's pool and go back when they are empty, so an idle connection holds none.
// Meta of successive answers shares a piece where it lies in one run. One thread; no allocation once the pool
// is warm.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "net/pin.h"
#include "wire/frame.h"

namespace dfkv::net {

struct OutputBlock {
  static constexpr size_t kBytes = 14 * 1024;
  static constexpr uint32_t kPieces = 128;  // one send moves at most this many

  OutputBlock* next = nullptr;
  uint32_t bytes_used = 0;
  uint32_t pieces = 0;
  uint32_t sent = 0;  // pieces wholly taken
  bool open = false;  // the last piece is meta that ends at bytes_used
  std::array<iovec, kPieces> iov;
  std::array<Pin, kPieces> pins;
  alignas(8) std::array<std::byte, kBytes> bytes;
};

// A free list; keeps at most `kept_max` spare blocks.
class OutputBlockPool {
 public:
  explicit OutputBlockPool(size_t kept_max) : kept_max_(kept_max) { kept_.reserve(kept_max); }
  OutputBlock* Borrow();
  void GiveBack(OutputBlock* block);
  size_t lent() const { return lent_; }

 private:
  size_t kept_max_;
  size_t lent_ = 0;
  std::vector<std::unique_ptr<OutputBlock>> kept_;
};

// How answers to one request are framed.
struct AnswerFraming {
  wire::Op op = wire::Op::kPing;
  uint64_t request_id = 0;
  uint64_t payload_bytes_max = 0;  // of a frame
};

class OutputQueue {
 public:
  explicit OutputQueue(OutputBlockPool* pool) : pool_(pool) {}
  OutputQueue(const OutputQueue&) = delete;
  OutputQueue& operator=(const OutputQueue&) = delete;
  ~OutputQueue() { Clear(); }

  // As ServerCall::Answer.
  void AddAnswer(const AnswerFraming& framing, std::span<const wire::AnswerItem> items,
                 std::span<Value> values, bool last);
  void AddMatch(uint64_t request_id, uint32_t present);
  void AddText(wire::Op op, uint64_t request_id, std::string text);
  void AddHello(uint64_t request_id, const wire::HelloBody& body);
  void AddError(uint8_t op, uint64_t request_id, const Status& status);

  bool empty() const { return head_ == nullptr; }
  uint64_t bytes() const { return bytes_; }  // not yet taken, meta and values

  // What to send next: pieces of the first block; valid, and to be left in place, until Taken or Clear.
  std::span<const iovec> Next() const;
  // `count` bytes of Next() have left.
  void Taken(uint64_t count);
  // Forgets everything and lets go of all pins. Not while a send of Next() is in flight.
  void Clear();

 private:
  OutputBlock* Room(size_t bytes, uint32_t pieces);
  MutableByteSpan MetaRoom(OutputBlock* block) const;
  void CommitMeta(OutputBlock* block, size_t bytes);
  void CommitValue(OutputBlock* block, Value value);
  void AddFrame(const AnswerFraming& framing, std::span<const wire::AnswerItem> items,
                std::span<Value> values, uint64_t payload, bool more);

  OutputBlockPool* pool_;
  OutputBlock* head_ = nullptr;
  OutputBlock* tail_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace dfkv::net
