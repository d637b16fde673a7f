// What the connections of a TCP server share: limits, metrics, the table of connections. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "base/sync.h"
#include "net/tcp/options.h"
#include "net/transport.h"
#include "wire/decode.h"

namespace dfkv::net {

// Why a connection ended: the `reason` label of dfkv_tcp_closed_total.
enum class CloseReason : uint8_t {
  kPeer,        // the peer closed between frames
  kIdle,        // no request for idle_ms
  kEvicted,     // made room for a new connection
  kStopped,     // the node stops
  kProtocol,    // malformed or refused frames
  kDeadline,    // a frame did not arrive in time
  kWriteStall,  // the peer did not take its answers
  kBroken,      // reset, or closed within a frame
  kRefused,     // no connection was free
};
constexpr size_t kCloseReasons = 9;
std::string_view CloseReasonName(CloseReason reason);

struct TcpMetrics {
  explicit TcpMetrics(MetricRegistry& registry);
  Counter* accepts;
  Gauge* open;
  Counter* rejected;
  Counter* evicted;
  Counter* protocol_errors;
  Counter* closed[kCloseReasons];
  Counter* received_bytes;
  Counter* sent_bytes;
  Counter* copied_bytes;  // payload that came with a frame's head and was copied once
  Counter* sends;
  Counter* receives;
  Gauge* output_bytes;
};

// A node that looks this much after a deadline was late itself.
constexpr Nanos kNodeLate = 10 * kMillisecond;

// How long `bytes` take at `rate` bytes a second.
inline Nanos TransferTime(uint64_t bytes, uint64_t rate) {
  const double seconds = static_cast<double>(bytes) / static_cast<double>(rate);
  return static_cast<Nanos>(seconds * static_cast<double>(kSecond));
}

// Lets a few lines a second through and counts the rest.
class LogLimiter {
 public:
  // True when the line may be written; *suppressed: lines dropped since the last one.
  bool Allow(Nanos now, uint64_t* suppressed);

 private:
  static constexpr uint32_t kLinesPerSecond = 5;
  Mutex mutex_;
  Nanos window_ GUARDED_BY(mutex_) = 0;
  uint32_t lines_ GUARDED_BY(mutex_) = 0;
  uint64_t suppressed_ GUARDED_BY(mutex_) = 0;
};

// One connection as the other threads see it.
struct ConnectionInfo {
  uint64_t id = 0;
  uint32_t shard = 0;
  bool refused = false;  // is only told that no connection is free
  bool leaving = false;  // the table's: was chosen to make room
  std::atomic<Nanos> last_active{0};
  std::atomic<bool> evictable{true};  // no request in flight, no frame half received
};

class ConnectionTable {
 public:
  struct Counts {
    size_t serving = 0;  // without the refused, and without those that make room
    size_t pending = 0;  // of these: on their way to their reactor
    size_t refused = 0;
  };
  void Reserve(bool refused);  // a connection is on its way to its reactor: it counts from now on
  void Add(ConnectionInfo* info);
  void Remove(ConnectionInfo* info);
  Counts counts();
  struct Found {
    uint64_t id;
    uint32_t shard;
  };
  // The evictable connection that has been quiet for longest; it is taken to be leaving until Keep or Remove.
  std::optional<Found> TakeIdlest();
  void Keep(ConnectionInfo* info);  // it became busy meanwhile and stays
  // False when connections are left at `until` (of the system clock).
  bool WaitEmptyBlocking(Nanos until);

 private:
  Mutex mutex_;
  std::vector<ConnectionInfo*> all_ GUARDED_BY(mutex_);
  size_t size_ GUARDED_BY(mutex_) = 0;  // reserved and not removed
  size_t refused_ GUARDED_BY(mutex_) = 0;
  size_t leaving_ GUARDED_BY(mutex_) = 0;
  CondVar empty_;
};

struct TcpShared {
  TcpShared(const TcpOptions& o, RequestHandler* h, MetricRegistry& registry);

  const TcpOptions options;
  RequestHandler* const handler;
  TcpMetrics metrics;
  ConnectionTable table;
  LogLimiter log;
  std::atomic<uint64_t> output_bytes{0};  // queued on all connections
  const wire::HelloBody hello;            // what this node states
  const wire::FrameLimits limits;         // of frames after HELLO
  const size_t receive_buffer_bytes;      // holds the largest header and meta
};

}  // namespace dfkv::net
