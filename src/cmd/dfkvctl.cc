// dfkvctl. See src/tools/ctl.
#include "tools/ctl/ctl.h"

int main(int argc, char** argv) {
  return dfkv::tools::CtlMain(argc, argv);
}
