// Coroutine frames: a frame is freed where it ends, usually on the thread that made it, so free lists need no
// lock. Under sanitizers every frame goes to the heap, so that a use after its end is seen.
#include <array>
#include <cstdint>
#include <new>

#include "io/task.h"

namespace dfkv::io {
#if defined(DFKV_SANITIZED)

void* AllocateFrame(size_t size) {
  return ::operator new(size);
}
void FreeFrame(void* frame, size_t) {
  ::operator delete(frame);
}

#else

namespace {

constexpr size_t kStep = 64;
constexpr size_t kLargest = 4096;
constexpr size_t kClasses = kLargest / kStep;
constexpr uint32_t kFreeMax = 1024;  // frames kept per class; more go back to the heap

struct FreeFrameLink {
  FreeFrameLink* next;
};

struct FramePool {
  std::array<FreeFrameLink*, kClasses> heads{};
  std::array<uint32_t, kClasses> counts{};
  bool ended = false;

  ~FramePool() {
    ended = true;
    for (FreeFrameLink*& head : heads) {
      while (head != nullptr) ::operator delete(std::exchange(head, head->next));
    }
  }
};

thread_local FramePool pool;

}  // namespace

void* AllocateFrame(size_t size) {
  if (size == 0 || size > kLargest) return ::operator new(size);
  const size_t index = (size - 1) / kStep;
  FreeFrameLink*& head = pool.heads[index];
  if (head == nullptr) return ::operator new((index + 1) * kStep);
  --pool.counts[index];
  return std::exchange(head, head->next);
}

void FreeFrame(void* frame, size_t size) {
  const size_t index = (size - 1) / kStep;
  if (size == 0 || size > kLargest || pool.ended || pool.counts[index] >= kFreeMax) {
    ::operator delete(frame);
    return;
  }
  ++pool.counts[index];
  pool.heads[index] = new (frame) FreeFrameLink{pool.heads[index]};
}

#endif

}  // namespace dfkv::io
