#include "client/lane.h"

#include <algorithm>

#include "base/check.h"
#include "base/fault.h"

namespace dfkv::client {

Result<std::unique_ptr<Lane>> Lane::Make(std::span<const std::unique_ptr<Peer>> peers,
                                         const LaneOptions& options, ClientMetrics& metrics) {
  io::ReactorOptions reactor_options;
  // A lane goes from thread to thread, which io_uring with a single issuer does not allow.
  reactor_options.kind = io::ReactorKind::kEpoll;
  reactor_options.spin.max = options.spin;
  Result<std::unique_ptr<io::Reactor>> reactor = io::MakeReactor(reactor_options);
  if (!reactor.ok()) return reactor.status();
  auto lane = std::make_unique<Lane>(**reactor, peers, options, metrics);
  lane->own_reactor_ = std::move(*reactor);
  return lane;
}

Lane::Lane(io::Reactor& reactor, std::span<const std::unique_ptr<Peer>> peers, const LaneOptions& options,
           ClientMetrics& metrics)
    : reactor_(reactor), peers_(peers), options_(options), metrics_(metrics) {
  connections_.resize(peers.size());
}

Lane::~Lane() {
  const auto settled = [this] {
    return std::all_of(connections_.begin(), connections_.end(),
                       [](const auto& connection) { return !connection || connection->settled(); });
  };
  for (const auto& connection : connections_) {
    if (connection) connection->Close();
  }
  if (!settled()) reactor_.RunUntil(settled);
  connections_.clear();
}

bool Lane::opening() const {
  return std::any_of(connections_.begin(), connections_.end(),
                     [](const auto& connection) { return connection && connection->opening(); });
}

Connection& Lane::ConnectionTo(uint32_t peer) {
  std::unique_ptr<Connection>& connection = connections_[peer];
  if (!connection) {
    connection = std::make_unique<Connection>(reactor_, *peers_[peer], options_.connection, metrics_);
  }
  return *connection;
}

void Lane::Begin(Batch& work) {
  const Nanos now = reactor_.Now();
  // A probe that an earlier call left behind may have got no answer for too long.
  for (const auto& connection : connections_) {
    if (connection && connection->opening()) connection->Tick(now);
  }
  work_ = &work;
  active_.clear();
  probing_.clear();
  gave_up_ = false;
  probe_until_ = now + std::min(options_.probe_wait, (work.deadline - now) / 2);
  work.shares_open = static_cast<uint32_t>(work.shares.size());
  for (Share& share : work.shares) {
    const Peer::Access access = peers_[share.peer]->Ask(now);
    if (access == Peer::Access::kAvoid) {
      metrics_.unhealthy_skips.Add(share.count);
      work.AnswerRest(share, Code::kUnavailable);
      --work.shares_open;
      continue;
    }
    Connection& connection = ConnectionTo(share.peer);
    active_.push_back(&connection);
    if (access == Peer::Access::kProbe) probing_.push_back(&connection);
    connection.Begin(&work, &share, access == Peer::Access::kProbe);
  }
}

Nanos Lane::NextTick() const {
  Nanos next = gave_up_ ? kNever : work_->deadline;
  for (const Connection* connection : active_) {
    if (connection->has_share()) next = std::min(next, connection->next_tick());
  }
  if (!probing_.empty()) next = std::min(next, probe_until_);
  return next;
}

void Lane::Tick(Nanos now) {
  for (Connection* connection : active_) {
    if (connection->has_share()) connection->Tick(now);
  }
  if (now >= probe_until_) {
    for (Connection* connection : probing_) {
      if (!connection->has_share() || !connection->opening()) continue;
      DFKV_PROBE("client.lane.probe_left_behind");
      connection->Detach();
    }
    probing_.clear();
  }
  if (now >= work_->deadline && !gave_up_) {
    DFKV_PROBE("client.lane.deadline");
    gave_up_ = true;
    for (Connection* connection : active_) {
      if (connection->has_share()) connection->GiveUp(now);
    }
  }
}

void Lane::Cancel() {
  gave_up_ = true;
  for (Connection* connection : active_) {
    if (connection->has_share()) connection->Withdraw();
  }
}

void Lane::Run(Batch& work) {
  // A probe that an earlier call left behind may have an answer.
  if (opening()) reactor_.RunUntil([] { return false; }, reactor_.Now());
  Begin(work);
  const std::function<bool()> done = [&work] { return work.shares_open == 0; };
  while (!done()) {
    if (reactor_.RunUntil(done, NextTick())) break;
    Tick(reactor_.Now());
  }
}

void Lane::CloseIdle() {
  const Nanos now = reactor_.Now();
  for (const auto& connection : connections_) {
    if (!connection || !connection->open() || now - connection->last_used() < options_.idle) continue;
    DFKV_PROBE("client.lane.idle");
    metrics_.retired_idle.Add();
    connection->Close();
  }
}

LanePool::~LanePool() {
  MutexLock lock(mutex_);
  DFKV_CHECK(lent_ == 0);
  free_.clear();
}

Result<std::unique_ptr<Lane>> LanePool::Take(Nanos deadline) {
  std::unique_ptr<Lane> lane;
  {
    MutexLock lock(mutex_);
    while (lent_ >= lanes_max_) {
      const Nanos left = deadline - SystemClock().Now();
      if (left <= 0) return Status(Code::kBusy, "no lane became free before the deadline");
      DFKV_PROBE("client.lane_pool.wait");
      (void)given_back_.WaitFor(mutex_, left);
    }
    ++lent_;
    if (!free_.empty()) {
      lane = std::move(free_.back());
      free_.pop_back();
    }
  }
  metrics_.lane_selections.Add();
  metrics_.lanes_in_use.Add(1);
  if (lane) {
    lane->CloseIdle();
    return lane;
  }
  if (shared_ != nullptr) return std::make_unique<Lane>(*shared_, peers_, options_, metrics_);
  Result<std::unique_ptr<Lane>> made = Lane::Make(peers_, options_, metrics_);
  if (!made.ok()) GiveBack(nullptr);
  return made;
}

void LanePool::GiveBack(std::unique_ptr<Lane> lane) {
  metrics_.lanes_in_use.Add(-1);
  if (lane) lane->Touch();
  std::unique_ptr<Lane> idle;  // the one unused for longest goes when it has been unused for long
  {
    MutexLock lock(mutex_);
    --lent_;
    if (lane) free_.push_back(std::move(lane));
    if (free_.size() > 1 && free_.back()->last_used() - free_.front()->last_used() >= options_.idle) {
      idle = std::move(free_.front());
      free_.erase(free_.begin());
    }
    given_back_.NotifyOne();
  }
}

}  // namespace dfkv::client
