// Transport: how requests reach a node and answers leave it. Implementations: tcp (others follow).
//
// A transport decodes and validates frames, enforces limits and deadlines, and calls a RequestHandler on the
// reactor thread that owns the connection. The handler answers through the ServerCall it was given: at once
// or later, but from that same thread; in any order, item by item. Nothing here blocks.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "io/reactor.h"
#include "net/pin.h"
#include "wire/decode.h"
#include "wire/frame.h"

namespace dfkv::net {

// One request being answered; belongs to its connection's thread. The handler ends it exactly once: by an
// Answer with `last`, AnswerMatch, AnswerText or Fail. Afterwards the call must not be touched. When the
// connection dies first, answers go nowhere, but the call still has to be ended.
class ServerCall {
 public:
  virtual ~ServerCall() = default;

  // Answers some items. `values` are the payloads of those items whose payload_bytes is not zero, in the same
  // order; they are moved from and stay in place until sent. Split into frames as the peer's limits demand.
  // Items whose value exceeds the peer's frame limit are answered TooLarge. No allocation.
  virtual void Answer(std::span<const wire::AnswerItem> items, std::span<Value> values, bool last) = 0;
  virtual void AnswerMatch(uint32_t present) = 0;
  virtual void AnswerText(std::string text) = 0;  // STATS; PING with an empty text
  virtual void Fail(const Status& status) = 0;    // the request as a whole; not after an Answer

  // Bytes of values that may be queued on this connection now. An Answer with more is not refused, but a
  // handler that pins storage asks first, and waits for room with WaitForRoom.
  virtual uint64_t OutputRoom() const = 0;
  // Ok as soon as OutputRoom() is at least min(bytes, half of the limit). The bytes then count as queued, so
  // that nobody else finds the same room, until LeaveRoom, which the handler calls just before the Answer
  // that they were for, or when there will be none. Timeout: no room by the call's deadline. Cancelled: the
  // connection is gone.
  virtual io::Task<Status> WaitForRoom(uint64_t bytes) = 0;
  virtual void LeaveRoom(uint64_t bytes) = 0;

  void* state = nullptr;    // the handler's
  Nanos deadline = kNever;  // of the request, absolute, from its deadline_ms or the default
  io::Reactor* reactor = nullptr;
  uint32_t lane = 0;  // which of the transport's reactors that is
};

// Where a value of a PUT goes.
struct Place {
  enum class Kind : uint8_t {
    kReceive,  // into `buffer`, as long as the item's length
    kDiscard,  // read and forget
    kWait,     // ask again at `again`: the sender is held back meanwhile
  };
  Kind kind = Kind::kDiscard;
  MutableByteSpan buffer;
  Nanos again = 0;
};

// The node's side. Called on the connection's thread; never blocks.
class RequestHandler {
 public:
  virtual ~RequestHandler() = default;

  // A request without payload, any operation but HELLO and PUT. `request` is valid during the call.
  virtual void OnRequest(const wire::RequestView& request, ServerCall* call) = 0;

  // A PUT whose items are known; nothing is reserved yet. Then, for each item in order, once the first bytes
  // of its value can be read (at once for an empty one): PlaceValue until it does not say kWait, and OnValue
  // when all bytes have arrived or were discarded. Small values that follow each other are placed together,
  // when the first byte of the first can be read. `crc` is the CRC32C of the received bytes (0 when
  // discarded). The call is ended by the handler, not before the last OnValue.
  virtual void OnPut(const wire::RequestView& request, ServerCall* call) = 0;
  virtual Place PlaceValue(ServerCall* call, uint32_t index) = 0;
  virtual void OnValue(ServerCall* call, uint32_t index, uint32_t crc) = 0;
  // The transfer broke off in front of or within item `index`: its place, and those of items after it, are
  // given back; no further item arrives. The call still has to be ended.
  virtual void OnAbandoned(ServerCall* call, uint32_t index) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  // Starts to accept. Unavailable: the address cannot be used; the text names it and says why.
  virtual Status StartBlocking() = 0;
  // Refuses new connections and new requests, lets the requests in flight end within `grace`, closes. Returns
  // Ok when nothing is left, Timeout when calls have not ended; the transport must then not be destroyed.
  virtual Status StopBlocking(Nanos grace) = 0;
  virtual std::string address() const = 0;  // "127.0.0.1:4321", once started
  virtual uint16_t port() const = 0;
};

}  // namespace dfkv::net
