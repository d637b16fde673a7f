// dfkvctl: one operation on a cache from the command line.
#pragma once

namespace dfkv::tools {

// The whole program; gives its exit status.
int CtlMain(int argc, const char* const* argv);

}  // namespace dfkv::tools
