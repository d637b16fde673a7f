// libdfkv.so from outside, over a fake node: conventions of ABI v2, codes of the functions that have them.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <vector>

#include "base/sync.h"
#include "base/text.h"
#include "base/version.h"
#include "capi/dfkv_c_api.h"
#include "client/fake_node.h"

namespace dfkv::capi {
namespace {

using client::FakeAction;
using client::FakeNode;

std::string Pattern(size_t size, char seed) {
  std::string text(size, '\0');
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(seed + static_cast<char>(i * 7));
  return text;
}

class CApi : public ::testing::Test {
 protected:
  dfkv_client_options_v2 OptionsV2() {
    dfkv_client_options_v2 options{};
    options.struct_size = sizeof options;
    options.abi_version = 2;
    options.members = members_.c_str();
    options.key_namespace = "ns\0x";
    options.key_namespace_len = 4;
    return options;
  }
  void SetUp() override {
    const dfkv_client_options_v2 options = OptionsV2();
    client_ = dfkv_open_v2(&options);
    ASSERT_NE(client_, nullptr) << dfkv_last_error();
  }
  void TearDown() override { dfkv_close(client_); }

  int Put(const std::string& key, const std::string& value) {
    return dfkv_put(client_, key.data(), key.size(), value.data(), value.size());
  }

  FakeNode node_;
  std::string members_ = "a=" + node_.address();
  dfkv_client_t client_ = nullptr;
};

TEST_F(CApi, OpenV2RefusesWhatTheContractRefuses) {
  const auto refused = [&](auto change) {
    dfkv_client_options_v2 options = OptionsV2();
    change(options);
    dfkv_client_t client = dfkv_open_v2(&options);
    EXPECT_NE(std::string(dfkv_last_error()), "");
    const bool null = client == nullptr;
    dfkv_close(client);
    return null;
  };
  EXPECT_EQ(dfkv_open_v2(nullptr), nullptr);
  EXPECT_TRUE(refused([](auto& o) { o.struct_size = 87; }));
  EXPECT_TRUE(refused([](auto& o) { o.struct_size = 0; }));
  EXPECT_TRUE(refused([](auto& o) { o.abi_version = 1; }));
  EXPECT_TRUE(refused([](auto& o) { o.abi_version = 3; }));
  EXPECT_TRUE(refused([](auto& o) { o.flags = 2; }));
  EXPECT_TRUE(refused([](auto& o) { o.flags = 1u << 31; }));
  EXPECT_TRUE(refused([](auto& o) { o.reserved0 = 1; }));
  EXPECT_TRUE(refused([](auto& o) { o.key_namespace = nullptr; }));
  EXPECT_TRUE(refused([](auto& o) { o.key_namespace_len = 0; }));
  EXPECT_TRUE(refused([](auto& o) { o.members = "nonsense"; }));
  EXPECT_TRUE(refused([](auto& o) { o.mds_group = "a b"; }));
  EXPECT_TRUE(refused([](auto& o) { o.mds_endpoints = "127.0.0.1:1"; }));  // not in this version
  EXPECT_TRUE(refused([](auto& o) { o.flags = DFKV_CLIENT_OPT_REGISTER_WITH_MDS; }));
  const std::string long_group(129, 'g');
  EXPECT_TRUE(refused([&](auto& o) { o.mds_group = long_group.c_str(); }));

  EXPECT_FALSE(refused([](auto& o) { o.struct_size = 200; }));  // a newer caller
  EXPECT_FALSE(refused([](auto& o) { o.mds_group = ""; }));
  EXPECT_FALSE(refused([](auto& o) { o.mds_group = "g-1_x.Y"; }));
  EXPECT_FALSE(refused([](auto& o) { o.mds_poll_ms = -1; }));
  EXPECT_FALSE(refused([](auto& o) { o.client_id = "not needed"; }));
  EXPECT_FALSE(refused([](auto& o) { o.batch_concurrency = 16; }));
}

TEST_F(CApi, WithoutMembersAHandleMissesEverything) {
  for (const char* none : {static_cast<const char*>(nullptr), ""}) {
    dfkv_client_options_v2 options = OptionsV2();
    options.members = none;
    dfkv_client_t client = dfkv_open_v2(&options);
    ASSERT_NE(client, nullptr);
    char byte = 0;
    EXPECT_EQ(dfkv_put(client, "k", 1, "v", 1), -1);
    EXPECT_EQ(dfkv_get(client, "k", 1, &byte, 1), 0);
    EXPECT_EQ(dfkv_remove(client, "k", 1), 0);
    dfkv_close(client);
  }
}

TEST_F(CApi, SingleCallsFollowTheirConventions) {
  const std::string value = Pattern(1000, 'a');
  std::string into(1500, 'x');
  uint64_t len = 99;
  EXPECT_EQ(dfkv_get(client_, "k", 1, into.data(), 1000), 0);
  EXPECT_EQ(Put("k", value), 0);
  EXPECT_EQ(Put("k", Pattern(1000, 'b')), 0);  // write-once
  EXPECT_EQ(dfkv_put(client_, "k2", 2, value.data(), 0), -1);
  EXPECT_EQ(dfkv_put(client_, "k2", 2, nullptr, 5), -1);
  EXPECT_EQ(dfkv_put(client_, "", 0, value.data(), 5), -1);
  EXPECT_EQ(dfkv_put(client_, nullptr, 3, value.data(), 5), -1);
  EXPECT_EQ(dfkv_get(client_, "k", 1, into.data(), 1000), 1);
  EXPECT_EQ(into.substr(0, 1000), value);
  EXPECT_EQ(dfkv_get(client_, "k", 1, into.data(), 1001), 0);  // only the exact length
  EXPECT_EQ(dfkv_get(client_, "k", 1, into.data(), 999), 0);
  EXPECT_EQ(dfkv_get(client_, "k", 1, nullptr, 1000), 0);
  EXPECT_EQ(dfkv_get_auto(client_, "k", 1, into.data(), 1500, &len), 1);
  EXPECT_EQ(len, 1000u);
  EXPECT_EQ(dfkv_get_auto(client_, "k", 1, into.data(), 1500, nullptr), 1);
  EXPECT_EQ(dfkv_get_auto(client_, "k", 1, into.data(), 999, &len), 0);
  EXPECT_EQ(len, 0u);
  EXPECT_EQ(dfkv_exist(client_, "k", 1), 1);
  EXPECT_EQ(dfkv_exist(client_, "no", 2), 0);
  EXPECT_EQ(dfkv_exist(client_, nullptr, 0), 0);
  EXPECT_EQ(dfkv_remove(client_, "k", 1), 1);
  EXPECT_EQ(dfkv_remove(client_, "k", 1), 1);
  EXPECT_EQ(dfkv_remove(client_, "", 0), 0);
  EXPECT_EQ(dfkv_exist(client_, "k", 1), 0);
}

TEST_F(CApi, HandleFacts) {
  EXPECT_EQ(dfkv_max_sg_segs(client_), 29u);
  EXPECT_STREQ(dfkv_transport_mode(client_), "tcp(rdma-not-requested)");
  EXPECT_EQ(dfkv_register_memory(client_, &members_, 64), 0);
  EXPECT_EQ(dfkv_register_memory(client_, &members_, 128), 0);
  EXPECT_STREQ(dfkv_version(), DFKV_VERSION);
}

TEST_F(CApi, BatchesFailOnlyTheBadSlot) {
  const std::string a = Pattern(100, 'a');
  const std::string b = Pattern(5000, 'b');
  const void* keys[] = {"k0", "k1", nullptr, "k3", "k4"};
  const uint64_t lens[] = {2, 2, 2, 0, 2};
  const void* from[] = {a.data(), b.data(), a.data(), a.data(), nullptr};
  const uint64_t sizes[] = {100, 5000, 100, 100, 7};
  int ok[5] = {9, 9, 9, 9, 9};
  ASSERT_EQ(dfkv_batch_put(client_, keys, lens, from, sizes, 5, ok), 0);
  EXPECT_EQ(std::vector<int>(ok, ok + 5), (std::vector<int>{1, 1, 0, 0, 0}));

  std::string into0(200, '\0'), into1(5000, '\0');
  void* to[] = {into0.data(), into1.data(), into0.data(), into0.data(), into0.data()};
  const uint64_t caps[] = {200, 5000, 100, 100, 100};
  int hit[5] = {9, 9, 9, 9, 9};
  uint64_t len[5] = {9, 9, 9, 9, 9};
  ASSERT_EQ(dfkv_batch_get_auto(client_, keys, lens, to, caps, 5, hit, len), 0);
  EXPECT_EQ(std::vector<int>(hit, hit + 5), (std::vector<int>{1, 1, 0, 0, 0}));
  EXPECT_EQ(std::vector<uint64_t>(len, len + 5), (std::vector<uint64_t>{100, 5000, 0, 0, 0}));
  EXPECT_EQ(into0.substr(0, 100), a);
  EXPECT_EQ(into1, b);
  ASSERT_EQ(dfkv_batch_get(client_, keys, lens, to, caps, 5, hit), 0);
  EXPECT_EQ(std::vector<int>(hit, hit + 5), (std::vector<int>{0, 1, 0, 0, 0}));  // 200 is not 100

  int present[5] = {9, 9, 9, 9, 9};
  ASSERT_EQ(dfkv_batch_exist(client_, keys, lens, 5, present), 0);
  EXPECT_EQ(std::vector<int>(present, present + 5), (std::vector<int>{1, 1, 0, 0, 0}));
  int removed[5] = {9, 9, 9, 9, 9};
  ASSERT_EQ(dfkv_batch_remove(client_, keys, lens, 5, removed), 0);
  EXPECT_EQ(std::vector<int>(removed, removed + 5), (std::vector<int>{1, 1, 0, 0, 1}));
}

TEST_F(CApi, BatchCallsFailAsTheContractSays) {
  const void* keys[] = {"k"};
  const uint64_t lens[] = {1};
  char byte = 'v';
  void* to[] = {&byte};
  const void* from[] = {&byte};
  const uint64_t one[] = {1};
  int out[2] = {9, 9};
  uint64_t len[2] = {9, 9};
  EXPECT_EQ(dfkv_batch_put(client_, keys, lens, from, one, -1, out), -1);
  EXPECT_EQ(out[0], 9);
  EXPECT_EQ(dfkv_batch_put(client_, nullptr, lens, from, one, 1, out), -1);
  EXPECT_EQ(out[0], 0);  // zeroed before anything else
  EXPECT_EQ(dfkv_batch_put(client_, keys, nullptr, from, one, 1, out), -1);
  EXPECT_EQ(dfkv_batch_put(client_, keys, lens, nullptr, one, 1, out), -1);
  EXPECT_EQ(dfkv_batch_put(client_, keys, lens, from, nullptr, 1, out), -1);
  EXPECT_EQ(dfkv_batch_put(client_, keys, lens, from, one, 1, nullptr), -1);
  EXPECT_EQ(dfkv_batch_put(client_, nullptr, nullptr, nullptr, nullptr, 0, nullptr), 0);
  EXPECT_EQ(dfkv_batch_get(client_, keys, lens, to, one, -2, out), -1);
  EXPECT_EQ(dfkv_batch_get(client_, keys, lens, nullptr, one, 1, out), -1);
  EXPECT_EQ(dfkv_batch_get_auto(client_, keys, lens, to, one, 1, out, nullptr), -1);
  out[0] = 9;
  EXPECT_EQ(dfkv_batch_get_auto(client_, keys, nullptr, to, one, 1, out, len), -1);
  EXPECT_EQ(out[0], 0);
  EXPECT_EQ(len[0], 0u);
  EXPECT_EQ(len[1], 9u);
  EXPECT_EQ(dfkv_batch_exist(client_, keys, lens, 1, nullptr), -1);
  EXPECT_EQ(dfkv_batch_exist(client_, keys, lens, -1, out), -1);
  EXPECT_EQ(dfkv_batch_remove(client_, nullptr, lens, 1, out), -1);
  EXPECT_EQ(dfkv_batch_put_sg(client_, keys, lens, nullptr, nullptr, nullptr, 1, out), -1);
  EXPECT_EQ(dfkv_batch_get_auto_sg(client_, keys, lens, nullptr, nullptr, nullptr, 1, out, len), -1);
}

TEST_F(CApi, ScatterAndGather) {
  const std::string value = Pattern(10'000, 'q');
  const void* pieces0[] = {value.data(), value.data() + 1, value.data() + 5000};
  const uint64_t sizes0[] = {1, 4999, 5000};
  std::vector<const void*> pieces1(29, value.data());
  std::vector<uint64_t> sizes1(29, 10);
  std::vector<const void*> pieces2(30, value.data());
  std::vector<uint64_t> sizes2(30, 10);
  const void* pieces3[] = {nullptr};
  const uint64_t sizes3[] = {UINT64_MAX};
  const void* pieces4[] = {value.data(), value.data()};
  const uint64_t sizes4[] = {UINT64_MAX, 2};
  const void** ptrs[] = {pieces0, pieces1.data(), pieces2.data(), pieces3, pieces4, pieces0, pieces0};
  const uint64_t* sizes[] = {sizes0, sizes1.data(), sizes2.data(), sizes3, sizes4, nullptr, sizes0};
  const int counts[] = {3, 29, 30, 1, 2, 1, -1};
  const void* keys[] = {"k0", "k1", "k2", "k3", "k4", "k5", "k6"};
  const uint64_t lens[] = {2, 2, 2, 2, 2, 2, 2};
  int ok[7];
  ASSERT_EQ(dfkv_batch_put_sg(client_, keys, lens, ptrs, sizes, counts, 7, ok), 0);
  EXPECT_EQ(std::vector<int>(ok, ok + 7), (std::vector<int>{1, 1, 0, 0, 0, 0, 0}));

  std::string first(4000, '\0'), second(7000, '\0'), whole(290, '\0');
  void* to0[] = {first.data(), second.data()};
  const uint64_t caps0[] = {4000, 7000};
  void* to1[] = {whole.data()};
  const uint64_t caps1[] = {290};
  void** dsts[] = {to0, to1};
  const uint64_t* caps[] = {caps0, caps1};
  const int num[] = {2, 1};
  int hit[2];
  uint64_t len[2];
  ASSERT_EQ(dfkv_batch_get_auto_sg(client_, keys, lens, dsts, caps, num, 2, hit, len), 0);
  EXPECT_EQ(hit[0] + hit[1], 2);
  EXPECT_EQ(len[0], 10'000u);
  EXPECT_EQ(len[1], 290u);
  EXPECT_EQ(first + second.substr(0, 6000), value);
  EXPECT_EQ(whole.substr(10, 10), value.substr(0, 10));

  const uint64_t endless[] = {UINT64_MAX, 2};  // a sum that overflows fails its slot
  caps[0] = endless;
  ASSERT_EQ(dfkv_batch_get_auto_sg(client_, keys, lens, dsts, caps, num, 2, hit, len), 0);
  EXPECT_EQ(hit[0], 0);
  EXPECT_EQ(len[0], 0u);
  EXPECT_EQ(hit[1], 1);
}

TEST_F(CApi, StatsSnapshotSizesTruncatesAndEnds) {
  ASSERT_EQ(Put("k", "v"), 0);
  const uint64_t size = dfkv_stats_snapshot(client_, nullptr, 0);
  ASSERT_GT(size, 1000u);
  std::string text(size + 500, 'x');  // figures may grow by a digit between the calls
  const uint64_t told = dfkv_stats_snapshot(client_, text.data(), text.size());
  EXPECT_EQ(std::strlen(text.c_str()), told);
  EXPECT_NE(text.find("dfkv_client_ring_members 1\n"), std::string::npos);
  char small[11];
  std::memset(small, 'x', sizeof small);
  EXPECT_GE(dfkv_stats_snapshot(client_, small, 10), size - 500);
  EXPECT_EQ(std::string(small, 9), text.substr(0, 9));
  EXPECT_EQ(small[9], '\0');
  EXPECT_EQ(small[10], 'x');
}

TEST_F(CApi, ClosedHandlesFailAndStrangeOnesToo) {
  dfkv_client_options_v2 options = OptionsV2();
  dfkv_client_t other = dfkv_open_v2(&options);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(dfkv_exist3(other, "k", 1, nullptr), DFKV_NOT_FOUND);
  dfkv_close(other);
  dfkv_close(other);
  dfkv_close(nullptr);
  EXPECT_EQ(dfkv_exist3(other, "k", 1, nullptr), DFKV_INVALID);
  EXPECT_EQ(dfkv_put(other, "k", 1, "v", 1), -1);
  EXPECT_STREQ(dfkv_transport_mode(other), "");
  EXPECT_EQ(dfkv_max_sg_segs(&options), 0u);
  dfkv_client_t next = dfkv_open_v2(&options);
  EXPECT_NE(next, other);  // a handle is never given twice
  dfkv_close(next);
}

TEST_F(CApi, CloseWaitsForNobodyAndBreaksNothing) {
  node_.set_script([](const wire::RequestView& request) {
    return request.op() == wire::Op::kExist ? FakeAction::kSlow : FakeAction::kAnswer;
  });
  dfkv_open_options3 options{};
  options.struct_size = sizeof options;
  options.members = members_.c_str();
  options.key_namespace = "n";
  options.key_namespace_len = 1;
  options.stall_ms = 60'000;
  dfkv_client_t client = nullptr;
  ASSERT_EQ(dfkv_open3(&options, &client), DFKV_OK) << dfkv_last_error();
  std::atomic<int> code{-1};
  Thread caller("caller", [&] { code = dfkv_exist3(client, "k", 1, nullptr); });
  while (node_.requests(wire::Op::kExist) == 0) {
  }
  dfkv_close(client);
  node_.Release();
  caller.Join();
  EXPECT_EQ(code, DFKV_NOT_FOUND);
}

// --- The functions with status codes ---

TEST_F(CApi, Open3RefusesByName) {
  const auto error = [&](auto change) {
    dfkv_open_options3 options{};
    options.struct_size = sizeof options;
    options.members = members_.c_str();
    options.key_namespace = "n";
    options.key_namespace_len = 1;
    change(options);
    dfkv_client_t client = reinterpret_cast<dfkv_client_t>(1);
    const int code = dfkv_open3(&options, &client);
    EXPECT_EQ(client == nullptr, code != DFKV_OK);
    dfkv_close(client);
    return Cat(code, " ", dfkv_last_error());
  };
  EXPECT_EQ(error([](auto&) {}), "0 ");
  EXPECT_EQ(error([](auto& o) { o.struct_size = 71; }),
            "6 dfkv_open3: Invalid: struct_size is smaller than dfkv_open_options3");
  EXPECT_EQ(error([](auto& o) { o.flags = 2; }), "6 dfkv_open3: Invalid: flags has an unknown bit");
  EXPECT_EQ(error([](auto& o) { o.reserved0 = 1; }), "6 dfkv_open3: Invalid: reserved0 is not 0");
  EXPECT_EQ(error([](auto& o) { o.key_namespace_len = 0; }), "6 dfkv_open3: Invalid: key_namespace is empty");
  EXPECT_EQ(error([](auto& o) { o.members = nullptr; }).substr(0, 24), "6 dfkv_open3: Invalid: t");
  EXPECT_EQ(error([](auto& o) { o.members = "a=1.2.3.4:0"; }),
            "6 dfkv_open3: Invalid: member 'a=1.2.3.4:0': the port must be 1 to 65535");
  EXPECT_EQ(dfkv_open3(nullptr, &client_), DFKV_INVALID);
  dfkv_open_options3 options{};
  EXPECT_EQ(dfkv_open3(&options, nullptr), DFKV_INVALID);
  const dfkv_client_options_v2 again = OptionsV2();
  client_ = dfkv_open_v2(&again);  // for TearDown: the failed call took the handle's place
}

TEST_F(CApi, CodesTellOutcomesApart) {
  const std::string value = Pattern(1000, 'a');
  std::string into(2000, '\0');
  uint64_t len = 7;
  EXPECT_EQ(dfkv_get3(client_, "k", 1, into.data(), 2000, &len, nullptr), DFKV_NOT_FOUND);
  EXPECT_EQ(len, 0u);
  EXPECT_STREQ(dfkv_last_error(), "");  // a miss is no error
  EXPECT_EQ(dfkv_put3(client_, "k", 1, value.data(), 1000, DFKV_DEPTH_UNKNOWN, nullptr), DFKV_OK);
  EXPECT_EQ(dfkv_put3(client_, "k", 1, value.data(), 0, 0, nullptr), DFKV_INVALID);
  EXPECT_EQ(dfkv_put3(client_, "k", 1, nullptr, 5, 0, nullptr), DFKV_INVALID);
  EXPECT_EQ(dfkv_put3(client_, "", 0, value.data(), 5, 0, nullptr), DFKV_INVALID);
  EXPECT_EQ(dfkv_get3(client_, "k", 1, into.data(), 2000, &len, nullptr), DFKV_OK);
  EXPECT_EQ(len, 1000u);
  EXPECT_EQ(into.substr(0, 1000), value);
  EXPECT_EQ(dfkv_get3(client_, "k", 1, into.data(), 10, &len, nullptr), DFKV_TOO_SMALL);
  EXPECT_EQ(len, 1000u);
  EXPECT_STREQ(dfkv_last_error(), "dfkv_get3: TooSmall: the object has 1000 bytes");
  EXPECT_EQ(dfkv_get_range3(client_, "k", 1, 990, into.data(), 100, &len, nullptr), DFKV_OK);
  EXPECT_EQ(len, 10u);
  EXPECT_EQ(into.substr(0, 10), value.substr(990));
  EXPECT_EQ(dfkv_get_range3(client_, "k", 1, 1001, into.data(), 100, &len, nullptr), DFKV_INVALID);
  EXPECT_EQ(dfkv_exist3(client_, "k", 1, nullptr), DFKV_OK);
  EXPECT_EQ(dfkv_exist3(client_, "no", 2, nullptr), DFKV_NOT_FOUND);
  EXPECT_EQ(dfkv_lookup3(client_, "k", 1, &len, nullptr), DFKV_OK);
  EXPECT_EQ(len, 1000u);
  EXPECT_EQ(dfkv_lookup3(client_, "no", 2, &len, nullptr), DFKV_NOT_FOUND);
  EXPECT_EQ(len, 0u);
  EXPECT_EQ(dfkv_remove3(client_, "k", 1, nullptr), DFKV_OK);
  EXPECT_EQ(dfkv_remove3(client_, "k", 1, nullptr), DFKV_NOT_FOUND);
  dfkv_call_options3 call{sizeof(dfkv_call_options3), 0, 0, 0};
  EXPECT_EQ(dfkv_exist3(client_, "k", 1, &call), DFKV_NOT_FOUND);
  call.flags = 1;
  EXPECT_EQ(dfkv_exist3(client_, "k", 1, &call), DFKV_INVALID);
  call = {15, 0, 0, 0};
  EXPECT_EQ(dfkv_exist3(client_, "k", 1, &call), DFKV_INVALID);
  EXPECT_STREQ(dfkv_code_name3(DFKV_TOO_SMALL), "TooSmall");
  EXPECT_STREQ(dfkv_code_name3(-1), "Unknown");
  EXPECT_STREQ(dfkv_code_name3(1000), "Unknown");
}

TEST_F(CApi, DeadlinesAndDeadNodesHaveTheirCodes) {
  node_.set_script([](const wire::RequestView& request) {
    return request.op() == wire::Op::kExist ? FakeAction::kSlow : FakeAction::kBusy;
  });
  const dfkv_call_options3 soon{sizeof(dfkv_call_options3), 0, 30, 0};
  EXPECT_EQ(dfkv_exist3(client_, "k", 1, &soon), DFKV_TIMEOUT);
  EXPECT_EQ(dfkv_put3(client_, "k", 1, "v", 1, 0, nullptr), DFKV_BUSY);
  node_.StopListening();
  node_.CloseConnections();
  EXPECT_EQ(dfkv_put3(client_, "k", 1, "v", 1, 0, nullptr), DFKV_UNAVAILABLE);
  EXPECT_EQ(std::string(dfkv_last_error()).substr(0, 25), "dfkv_put3: Unavailable: t");
}

TEST_F(CApi, Batches3) {
  std::string a = Pattern(100, 'a');
  std::string b = Pattern(9000, 'b');
  const dfkv_buffer3 from_a[] = {{a.data(), 60}, {a.data() + 60, 40}};
  const dfkv_buffer3 from_b[] = {{b.data(), b.size()}};
  const dfkv_buffer3 bad[] = {{nullptr, 4}};
  const dfkv_put_item3 puts[] = {{"a", 1, from_a, 2, 0},  {"b", 1, from_b, 1, 1}, {"c", 1, bad, 1, 2},
                                 {"d", 1, nullptr, 1, 3}, {"", 0, from_b, 1, 4},  {"f", 1, nullptr, 0, 5}};
  dfkv_result3 results[6];
  std::memset(results, 0xFF, sizeof results);
  ASSERT_EQ(dfkv_batch_put3(client_, puts, 6, results, nullptr), DFKV_OK);
  const auto codes = [&](size_t n) {
    std::vector<int> all;
    for (size_t i = 0; i < n; ++i) all.push_back(results[i].code);
    return all;
  };
  EXPECT_EQ(codes(6), (std::vector<int>{0, 0, 6, 6, 6, 6}));

  std::string head(30, '\0'), tail(100, '\0'), whole(9000, '\0'), range(50, '\0');
  const dfkv_buffer3 to_a[] = {{head.data(), 30}, {tail.data(), 100}};
  const dfkv_buffer3 to_b[] = {{whole.data(), 9000}};
  const dfkv_buffer3 to_range[] = {{range.data(), 50}};
  const dfkv_get_item3 gets[] = {
      {"a", 1, to_a, 2, 0, 0},
      {"b", 1, to_b, 1, DFKV_GET3_EXACT, 0},
      {"b", 1, to_range, 1, DFKV_GET3_RANGE, 8975},
      {"x", 1, to_range, 1, 0, 0},
      {"b", 1, to_range, 1, 0, 0},
      {"b", 1, to_range, 1, 1u << 9, 0},
  };
  ASSERT_EQ(dfkv_batch_get3(client_, gets, 6, results, nullptr), DFKV_OK);
  EXPECT_EQ(codes(6), (std::vector<int>{0, 0, 0, 1, 5, 6}));
  EXPECT_EQ(head + tail.substr(0, 70), a);
  EXPECT_EQ(whole, b);
  EXPECT_EQ(results[2].length, 25u);
  EXPECT_EQ(range.substr(0, 25), b.substr(8975));
  EXPECT_EQ(results[4].length, 9000u);

  const dfkv_key3 keys[] = {{"a", 1}, {"b", 1}, {"x", 1}, {nullptr, 1}};
  uint64_t present = 9;
  EXPECT_EQ(dfkv_match3(client_, keys, 4, &present, nullptr), DFKV_OK);
  EXPECT_EQ(present, 2u);
  EXPECT_EQ(dfkv_match3(client_, nullptr, 0, &present, nullptr), DFKV_OK);
  EXPECT_EQ(present, 0u);
  EXPECT_EQ(dfkv_match3(client_, nullptr, 1, &present, nullptr), DFKV_INVALID);
  EXPECT_EQ(dfkv_match3(client_, keys, 1, nullptr, nullptr), DFKV_INVALID);
  ASSERT_EQ(dfkv_batch_exist3(client_, keys, 4, results, nullptr), DFKV_OK);
  EXPECT_EQ(codes(4), (std::vector<int>{0, 0, 1, 6}));
  ASSERT_EQ(dfkv_batch_lookup3(client_, keys, 4, results, nullptr), DFKV_OK);
  EXPECT_EQ(results[1].length, 9000u);
  ASSERT_EQ(dfkv_batch_remove3(client_, keys, 4, results, nullptr), DFKV_OK);
  EXPECT_EQ(codes(4), (std::vector<int>{0, 0, 1, 6}));
  EXPECT_EQ(dfkv_batch_exist3(client_, keys, uint64_t{1} << 40, results, nullptr), DFKV_INVALID);
  EXPECT_EQ(dfkv_batch_exist3(client_, keys, 4, nullptr, nullptr), DFKV_INVALID);
}

TEST_F(CApi, NodeStatsByName) {
  ASSERT_EQ(Put("k", "v"), 0);
  uint64_t len = 0;
  char text[200];
  ASSERT_EQ(dfkv_node_stats3(client_, "a", text, sizeof text, &len, nullptr), DFKV_OK) << dfkv_last_error();
  EXPECT_EQ(std::strlen(text), len);
  EXPECT_NE(std::string(text).find("dfkv_objects 1"), std::string::npos);
  EXPECT_EQ(dfkv_node_stats3(client_, "a", text, 5, &len, nullptr), DFKV_OK);
  EXPECT_EQ(std::strlen(text), 4u);
  EXPECT_EQ(dfkv_node_stats3(client_, "a", nullptr, 0, nullptr, nullptr), DFKV_OK);
  EXPECT_EQ(dfkv_node_stats3(client_, "zzz", text, sizeof text, &len, nullptr), DFKV_INVALID);
  EXPECT_EQ(dfkv_node_stats3(client_, nullptr, text, sizeof text, &len, nullptr), DFKV_INVALID);
}

TEST_F(CApi, LastErrorBelongsToItsThread) {
  EXPECT_EQ(dfkv_exist3(nullptr, "k", 1, nullptr), DFKV_INVALID);
  std::string theirs = "untouched";
  Thread other("other", [&] { theirs = dfkv_last_error(); });
  other.Join();
  EXPECT_EQ(theirs, "");
  EXPECT_STREQ(dfkv_last_error(), "dfkv_exist3: Invalid: the client handle is NULL or closed");
}

}  // namespace
}  // namespace dfkv::capi
