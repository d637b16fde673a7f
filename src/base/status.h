// Status and Result<T>: how every recoverable error travels. No exception crosses a layer or the C ABI.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace dfkv {

// One code per reaction a caller can have. The numbers are FROZEN: they travel on the wire and through the C
// ABI.
enum class Code : uint8_t {
  kOk = 0,
  kNotFound = 1,      // miss: absent
  kBusy = 2,          // back-pressure: try again later, nothing is broken
  kTimeout = 3,       // the call's deadline passed
  kCorrupt = 4,       // found, but failed its check; a miss to the user, counted apart
  kTooSmall = 5,      // the caller's buffer is smaller than the object
  kInvalid = 6,       // bad argument or malformed input
  kUnavailable = 7,   // transport failure, or a peer that is avoided
  kIoError = 8,       // the disk or the system refused
  kNoSpace = 9,       // no space and nothing may be evicted
  kQuota = 10,        // the tenant's quota is used up
  kTooLarge = 11,     // larger than the largest object that can be stored
  kCancelled = 12,    // the caller withdrew the operation
  kRejected = 13,     // refused by admission
  kUnsupported = 14,  // the other side does not know the operation or version
  kLocked = 15,       // somebody else holds the resource (a data directory)
  kDenied = 16,       // not allowed: authentication or role
};

// "NotFound", "Busy", ...; "Unknown" for a number outside the table.
std::string_view CodeName(Code code);

// True for the numbers of the table: bytes from a peer are checked with it before they become a Code.
constexpr bool IsKnownCode(uint64_t number) {
  return number <= static_cast<uint64_t>(Code::kDenied);
}

// A code and, off the hot path, a text that names what, where and what to do.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code) : code_(code) {}  // NOLINT(google-explicit-constructor): `return Code::kBusy;` reads well
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == Code::kOk; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  // "Busy: put-inflight-bytes used up", or the code's name alone.
  std::string ToString() const;

  friend bool operator==(const Status& a, Code b) { return a.code_ == b; }

 private:
  Code code_ = Code::kOk;
  std::string message_;
};

inline Status Ok() {
  return Status();
}

// A value or the Status that says why there is none (never kOk).
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    DFKV_CHECK(!status_.ok());
  }
  Result(Code code) : Result(Status(code)) {}  // NOLINT(google-explicit-constructor)

  bool ok() const { return value_.has_value(); }
  Code code() const { return status_.code(); }
  const Status& status() const { return status_; }

  T& value() {
    DFKV_CHECK(ok());
    return *value_;
  }
  const T& value() const {
    DFKV_CHECK(ok());
    return *value_;
  }
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace dfkv

// Passes a failure on to the caller. The operand is a Status.
#define DFKV_RETURN_IF_ERROR(expr)               \
  do {                                           \
    ::dfkv::Status dfkv_status_ = (expr);        \
    if (!dfkv_status_.ok()) return dfkv_status_; \
  } while (0)

// The same inside a coroutine.
#define DFKV_CO_RETURN_IF_ERROR(expr)               \
  do {                                              \
    ::dfkv::Status dfkv_status_ = (expr);           \
    if (!dfkv_status_.ok()) co_return dfkv_status_; \
  } while (0)
