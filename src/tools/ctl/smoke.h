// dfkv_smoke and dfkv_discover_smoke: does the cache work at all?
#pragma once

namespace dfkv::tools {

// The whole programs; they give their exit status.
int SmokeMain(int argc, const char* const* argv);
int DiscoverSmokeMain(int argc, const char* const* argv);

}  // namespace dfkv::tools
