// The contract against the fake node, whole and with answers in awkward order; what Open refuses; metrics.
#include "client/client.h"

#include "client/contract_suite.h"
#include "client/fake_node.h"

namespace dfkv::client {
namespace {

struct PlainNode : FakeNode {
  using FakeNode::FakeNode;
  static std::unique_ptr<PlainNode> Start() { return std::make_unique<PlainNode>(); }
};
// Answers backwards, three items a frame, and takes little at once.
struct AwkwardNode : FakeNode {
  using FakeNode::FakeNode;
  static std::unique_ptr<AwkwardNode> Start() {
    FakeNodeOptions options;
    options.reverse = true;
    options.items_per_frame = 3;
    options.items_max = 17;
    options.payload_bytes_max = 10 << 20;
    options.requests_in_flight_max = 2;
    return std::make_unique<AwkwardNode>(options);
  }
};

using Nodes = ::testing::Types<PlainNode, AwkwardNode>;
INSTANTIATE_TYPED_TEST_SUITE_P(Fake, ClientContract, Nodes);

TEST(ClientOpen, RefusesBadOptionsByName) {
  const ClientOptions good = [] {
    ClientOptions options;
    options.members = "a=127.0.0.1:1";
    options.key_namespace = "n";
    return options;
  }();
  EXPECT_TRUE(Client::Open(good).ok());
  const auto refused = [&](auto change, std::string_view named) {
    ClientOptions options = good;
    change(options);
    const auto client = Client::Open(options);
    EXPECT_FALSE(client.ok()) << named;
    if (client.ok()) return;
    EXPECT_EQ(client.code(), Code::kInvalid);
    EXPECT_NE(client.status().message().find(named), std::string::npos) << client.status().ToString();
  };
  refused([](ClientOptions& o) { o.members = "nonsense"; }, "nonsense");
  refused([](ClientOptions& o) { o.members = ""; }, "members");
  refused([](ClientOptions& o) { o.key_namespace = ""; }, "key_namespace");
  refused([](ClientOptions& o) { o.stall_ms = 0; }, "stall_ms");
  refused([](ClientOptions& o) { o.min_rate = 0; }, "min_rate");
  refused([](ClientOptions& o) { o.connect_ms = 0; }, "connect_ms");
  refused([](ClientOptions& o) { o.lanes_max = 0; }, "lanes_max");
  refused([](ClientOptions& o) { o.peer_cooldown_ms = 0; }, "peer_cooldown_ms");
  refused([](ClientOptions& o) { o.peer_cooldown_max_ms = 1; }, "peer_cooldown_max_ms");
}

// Names that connectors parse out of the snapshot.
TEST(ClientMetricsText, HasTheNamesThatConnectorsRead) {
  FakeNode node;
  ClientOptions options;
  options.members = Cat("n1=", node.address());
  options.key_namespace = "metrics";
  auto client = Client::Open(options);
  ASSERT_TRUE(client.ok());
  Caller caller(**client);
  const auto value = ValueOf(1, 1000);
  std::vector<std::byte> into(1000);
  EXPECT_EQ(caller.Put(1, value), Code::kOk);
  EXPECT_EQ(caller.Get(1, into).code, Code::kOk);
  EXPECT_EQ(caller.Get(2, into).code, Code::kNotFound);
  EXPECT_EQ(caller.Exist(1), Code::kOk);
  EXPECT_EQ(caller.Remove(1), Code::kOk);
  const std::string text = (*client)->metrics().Render();
  for (const char* line : {
           "dfkv_client_transport_info{transport=\"tcp(rdma-not-requested)\"} 1\n",
           "dfkv_client_ops_served_total 5\n",
           "dfkv_client_io_errors_total 0\n",
           "dfkv_client_unhealthy_skips_total 0\n",
           "dfkv_client_peer_marked_bad_total 0\n",
           "dfkv_client_peer_recovered_total 0\n",
           "dfkv_client_health_checks_total 0\n",
           "dfkv_client_busy_suppressed_total 0\n",
           "dfkv_client_peer_errors_total{peer=\"n1\"} 0\n",
           "dfkv_client_peer_latency_seconds_count{peer=\"n1\"} 5\n",
           "dfkv_client_peer_latency_seconds_sum{peer=\"n1\"} ",
           "dfkv_client_peer_latency_max_seconds{peer=\"n1\"} ",
           "dfkv_client_op_requests_total{op=\"put\"} 1\n",
           "dfkv_client_op_requests_total{op=\"get\"} 2\n",
           "dfkv_client_op_keys_total{op=\"get\"} 2\n",
           "dfkv_client_op_hits_total{op=\"get\"} 1\n",
           "dfkv_client_op_bytes_total{op=\"get\"} 1000\n",
           "dfkv_client_op_bytes_total{op=\"put\"} 1000\n",
           "dfkv_client_op_requests_total{op=\"exist\"} 1\n",
           "dfkv_client_op_requests_total{op=\"remove\"} 1\n",
           "dfkv_client_op_max_seconds{op=\"get\"} ",
           "dfkv_client_op_latency_seconds_bucket{op=\"get\",le=\"+Inf\"} 2\n",
           "dfkv_client_op_latency_seconds_sum{op=\"get\"} ",
           "dfkv_client_op_latency_seconds_count{op=\"get\"} 2\n",
           "dfkv_client_dedup_hits_total 0\n",
           "dfkv_client_dedup_fetches_total 0\n",
           "dfkv_client_dedup_wait_hits_total 0\n",
           "dfkv_client_dedup_wait_timeouts_total 0\n",
           "dfkv_client_gpu_dedup_hits_total 0\n",
           "dfkv_client_ring_members 1\n",
           "dfkv_client_mds_reachable 0\n",
           "dfkv_client_mds_unreachable_polls_total 0\n",
           "dfkv_transport_pool_connections 1\n",
           "dfkv_transport_pool_inflight 0\n",
           "dfkv_transport_pool_selections_total 5\n",
           "dfkv_transport_pool_retirements_total{reason=\"idle\"} 0\n",
           "dfkv_transport_pool_backoff_endpoints 0\n",
           "dfkv_transport_pool_backoff_events_total 0\n",
           "dfkv_transport_pool_backoff_suppressed_total 0\n",
           "dfkv_rdma_client_conns_opened_total 0\n",
       }) {
    EXPECT_NE(text.find(line), std::string::npos) << line;
  }
}

}  // namespace
}  // namespace dfkv::client
