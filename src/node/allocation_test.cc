// A RAM hit must not allocate: counts what operator new does outside the client's thread while a warm node
// answers.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "base/log.h"
#include "net/testing/wire_client.h"
#include "node/node.h"

namespace {
std::atomic<bool> counting{false};
thread_local bool is_client = false;  // this thread's allocations do not count
std::atomic<uint64_t> allocations{0};

void* Allocate(size_t size, size_t alignment) {
  if (counting.load(std::memory_order_relaxed) && !is_client)
    allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = alignment <= alignof(std::max_align_t)
                     ? std::malloc(size)
                     : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr) std::abort();
  return memory;
}
}  // namespace

void* operator new(size_t size) {
  return Allocate(size, 0);
}
void* operator new[](size_t size) {
  return Allocate(size, 0);
}
void* operator new(size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace dfkv::node {
namespace {

class AllocationTest : public ::testing::TestWithParam<io::ReactorKind> {};

TEST_P(AllocationTest, ARamHitTakesNoMemory) {
  NodeOptions options;
  options.io = GetParam();
  options.threads = 1;
  options.store_engine = store::EngineKind::kRam;
  options.ram_tier_bytes = 64 << 20;
  options.max_object_bytes = 1 << 20;
  options.ram_populate = false;
  const Result<NodeConfig> config = ResolveNodeOptions(options);
  ASSERT_TRUE(config.ok());
  Result<std::unique_ptr<Node>> node = Node::StartBlocking(*config);
  if (!node.ok() && node.code() == Code::kUnavailable) GTEST_SKIP() << node.status().ToString();
  ASSERT_TRUE(node.ok()) << node.status().ToString();
  net::WireClient client;
  ASSERT_TRUE(client.ConnectAndHello((*node)->port()).ok());
  for (uint64_t i = 0; i < 32; ++i)
    ASSERT_EQ(client.Put(net::TestKey(i), net::TestValue(i, 4096)), Code::kOk);
  const auto round = [&] {
    std::vector<uint64_t> ids;
    for (uint64_t i = 0; i < 32; ++i)
      ids.push_back(client.SendGet({{net::TestKey(i)}, {net::TestKey(31 - i)}}));
    for (uint64_t id : ids) {
      const auto answer = client.Await(id);
      ASSERT_TRUE(answer.ok());
      ASSERT_EQ(answer->items.at(0).code, Code::kOk);
    }
  };
  for (int i = 0; i < 50; ++i) round();  // warms pools and scratch
  is_client = true;
  counting = true;
  for (int i = 0; i < 50; ++i) round();
  counting = false;
  EXPECT_LT(allocations.load(), 50u) << "of 3,200 hits";
}

INSTANTIATE_TEST_SUITE_P(Reactors, AllocationTest,
                         ::testing::Values(io::ReactorKind::kEpoll, io::ReactorKind::kUring),
                         [](const auto& param) {
                           return param.param == io::ReactorKind::kEpoll ? "epoll" : "uring";
                         });

}  // namespace
}  // namespace dfkv::node
