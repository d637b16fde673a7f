// The program dfkv_server without its main.
#pragma once

namespace dfkv::node {

// Runs a node until SIGTERM or SIGINT. Exit status: 0 after a clean stop, 1 when the node cannot start or
// stop, 2 on usage errors. Prints "PORT n" as the first line on stdout, then "READY ..." once it serves.
int RunServer(int argc, const char* const* argv);

}  // namespace dfkv::node
