// dfkv_bench: measures a cache, replays traces against it, runs the demo workload. See src/tools/bench.
#include "tools/bench/cli.h"

int main(int argc, char** argv) {
  return dfkv::tools::BenchMain(argc, argv, dfkv::client::Client::Open);
}
