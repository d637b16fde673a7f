// Invariants:
// - in_flight_ ops have an entry in the ring (kStarted: the op itself; kPolling: a poll on its behalf) and
// are
//   at most depth_; the ops of waiting_ (kQueued) have none yet.
// - Only the owner thread touches the ring: with SINGLE_ISSUER the kernel refuses any other. The ring is made
//   disabled and enabled by the first thread that polls it; another thread takes over with a new ring, when
//   nothing is in flight. What is submitted before a thread polls stays in waiting_.
// - Entries collect during a turn and enter the kernel in one call, in Poll (or when the queue is full).
#include "io/reactor_uring.h"

#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "base/fault.h"
#include "base/text.h"
#include "io/fd.h"
#include "io/op_list.h"
#include "io/op_now.h"
#include "io/socket.h"

namespace dfkv::io {
namespace {

constexpr uint64_t kIgnored = 0;    // user_data of cancellations
constexpr uint64_t kWakeToken = 1;  // user_data of the poll on wake_; others are the address of an Op
constexpr uint32_t kEntriesMax = 1024;
constexpr size_t kTransferMax = size_t{1} << 30;
constexpr uint32_t kFeatures = IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG | IORING_FEAT_RSRC_TAGS;

pid_t ThreadId() {
  static thread_local const pid_t kId = gettid();
  return kId;
}

Status Refused(int error) {
  std::string_view hint;
  if (error == EPERM || error == EACCES)
    hint = " (kernel.io_uring_disabled, or a container's seccomp profile)";
  if (error == ENOSYS) hint = " (the kernel has no io_uring, or a seccomp profile hides it)";
  if (error == ENOMEM) hint = " (the limit on locked memory, ulimit -l)";
  return Status(Code::kUnavailable, Cat("io_uring: the system refuses it: ", ErrnoText(error), hint));
}

class UringReactor final : public Reactor {
 public:
  explicit UringReactor(const ReactorOptions& options)
      : depth_(std::clamp<uint32_t>(options.depth, 1, 32768)) {
    set_spin(options.spin);
  }
  ~UringReactor() override {
    if (made_) io_uring_queue_exit(&ring_);
  }

  Status Init();

  void Submit(Op* op) override;
  void Cancel(Op* op) override;
  const Clock& clock() const override { return SystemClock(); }
  std::string_view name() const override { return "uring"; }

 protected:
  void Poll(Nanos until) override;
  void Wake() override {
    const uint64_t one = 1;
    (void)!write(wake_.get(), &one, sizeof one);  // fails only when 2^64 wakes are pending
  }
  void Flush() override {
    if (owner_ == ThreadId() && io_uring_sq_ready(&ring_) > 0) io_uring_submit(&ring_);
  }

 private:
  int MakeRing();
  void TakeOver();
  void ArmWake();
  io_uring_sqe* NextEntry();
  void Start(Op* op);
  void StartPolling(Op* op);
  void StartWaiting();
  void Prepare(Op* op, io_uring_sqe* sqe);
  void PrepareTransfer(Op* op, io_uring_sqe* sqe);
  void Enter(Nanos until);
  void Reap();
  void Finish(Op* op, int64_t result);

  const uint32_t depth_;
  io_uring ring_{};
  bool made_ = false;
  bool has_poll_first_ = false;
  pid_t owner_ = 0;  // the thread that enabled the ring
  uint32_t in_flight_ = 0;
  OpList waiting_;
  UniqueFd wake_;
};

Status UringReactor::Init() {
  wake_.Reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!wake_.valid()) return Status(Code::kUnavailable, Cat("eventfd: ", ErrnoText(errno)));
  const int error = MakeRing();
  return error == 0 ? Ok() : Refused(error);
}

// 0 or an errno. Asks for the fastest set-up first; older kernels answer EINVAL to what they do not know.
int UringReactor::MakeRing() {
  const uint32_t base = IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE | IORING_SETUP_R_DISABLED;
  const uint32_t cooperative =
      base | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
  const uint32_t deferred = base | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER |
                            IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
  int error = EINVAL;
  for (const uint32_t flags : {deferred, cooperative, base}) {
    io_uring_params params{};
    params.flags = flags;
    params.cq_entries = std::bit_ceil(depth_) * 2 + 64;
    error = -io_uring_queue_init_params(std::min(std::bit_ceil(depth_), kEntriesMax), &ring_, &params);
    if (error == EINVAL) continue;
    if (error != 0) return error;
    made_ = true;
    has_poll_first_ = flags != base;
    if ((params.features & kFeatures) == kFeatures) return 0;
    return ENOSYS;  // too old: no timed waits, or no lasting polls
  }
  return error;
}

// Makes the ring the calling thread's.
void UringReactor::TakeOver() {
  DFKV_CHECK(in_flight_ == 0);  // what is in flight belongs to the thread that ran the reactor before
  if (owner_ != 0) {
    DFKV_PROBE("uring.rebuilt for another thread");
    io_uring_queue_exit(&ring_);
    made_ = false;
    DFKV_CHECK(MakeRing() == 0);
  }
  DFKV_CHECK(io_uring_enable_rings(&ring_) == 0);
  owner_ = ThreadId();
  ArmWake();
}

// A lasting poll: each write to wake_ gives a completion, and nobody has to read it back.
void UringReactor::ArmWake() {
  io_uring_sqe* sqe = NextEntry();
  io_uring_prep_poll_multishot(sqe, wake_.get(), POLLIN);
  io_uring_sqe_set_data64(sqe, kWakeToken);
}

io_uring_sqe* UringReactor::NextEntry() {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  for (int tries = 0; sqe == nullptr && tries < 1000; ++tries) {
    io_uring_submit(&ring_);
    sqe = io_uring_get_sqe(&ring_);
  }
  DFKV_CHECK(sqe != nullptr);  // the kernel takes nothing more, not even after a thousand tries
  return sqe;
}

void UringReactor::Submit(Op* op) {
  if (!Begin(op)) return;
  if (op->fd < 0) {
    Complete(op, -EBADF);
    return;
  }
  if ((op->kind == Op::Kind::kRecv || op->kind == Op::Kind::kSend) && !op->poll_first) {
    const int64_t result = TryNow(*op);
    if (result != -EAGAIN) {
      Complete(op, result);
      return;
    }
  }
  ArmDeadline(op);
  if (owner_ == ThreadId() && in_flight_ < depth_ && waiting_.empty()) {
    Start(op);
  } else {
    op->link.stage = Op::Stage::kQueued;
    waiting_.PushBack(op);
  }
}

void UringReactor::Cancel(Op* op) {
  if (op->link.stage == Op::Stage::kQueued) {
    waiting_.Remove(op);
    Complete(op, -ECANCELED);
  } else if (op->link.stage == Op::Stage::kStarted || op->link.stage == Op::Stage::kPolling) {
    DFKV_CHECK(owner_ == ThreadId());
    op->link.cancelled = true;
    io_uring_sqe* sqe = NextEntry();
    io_uring_prep_cancel64(sqe, reinterpret_cast<uint64_t>(op), 0);
    io_uring_sqe_set_data64(sqe, kIgnored);
  }
}

void UringReactor::StartWaiting() {
  while (in_flight_ < depth_ && !waiting_.empty()) Start(waiting_.PopFront());
}

void UringReactor::Start(Op* op) {
  io_uring_sqe* sqe = NextEntry();
  Prepare(op, sqe);
  io_uring_sqe_set_data64(sqe, reinterpret_cast<uint64_t>(op));
  op->link.stage = Op::Stage::kStarted;
  ++in_flight_;
}

void UringReactor::StartPolling(Op* op) {
  io_uring_sqe* sqe = NextEntry();
  io_uring_prep_poll_add(sqe, op->fd, WaitsForOutput(op->kind) ? POLLOUT : POLLIN);
  io_uring_sqe_set_data64(sqe, reinterpret_cast<uint64_t>(op));
  op->link.stage = Op::Stage::kPolling;
  ++in_flight_;
}

void UringReactor::Prepare(Op* op, io_uring_sqe* sqe) {
  switch (op->kind) {
    case Op::Kind::kReadable:
      io_uring_prep_poll_add(sqe, op->fd, POLLIN);
      break;
    case Op::Kind::kWritable:
      io_uring_prep_poll_add(sqe, op->fd, POLLOUT);
      break;
    case Op::Kind::kAccept:
      io_uring_prep_accept(sqe, op->fd, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      break;
    case Op::Kind::kConnect:
      io_uring_prep_connect(sqe, op->fd, op->address, op->address_size);
      break;
    case Op::Kind::kSync:
      io_uring_prep_fsync(sqe, op->fd, IORING_FSYNC_DATASYNC);
      break;
    default:
      PrepareTransfer(op, sqe);
  }
}

void UringReactor::PrepareTransfer(Op* op, io_uring_sqe* sqe) {
  void* const base = op->iov->iov_base;
  const size_t size = std::min(op->iov->iov_len, kTransferMax);
  const bool one = op->iov_count == 1;
  if (op->kind == Op::Kind::kRead && one) {
    io_uring_prep_read(sqe, op->fd, base, static_cast<unsigned>(size), op->offset);
  } else if (op->kind == Op::Kind::kRead) {
    io_uring_prep_readv(sqe, op->fd, op->iov, op->iov_count, op->offset);
  } else if (op->kind == Op::Kind::kWrite && one) {
    io_uring_prep_write(sqe, op->fd, base, static_cast<unsigned>(size), op->offset);
  } else if (op->kind == Op::Kind::kWrite) {
    io_uring_prep_writev(sqe, op->fd, op->iov, op->iov_count, op->offset);
  } else {
    op->link.message = msghdr{};
    op->link.message.msg_iov = const_cast<iovec*>(op->iov);
    op->link.message.msg_iovlen = op->iov_count;
    if (op->kind == Op::Kind::kRecv && one) {
      io_uring_prep_recv(sqe, op->fd, base, size, 0);
    } else if (op->kind == Op::Kind::kRecv) {
      io_uring_prep_recvmsg(sqe, op->fd, &op->link.message, 0);
    } else if (one) {
      io_uring_prep_send(sqe, op->fd, base, size, MSG_NOSIGNAL);
    } else {
      io_uring_prep_sendmsg(sqe, op->fd, &op->link.message, MSG_NOSIGNAL);
    }
    if (has_poll_first_) sqe->ioprio |= IORING_RECVSEND_POLL_FIRST;
  }
}

void UringReactor::Poll(Nanos until) {
  if (owner_ != ThreadId()) TakeOver();
  StartWaiting();
  const bool pending = io_uring_sq_ready(&ring_) > 0;
  if (until != 0) {
    Enter(until);
  } else if (pending) {
    io_uring_submit_and_get_events(&ring_);
  } else if ((IO_URING_READ_ONCE(*ring_.sq.kflags) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0) {
    io_uring_get_events(&ring_);
  }
  Reap();
}

void UringReactor::Enter(Nanos until) {
  int result = 0;
  if (until == kNever) {
    result = io_uring_submit_and_wait(&ring_, 1);
  } else {
    const Nanos wait = std::max<Nanos>(0, until - Now());
    __kernel_timespec timeout{wait / kSecond, wait % kSecond};
    io_uring_cqe* cqe = nullptr;
    result = io_uring_submit_and_wait_timeout(&ring_, &cqe, 1, &timeout, nullptr);
  }
  const bool harmless =
      result >= 0 || result == -ETIME || result == -EINTR || result == -EBUSY || result == -EAGAIN;
  DFKV_CHECK(harmless);  // anything else: the ring is broken, or another thread's
}

void UringReactor::Reap() {
  io_uring_cqe* cqe = nullptr;
  unsigned head = 0;
  unsigned count = 0;
  io_uring_for_each_cqe(&ring_, head, cqe) {
    ++count;
    if (cqe->user_data == kIgnored) continue;
    if (cqe->user_data == kWakeToken) {
      if ((cqe->flags & IORING_CQE_F_MORE) == 0) ArmWake();
      continue;
    }
    --in_flight_;
    Finish(reinterpret_cast<Op*>(cqe->user_data), cqe->res);
  }
  io_uring_cq_advance(&ring_, count);
  StartWaiting();
}

void UringReactor::Finish(Op* op, int64_t result) {
  if (op->link.stage == Op::Stage::kPolling && result >= 0) result = TryNow(*op);
  if (result == -EAGAIN || result == -EINTR) {
    DFKV_PROBE("uring.op tried again");
    if (op->link.cancelled || op->link.expired) {
      Complete(op, -ECANCELED);
    } else if (IsDiskOp(op->kind)) {
      Start(op);
    } else {
      StartPolling(op);
    }
    return;
  }
  const bool only_ready = op->kind == Op::Kind::kReadable || op->kind == Op::Kind::kWritable;
  Complete(op, only_ready && result > 0 ? 0 : result);
}

}  // namespace

Result<std::unique_ptr<Reactor>> MakeUringReactor(const ReactorOptions& options) {
  auto reactor = std::make_unique<UringReactor>(options);
  DFKV_RETURN_IF_ERROR(reactor->Init());
  return Result<std::unique_ptr<Reactor>>(std::move(reactor));
}

}  // namespace dfkv::io
