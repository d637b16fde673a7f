// Client: one handle to a set of nodes. Thread-safe; calls block their thread, bounded by one deadline.
//
// A call checks out a lane (a private reactor with its own connections), fans its keys out over the hash
// ring, runs one event loop in the calling thread until every item has a code or the deadline has passed, and
// gives the lane back. Values are received straight into the caller's buffers. No memory of the caller is
// used after a call returned. A batch's result is one Code per item; the call's own Status is an error only
// when nothing could be tried (Invalid).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/metric.h"
#include "base/status.h"

namespace dfkv::client {

inline constexpr char kTransportMode[] = "tcp(rdma-not-requested)";

struct ClientOptions {
  std::string members;              // "name=ip:port,name2=ip:port[*weight]"
  bool members_required = true;     // otherwise none may be named, and every item is Unavailable
  std::string key_namespace;        // bytes, not empty
  uint32_t stall_ms = 1000;         // a call's default deadline is stall_ms + bytes / min_rate
  uint64_t min_rate = 64ull << 20;  // bytes per second
  uint32_t connect_ms = 1000;
  uint32_t lanes_max = 64;    // threads that may be in a call at once; more wait for a lane
  uint32_t idle_ms = 30'000;  // a connection unused for this long is closed
  uint32_t peer_cooldown_ms =
      2000;  // after a failure a peer is avoided until a probe succeeds; doubles up to the maximum
  uint32_t peer_cooldown_max_ms = 30'000;
  uint32_t spin_us = 0;  // busy-poll this long before sleeping
  bool verify = true;    // check the CRC of every value received whole
};

struct CallOptions {
  uint32_t deadline_ms = 0;  // 0: the client's default rule
};

struct PutItem {
  ByteSpan key;                      // within the client's namespace, not empty
  std::span<const ByteSpan> pieces;  // the value, in order; total > 0
  uint32_t depth = UINT32_MAX;       // position in the prefix chain; UINT32_MAX: unknown
};

struct GetItem {
  ByteSpan key;
  std::span<const MutableByteSpan> pieces;  // filled in order; total is the capacity
  bool exact = false;                       // hit only if the stored length equals the capacity
  bool range = false;                       // fetch [offset, offset + capacity) only
  uint64_t offset = 0;
};

struct ItemResult {
  Code code = Code::kUnavailable;
  uint64_t length =
      0;  // GET, Lookup: the stored length when known (also with TooSmall); range: bytes received
};

class Core;

class Client {
 public:
  // Invalid names the option; no connection is made yet.
  static Result<std::unique_ptr<Client>> Open(const ClientOptions& options);
  // One that shares its options, peers and metrics with asynchronous calls (async.h).
  static std::unique_ptr<Client> On(std::shared_ptr<Core> core);
  virtual ~Client() = default;

  // `results` has as many elements as `items`/`keys`. Order of keys is chain order where there is one.
  virtual Status Put(std::span<const PutItem> items, const CallOptions& call,
                     std::span<ItemResult> results) = 0;
  virtual Status Get(std::span<const GetItem> items, const CallOptions& call,
                     std::span<ItemResult> results) = 0;
  virtual Status Exist(std::span<const ByteSpan> keys, const CallOptions& call,
                       std::span<ItemResult> results) = 0;
  // NotFound: it was absent already.
  virtual Status Remove(std::span<const ByteSpan> keys, const CallOptions& call,
                        std::span<ItemResult> results) = 0;
  virtual Status Lookup(std::span<const ByteSpan> keys, const CallOptions& call,
                        std::span<ItemResult> results) = 0;
  // Number of leading keys that are present.
  virtual Result<uint64_t> Match(std::span<const ByteSpan> keys, const CallOptions& call) = 0;
  // A node's metrics as text. `member` is a name from the list.
  virtual Result<std::string> Stats(const std::string& member, const CallOptions& call) = 0;

  virtual MetricRegistry& metrics() = 0;
};

}  // namespace dfkv::client
