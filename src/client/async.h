// AsyncClient: calls that do not block their thread. One thread of its own runs the event loop that carries
// all of a client's asynchronous calls, over lanes of its own, under the same rules as the blocking calls:
// one deadline for a call, one code for an item, avoided peers, no memory of the caller in use once a call is
// over.
//
// Threads: any for Submit and Cancel. AsyncCall::Done runs on the loop's thread, once for each call that was
// accepted, and must neither block nor destroy the client. Ownership: a call belongs to the client from
// Submit until Done has returned, and is destroyed on the loop's thread. Shutdown: the destructor cancels
// what is in flight and returns when every Done has run; no thread may submit meanwhile.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/ids.h"
#include "base/sync.h"
#include "client/core.h"
#include "client/lane.h"

namespace dfkv::client {

using Ticket = StrongInt<struct TicketTag, uint64_t>;  // of a call; never given twice by a client

// One call on its way: what it works on, and who is told.
class AsyncCall {
 public:
  virtual ~AsyncCall() = default;
  // Everything is over: `results` holds the items' codes, and no memory that an item names is in use any
  // more. `code`: Ok, Busy (no lane became free before the deadline), or Cancelled (Cancel came before the
  // end; items that had ended by then keep their codes).
  virtual void Done(Ticket ticket, Code code) = 0;

  const void* group = nullptr;      // of the calls that CancelAll ends together
  std::vector<PutItem> puts;        // PUT
  std::vector<GetItem> gets;        // GET
  std::vector<ItemResult> results;  // one for each item

 private:
  friend class AsyncClient;
  Ticket ticket_;
  Batch batch_;
  Nanos began_ = 0;
  std::unique_ptr<Lane> lane_;  // null: waits for one
  bool cancelled_ = false;
};

class AsyncClient {
 public:
  static constexpr uint32_t kCallsMax = 65'536;  // in flight or waiting; more are Busy

  // Starts the thread. IoError, Unavailable: the system has no event loop left to give.
  static Result<std::unique_ptr<AsyncClient>> Start(std::shared_ptr<Core> core);
  ~AsyncClient();

  // Takes the call on, or gives Busy: then there is no Done. The keys are not used after the return; the
  // pieces of the items, and the memory that they name, stay in place until Done.
  Result<Ticket> SubmitPut(std::unique_ptr<AsyncCall> call, const CallOptions& options);
  Result<Ticket> SubmitGet(std::unique_ptr<AsyncCall> call, const CallOptions& options);
  // EXIST, REMOVE, LOOKUP, MATCH: of the latter see LeadingPresent.
  Result<Ticket> SubmitKeys(std::unique_ptr<AsyncCall> call, CallKind kind, std::span<const ByteSpan> keys,
                            const CallOptions& options);
  // Ends a call of that group soon, its open items Cancelled; nothing happens when it is over.
  void Cancel(const void* group, Ticket ticket) { SendCancel({group, ticket}); }
  void CancelAll(const void* group) { SendCancel({group, std::nullopt}); }

 private:
  explicit AsyncClient(std::shared_ptr<Core> core, std::unique_ptr<io::Reactor> reactor);
  void Stamp(AsyncCall& call, uint64_t bytes, const CallOptions& options);
  Result<Ticket> Enter(std::unique_ptr<AsyncCall> call);
  struct CancelRequest {
    const void* group;
    std::optional<Ticket> ticket;  // none: all of the group
  };
  void SendCancel(const CancelRequest& request);
  void Wake();

  // The loop's thread.
  void Loop();
  bool SomethingEnded() const;
  Nanos NextTick() const;
  void TakeMail();
  void CancelMatching(const CancelRequest& request);
  void CancelCall(AsyncCall* call);
  void Advance(Nanos now);
  bool StartWaiting(Nanos now);
  void EndLate(Nanos now);
  void Leave(AsyncCall* call, Code code);
  void Finish(AsyncCall* call, Code code);

  const std::shared_ptr<Core> core_;
  const std::unique_ptr<io::Reactor> reactor_;
  LanePool lanes_;
  std::atomic<uint64_t> ticket_next_{1};
  std::atomic<uint32_t> calls_in_flight_{0};
  std::atomic<bool> mail_waits_{false};
  std::atomic<bool> stopping_{false};

  Mutex mutex_;  // held for a push or a swap, never over I/O
  std::vector<std::unique_ptr<AsyncCall>> submitted_ GUARDED_BY(mutex_);
  std::vector<CancelRequest> to_cancel_ GUARDED_BY(mutex_);

  // The loop's thread.
  std::map<Ticket, std::unique_ptr<AsyncCall>> calls_;
  std::deque<AsyncCall*> waiting_;   // for a lane, first come first served
  Nanos waiting_until_ = kNever;     // none of waiting_ has an earlier deadline
  std::vector<AsyncCall*> running_;  // with a lane
  std::vector<std::unique_ptr<AsyncCall>> submitted_now_;
  std::vector<CancelRequest> to_cancel_now_;

  Thread thread_;  // last: it uses all the others
};

}  // namespace dfkv::client
