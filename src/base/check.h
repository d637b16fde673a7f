// CHECK is for our own bugs: always on, cheap, fatal. Never on bytes from a peer or a disk.
#pragma once

namespace dfkv {

// Prints file, line, the expression and a backtrace to stderr, then aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* expression);

}  // namespace dfkv

#define DFKV_CHECK(expr)                              \
  do {                                                \
    if (__builtin_expect(!(expr), 0)) {               \
      ::dfkv::CheckFailed(__FILE__, __LINE__, #expr); \
    }                                                 \
  } while (0)
