#include "tools/bench/fake_client.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/text.h"

namespace dfkv::tools {

using client::CallOptions;
using client::GetItem;
using client::ItemResult;
using client::PutItem;

namespace {
std::string KeyText(ByteSpan key) {
  return std::string(AsText(key));
}
}  // namespace

void FakeClient::Touch(const std::string& key) {
  ages_.splice(ages_.begin(), ages_, objects_.at(key).age);
}

ItemResult FakeClient::PutOne(const PutItem& item) {
  const std::string key = KeyText(item.key);
  if (fault_) {
    if (const Code code = fault_(true, key); code != Code::kOk) return {code, 0};
  }
  std::vector<std::byte> value;
  for (const ByteSpan piece : item.pieces) value.insert(value.end(), piece.begin(), piece.end());
  if (key.empty() || value.empty()) return {Code::kInvalid, 0};
  if (capacity_ == 0) return {Code::kNoSpace, 0};
  if (!objects_.contains(key)) {
    ages_.push_front(key);
    objects_[key] = Object{std::move(value), ages_.begin()};
    if (objects_.size() > capacity_) {
      objects_.erase(ages_.back());
      ages_.pop_back();
    }
  }
  Touch(key);
  return {Code::kOk, 0};
}

ItemResult FakeClient::GetOne(const GetItem& item) {
  const std::string key = KeyText(item.key);
  if (fault_) {
    if (const Code code = fault_(false, key); code != Code::kOk) return {code, 0};
  }
  const auto found = objects_.find(key);
  if (found == objects_.end()) return {Code::kNotFound, 0};
  Touch(key);
  const std::vector<std::byte>& value = found->second.value;
  uint64_t capacity = 0;
  for (const MutableByteSpan piece : item.pieces) capacity += piece.size();
  uint64_t at = 0;
  uint64_t left = value.size();
  if (item.range) {
    at = std::min<uint64_t>(item.offset, value.size());
    left = std::min(capacity, value.size() - at);
  } else if (item.exact && capacity != value.size()) {
    return {capacity < value.size() ? Code::kTooSmall : Code::kNotFound, value.size()};
  } else if (capacity < value.size()) {
    return {Code::kTooSmall, value.size()};
  }
  const uint64_t length = left;
  for (const MutableByteSpan piece : item.pieces) {
    const size_t part = std::min<size_t>(piece.size(), left);
    if (part != 0) std::memcpy(piece.data(), value.data() + at, part);
    at += part;
    left -= part;
  }
  return {Code::kOk, length};
}

ItemResult FakeClient::ExistOne(const ByteSpan& key) {
  return {objects_.contains(AsText(key)) ? Code::kOk : Code::kNotFound, 0};
}

ItemResult FakeClient::RemoveOne(const ByteSpan& key) {
  const auto found = objects_.find(AsText(key));
  if (found == objects_.end()) return {Code::kNotFound, 0};
  ages_.erase(found->second.age);
  objects_.erase(found);
  return {Code::kOk, 0};
}

ItemResult FakeClient::LookupOne(const ByteSpan& key) {
  const auto found = objects_.find(AsText(key));
  if (found == objects_.end()) return {Code::kNotFound, 0};
  return {Code::kOk, found->second.value.size()};
}

// The deepest item first.
template <typename Item>
Status FakeClient::OnEach(std::span<const Item> items, std::span<ItemResult> results,
                          ItemResult (FakeClient::*one)(const Item&)) {
  if (results.size() != items.size()) return Status(Code::kInvalid, "as many results as items");
  MutexLock lock(mutex_);
  ++calls_;
  for (size_t i = items.size(); i-- > 0;) results[i] = (this->*one)(items[i]);
  return Ok();
}

Status FakeClient::Put(std::span<const PutItem> items, const CallOptions&, std::span<ItemResult> results) {
  return OnEach(items, results, &FakeClient::PutOne);
}
Status FakeClient::Get(std::span<const GetItem> items, const CallOptions&, std::span<ItemResult> results) {
  return OnEach(items, results, &FakeClient::GetOne);
}
Status FakeClient::Exist(std::span<const ByteSpan> keys, const CallOptions&, std::span<ItemResult> results) {
  return OnEach(keys, results, &FakeClient::ExistOne);
}
Status FakeClient::Remove(std::span<const ByteSpan> keys, const CallOptions&, std::span<ItemResult> results) {
  return OnEach(keys, results, &FakeClient::RemoveOne);
}
Status FakeClient::Lookup(std::span<const ByteSpan> keys, const CallOptions&, std::span<ItemResult> results) {
  return OnEach(keys, results, &FakeClient::LookupOne);
}

Result<uint64_t> FakeClient::Match(std::span<const ByteSpan> keys, const CallOptions&) {
  MutexLock lock(mutex_);
  ++calls_;
  uint64_t present = 0;
  while (present < keys.size() && objects_.contains(AsText(keys[present]))) ++present;
  return present;
}

Result<std::string> FakeClient::Stats(const std::string&, const CallOptions&) {
  MutexLock lock(mutex_);
  return Cat(metrics_.Render(), "dfkv_objects ", objects_.size(), "\n");
}

void FakeClient::SetFault(Fault fault) {
  MutexLock lock(mutex_);
  fault_ = std::move(fault);
}

void FakeClient::FlipByte(std::string_view key, uint64_t at) {
  MutexLock lock(mutex_);
  objects_.find(key)->second.value.at(at) ^= std::byte{1};
}

void FakeClient::RemoveNewest() {
  MutexLock lock(mutex_);
  objects_.erase(ages_.front());
  ages_.pop_front();
}

uint64_t FakeClient::object_count() const {
  MutexLock lock(mutex_);
  return objects_.size();
}

uint64_t FakeClient::calls() const {
  MutexLock lock(mutex_);
  return calls_;
}

}  // namespace dfkv::tools
