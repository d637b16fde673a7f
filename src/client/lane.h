// Lane: a connection to each peer, for one call at a time, on a reactor: its own, which the calling thread
// runs, or one that many lanes share. LanePool lends lanes to calls, the one given back last first, so that a
// single thread keeps using the same warm connections.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/sync.h"
#include "client/batch.h"
#include "client/connection.h"
#include "client/metrics.h"
#include "client/peer.h"
#include "io/reactor.h"

namespace dfkv::client {

struct LaneOptions {
  ConnectionOptions connection;
  Nanos idle = 30 * kSecond;
  Nanos probe_wait = kSecond / 10;  // a call waits this long for an avoided peer's answer to a probe
  Nanos spin = 0;
};

// One thread at a time: that of the call which has it, or that of the shared reactor.
class Lane {
 public:
  // With a reactor of its own.
  static Result<std::unique_ptr<Lane>> Make(std::span<const std::unique_ptr<Peer>> peers,
                                            const LaneOptions& options, ClientMetrics& metrics);
  Lane(io::Reactor& reactor, std::span<const std::unique_ptr<Peer>> peers, const LaneOptions& options,
       ClientMetrics& metrics);
  ~Lane();

  // Runs the batch until every item of its shares has a code, at the latest shortly after its deadline. After
  // it no memory of the caller is in use.
  void Run(Batch& batch);

  // The parts of Run, for who runs the reactor himself: Begin, then Tick at NextTick until batch.shares_open
  // is 0, which is when no memory of the caller is in use. Cancel: the shares end soon, their open items
  // Cancelled.
  void Begin(Batch& batch);
  Nanos NextTick() const;
  void Tick(Nanos now);
  void Cancel();

  void CloseIdle();
  Nanos Now() const { return reactor_.Now(); }
  Nanos last_used() const { return last_used_; }
  void Touch() { last_used_ = Now(); }

  Batch batch;  // the memory that calls reuse

 private:
  bool opening() const;
  Connection& ConnectionTo(uint32_t peer);

  std::unique_ptr<io::Reactor> own_reactor_;  // null: a shared one
  io::Reactor& reactor_;
  const std::span<const std::unique_ptr<Peer>> peers_;
  const LaneOptions options_;
  ClientMetrics& metrics_;
  std::vector<std::unique_ptr<Connection>> connections_;  // by peer; null until first used
  Batch* work_ = nullptr;                                 // the batch that runs, or ran last
  std::vector<Connection*> active_;                       // of that batch
  std::vector<Connection*> probing_;                      // of active_, those that a probe holds up
  Nanos probe_until_ = kNever;
  Nanos last_used_ = 0;
  bool gave_up_ = false;
};

class LanePool {
 public:
  // `shared`: the reactor of all its lanes; null: each has its own.
  LanePool(std::span<const std::unique_ptr<Peer>> peers, const LaneOptions& options, uint32_t lanes_max,
           ClientMetrics& metrics, io::Reactor* shared = nullptr)
      : peers_(peers), options_(options), lanes_max_(lanes_max), metrics_(metrics), shared_(shared) {}
  ~LanePool();  // every lane has been given back

  // Busy: no lane became free before `deadline`. Unavailable, IoError: none could be made.
  Result<std::unique_ptr<Lane>> Take(Nanos deadline);
  void GiveBack(std::unique_ptr<Lane> lane);

 private:
  const std::span<const std::unique_ptr<Peer>> peers_;
  const LaneOptions options_;
  const uint32_t lanes_max_;
  ClientMetrics& metrics_;
  io::Reactor* const shared_;
  Mutex mutex_;
  CondVar given_back_;
  std::vector<std::unique_ptr<Lane>> free_ GUARDED_BY(mutex_);  // the last is taken first
  uint32_t lent_ GUARDED_BY(mutex_) = 0;
};

}  // namespace dfkv::client
