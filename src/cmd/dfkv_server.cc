// dfkv_server: one node of dfkv.
#include "node/program.h"

int main(int argc, char** argv) {
  return dfkv::node::RunServer(argc, argv);
}
