// What every Client does: run by the tests of the fake and, against a node, of the real one.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "client/client.h"

namespace dfkv::tools {

// Five objects of a prefix chain, of 1 to 4001 bytes.
class ClientSuite {
 public:
  // The keys start with `prefix`; they must be absent before and are absent after a good run.
  ClientSuite(client::Client& client, const std::string& prefix) : client_(client) {
    for (size_t i = 0; i < kObjects; ++i) {
      names_.push_back(Cat(prefix, i));
      values_.emplace_back(1000 * i + 1);
      FillPattern(i, 0, values_.back());
      read_.emplace_back(values_[i].size() + 1);  // a capacity that is larger by one byte
    }
    for (size_t i = 0; i < kObjects; ++i) {
      keys_.push_back(AsBytes(names_[i]));
      pieces_.push_back(values_[i]);
      targets_.emplace_back(read_[i]);
    }
  }

  void Run() {
    EXPECT_EQ(Exist(), All(Code::kNotFound));
    EXPECT_EQ(client_.Match(keys_, {}).value(), 0u);
    PutAndMatch();
    GetWhole();
    GetParts();
    RemoveAll();
  }

 private:
  static constexpr size_t kObjects = 5;
  using Codes = std::vector<Code>;
  static Codes All(Code code) { return Codes(kObjects, code); }
  Codes Answers() const {
    Codes codes;
    for (const client::ItemResult& result : results_) codes.push_back(result.code);
    return codes;
  }
  Codes Exist() {
    EXPECT_TRUE(client_.Exist(keys_, {}, results_).ok());
    return Answers();
  }
  Codes Get() {
    std::vector<client::GetItem> items;
    for (size_t i = 0; i < kObjects; ++i) items.push_back({keys_[i], {&targets_[i], 1}, false, false, 0});
    EXPECT_TRUE(client_.Get(items, {}, results_).ok());
    return Answers();
  }
  client::ItemResult GetOne(const client::GetItem& item) {
    client::ItemResult result;
    EXPECT_TRUE(client_.Get({&item, 1}, {}, {&result, 1}).ok());
    return result;
  }

  // All but the third first: MATCH stops at the hole. A PUT of a present key is ok.
  void PutAndMatch() {
    std::vector<client::PutItem> items;
    for (size_t i = 0; i < kObjects; ++i) {
      items.push_back({keys_[i], {&pieces_[i], 1}, static_cast<uint32_t>(i)});
    }
    std::vector<client::PutItem> holed = items;
    holed.erase(holed.begin() + 2);
    std::vector<client::ItemResult> results(holed.size());
    EXPECT_TRUE(client_.Put(holed, {}, results).ok());
    for (const client::ItemResult& result : results) EXPECT_EQ(result.code, Code::kOk);
    EXPECT_EQ(client_.Match(keys_, {}).value(), 2u);
    EXPECT_TRUE(client_.Put(items, {}, results_).ok());
    EXPECT_EQ(Answers(), All(Code::kOk));
    EXPECT_EQ(client_.Match(keys_, {}).value(), kObjects);
  }

  void GetWhole() {
    EXPECT_EQ(Get(), All(Code::kOk));
    for (size_t i = 0; i < kObjects; ++i) {
      EXPECT_EQ(results_[i].length, values_[i].size());
      EXPECT_TRUE(PatternMatches(i, 0, ByteSpan(read_[i]).first(values_[i].size())));
    }
    EXPECT_TRUE(client_.Lookup(keys_, {}, results_).ok());
    EXPECT_EQ(Answers(), All(Code::kOk));
    for (size_t i = 0; i < kObjects; ++i) EXPECT_EQ(results_[i].length, values_[i].size());
  }

  // A second PUT of other bytes keeps the first ones; a capacity that is too small says so; a range.
  void GetParts() {
    const std::vector<std::byte> other(values_[1].size());
    const ByteSpan other_piece = other;
    const client::PutItem again{keys_[1], {&other_piece, 1}, UINT32_MAX};
    client::ItemResult result;
    EXPECT_TRUE(client_.Put({&again, 1}, {}, {&result, 1}).ok());
    EXPECT_EQ(result.code, Code::kOk);

    MutableByteSpan target = MutableByteSpan(read_[1]).first(values_[1].size() - 1);
    result = GetOne({keys_[1], {&target, 1}, false, false, 0});
    EXPECT_EQ(result.code, Code::kTooSmall);
    EXPECT_EQ(result.length, values_[1].size());

    target = target.first(80);
    result = GetOne({keys_[1], {&target, 1}, false, true, 800});
    EXPECT_EQ(result.code, Code::kOk);
    EXPECT_EQ(result.length, 80u);
    EXPECT_TRUE(PatternMatches(1, 800, target));
  }

  void RemoveAll() {
    EXPECT_TRUE(client_.Remove(keys_, {}, results_).ok());
    EXPECT_EQ(Answers(), All(Code::kOk));
    EXPECT_TRUE(client_.Remove(keys_, {}, results_).ok());
    EXPECT_EQ(Answers(), All(Code::kNotFound));  // they were absent
    EXPECT_EQ(Exist(), All(Code::kNotFound));
    EXPECT_EQ(Get(), All(Code::kNotFound));
  }

  client::Client& client_;
  std::vector<std::string> names_;
  std::vector<std::vector<std::byte>> values_;
  std::vector<std::vector<std::byte>> read_;
  std::vector<ByteSpan> keys_;
  std::vector<ByteSpan> pieces_;
  std::vector<MutableByteSpan> targets_;
  std::vector<client::ItemResult> results_ = std::vector<client::ItemResult>(kObjects);
};

}  // namespace dfkv::tools
