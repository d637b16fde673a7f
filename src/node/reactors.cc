#include "node/reactors.h"

#include <utility>

#include "base/text.h"

namespace dfkv::node {
namespace {

// Something that one thread does and another waits for.
class Done {
 public:
  void Set() {
    MutexLock lock(mutex_);
    set_ = true;
    condition_.NotifyAll();
  }
  void WaitBlocking() {
    MutexLock lock(mutex_);
    while (!set_) condition_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar condition_;
  bool set_ GUARDED_BY(mutex_) = false;
};

io::Task<void> RunAndTell(std::function<io::Task<Status>()>* make, Status* result, Done* done) {
  io::Task<Status> task = (*make)();
  *result = co_await std::move(task);
  done->Set();
}

}  // namespace

Result<std::unique_ptr<ReactorGroup>> ReactorGroup::StartBlocking(const io::ReactorOptions& options,
                                                                  uint32_t count) {
  auto group = std::make_unique<ReactorGroup>();
  group->reactors_.resize(count);
  Status failure;
  for (uint32_t i = 0; i < count && failure.ok(); ++i) {
    Done ready;
    // Made on its own thread: an io_uring belongs to the thread that created it.
    group->threads_.emplace_back(Cat("reactor-", i), [&, slot = &group->reactors_[i]] {
      Result<std::unique_ptr<io::Reactor>> made = io::MakeReactor(options);
      if (!made.ok()) {
        failure = made.status();
        return ready.Set();
      }
      *slot = std::move(*made);
      io::Reactor& reactor = **slot;
      ready.Set();
      reactor.Run();
    });
    ready.WaitBlocking();
  }
  if (!failure.ok()) return failure;
  return group;
}

std::vector<io::Reactor*> ReactorGroup::all() {
  std::vector<io::Reactor*> all;
  for (auto& reactor : reactors_) all.push_back(reactor.get());
  return all;
}

Status ReactorGroup::RunBlocking(std::function<io::Task<Status>()> make) {
  Status result;
  Done done;
  reactors_.front()->Post([&] { RunAndTell(&make, &result, &done).Spawn(); });
  done.WaitBlocking();
  return result;
}

void ReactorGroup::StopBlocking() {
  for (auto& reactor : reactors_) {
    if (reactor != nullptr) reactor->Stop();
  }
  threads_.clear();
}

}  // namespace dfkv::node
