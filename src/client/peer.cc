#include "client/peer.h"

#include <algorithm>

#include "base/fault.h"
#include "base/log.h"
#include "base/text.h"

namespace dfkv::client {

Peer::Peer(const cluster::Member& member, const PeerOptions& options, ClientMetrics& metrics)
    : member_(member),
      options_(options),
      metrics_(metrics),
      peer_metrics_(metrics.ForPeer(member.name)),
      cooldown_(options.cooldown) {}

Peer::Access Peer::AskAvoided(Nanos now) {
  MutexLock lock(mutex_);
  if (!avoided_.load(std::memory_order_relaxed)) return Access::kUse;
  if (now < probe_at_) return Access::kAvoid;
  cooldown_ = std::min(cooldown_ * 2, options_.cooldown_max);
  probe_at_ = now + cooldown_;
  metrics_.health_checks.Add();
  DFKV_PROBE("client.peer.probe");
  return Access::kProbe;
}

void Peer::ClearSuspicion(Nanos now) {
  MutexLock lock(mutex_);
  suspect_.store(false, std::memory_order_relaxed);
  silent_ = 0;
  if (!avoided_.load(std::memory_order_relaxed)) return;
  avoided_.store(false, std::memory_order_release);
  recovered_at_ = now;
  metrics_.recovered.Add();
  metrics_.peers_avoided.Add(-1);
  LogInfo("peer ", member_.name, " (", member_.address, ") answers again");
}

void Peer::ReportFailure(Nanos now, const Status& why) {
  peer_metrics_.errors->Add();
  MutexLock lock(mutex_);
  Avoid(now, why);
}

void Peer::ReportSilence(Nanos begin, Nanos end) {
  MutexLock lock(mutex_);
  silent_ += std::max<Nanos>(0, end - std::max(begin, silent_until_));
  silent_until_ = std::max(silent_until_, end);
  suspect_.store(true, std::memory_order_relaxed);
  if (silent_ < options_.stall) return;
  peer_metrics_.errors->Add();
  DFKV_PROBE("client.peer.silence_adds_up");
  Avoid(end, Status(Code::kTimeout, Cat("no byte in ", silent_ / kMillisecond, " ms of waiting")));
}

void Peer::Avoid(Nanos now, const Status& why) {
  if (avoided_.load(std::memory_order_relaxed)) return;  // what failed is the probe; AskAvoided grew the wait
  // A peer that fails again soon after it recovered keeps its longer cooldown.
  if (now - recovered_at_ > 2 * cooldown_) cooldown_ = options_.cooldown;
  probe_at_ = now + cooldown_;
  silent_ = 0;
  suspect_.store(true, std::memory_order_relaxed);
  avoided_.store(true, std::memory_order_release);
  metrics_.marked_bad.Add();
  metrics_.peers_avoided.Add(1);
  LogWarn("peer ", member_.name, " (", member_.address, ") is avoided for ", cooldown_ / kMillisecond,
          " ms, then probed: ", why.ToString());
}

}  // namespace dfkv::client
