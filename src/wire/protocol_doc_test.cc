#include "wire/protocol_doc.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace dfkv::wire {
namespace {

// To renew the page, copy the tables from the failure's text.
TEST(ProtocolDoc, PageHoldsTheTablesOfTheCode) {
  std::ifstream file(DFKV_SOURCE_DIR "/docs/PROTOCOL.md");
  ASSERT_TRUE(file.is_open());
  std::ostringstream text;
  text << file.rdbuf();
  const std::string tables = ProtocolTables();
  EXPECT_TRUE(text.str().find(tables) != std::string::npos) << "docs/PROTOCOL.md must contain exactly:\n"
                                                            << tables;
}

}  // namespace
}  // namespace dfkv::wire
