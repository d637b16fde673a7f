// FakeClient: a client of a node that lives in this process's memory, with LRU eviction and faults on demand.
// For tests of the tools; it passes the same contract test as the real client (client_suite.h).
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "base/sync.h"
#include "client/client.h"

namespace dfkv::tools {

// Any thread. Objects are kept until `capacity_objects` are stored; then the least recently used one goes.
// GET and PUT touch a batch deepest first.
class FakeClient final : public client::Client {
 public:
  explicit FakeClient(uint64_t capacity_objects = UINT64_MAX) : capacity_(capacity_objects) {}

  Status Put(std::span<const client::PutItem> items, const client::CallOptions& call,
             std::span<client::ItemResult> results) override;
  Status Get(std::span<const client::GetItem> items, const client::CallOptions& call,
             std::span<client::ItemResult> results) override;
  Status Exist(std::span<const ByteSpan> keys, const client::CallOptions& call,
               std::span<client::ItemResult> results) override;
  Status Remove(std::span<const ByteSpan> keys, const client::CallOptions& call,
                std::span<client::ItemResult> results) override;
  Status Lookup(std::span<const ByteSpan> keys, const client::CallOptions& call,
                std::span<client::ItemResult> results) override;
  Result<uint64_t> Match(std::span<const ByteSpan> keys, const client::CallOptions& call) override;
  Result<std::string> Stats(const std::string& member, const client::CallOptions& call) override;
  MetricRegistry& metrics() override { return metrics_; }

  // What a test sets. A fault is asked for each item of PUT and GET before it runs; another code than Ok
  // becomes its answer.
  using Fault = std::function<Code(bool put, std::string_view key)>;
  void SetFault(Fault fault);
  void FlipByte(std::string_view key, uint64_t at);  // the stored value is then another one
  void RemoveNewest();                               // the object touched last is gone
  uint64_t object_count() const;
  uint64_t calls() const;

 private:
  struct Object {
    std::vector<std::byte> value;
    std::list<std::string>::iterator age;
  };
  void Touch(const std::string& key) REQUIRES(mutex_);
  client::ItemResult PutOne(const client::PutItem& item) REQUIRES(mutex_);
  client::ItemResult GetOne(const client::GetItem& item) REQUIRES(mutex_);
  client::ItemResult ExistOne(const ByteSpan& key) REQUIRES(mutex_);
  client::ItemResult RemoveOne(const ByteSpan& key) REQUIRES(mutex_);
  client::ItemResult LookupOne(const ByteSpan& key) REQUIRES(mutex_);
  template <typename Item>
  Status OnEach(std::span<const Item> items, std::span<client::ItemResult> results,
                client::ItemResult (FakeClient::*one)(const Item&));

  const uint64_t capacity_;
  MetricRegistry metrics_;
  mutable Mutex mutex_;
  std::map<std::string, Object, std::less<>> objects_ GUARDED_BY(mutex_);
  std::list<std::string> ages_ GUARDED_BY(mutex_);  // hottest first
  Fault fault_ GUARDED_BY(mutex_);
  uint64_t calls_ GUARDED_BY(mutex_) = 0;
};

}  // namespace dfkv::tools
