// Asynchronous batches and fork() through libdfkv.so, over a fake node.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/sync.h"
#include "base/text.h"
#include "capi/dfkv_c_api.h"
#include "client/fake_node.h"

namespace dfkv::capi {
namespace {

using client::FakeAction;
using client::FakeNode;

class Queues : public ::testing::Test {
 protected:
  static dfkv_client_t OpenClient(const std::string& members) {
    dfkv_open_options3 options{};
    options.struct_size = sizeof options;
    options.members = members.c_str();
    options.key_namespace = "queue";
    options.key_namespace_len = 5;
    options.stall_ms = 60'000;
    dfkv_client_t client = nullptr;
    EXPECT_EQ(dfkv_open3(&options, &client), DFKV_OK) << dfkv_last_error();
    return client;
  }
  void SetUp() override {
    client_ = OpenClient(members_);
    ASSERT_EQ(dfkv_queue_open3(client_, nullptr, &queue_), DFKV_OK) << dfkv_last_error();
  }
  void TearDown() override {
    dfkv_queue_close3(queue_);
    dfkv_close(client_);
  }
  // The next completion, waited for.
  dfkv_completion3 Collect() {
    dfkv_completion3 completion{};
    uint64_t count = 0;
    EXPECT_EQ(dfkv_collect3(queue_, &completion, 1, -1, &count), DFKV_OK) << dfkv_last_error();
    EXPECT_EQ(count, 1u);
    return completion;
  }
  bool Readable() const {
    pollfd wanted{dfkv_queue_fd3(queue_), POLLIN, 0};
    return poll(&wanted, 1, 0) == 1;
  }
  // An EXIST whose result goes to results_[user_data].
  uint64_t SubmitExist(uint64_t user_data, int* code = nullptr) {
    const dfkv_key3 key{"k", 1};
    const dfkv_submit_options3 options{sizeof(dfkv_submit_options3), 0, 0, 0, user_data};
    uint64_t ticket = 0;
    const int got = dfkv_submit_exist3(queue_, &key, 1, &results_.at(user_data), &options, &ticket);
    if (code != nullptr) *code = got;
    return ticket;
  }

  FakeNode node_;
  std::string members_ = "a=" + node_.address();
  dfkv_client_t client_ = nullptr;
  dfkv_queue3_t queue_ = nullptr;
  std::vector<dfkv_result3> results_ = std::vector<dfkv_result3>(8);
};

TEST_F(Queues, EveryKindOfBatchComesBack) {
  std::string a = "first value", b(9000, 'b');
  const dfkv_buffer3 from_a[] = {{a.data(), 5}, {a.data() + 5, 6}};
  const dfkv_buffer3 from_b[] = {{b.data(), b.size()}};
  const dfkv_put_item3 puts[] = {{"a", 1, from_a, 2, 0}, {"b", 1, from_b, 1, 1}, {"", 0, from_b, 1, 2}};
  dfkv_submit_options3 options{sizeof(dfkv_submit_options3), 0, 0, 0, 77};
  uint64_t ticket = 0;
  ASSERT_EQ(dfkv_submit_put3(queue_, puts, 3, results_.data(), &options, &ticket), DFKV_OK);
  EXPECT_GT(ticket, 0u);
  pollfd wanted{dfkv_queue_fd3(queue_), POLLIN, 0};
  EXPECT_EQ(poll(&wanted, 1, 60'000), 1);
  dfkv_completion3 done = Collect();
  EXPECT_FALSE(Readable());
  EXPECT_EQ(done.ticket, ticket);
  EXPECT_EQ(done.user_data, 77u);
  EXPECT_EQ(done.code, DFKV_OK);
  EXPECT_EQ(done.count, 2u);
  EXPECT_EQ(results_[1].code, DFKV_OK);
  EXPECT_EQ(results_[2].code, DFKV_INVALID);

  std::string into(20, '.'), range(4, '.');
  const dfkv_buffer3 to[] = {{into.data(), 20}}, to_range[] = {{range.data(), 4}},
                     small[] = {{into.data(), 1}};
  const dfkv_get_item3 gets[] = {{"a", 1, to, 1, 0, 0},
                                 {"b", 1, to_range, 1, DFKV_GET3_RANGE, 8998},
                                 {"b", 1, small, 1, 0, 0},
                                 {"x", 1, small, 1, 0, 0}};
  ASSERT_EQ(dfkv_submit_get3(queue_, gets, 4, results_.data(), nullptr, nullptr), DFKV_OK);
  done = Collect();
  EXPECT_EQ(done.user_data, 0u);
  EXPECT_EQ(done.count, 2u);
  EXPECT_EQ(into.substr(0, 11), a);
  EXPECT_EQ(range.substr(0, 2), "bb");
  EXPECT_EQ(results_[0].length, 11u);
  EXPECT_EQ(results_[1].length, 2u);
  EXPECT_EQ(results_[2].code, DFKV_TOO_SMALL);
  EXPECT_EQ(results_[2].length, 9000u);
  EXPECT_EQ(results_[3].code, DFKV_NOT_FOUND);

  const dfkv_key3 keys[] = {{"a", 1}, {"b", 1}, {"x", 1}, {"a", 1}};
  ASSERT_EQ(dfkv_submit_match3(queue_, keys, 4, nullptr, nullptr), DFKV_OK);
  EXPECT_EQ(Collect().count, 2u);
  ASSERT_EQ(dfkv_submit_exist3(queue_, keys, 4, results_.data(), nullptr, nullptr), DFKV_OK);
  EXPECT_EQ(Collect().count, 3u);
  ASSERT_EQ(dfkv_submit_lookup3(queue_, keys, 2, results_.data(), nullptr, nullptr), DFKV_OK);
  EXPECT_EQ(Collect().count, 2u);
  EXPECT_EQ(results_[1].length, 9000u);
  ASSERT_EQ(dfkv_submit_remove3(queue_, keys, 3, results_.data(), nullptr, nullptr), DFKV_OK);
  EXPECT_EQ(Collect().count, 2u);
  EXPECT_EQ(results_[2].code, DFKV_NOT_FOUND);
  ASSERT_EQ(dfkv_submit_put3(queue_, nullptr, 0, nullptr, nullptr, &ticket), DFKV_OK);
  EXPECT_EQ(Collect().ticket, ticket);
}

TEST_F(Queues, BadArgumentsSubmitNothing) {
  const dfkv_key3 key{"k", 1};
  uint64_t ticket = 7, count = 7;
  dfkv_completion3 completion;
  EXPECT_EQ(dfkv_submit_exist3(nullptr, &key, 1, results_.data(), nullptr, &ticket), DFKV_INVALID);
  EXPECT_EQ(ticket, 0u);
  EXPECT_EQ(dfkv_submit_exist3(client_, &key, 1, results_.data(), nullptr, nullptr), DFKV_INVALID);
  EXPECT_STREQ(dfkv_last_error(), "dfkv_submit_exist3: Invalid: the queue handle is NULL or closed");
  EXPECT_EQ(dfkv_submit_exist3(queue_, nullptr, 1, results_.data(), nullptr, nullptr), DFKV_INVALID);
  EXPECT_EQ(dfkv_submit_exist3(queue_, &key, 1, nullptr, nullptr, nullptr), DFKV_INVALID);
  EXPECT_EQ(dfkv_submit_match3(queue_, nullptr, 1, nullptr, nullptr), DFKV_INVALID);
  EXPECT_EQ(dfkv_submit_put3(queue_, nullptr, 1, results_.data(), nullptr, nullptr), DFKV_INVALID);
  EXPECT_EQ(dfkv_submit_get3(queue_, nullptr, uint64_t{1} << 40, results_.data(), nullptr, nullptr),
            DFKV_INVALID);
  dfkv_submit_options3 options{23, 0, 0, 0, 0};
  EXPECT_EQ(dfkv_submit_exist3(queue_, &key, 1, results_.data(), &options, nullptr), DFKV_INVALID);
  options = {sizeof options, 1, 0, 0, 0};
  EXPECT_EQ(dfkv_submit_exist3(queue_, &key, 1, results_.data(), &options, nullptr), DFKV_INVALID);
  options = {sizeof options, 0, 0, 1, 0};
  EXPECT_EQ(dfkv_submit_exist3(queue_, &key, 1, results_.data(), &options, nullptr), DFKV_INVALID);
  EXPECT_EQ(dfkv_collect3(queue_, &completion, 1, 0, nullptr), DFKV_INVALID);
  EXPECT_EQ(dfkv_collect3(queue_, nullptr, 1, 0, &count), DFKV_INVALID);
  EXPECT_EQ(dfkv_collect3(nullptr, &completion, 1, 0, &count), DFKV_INVALID);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(dfkv_collect3(queue_, nullptr, 0, -1, &count), DFKV_OK);
  EXPECT_EQ(dfkv_collect3(queue_, &completion, 1, 1, &count), DFKV_OK);
  EXPECT_EQ(count, 0u);
  EXPECT_EQ(dfkv_cancel3(nullptr, 1), DFKV_INVALID);
  EXPECT_EQ(dfkv_cancel3(queue_, 999), DFKV_OK);
  EXPECT_EQ(dfkv_queue_fd3(nullptr), -1);
  EXPECT_EQ(dfkv_queue_fd3(client_), -1);
  dfkv_queue3_t queue = queue_;
  EXPECT_EQ(dfkv_queue_open3(nullptr, nullptr, &queue), DFKV_INVALID);
  EXPECT_EQ(queue, nullptr);
  EXPECT_EQ(dfkv_queue_open3(client_, nullptr, nullptr), DFKV_INVALID);
  for (const dfkv_queue_options3 bad :
       {dfkv_queue_options3{15, 0, 0, 0}, dfkv_queue_options3{16, 1, 0, 0},
        dfkv_queue_options3{16, 0, 65'537, 0}, dfkv_queue_options3{16, 0, 0, 1}}) {
    EXPECT_EQ(dfkv_queue_open3(client_, &bad, &queue), DFKV_INVALID);
  }
  EXPECT_EQ(dfkv_exist3(queue_, "k", 1, nullptr), DFKV_INVALID);  // a queue is no client
  EXPECT_EQ(node_.requests(wire::Op::kExist), 0u);
}

TEST_F(Queues, PastItsBoundItIsBusyUntilSomethingIsCollected) {
  dfkv_queue_close3(queue_);
  const dfkv_queue_options3 two{sizeof(dfkv_queue_options3), 0, 2, 0};
  ASSERT_EQ(dfkv_queue_open3(client_, &two, &queue_), DFKV_OK);
  node_.set_script([](const wire::RequestView&) { return FakeAction::kSlow; });
  int code = -1;
  (void)SubmitExist(1);
  (void)SubmitExist(2);
  EXPECT_EQ(SubmitExist(3, &code), 0u);
  EXPECT_EQ(code, DFKV_BUSY);
  node_.Release();
  const uint64_t first = Collect().user_data;
  EXPECT_GT(SubmitExist(4, &code), 0u);
  EXPECT_EQ(code, DFKV_OK);
  EXPECT_EQ(first + Collect().user_data + Collect().user_data, 1u + 2u + 4u);
}

TEST_F(Queues, CancelAndDeadlineAreToldApart) {
  node_.set_script([](const wire::RequestView&) { return FakeAction::kSlow; });
  const uint64_t ticket = SubmitExist(1);
  while (node_.requests(wire::Op::kExist) == 0) {
  }
  EXPECT_EQ(dfkv_cancel3(queue_, ticket), DFKV_OK);
  dfkv_completion3 done = Collect();
  EXPECT_EQ(done.code, DFKV_CANCELLED);
  EXPECT_EQ(results_[1].code, DFKV_CANCELLED);
  EXPECT_EQ(done.count, 0u);
  const dfkv_key3 key{"k", 1};
  const dfkv_submit_options3 soon{sizeof(dfkv_submit_options3), 0, 30, 0, 0};
  ASSERT_EQ(dfkv_submit_exist3(queue_, &key, 1, results_.data(), &soon, nullptr), DFKV_OK);
  EXPECT_EQ(Collect().code, DFKV_OK);
  EXPECT_EQ(results_[0].code, DFKV_TIMEOUT);
}

TEST_F(Queues, CloseGivesTheMemoryBackAndEndsWaits) {
  node_.set_script([](const wire::RequestView&) { return FakeAction::kHold; });
  std::string into(100'000, '.');
  const dfkv_buffer3 to[] = {{into.data(), into.size()}};
  const dfkv_get_item3 get{"a", 1, to, 1, 0, 0};
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(dfkv_submit_get3(queue_, &get, 1, &results_[static_cast<size_t>(i)], nullptr, nullptr),
              DFKV_OK);
  }
  std::atomic<int> code{-1};
  Thread waiter("waiter", [&] {
    dfkv_completion3 completion;
    uint64_t count = 0;
    code = dfkv_collect3(queue_, &completion, 1, -1, &count);
  });
  while (node_.requests(wire::Op::kGet) == 0) {
  }
  dfkv_queue_close3(queue_);
  dfkv_queue_close3(queue_);
  into.assign(into.size(), 'x');
  results_.assign(8, dfkv_result3{99, 0, 99});
  node_.Release();
  waiter.Join();
  EXPECT_TRUE(code == DFKV_INVALID || code == DFKV_OK);  // a cancelled batch may have reached it
  EXPECT_EQ(dfkv_exist3(client_, "k", 1, nullptr), DFKV_NOT_FOUND);
  EXPECT_EQ(into, std::string(into.size(), 'x'));
  EXPECT_EQ(results_[0].code, 99);
  EXPECT_EQ(SubmitExist(1), 0u);
  EXPECT_STREQ(dfkv_last_error(), "dfkv_submit_exist3: Invalid: the queue handle is NULL or closed");
}

TEST_F(Queues, OutlivesTheClientsHandle) {
  dfkv_close(client_);
  (void)SubmitExist(5);
  EXPECT_EQ(Collect().user_data, 5u);
  EXPECT_EQ(results_[5].code, DFKV_NOT_FOUND);
  dfkv_queue3_t other = nullptr;
  EXPECT_EQ(dfkv_queue_open3(client_, nullptr, &other), DFKV_INVALID);
}

TEST_F(Queues, ThreadsShareOneQueueAndNothingGetsLost) {
#if defined(DFKV_SANITIZED)
  constexpr uint64_t kEach = 100;
#else
  constexpr uint64_t kEach = 1000;
#endif
  constexpr uint64_t kThreads = 4;
  std::vector<dfkv_result3> results(kThreads * kEach);
  std::vector<std::atomic<int>> seen(kThreads * kEach);
  std::atomic<uint64_t> left{kThreads * kEach};
  std::vector<Thread> threads;
  for (uint64_t t = 0; t < kThreads; ++t) {
    threads.emplace_back(Cat("submit-", t), [&, t] {
      const dfkv_key3 key{"k", 1};
      for (uint64_t i = t * kEach; i < (t + 1) * kEach; ++i) {
        const dfkv_submit_options3 options{sizeof(dfkv_submit_options3), 0, 0, 0, i};
        uint64_t ticket = 0;
        int code = DFKV_BUSY;
        while (code == DFKV_BUSY) code = dfkv_submit_exist3(queue_, &key, 1, &results[i], &options, &ticket);
        ASSERT_EQ(code, DFKV_OK);
        if (i % 7 == 0) {
          ASSERT_EQ(dfkv_cancel3(queue_, ticket), DFKV_OK);
        }
      }
    });
    threads.emplace_back(Cat("collect-", t), [&] {
      dfkv_completion3 done[16];
      while (left > 0) {
        uint64_t count = 0;
        ASSERT_EQ(dfkv_collect3(queue_, done, 16, 10, &count), DFKV_OK);
        for (uint64_t i = 0; i < count; ++i) {
          const int code = results[done[i].user_data].code;
          EXPECT_TRUE(code == DFKV_NOT_FOUND || code == DFKV_CANCELLED) << code;
          ++seen[done[i].user_data];
        }
        left -= count;
      }
    });
  }
  threads.clear();
  for (const std::atomic<int>& times : seen) EXPECT_EQ(times, 1);
}

// --- fork() ---

// Runs `body` in a child process and gives its exit status; 99 when it hangs.
template <typename Body>
int InChild(const Body& body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    _exit(body());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

TEST_F(Queues, AHandleFromBeforeAForkIsRefusedInTheChild) {
  ASSERT_EQ(dfkv_put3(client_, "k", 1, "value", 5, 0, nullptr), DFKV_OK);
  (void)SubmitExist(1);
  (void)Collect();
  const int status = InChild([&] {
    char byte = 0;
    uint64_t len = 0;
    if (dfkv_exist3(client_, "k", 1, nullptr) != DFKV_INVALID) return 1;
    if (std::strstr(dfkv_last_error(), "opened before fork()") == nullptr) return 2;
    if (SubmitExist(2) != 0) return 3;
    if (std::strstr(dfkv_last_error(), "the queue handle was opened before fork()") == nullptr) return 4;
    if (dfkv_get(client_, "k", 1, &byte, 1) != 0 || dfkv_put(client_, "k", 1, "v", 1) != -1) return 5;
    if (dfkv_queue_fd3(queue_) != -1 || dfkv_stats_snapshot(client_, nullptr, 0) != 0) return 6;
    dfkv_queue_close3(queue_);  // of the child alone
    dfkv_close(client_);
    if (dfkv_exist3(client_, "k", 1, nullptr) != DFKV_INVALID) return 7;
    dfkv_client_t own = OpenClient(members_);
    char value[5];
    if (dfkv_get3(own, "k", 1, value, 5, &len, nullptr) != DFKV_OK || len != 5) return 8;
    dfkv_close(own);
    return 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(dfkv_exist3(client_, "k", 1, nullptr), DFKV_OK);  // the parent goes on, on its connections
  (void)SubmitExist(3);
  EXPECT_EQ(Collect().user_data, 3u);
  EXPECT_EQ(results_[3].code, DFKV_OK);
}

// A fork in the middle of other threads' calls: the child can open and use a client, whatever they held.
TEST_F(Queues, AForkAmidCallsLeavesAChildThatWorks) {
  std::atomic<bool> stop{false};
  std::vector<Thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back(Cat("busy-", t), [&] {
      while (!stop) {
        dfkv_client_t own = OpenClient(members_);
        (void)dfkv_exist3(client_, "k", 1, nullptr);
        dfkv_close(own);
      }
    });
  }
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(InChild([&] {
                dfkv_client_t own = OpenClient(members_);
                const int code = dfkv_exist3(own, "k", 1, nullptr);
                dfkv_close(own);
                return code == DFKV_NOT_FOUND && dfkv_exist3(client_, "k", 1, nullptr) == DFKV_INVALID ? 0
                                                                                                       : 1;
              }),
              0);
  }
  stop = true;
  threads.clear();
}

}  // namespace
}  // namespace dfkv::capi
