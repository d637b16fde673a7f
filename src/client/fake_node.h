// FakeNode: a node for tests, in this process: keeps objects in a map, speaks the wire protocol, and does
// what a test tells it to: answer out of order, in pieces, wrongly, late or never. It passes the same tests
// as a real node (client_test.cc runs them on both where a real one is there).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/sync.h"
#include "wire/decode.h"
#include "wire/frame.h"

namespace dfkv::client {

struct FakeNodeOptions {
  uint16_t port = 0;  // 0: a free one
  uint32_t items_max = 4096;
  uint64_t payload_bytes_max = 256ull << 20;
  uint64_t object_bytes_max = 64ull << 20;
  uint32_t requests_in_flight_max = 64;
  uint32_t items_per_frame = 0;  // 0: all in one; otherwise an answer goes in several frames
  bool reverse = false;          // items are answered last to first
  uint64_t stats_bytes = 0;      // of the answer to STATS; 0: what there is to say
  size_t slow_read_bytes = 0;    // payloads are read this many bytes at a time, with pauses; 0: at once
  Code hello_code = Code::kOk;   // HELLO is refused with it
};

// What to do with a request.
enum class FakeAction : uint8_t {
  kAnswer,
  kHold,          // answers nothing, not even PING, until Release; then goes on
  kSlow,          // holds this request alone, answering PING, until Release
  kClose,         // closes the connection
  kCloseHalfway,  // sends the head and half of the payload, then closes
  kStopHalfway,   // sends the head and half of the payload, the rest after Release
  kFlipByte,      // of every value sent
  kGarbage,       // sends random bytes
  kTwice,         // answers the first item twice
  kTooLong,       // sends one byte more than was asked for
  kMissing,       // leaves the last item out
  kTooMany,       // MATCH: names a key more than was asked for
  kShort,         // leaves the last byte of every value out
  kWrongIndex,    // names items beyond the request
  kBusy,          // refuses the request as a whole
};

class FakeNode {
 public:
  using Script = std::function<FakeAction(const wire::RequestView& request)>;

  explicit FakeNode(FakeNodeOptions options = {});
  ~FakeNode();

  std::string address() const;
  uint16_t port() const { return port_; }
  // Called for every request but PING, on the connection's thread.
  void set_script(Script script) {
    MutexLock lock(mutex_);
    script_ = std::move(script);
  }
  // Connections after the first `count` get no answer to HELLO until Release.
  void refuse_hello_after(uint64_t count) { hellos_ = count; }
  void Release();           // lets held requests go on
  void CloseConnections();  // as a restart would
  void StopListening();

  size_t object_count() const;
  uint64_t requests(wire::Op op) const;        // received so far
  uint64_t connections() const;                // accepted so far
  uint64_t halves() const { return halves_; }  // of payloads sent, by kStopHalfway
  uint32_t depth_of(const ObjectKey& key) const;

 private:
  struct Object {
    std::vector<std::byte> bytes;
    uint32_t depth = 0;
  };
  struct Connection {
    int fd = -1;
    Thread thread;
  };
  struct Request {
    std::vector<std::byte> frame;
    wire::RequestView view;
    std::vector<std::byte> payload;
  };
  struct Reply {
    std::vector<wire::AnswerItem> items;
    std::vector<std::vector<std::byte>> values;  // beside items
  };
  void Accept();
  void Serve(int fd);
  bool Hello(int fd);
  bool ReadRequest(int fd, Request* request);
  bool Handle(int fd, Request& request);
  bool WaitForRelease(int fd, bool answer_pings);
  bool ReadSlowly(int fd, MutableByteSpan into);
  Reply Execute(const Request& request);
  wire::AnswerItem Put(const ObjectKey& key, const wire::PutItem& item, ByteSpan value);
  wire::AnswerItem Get(const ObjectKey& key, const wire::GetItem& item, bool range,
                       std::vector<std::byte>* value);
  wire::AnswerItem OnKey(wire::Op op, const ObjectKey& key);
  bool Match(int fd, const Request& request, FakeAction action);
  bool Stats(int fd, const Request& request);
  bool SendReply(int fd, const Request& request, Reply reply, FakeAction action);
  bool SendFrame(int fd, const Request& request, std::span<const wire::AnswerItem> items, bool more,
                 std::span<const std::vector<std::byte>> values, FakeAction action);
  void Spoil(Reply& reply, FakeAction action) const;

  const FakeNodeOptions options_;
  std::atomic<uint64_t> hellos_{UINT64_MAX};
  std::atomic<uint64_t> halves_{0};
  int listener_ = -1;
  uint16_t port_ = 0;
  Thread acceptor_;

  mutable Mutex mutex_;
  CondVar changed_;
  Script script_ GUARDED_BY(mutex_);
  std::map<ObjectKey, Object> objects_ GUARDED_BY(mutex_);
  std::list<Connection> connections_ GUARDED_BY(mutex_);
  std::map<wire::Op, uint64_t> requests_ GUARDED_BY(mutex_);
  uint64_t accepted_ GUARDED_BY(mutex_) = 0;
  bool released_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
};

}  // namespace dfkv::client
