// Any bytes on the admin port: a request is incomplete, malformed, or complete with a clean path, and what
// was decided on a prefix of it stays true with more bytes.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "admin/http.h"
#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using dfkv::admin::ParseState;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  dfkv::admin::Request request;
  const ParseState whole = ParseRequest(bytes, &request);
  if (whole == ParseState::kComplete) {
    DFKV_CHECK(request.path.starts_with('/') && request.path.find('?') == std::string::npos);
    const auto plain = [](char c) { return c > ' ' && c < 0x7F; };
    DFKV_CHECK(std::all_of(request.path.begin(), request.path.end(), plain));
    DFKV_CHECK(std::all_of(request.query.begin(), request.query.end(), plain));
  } else {
    DFKV_CHECK(request.path.empty() && request.method.empty());
  }
  dfkv::admin::Request again;
  const ParseState half = ParseRequest(bytes.substr(0, size / 2), &again);
  DFKV_CHECK(half == ParseState::kIncomplete || (half == whole && again.path == request.path));
  return 0;
}
