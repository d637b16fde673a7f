// A line of a trace file: refused with a text that names the column, or a request with at least one block.
#include <string_view>

#include "base/check.h"
#include "store/evict/trace.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  const auto request = dfkv::store::evict::ParseTraceLine(line);
  if (!request.ok()) {
    DFKV_CHECK(request.code() == dfkv::Code::kInvalid);
    DFKV_CHECK(request.status().message().find("column ") == 0);
    return 0;
  }
  DFKV_CHECK(!request->blocks.empty());
  DFKV_CHECK(dfkv::store::evict::HitTokens(*request, request->blocks.size()) <= request->input_tokens);
  return 0;
}
