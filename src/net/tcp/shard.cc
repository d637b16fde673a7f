#include "net/tcp/shard.h"

#include "base/check.h"
#include "net/tcp/connection.h"

namespace dfkv::net {
namespace {

constexpr size_t kBuffersKept = 64;               // spare receive buffers of a reactor
constexpr size_t kBlocksKept = 256;               // spare output blocks of a reactor
constexpr size_t kCallsKept = 4096;               // spare calls of a reactor
constexpr size_t kDiscardBytes = kTogetherBytes;  // holds any value that is received with others

}  // namespace

TcpShard::TcpShard(TcpShared* shared, io::Reactor* reactor, uint32_t index)
    : shared_(shared), reactor_(reactor), index_(index), blocks_(kBlocksKept) {
  buffers_.reserve(kBuffersKept);
  free_calls_.reserve(kCallsKept);
}

TcpShard::~TcpShard() {
  DFKV_CHECK(connections_.empty());
}

void TcpShard::Open() {
  hook_ = reactor_->AddTurnHook([this] { FlushDirty(); });
}

void TcpShard::Close() {
  DFKV_CHECK(connections_.empty());
  reactor_->RemoveTurnHook(hook_);
}

void TcpShard::Adopt(int fd, uint64_t id, bool refuse) {
  auto owned = std::make_unique<TcpConnection>(this, fd, id, refuse);
  TcpConnection* connection = owned.get();
  connections_.emplace(id, std::move(owned));
  connection->Start();
  if (stopping_) connection->StopReading();
}

void TcpShard::Evict(uint64_t id) {
  auto found = connections_.find(id);
  if (found != connections_.end()) found->second->Evict();
}

void TcpShard::StopReading() {
  stopping_ = true;
  for (auto& [id, connection] : connections_) connection->StopReading();
}

void TcpShard::BreakAll() {
  std::vector<TcpConnection*> all;
  for (auto& [id, connection] : connections_) all.push_back(connection.get());
  for (TcpConnection* connection : all) connection->Break(CloseReason::kStopped, Ok());
}

std::unique_ptr<std::byte[]> TcpShard::BorrowBuffer() {
  if (buffers_.empty()) return std::make_unique_for_overwrite<std::byte[]>(shared_->receive_buffer_bytes);
  auto buffer = std::move(buffers_.back());
  buffers_.pop_back();
  return buffer;
}

void TcpShard::GiveBackBuffer(std::unique_ptr<std::byte[]> buffer) {
  if (buffers_.size() < kBuffersKept) buffers_.push_back(std::move(buffer));
}

MutableByteSpan TcpShard::discard_buffer() {
  if (discard_ == nullptr) discard_ = std::make_unique_for_overwrite<std::byte[]>(kDiscardBytes);
  return {discard_.get(), kDiscardBytes};
}

TcpCall* TcpShard::NewCall() {
  if (free_calls_.empty()) return new TcpCall;
  TcpCall* call = free_calls_.back().release();
  free_calls_.pop_back();
  return call;
}

void TcpShard::FreeCall(TcpCall* call) {
  std::unique_ptr<TcpCall> owned(call);
  if (free_calls_.size() < kCallsKept) free_calls_.push_back(std::move(owned));
}

void TcpShard::Remove(TcpConnection* connection) {
  connections_.erase(connection->id());
}

void TcpShard::FlushDirty() {
  flushing_.swap(dirty_);
  for (TcpConnection* connection : flushing_) connection->Flush();
  flushing_.clear();
}

}  // namespace dfkv::net
