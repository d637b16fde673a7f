// The commands of dfkv_bench: options, the run, the report, the exit status.
#pragma once

#include "tools/bench/bed.h"

namespace dfkv::tools {

// dfkv_bench [flags] | dfkv_bench replay [flags] | dfkv_bench demo [flags]. Returns the exit status: 0 when
// every operation succeeded, 1 when one failed, 2 on set-up and usage errors.
int BenchMain(int argc, const char* const* argv, const ClientFactory& factory);

}  // namespace dfkv::tools
