// Asynchronous batches: a queue is where those that were submitted to it come back.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "base/clock.h"
#include "capi/items.h"
#include "capi/sized.h"
#include "client/completion_queue.h"

namespace dfkv::capi {
namespace {

using client::AsyncClient;
using client::CallKind;
using client::CompletionQueue;
using client::Ticket;

// FROZEN: the size of the first version of each struct that may grow at its end.
constexpr size_t kQueueOptionsFirstBytes = 16;
constexpr size_t kSubmitOptionsFirstBytes = 24;

// FROZEN layouts; structs that start with struct_size may grow at their end.
static_assert(sizeof(dfkv_queue_options3) == 16 && offsetof(dfkv_queue_options3, batches_max) == 8);
static_assert(sizeof(dfkv_submit_options3) == 24 && offsetof(dfkv_submit_options3, user_data) == 16);
static_assert(sizeof(dfkv_completion3) == 32 && offsetof(dfkv_completion3, count) == 24);

constexpr uint32_t kBatchesDefault = 256;
constexpr uint32_t kBatchesMax = AsyncClient::kCallsMax;

// Lives until it is closed and no thread is in a call on it. Its calls in flight share the completions only.
struct Queue {
  OpenRef client;
  AsyncClient* async;
  std::shared_ptr<CompletionQueue> completions;  // also the group of its calls

  // On return no memory that was submitted is in use. Other threads' waits end.
  void Close() const {
    completions->Close();
    async->CancelAll(completions.get());
    completions->AwaitAll();
  }
};

HandleTable<Queue>& Queues() {
  static auto* const kTable = new HandleTable<Queue>("queue");
  return *kTable;
}

struct QueuedCall final : client::AsyncCall {
  void Done(Ticket ticket, Code code) override {
    if (out != nullptr) Export(results, out);
    const auto ok = [](const client::ItemResult& result) { return result.code == Code::kOk; };
    const uint64_t count = kind == CallKind::kMatch
                               ? client::LeadingPresent(results)
                               : static_cast<uint64_t>(std::count_if(results.begin(), results.end(), ok));
    completions->Push({ticket.value(), user_data, code, count});
  }
  CallKind kind = CallKind::kPut;
  std::shared_ptr<CompletionQueue> completions;
  uint64_t user_data = 0;
  dfkv_result3* out = nullptr;
  std::vector<ByteSpan> from;       // buffers of puts
  std::vector<MutableByteSpan> to;  // buffers of gets
};

// A place among the queue's completions, free again unless a call took it over.
class Place {
 public:
  explicit Place(CompletionQueue& queue) : queue_(queue), taken_(queue.TakePlace()) {}
  ~Place() {
    if (taken_) queue_.FreePlace();
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  bool taken() const { return taken_; }
  void Keep() { taken_ = false; }

 private:
  CompletionQueue& queue_;
  bool taken_;
};

struct Submission {
  dfkv_queue3_t queue;
  CallKind kind;
  dfkv_result3* results;
  const dfkv_submit_options3* options;
  uint64_t* out_ticket;
};

Status ReadOptions(const dfkv_submit_options3* given, dfkv_submit_options3* known) {
  *known = {};
  if (given == nullptr) return Ok();
  DFKV_RETURN_IF_ERROR(ReadSized(given, kSubmitOptionsFirstBytes, "dfkv_submit_options3", known));
  if (known->flags != 0) return Bad("flags has an unknown bit");
  if (known->reserved0 != 0) return Bad("reserved0 is not 0");
  return Ok();
}

// send(async, call, options): fills the call in and submits it.
template <typename Send>
Status Submit(const Submission& submission, const Send& send) {
  const Result<std::shared_ptr<Queue>> queue = Queues().Find(submission.queue);
  if (!queue.ok()) return queue.status();
  dfkv_submit_options3 known;
  DFKV_RETURN_IF_ERROR(ReadOptions(submission.options, &known));
  CompletionQueue& completions = *(*queue)->completions;
  Place place(completions);
  if (!place.taken()) {
    if (completions.closed()) return Bad("the queue is closed");
    return {Code::kBusy, "batches_max are in flight or wait to be collected"};
  }
  auto call = std::make_unique<QueuedCall>();
  call->kind = submission.kind;
  call->group = &completions;
  call->completions = (*queue)->completions;
  call->out = submission.results;
  call->user_data = known.user_data;
  const client::CallOptions options{known.deadline_ms};
  const Result<Ticket> ticket = send(*(*queue)->async, std::move(call), options);
  if (!ticket.ok()) return ticket.status();
  place.Keep();
  if (completions.closed()) (*queue)->async->Cancel(&completions, *ticket);  // Close did not see it
  if (submission.out_ticket != nullptr) *submission.out_ticket = ticket->value();
  return Ok();
}

int SubmitKeys(const char* function, const Submission& submission, std::span<const dfkv_key3> keys) noexcept {
  if (submission.out_ticket != nullptr) *submission.out_ticket = 0;
  Zero(submission.results, keys.size());
  return Run(function, [&]() -> Status {
    const bool match = submission.kind == CallKind::kMatch;  // the completion says it all
    DFKV_RETURN_IF_ERROR(CheckArrays(keys.data(), keys.size(),
                                     match ? static_cast<const void*>(keys.data()) : submission.results));
    return Submit(submission, [&](AsyncClient& async, std::unique_ptr<QueuedCall> call,
                                  const client::CallOptions& options) {
      return async.SubmitKeys(std::move(call), submission.kind, NamesOf(keys), options);
    });
  });
}

Status OpenQueue(dfkv_client_t handle, const dfkv_queue_options3* options, dfkv_queue3_t* out_queue) {
  if (out_queue == nullptr) return Bad("out_queue is NULL");
  Result<OpenRef> client = Clients().Find(handle);
  if (!client.ok()) return client.status();
  uint32_t batches_max = kBatchesDefault;
  if (options != nullptr) {
    dfkv_queue_options3 known;
    DFKV_RETURN_IF_ERROR(ReadSized(options, kQueueOptionsFirstBytes, "dfkv_queue_options3", &known));
    if (known.flags != 0) return Bad("flags has an unknown bit");
    if (known.reserved0 != 0) return Bad("reserved0 is not 0");
    if (known.batches_max > kBatchesMax) return Bad("batches_max is more than 65536");
    if (known.batches_max != 0) batches_max = known.batches_max;
  }
  Result<std::unique_ptr<CompletionQueue>> completions = CompletionQueue::Make(batches_max);
  if (!completions.ok()) return completions.status();
  const Result<AsyncClient*> async = (*client)->Async();
  if (!async.ok()) return async.status();
  *out_queue =
      Queues().Add(std::make_shared<Queue>(Queue{std::move(*client), *async, std::move(*completions)}));
  return Ok();
}

Nanos DeadlineOf(int32_t wait_ms) {
  if (wait_ms == 0) return 0;
  return wait_ms < 0 ? kNever : SystemClock().Now() + wait_ms * kMillisecond;
}

Status Collect(dfkv_queue3_t handle, std::span<dfkv_completion3> into, int32_t wait_ms, uint64_t* out_count) {
  if (out_count == nullptr) return Bad("out_count is NULL");
  if (into.data() == nullptr && !into.empty()) return Bad("completions is NULL");
  const Result<std::shared_ptr<Queue>> queue = Queues().Find(handle);
  if (!queue.ok()) return queue.status();
  std::vector<client::Completion> taken(std::min<size_t>(into.size(), kBatchesMax));
  const size_t count = (*queue)->completions->Collect(taken, DeadlineOf(wait_ms));
  for (size_t i = 0; i < count; ++i) {
    into[i] = {taken[i].ticket, taken[i].user_data, static_cast<int32_t>(taken[i].code), 0, taken[i].count};
  }
  *out_count = count;
  return count == 0 && (*queue)->completions->closed() ? Bad("the queue was closed") : Ok();
}

}  // namespace

// C functions: a namespace does not change their names, but hides the visibility that the header gave them.
#pragma GCC visibility push(default)
extern "C" {

int dfkv_queue_open3(dfkv_client_t client, const dfkv_queue_options3* options, dfkv_queue3_t* out_queue) {
  if (out_queue != nullptr) *out_queue = nullptr;
  return Run("dfkv_queue_open3", [&] { return OpenQueue(client, options, out_queue); });
}

int dfkv_queue_fd3(dfkv_queue3_t queue) {
  return NoThrow(-1, [&] {
    const Result<std::shared_ptr<Queue>> found = Queues().Find(queue);
    (void)Told("dfkv_queue_fd3", found.ok() ? Ok() : found.status());
    return found.ok() ? (*found)->completions->fd() : -1;
  });
}

int dfkv_submit_put3(dfkv_queue3_t queue, const dfkv_put_item3* items, uint64_t count, dfkv_result3* results,
                     const dfkv_submit_options3* options, uint64_t* out_ticket) {
  if (out_ticket != nullptr) *out_ticket = 0;
  return RunBatch("dfkv_submit_put3", items, count, results, [&] {
    return Submit({queue, CallKind::kPut, results, options, out_ticket},
                  [&](AsyncClient& async, std::unique_ptr<QueuedCall> call, const client::CallOptions& on) {
                    Puts puts({items, count});
                    call->puts = std::move(puts.items);
                    call->from = std::move(puts.spans);
                    return async.SubmitPut(std::move(call), on);
                  });
  });
}

int dfkv_submit_get3(dfkv_queue3_t queue, const dfkv_get_item3* items, uint64_t count, dfkv_result3* results,
                     const dfkv_submit_options3* options, uint64_t* out_ticket) {
  if (out_ticket != nullptr) *out_ticket = 0;
  return RunBatch("dfkv_submit_get3", items, count, results, [&] {
    return Submit({queue, CallKind::kGet, results, options, out_ticket},
                  [&](AsyncClient& async, std::unique_ptr<QueuedCall> call, const client::CallOptions& on) {
                    Gets gets({items, count});
                    call->gets = std::move(gets.items);
                    call->to = std::move(gets.spans);
                    return async.SubmitGet(std::move(call), on);
                  });
  });
}

int dfkv_submit_exist3(dfkv_queue3_t queue, const dfkv_key3* keys, uint64_t count, dfkv_result3* results,
                       const dfkv_submit_options3* options, uint64_t* out_ticket) {
  return SubmitKeys("dfkv_submit_exist3", {queue, CallKind::kExist, results, options, out_ticket},
                    {keys, count});
}

int dfkv_submit_remove3(dfkv_queue3_t queue, const dfkv_key3* keys, uint64_t count, dfkv_result3* results,
                        const dfkv_submit_options3* options, uint64_t* out_ticket) {
  return SubmitKeys("dfkv_submit_remove3", {queue, CallKind::kRemove, results, options, out_ticket},
                    {keys, count});
}

int dfkv_submit_lookup3(dfkv_queue3_t queue, const dfkv_key3* keys, uint64_t count, dfkv_result3* results,
                        const dfkv_submit_options3* options, uint64_t* out_ticket) {
  return SubmitKeys("dfkv_submit_lookup3", {queue, CallKind::kLookup, results, options, out_ticket},
                    {keys, count});
}

int dfkv_submit_match3(dfkv_queue3_t queue, const dfkv_key3* keys, uint64_t count,
                       const dfkv_submit_options3* options, uint64_t* out_ticket) {
  return SubmitKeys("dfkv_submit_match3", {queue, CallKind::kMatch, nullptr, options, out_ticket},
                    {keys, count});
}

int dfkv_cancel3(dfkv_queue3_t queue, uint64_t ticket) {
  return Run("dfkv_cancel3", [&]() -> Status {
    const Result<std::shared_ptr<Queue>> found = Queues().Find(queue);
    if (!found.ok()) return found.status();
    (*found)->async->Cancel((*found)->completions.get(), Ticket(ticket));
    return Ok();
  });
}

int dfkv_collect3(dfkv_queue3_t queue, dfkv_completion3* completions, uint64_t count_max, int32_t wait_ms,
                  uint64_t* out_count) {
  if (out_count != nullptr) *out_count = 0;
  return Run("dfkv_collect3", [&] { return Collect(queue, {completions, count_max}, wait_ms, out_count); });
}

void dfkv_queue_close3(dfkv_queue3_t queue) {
  (void)NoThrow(0, [&] {
    const Result<std::shared_ptr<Queue>> taken = Queues().Take(queue);
    if (taken.ok()) (*taken)->Close();
    return 0;
  });
}

}  // extern "C"
#pragma GCC visibility pop

}  // namespace dfkv::capi
