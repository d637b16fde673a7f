// The real client against a real node: the suite that the fake client of tools/bench also passes, and a node
// that dies and comes back.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "base/text.h"
#include "tools/bench/bed.h"
#include "tools/bench/client_suite.h"

namespace dfkv::tools {
namespace {

class ClientSystemTest : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    BedOptions options;
    options.serve = DFKV_SERVER;
    options.client.key_namespace = "system";
    options.capacity_bytes = 64u << 20;
    options.ram_bytes = 32u << 20;
    options.node_flags = {"--max-object-bytes=1MiB", GetParam()};
    Result<std::unique_ptr<Bed>> bed = Bed::Open(options, client::Client::Open);
    ASSERT_TRUE(bed.ok()) << bed.status().ToString();
    bed_ = std::move(*bed);
  }
  std::unique_ptr<Bed> bed_;
};

TEST_P(ClientSystemTest, KeepsTheClientsContract) {
  ClientSuite(bed_->client(), "suite/").Run();
  const Status stopped = bed_->Stop();
  EXPECT_TRUE(stopped.ok()) << stopped.ToString();
}

TEST_P(ClientSystemTest, FindsWhatWasAcknowledgedAfterAKill) {
  const std::vector<std::byte> value(5000, std::byte{7});
  const ByteSpan piece = value;
  const client::PutItem item{AsBytes("kept"), {&piece, 1}, 0};
  client::ItemResult result;
  ASSERT_TRUE(bed_->client().Put({&item, 1}, {}, {&result, 1}).ok());
  ASSERT_EQ(result.code, Code::kOk);
  bed_->Kill();
  const Result<client::Client*> client = bed_->Restart();
  ASSERT_TRUE(client.ok()) << client.status().ToString();
  std::vector<std::byte> read(value.size());
  const MutableByteSpan target = read;
  const client::GetItem get{AsBytes("kept"), {&target, 1}, true, false, 0};
  ASSERT_TRUE((*client)->Get({&get, 1}, {}, {&result, 1}).ok());
  EXPECT_EQ(result.code, Code::kOk);
  EXPECT_EQ(read, value);
}

INSTANTIATE_TEST_SUITE_P(Io, ClientSystemTest, ::testing::Values("--io=auto", "--io=epoll"),
                         [](const auto& row) { return std::string(row.param + 5); });

}  // namespace
}  // namespace dfkv::tools
