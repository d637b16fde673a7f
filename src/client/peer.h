// Peer: what all lanes of a client know about one member: where it is, and whether it may be used now.
//
// A peer that fails or falls silent is avoided at once by every call; its objects are then immediate misses.
// After a cooldown, which doubles with every probe that fails, one call may probe it. Any thread.
#pragma once

#include <atomic>

#include "base/clock.h"
#include "base/status.h"
#include "base/sync.h"
#include "client/metrics.h"
#include "cluster/member.h"

namespace dfkv::client {

struct PeerOptions {
  Nanos stall = kSecond;  // silence of this length, over calls that follow each other, is a failure
  Nanos cooldown = 2 * kSecond;
  Nanos cooldown_max = 30 * kSecond;
};

class Peer {
 public:
  enum class Access : uint8_t {
    kUse,
    kProbe,  // avoided until now; this caller, and no other for a cooldown, may find out on a fresh
             // connection
    kAvoid,
  };

  Peer(const cluster::Member& member, const PeerOptions& options, ClientMetrics& metrics);

  Access Ask(Nanos now) { return avoided_.load(std::memory_order_acquire) ? AskAvoided(now) : Access::kUse; }
  // Bytes arrived: it lives.
  void ReportHeard(Nanos now) {
    if (suspect_.load(std::memory_order_relaxed)) ClearSuspicion(now);
  }
  // A connection broke, or nothing came for the stall time.
  void ReportFailure(Nanos now, const Status& why);
  // A call gave up after waiting from `begin` to `end` without a byte. Waits shorter than the stall time add
  // up.
  void ReportSilence(Nanos begin, Nanos end);

  bool avoided() const { return avoided_.load(std::memory_order_acquire); }
  const cluster::Member& member() const { return member_; }
  const PeerMetrics& metrics() const { return peer_metrics_; }

 private:
  Access AskAvoided(Nanos now);
  void ClearSuspicion(Nanos now);
  void Avoid(Nanos now, const Status& why) REQUIRES(mutex_);

  const cluster::Member member_;
  const PeerOptions options_;
  ClientMetrics& metrics_;
  const PeerMetrics peer_metrics_;

  std::atomic<bool> avoided_{false};
  std::atomic<bool> suspect_{false};  // avoided, or silent for a while: a byte heard changes something
  Mutex mutex_;
  Nanos cooldown_ GUARDED_BY(mutex_);
  Nanos probe_at_ GUARDED_BY(mutex_) = 0;
  Nanos recovered_at_ GUARDED_BY(mutex_) = 0;
  Nanos silent_ GUARDED_BY(mutex_) = 0;        // waited without a byte, overlapping waits counted once
  Nanos silent_until_ GUARDED_BY(mutex_) = 0;  // end of the last such wait
};

}  // namespace dfkv::client
