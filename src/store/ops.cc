#include "store/ops.h"

namespace dfkv::store {

void WaiterList::Remove(Waiter* waiter) {
  Waiter** link = &first_;
  while (*link != waiter) link = &(*link)->next;
  *link = waiter->next;
  waiter->linked = false;
}

uint32_t WaiterList::Finish(const Status& status) {
  uint32_t count = 0;
  while (first_ != nullptr) {
    Waiter* waiter = first_;
    first_ = waiter->next;
    waiter->linked = false;
    waiter->status = status;
    waiter->event.Set();
    ++count;
  }
  return count;
}

Cell CellOf(const Descriptor& descriptor, const SizeClasses& classes) {
  Cell cell;
  cell.key = descriptor.key;
  cell.generation = descriptor.generation;
  cell.unit = descriptor.disk_unit;
  cell.slot_bytes = static_cast<uint32_t>(classes.slot_bytes(classes.ClassOf(descriptor.length)));
  cell.length = descriptor.length;
  cell.crc = descriptor.crc;
  cell.depth = descriptor.depth;
  return cell;
}

io::Task<void> WaitFor(Waiter* waiter, Nanos deadline) {
  io::Reactor* reactor = io::Reactor::Current();
  uint64_t timer = 0;
  if (deadline != kNever) timer = reactor->AddTimer(deadline, [waiter] { waiter->event.Set(); });
  co_await waiter->event.Wait();
  if (timer != 0) reactor->CancelTimer(timer);
}

}  // namespace dfkv::store
