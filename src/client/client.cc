// The blocking calls: each takes a lane for its duration and runs the lane's event loop in the calling
// thread.
#include "client/client.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.h"
#include "client/core.h"

namespace dfkv::client {
namespace {

class BlockingClient final : public Client {
 public:
  explicit BlockingClient(std::shared_ptr<Core> core)
      : core_(std::move(core)),
        lanes_(core_->peers(), core_->lane_options(), core_->lanes_max(), core_->metrics()) {}

  Status Put(std::span<const PutItem> items, const CallOptions& call,
             std::span<ItemResult> results) override {
    if (items.size() != results.size()) return SizesDiffer();
    return Run(core_->DeadlineOf(call, BytesOf(items)), results,
               [&](Batch& batch) { core_->PreparePut(items, results, batch); });
  }
  Status Get(std::span<const GetItem> items, const CallOptions& call,
             std::span<ItemResult> results) override {
    if (items.size() != results.size()) return SizesDiffer();
    return Run(core_->DeadlineOf(call, BytesOf(items)), results,
               [&](Batch& batch) { core_->PrepareGet(items, results, batch); });
  }
  Status Exist(std::span<const ByteSpan> keys, const CallOptions& call,
               std::span<ItemResult> results) override {
    return RunKeys(CallKind::kExist, keys, call, results);
  }
  Status Remove(std::span<const ByteSpan> keys, const CallOptions& call,
                std::span<ItemResult> results) override {
    return RunKeys(CallKind::kRemove, keys, call, results);
  }
  Status Lookup(std::span<const ByteSpan> keys, const CallOptions& call,
                std::span<ItemResult> results) override {
    return RunKeys(CallKind::kLookup, keys, call, results);
  }
  Result<uint64_t> Match(std::span<const ByteSpan> keys, const CallOptions& call) override {
    std::vector<ItemResult> results(keys.size());
    const Status status = RunKeys(CallKind::kMatch, keys, call, results);
    if (!status.ok()) return status;
    return LeadingPresent(results);
  }
  Result<std::string> Stats(const std::string& member, const CallOptions& call) override;

  MetricRegistry& metrics() override { return core_->metrics().registry; }

 private:
  static Status SizesDiffer() { return {Code::kInvalid, "there must be one result for each item"}; }
  template <typename Prepare>
  Status Run(Nanos deadline, std::span<ItemResult> results, const Prepare& prepare);
  Status RunKeys(CallKind kind, std::span<const ByteSpan> keys, const CallOptions& call,
                 std::span<ItemResult> results) {
    if (keys.size() != results.size()) return SizesDiffer();
    return Run(core_->DeadlineOf(call, 0), results,
               [&](Batch& batch) { core_->PrepareKeys(kind, keys, results, batch); });
  }

  const std::shared_ptr<Core> core_;  // shared: asynchronous calls of the same handle use it, too
  LanePool lanes_;
};

// A lane for the duration of a call.
class Loan {
 public:
  Loan(LanePool& pool, Nanos deadline) : pool_(pool), lane_(pool.Take(deadline)) {}
  ~Loan() {
    if (lane_.ok()) pool_.GiveBack(std::move(*lane_));
  }
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  const Result<std::unique_ptr<Lane>>& lane() const { return lane_; }

 private:
  LanePool& pool_;
  Result<std::unique_ptr<Lane>> lane_;
};

template <typename Prepare>
Status BlockingClient::Run(Nanos deadline, std::span<ItemResult> results, const Prepare& prepare) {
  const Nanos began = SystemClock().Now();
  Loan loan(lanes_, deadline);
  if (!loan.lane().ok()) {
    std::fill(results.begin(), results.end(), ItemResult{loan.lane().code(), 0});
    return Ok();
  }
  Lane& lane = **loan.lane();
  Batch& batch = lane.batch;
  batch.deadline = deadline;
  prepare(batch);
  while (core_->NextPass(batch)) lane.Run(batch);
  core_->Count(batch, began);
  return Ok();
}

Result<std::string> BlockingClient::Stats(const std::string& member, const CallOptions& call) {
  const auto& members = core_->view().members;
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const cluster::Member& m) { return m.name == member; });
  if (found == members.end()) return Status(Code::kInvalid, Cat("no member is named '", member, "'"));
  const Nanos deadline = core_->DeadlineOf(call, 0);
  Loan loan(lanes_, deadline);
  if (!loan.lane().ok()) return loan.lane().status();
  Lane& lane = **loan.lane();
  Batch& batch = lane.batch;
  std::array<ItemResult, 1> result;
  batch.op = wire::Op::kStats;
  batch.deadline = deadline;
  batch.tenant = core_->tenant();
  batch.results = result;
  batch.ids.assign(1, {});
  batch.answered.assign(1, Batch::kOpen);
  batch.order.assign(1, 0);
  batch.shares.assign(1, {static_cast<uint32_t>(found - members.begin()), 0, 1, 0, 1});
  batch.text.clear();
  lane.Run(batch);
  if (result[0].code != Code::kOk) {
    return Status(result[0].code, Cat("member ", member, " (", found->address, ") gave no stats"));
  }
  return std::exchange(batch.text, {});
}

}  // namespace

std::unique_ptr<Client> Client::On(std::shared_ptr<Core> core) {
  return std::make_unique<BlockingClient>(std::move(core));
}

Result<std::unique_ptr<Client>> Client::Open(const ClientOptions& options) {
  Result<std::shared_ptr<Core>> core = Core::Open(options);
  if (!core.ok()) return core.status();
  return On(std::move(*core));
}

}  // namespace dfkv::client
