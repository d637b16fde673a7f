// Linked into every test binary: when it ends, the names of the probes that its tests reached are added to
// the file that DFKV_PROBES_FILE names. tests/ci/ci.py compares them with those in the source (STYLE 41).
#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "base/fault.h"
#include "base/option.h"

namespace dfkv {
namespace {

class ProbeReport final : public ::testing::Environment {
 public:
  void TearDown() override {
    const auto path = ReadEnvironment("DFKV_PROBES_FILE");
    if (!path) return;
    std::string lines;
    for (const std::string& line : ProbesReached()) lines += line + "\n";
    std::FILE* file = std::fopen(path->c_str(), "a");
    if (file == nullptr) return;
    std::fwrite(lines.data(), 1, lines.size(), file);  // at once: other tests append, too
    std::fclose(file);
  }
};

::testing::Environment* const kReport = ::testing::AddGlobalTestEnvironment(new ProbeReport);

}  // namespace
}  // namespace dfkv
