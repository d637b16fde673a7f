// Invariants: an op that waits for its descriptor (stage kQueued) lies in the list of its direction in
// fds_[fd]; `armed` is what epoll was last asked for and has not yet answered, 0 when both lists are empty.
// Registration is one-shot: nothing is known about a descriptor between its ops, so that it can be closed and
// its number be given out again without a word to the reactor.
#include "io/reactor_epoll.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/text.h"
#include "io/disk_pool.h"
#include "io/fd.h"
#include "io/op_list.h"
#include "io/op_now.h"

namespace dfkv::io {
namespace {

constexpr int kEventsPerPoll = 256;
constexpr uint64_t kWakeToken = UINT64_MAX;

struct FdState {
  OpList in;
  OpList out;
  uint32_t armed = 0;
};

class EpollReactor final : public Reactor {
 public:
  explicit EpollReactor(const ReactorOptions& options)
      : pool_(this, std::max<uint32_t>(1, options.disk_threads)) {
    set_spin(options.spin);
  }

  Status Init() {
    epoll_.Reset(epoll_create1(EPOLL_CLOEXEC));
    wake_.Reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;  // an edge per write: nobody has to read it back
    event.data.u64 = kWakeToken;
    if (!epoll_.valid() || !wake_.valid() ||
        epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, wake_.get(), &event) != 0) {
      return Status(Code::kUnavailable, Cat("epoll: ", ErrnoText(errno)));
    }
    return Ok();
  }

  void Submit(Op* op) override;
  void Cancel(Op* op) override;
  const Clock& clock() const override { return SystemClock(); }
  std::string_view name() const override { return "epoll"; }

 protected:
  void Poll(Nanos until) override;
  void Wake() override {
    const uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof one);  // fails only when 2^64 wakes are pending
  }

 private:
  void WaitFor(Op* op);
  void Rearm(int fd, FdState& state);
  void ServeReady(OpList& list);
  int WaitForEvents(Nanos until);

  UniqueFd epoll_;
  UniqueFd wake_;
  std::vector<FdState> fds_;  // by descriptor
  std::array<epoll_event, kEventsPerPoll> events_;
  bool coarse_timeouts_ = false;  // the system lacks epoll_pwait2
  DiskPool pool_;                 // last: its threads end before the rest goes
};

void EpollReactor::Submit(Op* op) {
  if (!Begin(op)) return;
  if (op->fd < 0) {
    Complete(op, -EBADF);
    return;
  }
  if (IsDiskOp(op->kind)) {
    ArmDeadline(op);
    pool_.Add(op);
    return;
  }
  int64_t result = -EAGAIN;
  if (op->kind == Op::Kind::kConnect) {
    result = StartConnect(*op);
    if (result == -EINPROGRESS) {
      WaitFor(op);
      return;
    }
    Complete(op, result);
    return;
  }
  if (op->kind != Op::Kind::kReadable && op->kind != Op::Kind::kWritable && !op->poll_first) {
    result = TryNow(*op);
  }
  if (result == -EAGAIN) {
    WaitFor(op);
  } else {
    Complete(op, result);
  }
}

void EpollReactor::WaitFor(Op* op) {
  const auto index = static_cast<size_t>(op->fd);
  if (index >= fds_.size()) fds_.resize(std::max(index + 1, fds_.size() * 2));
  FdState& state = fds_[index];
  op->link.stage = Op::Stage::kQueued;
  (WaitsForOutput(op->kind) ? state.out : state.in).PushBack(op);
  ArmDeadline(op);
  Rearm(op->fd, state);
}

void EpollReactor::Rearm(int fd, FdState& state) {
  uint32_t want = 0;
  if (!state.in.empty()) want |= EPOLLIN;
  if (!state.out.empty()) want |= EPOLLOUT;
  if ((want & ~state.armed) == 0) {
    if (want == 0) state.armed = 0;
    return;
  }
  epoll_event event{};
  event.events = want | EPOLLONESHOT;
  event.data.u64 = static_cast<uint64_t>(fd);
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0 ||
      (errno == ENOENT && epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0)) {
    state.armed = want;
    return;
  }
  const int error = errno;
  while (Op* op = state.in.PopFront()) Complete(op, -error);
  while (Op* op = state.out.PopFront()) Complete(op, -error);
  state.armed = 0;
}

void EpollReactor::Cancel(Op* op) {
  if (op->link.stage == Op::Stage::kStarted && IsDiskOp(op->kind)) {
    if (pool_.Remove(op)) Complete(op, -ECANCELED);
    return;
  }
  if (op->link.stage != Op::Stage::kQueued) return;
  FdState& state = fds_[static_cast<size_t>(op->fd)];
  (WaitsForOutput(op->kind) ? state.out : state.in).Remove(op);
  if (state.in.empty() && state.out.empty()) state.armed = 0;
  Complete(op, -ECANCELED);
}

void EpollReactor::ServeReady(OpList& list) {
  while (Op* op = list.head()) {
    const int64_t result = TryNow(*op);
    if (result == -EAGAIN) return;
    list.Remove(op);
    Complete(op, result);
  }
}

int EpollReactor::WaitForEvents(Nanos until) {
  const Nanos wait = until == 0 ? 0 : until == kNever ? kNever : std::max<Nanos>(0, until - Now());
  const int epoll = epoll_.get();
  if (wait == 0) return epoll_wait(epoll, events_.data(), kEventsPerPoll, 0);
  if (wait == kNever) return epoll_wait(epoll, events_.data(), kEventsPerPoll, -1);
  if (!coarse_timeouts_) {
    const timespec timeout{wait / kSecond, wait % kSecond};
    const int count = epoll_pwait2(epoll, events_.data(), kEventsPerPoll, &timeout, nullptr);
    if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return count;
    coarse_timeouts_ = true;
  }
  const Nanos millis = std::min<Nanos>((wait + kMillisecond - 1) / kMillisecond, 1'000'000);
  return epoll_wait(epoll, events_.data(), kEventsPerPoll, static_cast<int>(millis));
}

void EpollReactor::Poll(Nanos until) {
  const int count = WaitForEvents(until);
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events_[static_cast<size_t>(i)];
    if (event.data.u64 == kWakeToken) continue;
    const auto fd = static_cast<int>(event.data.u64);
    FdState& state = fds_[static_cast<size_t>(fd)];
    state.armed = 0;
    if ((event.events & ~static_cast<uint32_t>(EPOLLOUT)) != 0) ServeReady(state.in);
    if ((event.events & ~static_cast<uint32_t>(EPOLLIN)) != 0) ServeReady(state.out);
    Rearm(fd, state);
  }
}

}  // namespace

Result<std::unique_ptr<Reactor>> MakeEpollReactor(const ReactorOptions& options) {
  auto reactor = std::make_unique<EpollReactor>(options);
  DFKV_RETURN_IF_ERROR(reactor->Init());
  return Result<std::unique_ptr<Reactor>>(std::move(reactor));
}

}  // namespace dfkv::io
