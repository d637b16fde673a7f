// What every Client does: run by the tests of the fake and, against a node, of the real one.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "client/client.h"

namespace dfkv::tools {

// Uses keys that start with `prefix`; they must be absent at the start and are removed at the end.
inline void CheckClientContract(client::Client& client, const std::string& prefix) {
  using client::GetItem;
  using client::ItemResult;
  using client::PutItem;
  constexpr size_t kObjects = 5;
  std::vector<std::string> names;
  std::vector<std::vector<std::byte>> values;
  std::vector<ByteSpan> keys;
  std::vector<ByteSpan> pieces;
  for (size_t i = 0; i < kObjects; ++i) {
    names.push_back(Cat(prefix, i));
    values.emplace_back(1000 * i + 1);
    FillPattern(i, 0, values.back());
  }
  for (size_t i = 0; i < kObjects; ++i) {
    keys.push_back(AsBytes(names[i]));
    pieces.push_back(values[i]);
  }
  std::vector<ItemResult> results(kObjects);
  const auto codes = [&] {
    std::vector<Code> list;
    for (const ItemResult& result : results) list.push_back(result.code);
    return list;
  };
  const std::vector<Code> all_ok(kObjects, Code::kOk);
  const std::vector<Code> all_absent(kObjects, Code::kNotFound);

  ASSERT_TRUE(client.Exist(keys, {}, results).ok());
  EXPECT_EQ(codes(), all_absent);
  EXPECT_EQ(client.Match(keys, {}).value(), 0u);

  // All but the third: MATCH stops at the hole.
  std::vector<PutItem> puts;
  for (size_t i = 0; i < kObjects; ++i) {
    puts.push_back({keys[i], {&pieces[i], 1}, static_cast<uint32_t>(i)});
  }
  std::vector<PutItem> holed = puts;
  holed.erase(holed.begin() + 2);
  results.resize(kObjects - 1);
  ASSERT_TRUE(client.Put(holed, {}, results).ok());
  EXPECT_EQ(codes(), std::vector<Code>(kObjects - 1, Code::kOk));
  EXPECT_EQ(client.Match(keys, {}).value(), 2u);
  results.resize(kObjects);
  ASSERT_TRUE(client.Put(puts, {}, results).ok());  // a PUT of a present key is ok
  EXPECT_EQ(codes(), all_ok);
  EXPECT_EQ(client.Match(keys, {}).value(), kObjects);

  // Whole values, into capacities that are larger by one byte.
  std::vector<std::vector<std::byte>> read;
  std::vector<MutableByteSpan> targets;
  for (size_t i = 0; i < kObjects; ++i) read.emplace_back(values[i].size() + 1);
  for (size_t i = 0; i < kObjects; ++i) targets.emplace_back(read[i]);
  std::vector<GetItem> gets;
  for (size_t i = 0; i < kObjects; ++i) gets.push_back({keys[i], {&targets[i], 1}, false, false, 0});
  ASSERT_TRUE(client.Get(gets, {}, results).ok());
  EXPECT_EQ(codes(), all_ok);
  for (size_t i = 0; i < kObjects; ++i) {
    EXPECT_EQ(results[i].length, values[i].size());
    EXPECT_TRUE(PatternMatches(i, 0, ByteSpan(read[i]).first(values[i].size())));
  }

  // A second PUT of other bytes keeps the first ones; a capacity that is too small says so; a range.
  std::vector<std::byte> other(values[1].size());
  const ByteSpan other_piece = other;
  const PutItem again{keys[1], {&other_piece, 1}, UINT32_MAX};
  ItemResult one;
  ASSERT_TRUE(client.Put({&again, 1}, {}, {&one, 1}).ok());
  EXPECT_EQ(one.code, Code::kOk);
  MutableByteSpan small = MutableByteSpan(read[1]).first(values[1].size() - 1);
  GetItem get{keys[1], {&small, 1}, false, false, 0};
  ASSERT_TRUE(client.Get({&get, 1}, {}, {&one, 1}).ok());
  EXPECT_EQ(one.code, Code::kTooSmall);
  EXPECT_EQ(one.length, values[1].size());
  small = small.first(80);
  get.range = true;
  get.offset = 800;
  ASSERT_TRUE(client.Get({&get, 1}, {}, {&one, 1}).ok());
  EXPECT_EQ(one.code, Code::kOk);
  EXPECT_EQ(one.length, 80u);
  EXPECT_TRUE(PatternMatches(1, 800, small));

  ASSERT_TRUE(client.Lookup(keys, {}, results).ok());
  EXPECT_EQ(codes(), all_ok);
  for (size_t i = 0; i < kObjects; ++i) EXPECT_EQ(results[i].length, values[i].size());
  ASSERT_TRUE(client.Remove(keys, {}, results).ok());
  EXPECT_EQ(codes(), all_ok);
  ASSERT_TRUE(client.Exist(keys, {}, results).ok());
  EXPECT_EQ(codes(), all_absent);
  ASSERT_TRUE(client.Get(gets, {}, results).ok());
  EXPECT_EQ(codes(), all_absent);
}

}  // namespace dfkv::tools
