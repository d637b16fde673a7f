// TcpConnection: one client. A coroutine receives and understands frames; answers are queued and leave once
// per turn of the reactor in one vectored send.
//
// Invariants: at most one receive and one send are in flight; the object lives until its coroutine, its send
// and all its calls have ended; `broken_` is final, and what is answered afterwards is dropped. A frame's
// bytes are received into a borrowed buffer, a value's bytes into the place that the handler names: only what
// arrives together with a frame's head is copied, and after a PUT heads are read with a small window.
#pragma once

#include <array>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/reactor.h"
#include "io/task.h"
#include "net/tcp/output.h"
#include "net/tcp/shard.h"
#include "net/tcp/shared.h"
#include "net/transport.h"
#include "wire/decode.h"

namespace dfkv::net {

class TcpConnection;

class TcpCall final : public ServerCall {
 public:
  void Begin(TcpConnection* connection, const wire::FrameHeader& header);
  void Answer(std::span<const wire::AnswerItem> items, std::span<Value> values, bool last) override;
  void AnswerMatch(uint32_t present) override;
  void AnswerText(std::string text) override;
  void Fail(const Status& status) override;
  uint64_t OutputRoom() const override;
  io::Task<Status> WaitForRoom(uint64_t bytes) override;
  void LeaveRoom(uint64_t bytes) override;

 private:
  TcpConnection* connection_ = nullptr;
  wire::Op op_ = wire::Op::kPing;
  uint64_t request_id_ = 0;
};

class TcpConnection {
 public:
  TcpConnection(TcpShard* shard, int fd, uint64_t id, bool refused);
  ~TcpConnection();
  TcpConnection(const TcpConnection&) = delete;
  TcpConnection& operator=(const TcpConnection&) = delete;

  void Start();
  void Flush();        // sends what is queued, unless a send is in flight; the turn hook's
  void Evict();        // closes, unless it became busy
  void StopReading();  // closes once the requests that have arrived are answered
  void Break(CloseReason reason, Status status);
  uint64_t id() const { return info_.id; }

 private:
  friend class TcpCall;
  enum class Step : uint8_t { kNeedBytes, kPayload, kBlocked, kEnd };
  // Values that are received together.
  struct Together {
    static constexpr uint32_t kValuesMax = 32;
    uint32_t count = 0;                     // of values
    uint32_t at = 0;                        // the one that arrives
    uint32_t crc = 0;                       // of its bytes so far
    uint32_t discarded = 0;                 // a bit for each value
    uint64_t left = 0;                      // bytes to come
    std::array<iovec, kValuesMax + 1> iov;  // what they lack, and the window behind them
    void Add(const Place& place, uint64_t length, MutableByteSpan waste);
  };
  // One call of WaitForRoom or the receiving side, waiting for a change.
  struct Signal {
    TcpConnection& connection;
    bool await_ready() const { return false; }
    void await_suspend(std::coroutine_handle<> handle) { connection.waiters_.push_back(handle); }
    void await_resume() const {}
  };

  // connection.cc: frames
  io::Task<void> Serve();
  Step DrainBuffer();
  bool HandleHello(ByteSpan frame);
  bool HandleRequest(ByteSpan frame);
  bool BeginPayload(ByteSpan frame);
  io::Task<bool> ReceivePayload();
  io::Task<void> Finish();
  io::Task<void> Linger();
  void BeginFrame();
  bool Refuse(const Status& status);  // answers, ends; always false
  bool End(CloseReason reason, Status status);
  bool Blocked() const;
  TcpCall* NewCall(const wire::FrameHeader& header, uint32_t deadline_ms);

  // receive.cc: bytes
  io::Task<bool> FillBuffer();
  io::Task<bool> ReceiveHead();
  io::Task<bool> ReceiveValues();
  io::Task<bool> ReceiveTogether(Together group);
  io::Task<bool> ReceiveLarge(Place place, uint64_t length);
  void PlaceMore(Together* group);
  void Arrived(Together* group, uint64_t bytes, bool in_buffer);
  io::Task<bool> ReceiveInto(MutableByteSpan into, uint32_t* crc);
  io::Task<bool> Discard(uint64_t length);
  io::Task<int64_t> Receive(const iovec* iov, uint32_t count, Nanos deadline);
  Nanos ByteDeadline() const;
  bool ReceiveFailed(int64_t result);
  ByteSpan buffered() const { return {buffer_.get() + begin_, end_ - begin_}; }
  void Consume(size_t bytes);
  void EnsureBuffer();
  void ReleaseBuffer();
  iovec Window();

  // send.cc: answers
  static void OnSent(io::Op* op);
  void MarkDirty();
  void Submit(Nanos deadline);
  Nanos SendDeadline();
  bool SendAgain();
  void AccountOutput();
  void AnswerCall(TcpCall* call, bool last);
  void Notify();
  void MaybeDestroy();
  void UpdateEvictable();
  uint64_t OutputRoom() const;

  TcpShard* const shard_;
  TcpShared& shared_;
  io::Reactor& reactor_;
  RequestHandler& handler_;
  const int fd_;
  ConnectionInfo info_;
  std::string peer_;  // for logs, from HELLO

  // Receiving.
  std::unique_ptr<std::byte[]> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  bool greeted_ = false;
  bool header_known_ = false;
  bool small_window_ = false;  // the last frame was a PUT: read heads with a small window
  wire::FrameHeader header_;
  wire::FrameLimits limits_;
  uint64_t answer_payload_max_ = 0;  // of a frame to this peer
  Nanos accepted_at_ = 0;
  Nanos frame_began_ = 0;     // when its first byte was seen
  uint64_t frame_bytes_ = 0;  // received since then
  Nanos held_back_ = 0;       // of the frame's time: in which this node did not want to receive
  Nanos now_ = 0;             // of this wake-up
  io::Op receive_op_;
  bool receiving_ = false;
  bool idle_ = false;  // waits for the first byte of a frame
  bool receiving_payload_ = false;
  TcpCall* put_call_ = nullptr;
  std::vector<uint64_t> put_lengths_;
  uint32_t put_next_ = 0;  // the value whose last byte is the next to arrive

  // Sending.
  OutputQueue output_;
  io::Op send_op_;
  bool sending_ = false;
  bool dirty_ = false;
  bool send_late_ = false;       // the node itself was late with the send's deadline: it looks once more
  uint64_t sent_bytes_ = 0;      // so far
  uint64_t sent_bytes_due_ = 0;  // what the peer has to have taken ...
  Nanos send_due_ = 0;           // ... by then
  uint64_t room_taken_ = 0;      // by WaitForRoom, for answers to come
  uint64_t accounted_ = 0;       // of output_.bytes() and room_taken_, in shared_.output_bytes

  // Ending.
  bool serving_ = false;
  bool ended_ = false;   // nothing more is received; answers still leave
  bool broken_ = false;  // nothing more is sent
  bool stopping_ = false;
  bool linger_ = false;
  CloseReason reason_ = CloseReason::kPeer;
  uint32_t calls_ = 0;
  std::vector<std::coroutine_handle<>> waiters_;
};

}  // namespace dfkv::net
