// ReactorGroup: the node's threads, each running one reactor from Start to Stop.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/sync.h"
#include "io/reactor.h"

namespace dfkv::node {

class ReactorGroup {
 public:
  // Starts `count` threads. Unavailable: the kind of reactor that was asked for is refused by the system.
  static Result<std::unique_ptr<ReactorGroup>> StartBlocking(const io::ReactorOptions& options,
                                                             uint32_t count);
  ~ReactorGroup() { StopBlocking(); }

  io::Reactor& at(size_t i) { return *reactors_[i]; }
  std::vector<io::Reactor*> all();
  std::string kind() const { return std::string(reactors_.front()->name()); }
  // Runs a task to its end on the first reactor, from another thread.
  Status RunBlocking(std::function<io::Task<Status>()> make);
  // Ends the threads; whatever still waits on a reactor is dropped. Idempotent.
  void StopBlocking();

 private:
  std::vector<std::unique_ptr<io::Reactor>> reactors_;
  std::vector<Thread> threads_;
};

}  // namespace dfkv::node
