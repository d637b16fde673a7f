#include "net/tcp/server.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "base/check.h"
#include "base/log.h"
#include "base/text.h"
#include "io/socket.h"
#include "net/tcp/shard.h"

namespace dfkv::net {
namespace {

constexpr size_t kSpareConnections = 64;  // above the limit: bursts, and peers that are told they are refused
constexpr size_t kEvictionsPerAccept = 8;          // bounds the work of one accept
constexpr Nanos kAcceptPause = 10 * kMillisecond;  // after a failed accept (no descriptors left)
constexpr Nanos kBreakGrace = 5 * kSecond;         // for calls to end after their connections were cut

// A count that a thread waits for.
class Latch {
 public:
  explicit Latch(size_t count) : left_(count) {}
  void Down() {
    MutexLock lock(mutex_);
    if (--left_ == 0) zero_.NotifyAll();
  }
  void WaitBlocking() {
    MutexLock lock(mutex_);
    while (left_ > 0) zero_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar zero_;
  size_t left_ GUARDED_BY(mutex_);
};

class TcpTransport final : public Transport {
 public:
  TcpTransport(const TcpOptions& options, std::vector<io::Reactor*> reactors, RequestHandler* handler,
               MetricRegistry& metrics)
      : shared_(options, handler, metrics), reactors_(std::move(reactors)) {
    for (uint32_t i = 0; i < reactors_.size(); ++i) {
      shards_.push_back(std::make_unique<TcpShard>(&shared_, reactors_[i], i));
    }
  }
  Status StartBlocking() override;
  Status StopBlocking(Nanos grace) override;
  std::string address() const override { return bound_.ToString(); }
  uint16_t port() const override { return bound_.port(); }

 private:
  io::Task<void> Accept();
  void Deal(int fd);
  bool MakeRoom();
  bool EvictIdlest(size_t count);
  // Runs `work` on every shard's thread and waits until all have.
  template <typename Work>
  void OnEveryShardBlocking(Work work);

  TcpShared shared_;
  std::vector<io::Reactor*> reactors_;
  std::vector<std::unique_ptr<TcpShard>> shards_;
  io::UniqueFd listener_;
  io::SocketAddress bound_;
  io::Op accept_op_;        // the first reactor's
  bool accepting_ = false;  //
  bool closing_ = false;    //
  uint64_t next_id_ = 1;    //
  Latch accept_ended_{1};
};

template <typename Work>
void TcpTransport::OnEveryShardBlocking(Work work) {
  Latch done(shards_.size());
  for (size_t i = 0; i < shards_.size(); ++i) {
    TcpShard* shard = shards_[i].get();
    reactors_[i]->Post([shard, work, &done] {
      work(shard);
      done.Down();
    });
  }
  done.WaitBlocking();
}

Status TcpTransport::StartBlocking() {
  const TcpOptions& options = shared_.options;
  Result<io::SocketAddress> address = io::MakeSocketAddress(options.address, options.port);
  if (!address.ok()) return address.status();
  io::ListenOptions listen;
  listen.backlog = static_cast<int>(options.backlog);
  Result<io::UniqueFd> listener = io::Listen(*address, listen);
  if (!listener.ok()) return listener.status();
  Result<io::SocketAddress> bound = io::BoundAddress(listener->get());
  if (!bound.ok()) return bound.status();
  listener_ = std::move(*listener);
  bound_ = *bound;
  OnEveryShardBlocking([](TcpShard* shard) { shard->Open(); });
  reactors_[0]->Post([this] {
    accepting_ = true;
    Accept().Spawn();
  });
  return Ok();
}

io::Task<void> TcpTransport::Accept() {
  io::Reactor& reactor = *reactors_[0];
  while (!closing_) {
    accept_op_ = io::Op{};
    accept_op_.kind = io::Op::Kind::kAccept;
    accept_op_.fd = listener_.get();
    const int64_t result = co_await reactor.Await(&accept_op_);
    if (result >= 0) {
      Deal(static_cast<int>(result));
    } else if (!closing_ && result != -ECONNABORTED && result != -EINTR) {
      uint64_t suppressed = 0;
      if (shared_.log.Allow(reactor.Now(), &suppressed)) {
        LogWarn("tcp: accept failed: ", ErrnoText(static_cast<int>(-result)));
      }
      if (result == -EMFILE || result == -ENFILE) (void)EvictIdlest(kEvictionsPerAccept);
      co_await reactor.Until(reactor.Now() + kAcceptPause);
    }
  }
  accepting_ = false;
  accept_ended_.Down();
}

// False: no connection is idle.
bool TcpTransport::EvictIdlest(size_t count) {
  bool found = false;
  while (count-- > 0) {
    const auto idlest = shared_.table.TakeIdlest();
    if (!idlest.has_value()) break;
    found = true;
    TcpShard* shard = shards_[idlest->shard].get();
    reactors_[idlest->shard]->Post([shard, id = idlest->id] { shard->Evict(id); });
  }
  return found;
}

// Lets idle connections go while there are too many. False: none is free.
bool TcpTransport::MakeRoom() {
  const size_t limit = shared_.options.connections_max;
  const ConnectionTable::Counts counts = shared_.table.counts();
  if (counts.serving < limit) return true;
  const bool found = EvictIdlest(std::min(counts.serving - limit + 1, kEvictionsPerAccept));
  // Those on their way to their reactor will be evictable: a burst may exceed the limit a little.
  return found || (counts.pending > 0 && counts.serving < limit + kSpareConnections);
}

// Gives a new connection to the next reactor; makes room for it, or refuses it, when all are taken.
void TcpTransport::Deal(int fd) {
  io::SetNoDelay(fd);
  shared_.metrics.accepts->Add();
  const bool refuse = !MakeRoom();
  if (refuse) {
    shared_.metrics.rejected->Add();
    if (shared_.table.counts().refused >= kSpareConnections) {
      ::close(fd);  // not even a word
      return;
    }
  }
  shared_.table.Reserve(refuse);
  const uint64_t id = next_id_++;
  const size_t i = id % shards_.size();
  TcpShard* shard = shards_[i].get();
  reactors_[i]->Post([shard, fd, id, refuse] { shard->Adopt(fd, id, refuse); });
}

Status TcpTransport::StopBlocking(Nanos grace) {
  if (!listener_.valid()) return Ok();
  reactors_[0]->Post([this] {
    closing_ = true;
    if (accepting_) reactors_[0]->Cancel(&accept_op_);
  });
  accept_ended_.WaitBlocking();
  listener_.Reset(-1);
  OnEveryShardBlocking([](TcpShard* shard) { shard->StopReading(); });
  const Nanos until = SystemClock().Now() + grace;
  if (!shared_.table.WaitEmptyBlocking(until)) {
    LogWarn("tcp: ", shared_.table.counts().serving, " connections did not end in time and are cut");
    OnEveryShardBlocking([](TcpShard* shard) { shard->BreakAll(); });
    if (!shared_.table.WaitEmptyBlocking(SystemClock().Now() + kBreakGrace)) {
      return Status(Code::kTimeout,
                    Cat(shared_.table.counts().serving, " connections have requests that did not end"));
    }
  }
  OnEveryShardBlocking([](TcpShard* shard) { shard->Close(); });
  return Ok();
}

}  // namespace

std::unique_ptr<Transport> MakeTcpTransport(const TcpOptions& options, std::vector<io::Reactor*> reactors,
                                            RequestHandler* handler, MetricRegistry& metrics) {
  DFKV_CHECK(!reactors.empty());
  return std::make_unique<TcpTransport>(options, std::move(reactors), handler, metrics);
}

}  // namespace dfkv::net
