#include "client/completion_queue.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"
#include "base/text.h"

namespace dfkv::client {
namespace {

constexpr Nanos kWaitMax = 3600 * kSecond;  // in one go: what clocks can add without wrapping

}  // namespace

Result<std::unique_ptr<CompletionQueue>> CompletionQueue::Make(uint32_t places_max) {
  io::UniqueFd event(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!event.valid()) return Status(Code::kIoError, Cat("eventfd: ", ErrnoText(errno)));
  return std::unique_ptr<CompletionQueue>(new CompletionQueue(std::move(event), places_max));
}

bool CompletionQueue::TakePlace() {
  MutexLock lock(mutex_);
  if (closed_ || places_taken_ == places_max_) return false;
  ++places_taken_;
  return true;
}

void CompletionQueue::FreePlace() {
  MutexLock lock(mutex_);
  DFKV_CHECK(places_taken_ > 0);
  --places_taken_;
  changed_.NotifyAll();
}

void CompletionQueue::Push(const Completion& completion) {
  MutexLock lock(mutex_);
  entries_.push_back(completion);
  if (entries_.size() == 1) {
    const uint64_t one = 1;
    (void)!write(event_.get(), &one, sizeof one);  // fails only when it is readable anyway
  }
  changed_.NotifyAll();
}

size_t CompletionQueue::Collect(std::span<Completion> into, Nanos deadline) {
  MutexLock lock(mutex_);
  while (entries_.empty() && !closed_ && !into.empty() && deadline != 0) {
    const Nanos left = deadline - SystemClock().Now();
    if (left <= 0) break;
    (void)changed_.WaitFor(mutex_, std::min(left, kWaitMax));
  }
  const size_t count = std::min(into.size(), entries_.size());
  for (size_t i = 0; i < count; ++i) {
    into[i] = entries_.front();
    entries_.pop_front();
  }
  places_taken_ -= static_cast<uint32_t>(count);
  if (count > 0 && entries_.empty()) {
    uint64_t ignored = 0;
    (void)!read(event_.get(), &ignored, sizeof ignored);
  }
  return count;
}

void CompletionQueue::Close() {
  MutexLock lock(mutex_);
  closed_ = true;
  changed_.NotifyAll();
}

bool CompletionQueue::closed() const {
  MutexLock lock(mutex_);
  return closed_;
}

void CompletionQueue::AwaitAll() {
  MutexLock lock(mutex_);
  while (places_taken_ != entries_.size()) changed_.Wait(mutex_);
}

}  // namespace dfkv::client
