// DeadlineWheel: the deadlines of ops. Nearly every op has one and nearly none passes, so adding and removing
// are a few instructions on lists that run through the ops; firing is coarse (ticks of about a millisecond).
//
// Invariants: an op in the wheel is due after tick_. It lies on the level of the highest 6-bit digit in which
// its due tick differs from tick_, in the slot that this digit names; so every op of a level is due before
// every op of the levels above, and bit s of occupied_[level] says that slot s has ops.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/clock.h"
#include "io/reactor.h"

namespace dfkv::io {

// Owns nothing. One thread.
class DeadlineWheel {
 public:
  static constexpr int kTickShift = 20;

  void Add(Op* op) {
    if (op->deadline >= Nanos{1} << 61) return;  // as good as never
    Insert(op, (static_cast<uint64_t>(op->deadline < 0 ? 0 : op->deadline) >> kTickShift) + 1);
  }

  void Remove(Op* op) {
    if (op->link.deadline_slot == 0) return;
    const auto index = static_cast<uint16_t>(op->link.deadline_slot - 1);
    Op*& head = slots_[index];
    (op->link.deadline_prev != nullptr ? op->link.deadline_prev->link.deadline_next : head) =
        op->link.deadline_next;
    if (op->link.deadline_next != nullptr)
      op->link.deadline_next->link.deadline_prev = op->link.deadline_prev;
    if (head == nullptr) occupied_[index >> 6] &= ~(uint64_t{1} << (index & 63));
    op->link.deadline_slot = 0;
  }

  // Calls expire(op) for each op that is due at `now`, after removing it. expire may add and remove ops.
  template <typename Expire>
  void Advance(Nanos now, const Expire& expire) {
    const uint64_t target = static_cast<uint64_t>(now) >> kTickShift;
    for (;;) {
      const int level = LowestLevel();
      const uint64_t due = level < 0 ? UINT64_MAX : DueOf(level);
      if (due > target) break;
      tick_ = due;
      Op*& head = slots_[static_cast<size_t>(level * 64) + ((due >> (level * 6)) & 63)];
      while (head != nullptr) {
        Op* op = head;
        Remove(op);
        const uint64_t op_due =
            (static_cast<uint64_t>(op->deadline < 0 ? 0 : op->deadline) >> kTickShift) + 1;
        if (op_due <= tick_) {
          expire(op);
        } else {
          Insert(op, op_due);
        }
      }
    }
    if (target > tick_) tick_ = target;
  }

  // When Advance may have something to do next: never after the first deadline's tick, now and then before.
  Nanos NextDue() const {
    const int level = LowestLevel();
    return level < 0 ? kNever : static_cast<Nanos>(DueOf(level) << kTickShift);
  }

 private:
  static constexpr int kLevels = 7;

  int LowestLevel() const {
    for (int level = 0; level < kLevels; ++level) {
      if (occupied_[static_cast<size_t>(level)] != 0) return level;
    }
    return -1;
  }
  // The first tick of the first occupied slot of a level.
  uint64_t DueOf(int level) const {
    const int shift = level * 6;
    const auto slot = static_cast<uint64_t>(std::countr_zero(occupied_[static_cast<size_t>(level)]));
    return (tick_ >> (shift + 6) << (shift + 6)) | (slot << shift);
  }
  void Insert(Op* op, uint64_t due) {
    if (due <= tick_) due = tick_ + 1;
    const int level = (63 - std::countl_zero(due ^ tick_)) / 6;
    const size_t index = static_cast<size_t>(level * 64) + ((due >> (level * 6)) & 63);
    Op*& head = slots_[index];
    op->link.deadline_prev = nullptr;
    op->link.deadline_next = head;
    if (head != nullptr) head->link.deadline_prev = op;
    head = op;
    occupied_[index >> 6] |= uint64_t{1} << (index & 63);
    op->link.deadline_slot = static_cast<uint16_t>(index + 1);
  }

  uint64_t tick_ = 0;
  std::array<uint64_t, kLevels> occupied_{};
  std::array<Op*, static_cast<size_t>(kLevels) * 64> slots_{};
};

}  // namespace dfkv::io
