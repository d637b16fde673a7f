// dfkv_smoke. See src/tools/ctl.
#include "tools/ctl/smoke.h"

int main(int argc, char** argv) {
  return dfkv::tools::SmokeMain(argc, argv);
}
