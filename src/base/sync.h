// Mutexes that clang checks (GUARDED_BY), the one owner of std::thread, and a latch for tests and shutdown.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#if defined(__clang__)
#define DFKV_THREAD_ANNOTATION(x) __attribute__((x))
#else
#define DFKV_THREAD_ANNOTATION(x)
#endif
#define CAPABILITY(x) DFKV_THREAD_ANNOTATION(capability(x))
#define SCOPED_CAPABILITY DFKV_THREAD_ANNOTATION(scoped_lockable)
#define GUARDED_BY(x) DFKV_THREAD_ANNOTATION(guarded_by(x))
#define PT_GUARDED_BY(x) DFKV_THREAD_ANNOTATION(pt_guarded_by(x))
#define REQUIRES(...) DFKV_THREAD_ANNOTATION(requires_capability(__VA_ARGS__))
#define ACQUIRE(...) DFKV_THREAD_ANNOTATION(acquire_capability(__VA_ARGS__))
#define TRY_ACQUIRE(...) DFKV_THREAD_ANNOTATION(try_acquire_capability(__VA_ARGS__))
#define RELEASE(...) DFKV_THREAD_ANNOTATION(release_capability(__VA_ARGS__))
#define EXCLUDES(...) DFKV_THREAD_ANNOTATION(locks_excluded(__VA_ARGS__))
#define NO_THREAD_SAFETY_ANALYSIS DFKV_THREAD_ANNOTATION(no_thread_safety_analysis)

namespace dfkv {

class CAPABILITY("mutex") Mutex {
 public:
  void Lock() ACQUIRE() { mutex_.lock(); }
  void Unlock() RELEASE() { mutex_.unlock(); }
  bool TryLock() TRY_ACQUIRE(true) { return mutex_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ACQUIRE(mutex) : mutex_(mutex) { mutex_.Lock(); }
  ~MutexLock() RELEASE() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits with the mutex held; spurious wake-ups happen, so callers loop on their condition.
class CondVar {
 public:
  void Wait(Mutex& mutex) REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  // False when `timeout_ns` passed.
  bool WaitFor(Mutex& mutex, int64_t timeout_ns) REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    const bool signalled =
        condition_.wait_for(lock, std::chrono::nanoseconds(timeout_ns)) == std::cv_status::no_timeout;
    lock.release();
    return signalled;
  }
  void NotifyOne() { condition_.notify_one(); }
  void NotifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

// A named thread that is joined on destruction. The only place where std::thread is used.
class Thread {
 public:
  Thread() = default;
  Thread(std::string name, std::function<void()> body);  // name: at most 15 characters reach the system
  Thread(Thread&&) = default;
  Thread& operator=(Thread&& other) noexcept;
  ~Thread() { Join(); }
  void Join();

 private:
  std::thread thread_;
};

// The CPUs this process may run on.
unsigned CpuCount();

// Tells the processor that this is a spin loop.
inline void CpuRelax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace dfkv
