// What a client and a node promise together: one suite of tests for any kind of node. A node type has
// Start() -> std::unique_ptr<it> and address(), and may have Open(options) for another client than the
// blocking one.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/sync.h"
#include "base/text.h"
#include "client/client.h"

namespace dfkv::client {

// The bytes of a test object, by its seed.
inline std::vector<std::byte> ValueOf(uint64_t seed, size_t size) {
  std::vector<std::byte> value(size);
  FillPattern(seed, 0, value);
  return value;
}

struct Key {
  explicit Key(uint64_t number) : text(Cat("key-", number)) {}
  std::string text;
  ByteSpan bytes() const { return AsBytes(text); }
};

// Puts and gets through plain vectors.
class Caller {
 public:
  explicit Caller(Client& client, uint32_t deadline_ms = 0) : client_(client), call_{deadline_ms} {}

  Code Put(uint64_t key, const std::vector<std::byte>& value, uint32_t depth = UINT32_MAX) {
    const Key name(key);
    const ByteSpan piece(value);
    const PutItem item{name.bytes(), {&piece, 1}, depth};
    ItemResult result;
    EXPECT_TRUE(client_.Put({&item, 1}, call_, {&result, 1}).ok());
    return result.code;
  }
  ItemResult Get(uint64_t key, std::vector<std::byte>& into, bool exact = false) {
    const Key name(key);
    const MutableByteSpan piece(into);
    GetItem item{name.bytes(), {&piece, 1}};
    item.exact = exact;
    ItemResult result;
    EXPECT_TRUE(client_.Get({&item, 1}, call_, {&result, 1}).ok());
    return result;
  }
  ItemResult GetRange(uint64_t key, uint64_t offset, std::vector<std::byte>& into) {
    const Key name(key);
    const MutableByteSpan piece(into);
    GetItem item{name.bytes(), {&piece, 1}};
    item.range = true;
    item.offset = offset;
    ItemResult result;
    EXPECT_TRUE(client_.Get({&item, 1}, call_, {&result, 1}).ok());
    return result;
  }
  Code Exist(uint64_t key) { return OnKey(&Client::Exist, key).code; }
  Code Remove(uint64_t key) { return OnKey(&Client::Remove, key).code; }
  ItemResult Lookup(uint64_t key) { return OnKey(&Client::Lookup, key); }

  std::vector<ItemResult> PutAll(uint64_t first, const std::vector<size_t>& sizes) {
    std::vector<Key> keys;
    std::vector<std::vector<std::byte>> values;
    std::vector<ByteSpan> pieces;
    for (size_t i = 0; i < sizes.size(); ++i) {
      keys.emplace_back(first + i);
      values.push_back(ValueOf(first + i, sizes[i]));
    }
    for (const auto& value : values) pieces.emplace_back(value);
    std::vector<PutItem> items;
    for (size_t i = 0; i < sizes.size(); ++i) items.push_back({keys[i].bytes(), {&pieces[i], 1}});
    std::vector<ItemResult> results(sizes.size());
    EXPECT_TRUE(client_.Put(items, call_, results).ok());
    return results;
  }
  // Every result, and whether the bytes are those of the key.
  std::vector<ItemResult> GetAll(uint64_t first, const std::vector<size_t>& sizes, size_t* wrong) {
    std::vector<Key> keys;
    std::vector<std::vector<std::byte>> values;
    std::vector<MutableByteSpan> pieces;
    for (size_t i = 0; i < sizes.size(); ++i) {
      keys.emplace_back(first + i);
      values.emplace_back(sizes[i]);
    }
    for (auto& value : values) pieces.emplace_back(value);
    std::vector<GetItem> items;
    for (size_t i = 0; i < sizes.size(); ++i) items.push_back({keys[i].bytes(), {&pieces[i], 1}});
    std::vector<ItemResult> results(sizes.size());
    EXPECT_TRUE(client_.Get(items, call_, results).ok());
    *wrong = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      if (results[i].code == Code::kOk) *wrong += !PatternMatches(first + i, 0, values[i]);
    }
    return results;
  }

 private:
  using KeyCall = Status (Client::*)(std::span<const ByteSpan>, const CallOptions&, std::span<ItemResult>);
  ItemResult OnKey(KeyCall function, uint64_t key) {
    const Key name(key);
    const ByteSpan bytes = name.bytes();
    ItemResult result;
    EXPECT_TRUE((client_.*function)({&bytes, 1}, call_, {&result, 1}).ok());
    return result;
  }
  Client& client_;
  CallOptions call_;
};

inline size_t CountOf(const std::vector<ItemResult>& results, Code code) {
  size_t count = 0;
  for (const ItemResult& result : results) count += result.code == code;
  return count;
}

template <typename Node>
class ClientContract : public ::testing::Test {
 protected:
  void StartNodes(size_t count) {
    std::string members;
    for (size_t i = 0; i < count; ++i) {
      nodes_.push_back(Node::Start());
      members += Cat("node-", i, "=", nodes_.back()->address(), ",");
    }
    ClientOptions options;
    options.members = members;
    options.key_namespace = "contract";
    options.stall_ms = 5000;  // a busy test machine is not a dead node
    auto client = Open(options);
    ASSERT_TRUE(client.ok()) << client.status().ToString();
    client_ = std::move(*client);
  }
  static Result<std::unique_ptr<Client>> Open(const ClientOptions& options) {
    if constexpr (requires { Node::Open(options); }) {
      return Node::Open(options);
    } else {
      return Client::Open(options);
    }
  }
  std::vector<std::unique_ptr<Node>> nodes_;
  std::unique_ptr<Client> client_;
};

TYPED_TEST_SUITE_P(ClientContract);

TYPED_TEST_P(ClientContract, OneObject) {
  this->StartNodes(1);
  Caller caller(*this->client_);
  const auto value = ValueOf(1, 5000);
  EXPECT_EQ(caller.Exist(1), Code::kNotFound);
  EXPECT_EQ(caller.Lookup(1).code, Code::kNotFound);
  std::vector<std::byte> into(5000);
  EXPECT_EQ(caller.Get(1, into).code, Code::kNotFound);
  EXPECT_EQ(caller.Put(1, value), Code::kOk);
  EXPECT_EQ(caller.Exist(1), Code::kOk);
  EXPECT_EQ(caller.Lookup(1).code, Code::kOk);
  EXPECT_EQ(caller.Lookup(1).length, 5000u);
  const ItemResult hit = caller.Get(1, into);
  EXPECT_EQ(hit.code, Code::kOk);
  EXPECT_EQ(hit.length, 5000u);
  EXPECT_EQ(into, value);
  EXPECT_EQ(caller.Remove(1), Code::kOk);
  EXPECT_EQ(caller.Remove(1), Code::kNotFound);  // it was absent
  EXPECT_EQ(caller.Exist(1), Code::kNotFound);
}

TYPED_TEST_P(ClientContract, SizesFromOneByteToMegabytes) {
  this->StartNodes(1);
  Caller caller(*this->client_);
  uint64_t key = 100;
  for (const size_t size : {1ul, 7ul, 100ul, 2047ul, 2048ul, 4096ul, 65'537ul, (1ul << 20) + 3, 3ul << 20}) {
    const auto value = ValueOf(key, size);
    ASSERT_EQ(caller.Put(key, value), Code::kOk) << size;
    std::vector<std::byte> into(size);
    ASSERT_EQ(caller.Get(key, into).code, Code::kOk) << size;
    ASSERT_EQ(into, value) << size;
    ++key;
  }
}

TYPED_TEST_P(ClientContract, TheFirstValueStays) {
  this->StartNodes(1);
  Caller caller(*this->client_);
  const auto first = ValueOf(1, 300);
  EXPECT_EQ(caller.Put(1, first), Code::kOk);
  EXPECT_EQ(caller.Put(1, ValueOf(2, 300)), Code::kOk);
  std::vector<std::byte> into(300);
  EXPECT_EQ(caller.Get(1, into).code, Code::kOk);
  EXPECT_EQ(into, first);
}

TYPED_TEST_P(ClientContract, BufferLargerSmallerExact) {
  this->StartNodes(1);
  Caller caller(*this->client_);
  const auto value = ValueOf(1, 1000);
  ASSERT_EQ(caller.Put(1, value), Code::kOk);
  std::vector<std::byte> larger(1500, std::byte{0xEE});
  const ItemResult hit = caller.Get(1, larger);
  EXPECT_EQ(hit.code, Code::kOk);
  EXPECT_EQ(hit.length, 1000u);
  EXPECT_TRUE(std::equal(value.begin(), value.end(), larger.begin()));
  EXPECT_EQ(larger[1000], std::byte{0xEE});
  std::vector<std::byte> smaller(999);
  const ItemResult too_small = caller.Get(1, smaller);
  EXPECT_EQ(too_small.code, Code::kTooSmall);
  EXPECT_EQ(too_small.length, 1000u);
  EXPECT_EQ(caller.Get(1, larger, true).code, Code::kNotFound);
  std::vector<std::byte> equal(1000);
  EXPECT_EQ(caller.Get(1, equal, true).code, Code::kOk);
}

TYPED_TEST_P(ClientContract, Ranges) {
  this->StartNodes(1);
  Caller caller(*this->client_);
  const auto value = ValueOf(1, 100'000);
  ASSERT_EQ(caller.Put(1, value), Code::kOk);
  for (const auto& [offset, size] : std::vector<std::pair<uint64_t, size_t>>{
           {0, 100'000}, {0, 1}, {99'999, 1}, {50'000, 40'000}, {4096, 4096}}) {
    std::vector<std::byte> into(size);
    const ItemResult hit = caller.GetRange(1, offset, into);
    ASSERT_EQ(hit.code, Code::kOk) << offset;
    ASSERT_EQ(hit.length, size);
    ASSERT_TRUE(std::equal(into.begin(), into.end(), value.begin() + static_cast<ptrdiff_t>(offset)));
  }
  std::vector<std::byte> into(500);
  const ItemResult tail = caller.GetRange(1, 99'900, into);
  EXPECT_EQ(tail.code, Code::kOk);
  EXPECT_EQ(tail.length, 100u);
  const ItemResult end = caller.GetRange(1, 100'000, into);
  EXPECT_EQ(end.code, Code::kOk);
  EXPECT_EQ(end.length, 0u);
  EXPECT_EQ(caller.GetRange(1, 100'001, into).code, Code::kInvalid);
  EXPECT_EQ(caller.GetRange(2, 0, into).code, Code::kNotFound);
}

TYPED_TEST_P(ClientContract, BatchesOverSeveralNodes) {
  this->StartNodes(3);
  Caller caller(*this->client_);
  std::vector<size_t> sizes;
  Random random(41);
  for (int i = 0; i < 300; ++i) sizes.push_back(1 + random.Below(i % 10 == 0 ? 300'000 : 9000));
  EXPECT_EQ(CountOf(caller.PutAll(1000, sizes), Code::kOk), sizes.size());
  size_t wrong = 0;
  const auto hits = caller.GetAll(1000, sizes, &wrong);
  EXPECT_EQ(CountOf(hits, Code::kOk), sizes.size());
  EXPECT_EQ(wrong, 0u);
  for (size_t i = 0; i < sizes.size(); ++i) EXPECT_EQ(hits[i].length, sizes[i]);
  // The same client's view from the other end: every node has its part.
  for (size_t i = 0; i < 3; ++i) {
    const auto stats = this->client_->Stats(Cat("node-", i), {});
    ASSERT_TRUE(stats.ok()) << stats.status().ToString();
    EXPECT_NE(stats->find("dfkv_objects"), std::string::npos);
  }
}

TYPED_TEST_P(ClientContract, MissesAmongHitsKeepTheirPlaces) {
  this->StartNodes(2);
  Caller caller(*this->client_);
  for (uint64_t key = 0; key < 100; key += 3) ASSERT_EQ(caller.Put(key, ValueOf(key, 700)), Code::kOk);
  size_t wrong = 0;
  const auto results = caller.GetAll(0, std::vector<size_t>(100, 700), &wrong);
  EXPECT_EQ(wrong, 0u);
  for (uint64_t key = 0; key < 100; ++key) {
    EXPECT_EQ(results[key].code, key % 3 == 0 ? Code::kOk : Code::kNotFound) << key;
  }
}

TYPED_TEST_P(ClientContract, ScatterAndGather) {
  this->StartNodes(1);
  const auto value = ValueOf(5, 100'000);
  const std::vector<size_t> cuts = {0, 1, 4096, 0, 50'000, 45'903};
  std::vector<ByteSpan> from;
  std::vector<std::byte> into(value.size());
  std::vector<MutableByteSpan> to;
  size_t at = 0;
  for (const size_t cut : cuts) {
    from.push_back(ByteSpan(value).subspan(at, cut));
    to.insert(to.begin(), MutableByteSpan(into).subspan(at, cut));  // scattered in another order
    at += cut;
  }
  const Key key(5);
  const PutItem put{key.bytes(), from};
  ItemResult result;
  ASSERT_TRUE(this->client_->Put({&put, 1}, {}, {&result, 1}).ok());
  ASSERT_EQ(result.code, Code::kOk);
  const GetItem get{key.bytes(), to};
  ASSERT_TRUE(this->client_->Get({&get, 1}, {}, {&result, 1}).ok());
  ASSERT_EQ(result.code, Code::kOk);
  std::vector<std::byte> joined;
  for (const MutableByteSpan& piece : to) joined.insert(joined.end(), piece.begin(), piece.end());
  EXPECT_EQ(joined, value);
}

TYPED_TEST_P(ClientContract, BadItemsFailAlone) {
  this->StartNodes(1);
  const auto value = ValueOf(1, 64);
  const ByteSpan piece(value);
  const Key a(1), b(2);
  const std::vector<PutItem> puts = {{a.bytes(), {&piece, 1}}, {{}, {&piece, 1}}, {b.bytes(), {}}};
  std::vector<ItemResult> results(3);
  ASSERT_TRUE(this->client_->Put(puts, {}, results).ok());
  EXPECT_EQ(results[0].code, Code::kOk);
  EXPECT_EQ(results[1].code, Code::kInvalid);
  EXPECT_EQ(results[2].code, Code::kInvalid);
  std::vector<std::byte> into(64);
  const MutableByteSpan endless[] = {{into.data(), SIZE_MAX}, {into.data(), 2}};  // more than 2^64 bytes
  const std::vector<GetItem> gets = {{a.bytes(), endless}, {{}, endless}, {b.bytes(), {}}};
  ASSERT_TRUE(this->client_->Get(gets, {}, results).ok());
  EXPECT_EQ(results[0].code, Code::kInvalid);
  EXPECT_EQ(results[1].code, Code::kInvalid);
  EXPECT_EQ(results[2].code, Code::kNotFound);
  const std::vector<ByteSpan> keys = {a.bytes(), {}, b.bytes()};
  ASSERT_TRUE(this->client_->Exist(keys, {}, results).ok());
  EXPECT_EQ(results[0].code, Code::kOk);
  EXPECT_EQ(results[1].code, Code::kInvalid);
  EXPECT_EQ(results[2].code, Code::kNotFound);
  EXPECT_EQ(this->client_->Exist(keys, {}, std::span(results).first(2)).code(), Code::kInvalid);
  EXPECT_TRUE(this->client_->Exist({}, {}, {}).ok());
}

TYPED_TEST_P(ClientContract, MatchFindsTheLongestPrefixOverNodes) {
  this->StartNodes(3);
  Caller caller(*this->client_);
  std::vector<Key> names;
  std::vector<ByteSpan> keys;
  for (uint64_t i = 0; i < 50; ++i) names.emplace_back(i);
  for (const Key& name : names) keys.push_back(name.bytes());
  const auto match = [&] {
    const auto found = this->client_->Match(keys, {});
    EXPECT_TRUE(found.ok());
    return found.ok() ? *found : ~uint64_t{0};
  };
  EXPECT_EQ(match(), 0u);
  for (uint64_t i = 0; i < 50; ++i) ASSERT_EQ(caller.Put(i, ValueOf(i, 100)), Code::kOk);
  EXPECT_EQ(match(), 50u);
  for (const uint64_t gone : {49, 30, 31, 7, 0}) {
    ASSERT_EQ(caller.Remove(gone), Code::kOk);
    EXPECT_EQ(match(), gone == 31 ? 30 : gone);
  }
  const auto none = this->client_->Match({}, {});
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(*none, 0u);
}

TYPED_TEST_P(ClientContract, MoreKeysThanOneRequestTakes) {
  this->StartNodes(1);
  Caller caller(*this->client_);
  const std::vector<size_t> sizes(9000, 40);
  EXPECT_EQ(CountOf(caller.PutAll(0, sizes), Code::kOk), sizes.size());
  size_t wrong = 0;
  EXPECT_EQ(CountOf(caller.GetAll(0, sizes, &wrong), Code::kOk), sizes.size());
  EXPECT_EQ(wrong, 0u);
}

TYPED_TEST_P(ClientContract, ThreadsShareOneClient) {
  this->StartNodes(2);
  std::vector<Thread> threads;
  std::atomic<size_t> failures{0};
  for (uint64_t t = 0; t < 8; ++t) {
    threads.emplace_back(Cat("caller-", t), [&, t] {
      Caller caller(*this->client_);
      for (uint64_t round = 0; round < 20; ++round) {
        const uint64_t first = t * 100'000 + round * 100;
        const std::vector<size_t> sizes(20, 3000 + t);
        size_t wrong = 0;
        failures += CountOf(caller.PutAll(first, sizes), Code::kOk) != 20;
        failures += CountOf(caller.GetAll(first, sizes, &wrong), Code::kOk) != 20;
        failures += wrong;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(failures, 0u);
}

REGISTER_TYPED_TEST_SUITE_P(ClientContract, OneObject, SizesFromOneByteToMegabytes, TheFirstValueStays,
                            BufferLargerSmallerExact, Ranges, BatchesOverSeveralNodes,
                            MissesAmongHitsKeepTheirPlaces, ScatterAndGather, BadItemsFailAlone,
                            MatchFindsTheLongestPrefixOverNodes, MoreKeysThanOneRequestTakes,
                            ThreadsShareOneClient);

}  // namespace dfkv::client
