// Connection: a lane's connection to one peer. It sends the requests of one share of a batch and receives the
// answers, values straight into the caller's buffers.
//
// Invariants:
//  - At most one operation that sends and one that receives is in flight. Their memory (the connection's own,
//    or the caller's while a share is attached) stays in place until they have ended: a share ends only when
//    no operation can touch the caller's memory any more.
//  - A share that cannot be finished costs the connection: it is closed, so that a late answer has no taker.
//  - Requests of a share are numbered from id_base_; their items are neighbours in Batch::order.
// Threads: that of the call which has checked out the lane.
#pragma once

#include <memory>
#include <vector>

#include "client/batch.h"
#include "client/client.h"
#include "client/metrics.h"
#include "client/peer.h"
#include "io/fd.h"
#include "io/reactor.h"
#include "wire/decode.h"

namespace dfkv::client {

struct ConnectionOptions {
  Nanos stall = kSecond;  // silence after which the peer counts as dead
  Nanos connect = kSecond;
  bool verify = true;
};

class Connection {
 public:
  Connection(io::Reactor& reactor, Peer& peer, const ConnectionOptions& options, ClientMetrics& metrics);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();  // no operation may be in flight: see Close and settled

  // Takes on a share; its items get their codes from the reactor's loop, then batch.shares_open drops by one.
  // No other share may be attached. `probe`: on a fresh connection.
  void Begin(Batch* batch, Share* share, bool probe);
  // The call's deadline has passed: the share ends, its open items Timeout, once no operation is in flight.
  void GiveUp(Nanos now);
  // The call is withdrawn: as GiveUp, but its open items are Cancelled, and the peer is not to blame.
  void Withdraw();
  // Ends the share now with Unavailable, but goes on finding out whether the peer lives. Only while no
  // request has been sent.
  void Detach();
  // Closes as soon as the operations in flight have ended.
  void Close();

  bool has_share() const { return share_ != nullptr; }
  bool opening() const { return state_ == State::kConnecting || state_ == State::kHello; }
  bool settled() const { return !send_busy_ && !receive_busy_ && (!second_ || second_->settled()); }
  Nanos last_used() const { return last_used_; }
  bool open() const { return state_ != State::kClosed; }

  // When Tick wants to be called; kNever when there is nothing to wait for.
  Nanos next_tick() const;
  // Asks a silent peer with a PING, one that takes no more of a PUT on a second connection; drops it when
  // that brings nothing either.
  void Tick(Nanos now);

 private:
  // A value of at least this size is received where the caller wants it, not by way of buffer_.
  static constexpr uint64_t kDirectBytesMin = 2048;

  enum class State : uint8_t { kClosed, kConnecting, kHello, kReady, kClosing };
  struct Request {
    uint64_t id = 0;
    uint32_t first = 0;  // of its items, in the share
    uint32_t count = 0;
    uint32_t answered = 0;
    uint64_t bytes = 0;  // expected in answer to a GET
  };
  struct Part {  // a value on its way
    uint32_t item = 0;
    uint64_t bytes = 0;
    uint64_t stored_length = 0;
    uint32_t crc = 0;  // of what has arrived
    uint32_t crc_expected = 0;
  };
  struct Cursor {  // a place in the destination of parts_
    size_t part = 0;
    uint64_t done = 0;  // bytes of the part before it
    size_t piece = 0;
    uint64_t offset = 0;  // in the piece
  };

  // connection.cc: opening, closing, failing
  void Ask(Nanos now);
  void Connect();
  void OnConnected(int64_t result);
  void Fail(const Status& why);
  void Shut();
  void Closed();
  void EndShare();
  void EndShareIfComplete();

  // connection_send.cc
  void Pump();  // puts the next thing to send into the queue and sends
  bool NextRequest();
  bool RefuseHere(uint32_t item);
  uint32_t ItemsOfPut(uint64_t* payload_bytes) const;
  uint32_t ItemsOfGet(uint64_t* expected_bytes) const;
  uint64_t ExpectedBytes(uint32_t item) const;
  void EncodeRequest(uint64_t id, uint32_t count, uint64_t payload_bytes);
  void QueueHello();
  void QueuePing();
  void Queue(size_t head_bytes);
  void StartSend();
  void OnSent(int64_t result);

  // connection_receive.cc
  bool wants_bytes() const;
  bool answering() const;
  uint64_t HeadBytesWanted() const;
  void StartReceive();
  void AddCallerMemory();
  void AddBuffer(uint64_t bytes);
  void OnReceived(int64_t result);
  void Parse();
  bool ParseStep();
  void HandleHello(ByteSpan frame);
  void HandleAnswer(ByteSpan frame);
  void HandleBody(const wire::AnswerView& answer, Request& request);
  void HandleMatch(const wire::AnswerView& answer, Request& request);
  void HandleStats(Request& request);
  void HandleItems(const wire::AnswerView& answer, Request& request);
  Status HandleItem(const wire::AnswerItem& item, Request& request);
  void FrameDone();
  MutableByteSpan SpanAt(Cursor& cursor) const;
  void Step(Cursor& cursor, uint64_t bytes) const;
  void Received(uint64_t bytes);
  void TakeFromBuffer();
  void PartDone(const Part& part);
  Request* FindRequest(uint64_t id);

  io::Reactor& reactor_;
  Peer& peer_;
  const ConnectionOptions options_;
  ClientMetrics& metrics_;

  State state_ = State::kClosed;
  io::UniqueFd fd_;
  bool reconnect_ = false;  // after closing, the share starts again on a fresh connection
  bool pooled_ = false;     // open since an earlier call: it may have been closed by the peer meanwhile
  bool heard_ = false;      // a byte arrived since Begin
  Code end_code_ = Code::kUnavailable;  // of the items that are open when the share ends
  Nanos began_ = 0;
  Nanos last_progress_ = 0;
  Nanos last_used_ = 0;
  Nanos pinged_at_ = 0;  // 0: no PING since the last progress
  Nanos connect_until_ = 0;
  wire::HelloBody
      agreed_;  // what holds on this connection; before HELLO was answered, what this side accepts

  Batch* batch_ = nullptr;
  Share* share_ = nullptr;
  std::vector<Request> requests_;  // in flight
  uint64_t expected_bytes_ = 0;    // of requests_, together
  uint64_t value_bytes_seen_ = 0;  // of the last value received; 0: none yet
  uint64_t id_next_ = 1;

  // A node may stop reading a PUT while it has no room, and then reads no PING behind it either: it is asked
  // with the HELLO of a second connection, made for that alone.
  std::unique_ptr<Connection> second_;

  // Sending.
  io::Op send_op_;
  bool send_busy_ = false;
  bool ping_wanted_ = false;
  bool parsing_ = false;
  std::vector<std::byte> head_;  // header and meta of the frame being sent
  std::vector<iovec> queue_;     // of the frame being sent: head_, then the caller's memory
  size_t queue_at_ = 0;
  std::vector<wire::PutItem> put_items_;
  std::vector<wire::GetItem> get_items_;
  std::vector<wire::KeyItem> key_items_;

  // Receiving.
  io::Op receive_op_;
  bool receive_busy_ = false;
  std::vector<std::byte> buffer_;  // heads of frames, and values small enough to come along
  size_t begin_ = 0;               // of what was received into buffer_ and not used
  size_t end_ = 0;
  wire::FrameHeader header_;
  bool header_known_ = false;
  bool in_payload_ = false;
  bool more_ = false;
  uint64_t request_id_ = 0;  // of the frame that is being received
  std::vector<Part> parts_;
  Cursor cursor_;
  std::vector<iovec> receive_iov_;
  uint64_t receive_direct_ = 0;  // bytes of receive_iov_ that go to the caller
  bool direct_ = false;          // values are large: ask for heads only, so that values go to the caller
};

}  // namespace dfkv::client
