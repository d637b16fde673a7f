// OpList: ops in order, linked through themselves.
#pragma once

#include "io/reactor.h"

namespace dfkv::io {

// Owns nothing; an op is in at most one list. One thread, or its owner's lock.
class OpList {
 public:
  bool empty() const { return head_ == nullptr; }
  Op* head() const { return head_; }

  void PushBack(Op* op) {
    op->link.next = nullptr;
    op->link.prev = tail_;
    (tail_ != nullptr ? tail_->link.next : head_) = op;
    tail_ = op;
  }
  void Remove(Op* op) {
    (op->link.prev != nullptr ? op->link.prev->link.next : head_) = op->link.next;
    (op->link.next != nullptr ? op->link.next->link.prev : tail_) = op->link.prev;
    op->link.next = op->link.prev = nullptr;
  }
  Op* PopFront() {
    Op* op = head_;
    if (op != nullptr) Remove(op);
    return op;
  }

 private:
  Op* head_ = nullptr;
  Op* tail_ = nullptr;
};

}  // namespace dfkv::io
