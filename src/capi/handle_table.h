// HandleTable: what the opaque pointers of the C API stand for. A handle is a number that is never given
// twice, by any table, so that a closed, invented or foreign one makes a call fail instead of crashing it.
//
// fork(): what a handle stands for (connections, locks, a thread) does not survive in a child process. Before
// a fork all tables are locked, so that the child's copies are whole; there, each handle that was open is
// marked, its object is left alone for ever, and calls on it say why they fail.
//
// Threads: any.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/sync.h"

namespace dfkv::capi {

class ForkAware {
 public:
  virtual void LockBeforeFork() = 0;
  virtual void UnlockAfterFork(bool in_child) = 0;

 protected:
  ~ForkAware() = default;
};

// Registers a table that is never destroyed.
void WatchForks(ForkAware* table);
void* NextHandle();
// Says once, in the log, that a handle from before a fork was used in the child: the functions of ABI v2 have
// no other way to tell.
void WarnOfFork();

template <typename T>
class HandleTable final : public ForkAware {
 public:
  // `what` names the handle in errors: "client".
  explicit HandleTable(const char* what) : what_(what) { WatchForks(this); }

  void* Add(std::shared_ptr<T> object) {
    MutexLock lock(mutex_);
    void* const handle = NextHandle();
    open_.emplace(handle, Entry{std::move(object)});
    return handle;
  }
  // Invalid: closed, never given, or opened before a fork.
  Result<std::shared_ptr<T>> Find(void* handle) {
    bool inherited = false;
    {
      MutexLock lock(mutex_);
      const auto found = open_.find(handle);
      if (found != open_.end() && found->second.object) return found->second.object;
      inherited = found != open_.end();
    }
    if (inherited) WarnOfFork();
    return Failure(inherited);
  }
  // The same, and the handle is closed.
  Result<std::shared_ptr<T>> Take(void* handle) {
    MutexLock lock(mutex_);
    const auto found = open_.find(handle);
    if (found == open_.end()) return Failure(false);
    std::shared_ptr<T> object = std::move(found->second.object);
    open_.erase(found);
    if (!object) return Failure(true);
    return object;
  }

  void LockBeforeFork() override NO_THREAD_SAFETY_ANALYSIS { mutex_.Lock(); }
  void UnlockAfterFork(bool in_child) override NO_THREAD_SAFETY_ANALYSIS {
    if (in_child) {
      // Never destroyed: the end of these objects would wait for threads that are not there.
      auto* const left_alone = new std::vector<std::shared_ptr<T>>;
      for (auto& [handle, entry] : open_) {
        if (entry.object) left_alone->push_back(std::move(entry.object));
        entry.object = nullptr;
      }
      inherited_.push_back(left_alone);
    }
    mutex_.Unlock();
  }

 private:
  struct Entry {
    std::shared_ptr<T> object;  // null: from before a fork
  };
  Status Failure(bool inherited) const {
    if (inherited) {
      return {Code::kInvalid, std::string("the ") + what_ +
                                  " handle was opened before fork(); this process needs one of its own"};
    }
    return {Code::kInvalid, std::string("the ") + what_ + " handle is NULL or closed"};
  }

  const char* const what_;
  Mutex mutex_;
  std::unordered_map<void*, Entry> open_ GUARDED_BY(mutex_);
  std::vector<std::vector<std::shared_ptr<T>>*> inherited_
      GUARDED_BY(mutex_);  // reachable, for leak checkers
};

}  // namespace dfkv::capi
