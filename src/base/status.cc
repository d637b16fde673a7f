#include "base/status.h"

#include <execinfo.h>

#include <cstdio>
#include <cstdlib>

namespace dfkv {

void CheckFailed(const char* file, int line, const char* expression) {
  std::fprintf(stderr, "%s:%d: CHECK failed: %s\n", file, line, expression);
  void* frames[32];
  backtrace_symbols_fd(frames, backtrace(frames, 32), 2);
  std::abort();
}

std::string_view CodeName(Code code) {
  switch (code) {
    case Code::kOk:
      return "Ok";
    case Code::kNotFound:
      return "NotFound";
    case Code::kBusy:
      return "Busy";
    case Code::kTimeout:
      return "Timeout";
    case Code::kCorrupt:
      return "Corrupt";
    case Code::kTooSmall:
      return "TooSmall";
    case Code::kInvalid:
      return "Invalid";
    case Code::kUnavailable:
      return "Unavailable";
    case Code::kIoError:
      return "IoError";
    case Code::kNoSpace:
      return "NoSpace";
    case Code::kQuota:
      return "Quota";
    case Code::kTooLarge:
      return "TooLarge";
    case Code::kCancelled:
      return "Cancelled";
    case Code::kRejected:
      return "Rejected";
    case Code::kUnsupported:
      return "Unsupported";
    case Code::kLocked:
      return "Locked";
    case Code::kDenied:
      return "Denied";
  }
  return "Unknown";
}

std::string Status::ToString() const {
  std::string text(CodeName(code_));
  if (!message_.empty()) text += ": " + message_;
  return text;
}

}  // namespace dfkv
