// NodeProcess: a dfkv_server that a tool starts, kills, restarts and stops, always by its process id.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"

namespace dfkv::tools {

struct NodeOptions {
  std::string binary;              // path of dfkv_server
  std::vector<std::string> flags;  // without --port
  uint64_t ready_timeout_s = 60;   // until it has printed its port; recovery of its data included
  uint64_t stop_timeout_s = 30;    // from SIGTERM to its end
};

// One node at a time; not for several threads, but Kill may come from any. The node ends with the thread that
// started it. Destruction kills.
class NodeProcess {
 public:
  // Starts it on `port` (0: a free one) and waits for its line "PORT n". IoError: cannot be run. Unavailable:
  // it ended before it was ready (its own message is on stderr). Timeout.
  static Result<std::unique_ptr<NodeProcess>> Start(const NodeOptions& options, uint16_t port);
  ~NodeProcess();
  NodeProcess(const NodeProcess&) = delete;
  NodeProcess& operator=(const NodeProcess&) = delete;

  uint16_t port() const { return port_; }
  pid_t pid() const { return pid_; }
  // SIGKILL, at once; the exit status is taken by Wait or destruction.
  void Kill() const;
  // SIGTERM and the wait for the end. Unavailable: it ended with another status than 0, or had died before.
  // Timeout: it had to be killed.
  Status Stop();

 private:
  NodeProcess(NodeOptions options, pid_t pid, int output)
      : options_(std::move(options)), pid_(pid), output_(output) {}
  Status AwaitPort();
  bool AwaitEnd(Nanos deadline);  // reads until the output ends
  int Reap();                     // exit status as of waitpid; blocks

  const NodeOptions options_;
  pid_t pid_ = -1;
  int output_ = -1;  // read end of its stdout; it ends when the process does
  uint16_t port_ = 0;
  bool reaped_ = false;
};

// The dfkv_server beside the running program.
std::string ServerBesideThisProgram();

}  // namespace dfkv::tools
