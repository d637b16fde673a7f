// WireClient: a small blocking client for tests and measurements, straight over the codecs. One thread. It
// can also misbehave: send raw bytes, stop in the middle, leave answers unread.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/status.h"
#include "wire/decode.h"
#include "wire/encode.h"

namespace dfkv::net {

struct ClientItem {
  Code code = Code::kUnavailable;
  uint64_t stored_length = 0;
  std::string value;
  bool crc_ok = true;
};

// All frames of one request together.
struct ClientAnswer {
  Code code = Code::kUnavailable;  // of the whole request
  std::string message;
  std::map<uint32_t, ClientItem> items;
  std::vector<uint32_t> order;  // of the items' arrival
  uint32_t present = 0;         // MATCH
  std::string text;             // STATS
  uint32_t frames = 0;
};

struct ClientPut {
  ObjectKey key;
  std::string_view value;
  uint32_t depth = UINT32_MAX;
};

struct ClientGet {
  ObjectKey key;
  uint64_t length = 1 << 26;
  uint64_t offset = 0;
};

class WireClient {
 public:
  WireClient() = default;
  WireClient(const WireClient&) = delete;
  WireClient& operator=(const WireClient&) = delete;
  WireClient(WireClient&& other) noexcept;
  ~WireClient() { Close(); }

  // Connects to 127.0.0.1. A receive fails with Timeout when nothing comes for `timeout_ms`.
  Status Connect(uint16_t port, int timeout_ms = 20'000);
  Status Hello();  // with generous limits; the node's are kept in node()
  Status ConnectAndHello(uint16_t port) {
    DFKV_RETURN_IF_ERROR(Connect(port));
    return Hello();
  }
  void Close();
  int fd() const { return fd_; }
  const wire::HelloBody& node() const { return node_; }
  wire::HelloBody& mine() { return mine_; }

  // --- Bytes ---
  Status SendRaw(ByteSpan bytes);  // all of them
  Status SendRaw(std::string_view bytes) { return SendRaw(AsBytes(bytes)); }
  // True when the node has closed (or reset) the connection; reads and drops what still comes.
  bool ClosedByNode();
  void ShutdownSending();

  // --- Frames without waiting ---
  uint64_t SendPut(const std::vector<ClientPut>& items);
  // Header and meta alone: the values are the caller's to send, or not.
  uint64_t SendPutHead(const std::vector<ClientPut>& items, const std::vector<uint64_t>& lengths);
  uint64_t SendGet(const std::vector<ClientGet>& items, wire::Op op = wire::Op::kGet);
  uint64_t SendKeys(wire::Op op, const std::vector<ObjectKey>& keys);
  uint64_t SendPlain(wire::Op op);

  // --- Answers ---
  // Waits for the last frame of that request; frames of other requests are kept for theirs.
  Result<ClientAnswer> Await(uint64_t request_id);
  // One frame of any request; its id.
  Result<uint64_t> ReadFrame();

  // --- Round trips of one item ---
  Code Put(const ObjectKey& key, std::string_view value);
  ClientItem Get(const ObjectKey& key, uint64_t capacity = 1 << 26);
  Code Exist(const ObjectKey& key);
  Code Remove(const ObjectKey& key);
  Code Ping();

  uint32_t deadline_ms = 0;  // of the requests sent from now on
  uint64_t tenant = 7;

 private:
  Status ReadFull(MutableByteSpan into);
  Result<ClientItem> RoundTrip(uint64_t request_id);

  int fd_ = -1;
  uint64_t next_id_ = 1;
  wire::HelloBody mine_ = Generous();
  wire::HelloBody node_;
  std::vector<std::byte> scratch_;
  std::map<uint64_t, ClientAnswer> partial_;
  std::map<uint64_t, ClientAnswer> complete_;

  static wire::HelloBody Generous();
};

// An object key made from a number, for tests.
ObjectKey TestKey(uint64_t number, uint64_t tenant = 7);
// The bytes of object `number`.
std::string TestValue(uint64_t number, size_t length);

}  // namespace dfkv::net
