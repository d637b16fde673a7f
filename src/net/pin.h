// Pin: whatever keeps bytes in place while they are sent (an arena slot, a string), type-erased without an
// allocation. Destroying it lets go, on any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include "base/bytes.h"

namespace dfkv::net {

class Pin {
 public:
  static constexpr size_t kRoom = 48;  // bytes of the holder inside

  Pin() = default;
  // Takes over `holder`; its destructor lets go.
  template <typename Holder>
    requires(!std::is_same_v<Holder, Pin>)
  explicit Pin(Holder holder) {
    static_assert(sizeof(Holder) <= kRoom && alignof(Holder) <= alignof(std::max_align_t));
    static_assert(std::is_nothrow_move_constructible_v<Holder>);
    ::new (static_cast<void*>(room_)) Holder(std::move(holder));
    handle_ = [](std::byte* from, std::byte* to) {
      Holder* held = std::launder(reinterpret_cast<Holder*>(from));
      if (to != nullptr) ::new (static_cast<void*>(to)) Holder(std::move(*held));
      held->~Holder();
    };
  }
  Pin(Pin&& other) noexcept { Take(other); }
  Pin& operator=(Pin&& other) noexcept {
    if (this != &other) {
      Release();
      Take(other);
    }
    return *this;
  }
  ~Pin() { Release(); }

  void Release() {
    if (handle_ != nullptr) std::exchange(handle_, nullptr)(room_, nullptr);
  }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  void Take(Pin& other) {
    if (other.handle_ != nullptr) other.handle_(other.room_, room_);
    handle_ = std::exchange(other.handle_, nullptr);
  }
  alignas(std::max_align_t) std::byte room_[kRoom];
  void (*handle_)(std::byte* from, std::byte* to) = nullptr;  // moves to `to`, or destroys when null
};

// Bytes to send and what keeps them in place.
struct Value {
  ByteSpan bytes;
  Pin pin;
};

}  // namespace dfkv::net
