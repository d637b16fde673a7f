// TcpShard: one reactor's part of the TCP server: its connections and the memory they borrow.
//
// Invariants: everything here belongs to the reactor's thread; a connection holds a receive buffer only while
// bytes of it wait to be understood, and output blocks only while answers wait to be sent.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "io/reactor.h"
#include "net/tcp/output.h"
#include "net/tcp/shared.h"

namespace dfkv::net {

class TcpConnection;
class TcpCall;

// Values of one PUT are received together while they have at most this many bytes: little enough to be taken
// ahead for a peer that may stall, enough to save most of the system calls of small values.
constexpr size_t kTogetherBytes = 128 * 1024;

class TcpShard {
 public:
  TcpShard(TcpShared* shared, io::Reactor* reactor, uint32_t index);
  ~TcpShard();
  TcpShard(const TcpShard&) = delete;
  TcpShard& operator=(const TcpShard&) = delete;

  void Open();   // on the reactor's thread, before anything else
  void Close();  // on the reactor's thread, when no connection is left

  // Takes over a connected descriptor. `refuse`: tells the peer that no connection is free, and closes.
  void Adopt(int fd, uint64_t id, bool refuse);
  void Evict(uint64_t id);
  void StopReading();  // all connections end once their requests are answered
  void BreakAll();
  size_t connection_count() const { return connections_.size(); }

  // --- For connections ---
  TcpShared& shared() { return *shared_; }
  io::Reactor& reactor() { return *reactor_; }
  uint32_t index() const { return index_; }
  OutputBlockPool& blocks() { return blocks_; }
  bool stopping() const { return stopping_; }
  std::unique_ptr<std::byte[]> BorrowBuffer();
  void GiveBackBuffer(std::unique_ptr<std::byte[]> buffer);
  MutableByteSpan discard_buffer();
  TcpCall* NewCall();
  void FreeCall(TcpCall* call);
  void MarkDirty(TcpConnection* connection) { dirty_.push_back(connection); }  // flushed by the turn hook
  void Remove(TcpConnection* connection);                                      // destroys it

 private:
  void FlushDirty();

  TcpShared* shared_;
  io::Reactor* reactor_;
  uint32_t index_;
  bool stopping_ = false;
  uint64_t hook_ = 0;
  OutputBlockPool blocks_;
  std::vector<std::unique_ptr<std::byte[]>> buffers_;
  std::unique_ptr<std::byte[]> discard_;
  std::vector<std::unique_ptr<TcpCall>> free_calls_;
  std::vector<TcpConnection*> dirty_;
  std::vector<TcpConnection*> flushing_;
  std::unordered_map<uint64_t, std::unique_ptr<TcpConnection>> connections_;
};

}  // namespace dfkv::net
