// Asynchronous calls for tests: one that can be waited for, and a client that makes every blocking call of
// one.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "base/sync.h"
#include "client/async.h"
#include "client/client.h"

namespace dfkv::client {

// What became of an asynchronous call; lives at least until it is over.
class Outcome {
 public:
  void Set(Code code, std::vector<ItemResult> results) {
    MutexLock lock(mutex_);
    ++times_;
    code_ = code;
    results_ = std::move(results);
    changed_.NotifyAll();
  }
  // Waits for the end.
  Code Await() {
    MutexLock lock(mutex_);
    while (times_ == 0) changed_.Wait(mutex_);
    return code_;
  }
  // Waits for the end; of the item, or why there is none.
  ItemResult AwaitItem(size_t item = 0) {
    (void)Await();
    MutexLock lock(mutex_);
    return results_.at(item);
  }
  std::vector<ItemResult> AwaitItems() {
    (void)Await();
    MutexLock lock(mutex_);
    return results_;
  }
  int times() const {
    MutexLock lock(mutex_);
    return times_;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  int times_ GUARDED_BY(mutex_) = 0;
  Code code_ GUARDED_BY(mutex_) = Code::kOk;
  std::vector<ItemResult> results_ GUARDED_BY(mutex_);
};

class TestCall final : public AsyncCall {
 public:
  explicit TestCall(Outcome* outcome) : outcome_(outcome) {}
  void Done(Ticket, Code code) override { outcome_->Set(code, results); }

 private:
  Outcome* const outcome_;
};

// Blocking calls by way of asynchronous ones: so that the asynchronous client passes the suite of the
// blocking.
class WaitingClient final : public Client {
 public:
  static Result<std::unique_ptr<Client>> Open(const ClientOptions& options) {
    Result<std::shared_ptr<Core>> core = Core::Open(options);
    if (!core.ok()) return core.status();
    Result<std::unique_ptr<AsyncClient>> async = AsyncClient::Start(*core);
    if (!async.ok()) return async.status();
    return std::unique_ptr<Client>(new WaitingClient(std::move(*core), std::move(*async)));
  }

  Status Put(std::span<const PutItem> items, const CallOptions& options,
             std::span<ItemResult> results) override {
    return Wait(results, items.size(), [&](std::unique_ptr<TestCall> call) {
      call->puts.assign(items.begin(), items.end());
      return async_->SubmitPut(std::move(call), options);
    });
  }
  Status Get(std::span<const GetItem> items, const CallOptions& options,
             std::span<ItemResult> results) override {
    return Wait(results, items.size(), [&](std::unique_ptr<TestCall> call) {
      call->gets.assign(items.begin(), items.end());
      return async_->SubmitGet(std::move(call), options);
    });
  }
  Status Exist(std::span<const ByteSpan> keys, const CallOptions& options,
               std::span<ItemResult> results) override {
    return OnKeys(CallKind::kExist, keys, options, results);
  }
  Status Remove(std::span<const ByteSpan> keys, const CallOptions& options,
                std::span<ItemResult> results) override {
    return OnKeys(CallKind::kRemove, keys, options, results);
  }
  Status Lookup(std::span<const ByteSpan> keys, const CallOptions& options,
                std::span<ItemResult> results) override {
    return OnKeys(CallKind::kLookup, keys, options, results);
  }
  Result<uint64_t> Match(std::span<const ByteSpan> keys, const CallOptions& options) override {
    std::vector<ItemResult> results(keys.size());
    DFKV_RETURN_IF_ERROR(OnKeys(CallKind::kMatch, keys, options, results));
    return LeadingPresent(results);
  }
  Result<std::string> Stats(const std::string& member, const CallOptions& options) override {
    return blocking_->Stats(member, options);
  }
  MetricRegistry& metrics() override { return core_->metrics().registry; }

 private:
  WaitingClient(std::shared_ptr<Core> core, std::unique_ptr<AsyncClient> async)
      : core_(std::move(core)), blocking_(Client::On(core_)), async_(std::move(async)) {}
  template <typename Submit>
  Status Wait(std::span<ItemResult> results, size_t items, const Submit& submit) {
    if (items != results.size()) return {Code::kInvalid, "there must be one result for each item"};
    Outcome outcome;
    const Result<Ticket> ticket = submit(std::make_unique<TestCall>(&outcome));
    if (!ticket.ok()) return ticket.status();
    const std::vector<ItemResult> got = outcome.AwaitItems();
    std::copy(got.begin(), got.end(), results.begin());
    return Ok();
  }
  Status OnKeys(CallKind kind, std::span<const ByteSpan> keys, const CallOptions& options,
                std::span<ItemResult> results) {
    return Wait(results, keys.size(), [&](std::unique_ptr<TestCall> call) {
      return async_->SubmitKeys(std::move(call), kind, keys, options);
    });
  }

  const std::shared_ptr<Core> core_;
  const std::unique_ptr<Client> blocking_;
  const std::unique_ptr<AsyncClient> async_;
};

}  // namespace dfkv::client
