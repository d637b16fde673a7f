// Task<T>: a coroutine that reads top to bottom. Lazy: it starts when it is awaited or spawned.
//
// A finished task's awaiter is resumed from the current reactor's ready queue, never by symmetric transfer:
// with g++ 12 a long run of synchronously completing awaits would overflow the stack without optimisation and
// under sanitizers. Threads: a task runs on one reactor from start to end. Frames come from a per-thread
// pool.
//
// g++ 12: name temporaries, braced initialisers and lambdas before a co_await expression; pass parameters by
// value.
#pragma once

#include <coroutine>
#include <cstddef>
#include <optional>
#include <type_traits>
#include <utility>

#include "base/check.h"

namespace dfkv::io {

// Queues a coroutine on the ready queue of the calling thread's reactor; fatal where there is none.
void QueueReady(std::coroutine_handle<> handle);

// Coroutine frames: per-thread free lists by size; frames over 4 KiB go to the heap.
void* AllocateFrame(size_t size);
void FreeFrame(void* frame, size_t size);

namespace task_internal {

struct PromiseBase {
  std::coroutine_handle<> awaiter;
  bool detached = false;

  static void* operator new(size_t size) { return AllocateFrame(size); }
  static void operator delete(void* frame, size_t size) { FreeFrame(frame, size); }

  std::suspend_always initial_suspend() noexcept { return {}; }
  struct FinalAwaiter {
    bool await_ready() noexcept { return false; }
    template <typename Promise>
    void await_suspend(std::coroutine_handle<Promise> handle) noexcept {
      PromiseBase& promise = handle.promise();
      if (promise.detached) {
        handle.destroy();
      } else if (promise.awaiter) {
        QueueReady(promise.awaiter);
      }
    }
    void await_resume() noexcept {}
  };
  FinalAwaiter final_suspend() noexcept { return {}; }
  [[noreturn]] void unhandled_exception() noexcept {
    CheckFailed(__FILE__, __LINE__, "an exception left a coroutine");
  }
};

template <typename T>
struct Promise : PromiseBase {
  std::optional<T> value;
  auto get_return_object() { return std::coroutine_handle<Promise>::from_promise(*this); }
  template <typename U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
};

template <>
struct Promise<void> : PromiseBase {
  auto get_return_object() { return std::coroutine_handle<Promise>::from_promise(*this); }
  void return_void() {}
};

}  // namespace task_internal

// Owns the coroutine until it is awaited to its end or spawned. Move-only.
template <typename T = void>
class [[nodiscard]] Task {
 public:
  // The language looks for this name.
  using promise_type = task_internal::Promise<T>;  // NOLINT(readability-identifier-naming)

  // What get_return_object gives becomes the task.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Task(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      if (handle_) handle_.destroy();
      handle_ = std::exchange(other.handle_, {});
    }
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  // co_await std::move(task): runs the task at once; the awaiter goes on straight away when the task ended
  // without waiting, otherwise from the ready queue.
  auto operator co_await() && {
    struct Awaiter {
      std::coroutine_handle<promise_type> handle;
      bool await_ready() {
        handle.resume();
        return handle.done();
      }
      void await_suspend(std::coroutine_handle<> awaiter) { handle.promise().awaiter = awaiter; }
      T await_resume() {
        DFKV_CHECK(handle.done());
        if constexpr (!std::is_void_v<T>) return std::move(*handle.promise().value);
      }
    };
    return Awaiter{handle_};
  }

  // Starts the task from the calling thread's ready queue; the frame frees itself at the end. Only for
  // Task<void>.
  void Spawn() && {
    static_assert(std::is_void_v<T>);
    auto handle = Release();
    QueueReady(handle);
  }

  // Gives up a detached coroutine that has not started: whoever resumes it starts it.
  std::coroutine_handle<> Release() {
    static_assert(std::is_void_v<T>);
    auto handle = std::exchange(handle_, {});
    handle.promise().detached = true;
    return handle;
  }

 private:
  std::coroutine_handle<promise_type> handle_;
};

}  // namespace dfkv::io
