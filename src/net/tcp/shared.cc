#include "net/tcp/shared.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace dfkv::net {
namespace {

constexpr uint32_t kOptionRoom = 4096;  // for options in the meta of a request

uint32_t MetaBytesMax(const TcpOptions& options) {
  const uint64_t wanted =
      sizeof(wire::RequestPrefix) + kOptionRoom +
      uint64_t{options.items_max} * std::max(sizeof(wire::PutItem), sizeof(wire::GetItem));
  return static_cast<uint32_t>(std::min<uint64_t>(wanted, wire::kMetaBytesMax));
}

wire::HelloBody HelloOf(const TcpOptions& options) {
  wire::HelloBody hello;
  hello.payload_bytes_max = options.payload_bytes_max;
  hello.object_bytes_max = options.object_bytes_max;
  hello.items_max = options.items_max;
  hello.requests_in_flight_max = options.requests_in_flight_max;
  hello.incarnation = options.incarnation;
  return hello;
}

}  // namespace

std::string_view CloseReasonName(CloseReason reason) {
  constexpr std::string_view kNames[kCloseReasons] = {
      "peer", "idle", "evicted", "stopped", "protocol", "deadline", "write_stall", "broken", "refused"};
  return kNames[static_cast<size_t>(reason)];
}

TcpMetrics::TcpMetrics(MetricRegistry& registry) {
  accepts = &registry.AddCounter("dfkv_accepts_total", "Connections accepted.");
  open = &registry.AddGauge("dfkv_open_connections", "Connections open now.");
  rejected = &registry.AddCounter("dfkv_tcp_rejected_connections_total",
                                  "Connections refused because none was free or idle.");
  evicted = &registry.AddCounter("dfkv_tcp_evicted_connections_total",
                                 "Idle connections closed to make room for new ones.");
  protocol_errors = &registry.AddCounter("dfkv_tcp_protocol_errors_total", "Malformed or refused frames.");
  for (size_t i = 0; i < kCloseReasons; ++i) {
    closed[i] = &registry.AddCounter("dfkv_tcp_closed_total", "Connections closed, by reason.",
                                     {{"reason", std::string(CloseReasonName(static_cast<CloseReason>(i)))}});
  }
  received_bytes = &registry.AddCounter("dfkv_tcp_received_bytes_total", "Bytes received over TCP.");
  sent_bytes = &registry.AddCounter("dfkv_tcp_sent_bytes_total", "Bytes sent over TCP.");
  copied_bytes = &registry.AddCounter("dfkv_tcp_copied_bytes_total",
                                      "Payload bytes that came with a frame's head and were copied once.");
  sends = &registry.AddCounter("dfkv_tcp_sends_total", "Vectored sends.");
  receives = &registry.AddCounter("dfkv_tcp_receives_total", "Receive operations.");
  output_bytes = &registry.AddGauge("dfkv_tcp_output_bytes", "Bytes of answers that wait to be sent.");
}

bool LogLimiter::Allow(Nanos now, uint64_t* suppressed) {
  MutexLock lock(mutex_);
  if (now - window_ >= kSecond) {
    window_ = now;
    lines_ = 0;
  }
  if (lines_ >= kLinesPerSecond) {
    ++suppressed_;
    return false;
  }
  ++lines_;
  *suppressed = suppressed_;
  suppressed_ = 0;
  return true;
}

void ConnectionTable::Reserve(bool refused) {
  MutexLock lock(mutex_);
  ++size_;
  refused_ += refused ? 1 : 0;
}

void ConnectionTable::Add(ConnectionInfo* info) {
  MutexLock lock(mutex_);
  all_.push_back(info);
}

void ConnectionTable::Remove(ConnectionInfo* info) {
  MutexLock lock(mutex_);
  auto found = std::find(all_.begin(), all_.end(), info);
  DFKV_CHECK(found != all_.end());
  *found = all_.back();
  all_.pop_back();
  refused_ -= info->refused ? 1 : 0;
  leaving_ -= info->leaving ? 1 : 0;
  if (--size_ == 0) empty_.NotifyAll();
}

ConnectionTable::Counts ConnectionTable::counts() {
  MutexLock lock(mutex_);
  return {size_ - refused_ - leaving_, size_ - all_.size(), refused_};
}

std::optional<ConnectionTable::Found> ConnectionTable::TakeIdlest() {
  MutexLock lock(mutex_);
  ConnectionInfo* idlest = nullptr;
  Nanos since = kNever;
  for (ConnectionInfo* info : all_) {
    const Nanos last = info->last_active.load(std::memory_order_relaxed);
    const bool evictable =
        info->evictable.load(std::memory_order_relaxed) && !info->leaving && !info->refused;
    if (last < since && evictable) {
      idlest = info;
      since = last;
    }
  }
  if (idlest == nullptr) return std::nullopt;
  idlest->leaving = true;
  ++leaving_;
  return Found{idlest->id, idlest->shard};
}

void ConnectionTable::Keep(ConnectionInfo* info) {
  MutexLock lock(mutex_);
  if (std::exchange(info->leaving, false)) --leaving_;
}

bool ConnectionTable::WaitEmptyBlocking(Nanos until) {
  MutexLock lock(mutex_);
  while (size_ > 0) {
    const Nanos left = until - SystemClock().Now();
    if (left <= 0) return false;
    (void)empty_.WaitFor(mutex_, left);
  }
  return true;
}

TcpShared::TcpShared(const TcpOptions& o, RequestHandler* h, MetricRegistry& registry)
    : options(o),
      handler(h),
      metrics(registry),
      hello(HelloOf(o)),
      limits{MetaBytesMax(o), o.payload_bytes_max, o.items_max},
      receive_buffer_bytes(AlignUp(wire::kHeaderBytes + MetaBytesMax(o), 4096)) {}

}  // namespace dfkv::net
