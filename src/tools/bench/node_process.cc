#include "tools/bench/node_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <utility>

#include "base/text.h"

namespace dfkv::tools {

namespace {

// Waits until `descriptor` can be read or has ended; false at the deadline.
bool AwaitInput(int descriptor, Nanos deadline) {
  while (true) {
    const Nanos left = deadline - SystemClock().Now();
    if (left <= 0) return false;
    pollfd entry{descriptor, POLLIN, 0};
    const int ready = poll(&entry, 1, static_cast<int>(std::min<Nanos>(left / kMillisecond + 1, 60'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

// After fork: only what is safe in a child of a process with threads.
[[noreturn]] void Become(const char* binary, char* const* arguments, int output, pid_t parent) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // the parent died before the line above
  if (dup2(output, STDOUT_FILENO) < 0) _exit(127);
  execv(binary, arguments);
  _exit(127);
}

}  // namespace

Result<std::unique_ptr<NodeProcess>> NodeProcess::Start(const NodeOptions& options, uint16_t port) {
  if (access(options.binary.c_str(), X_OK) != 0) {
    return Status(Code::kIoError, Cat("cannot run ", options.binary, ": ", ErrnoText(errno)));
  }
  std::vector<std::string> words = {options.binary};
  words.insert(words.end(), options.flags.begin(), options.flags.end());
  words.push_back(Cat("--port=", port));
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);

  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Status(Code::kIoError, Cat("pipe: ", ErrnoText(errno)));
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) Become(options.binary.c_str(), arguments.data(), ends[1], parent);
  const int fork_error = errno;
  close(ends[1]);
  if (pid < 0) {
    close(ends[0]);
    return Status(Code::kIoError, Cat("cannot start ", options.binary, ": ", ErrnoText(fork_error)));
  }
  std::unique_ptr<NodeProcess> node(new NodeProcess(options, pid, ends[0]));
  DFKV_RETURN_IF_ERROR(node->AwaitPort());
  return node;
}

NodeProcess::~NodeProcess() {
  if (!reaped_) {
    Kill();
    Reap();
  }
  close(output_);
}

void NodeProcess::Kill() const {
  if (!reaped_) kill(pid_, SIGKILL);
}

int NodeProcess::Reap() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
  return status;
}

Status NodeProcess::AwaitPort() {
  const Nanos deadline = SystemClock().Now() + static_cast<Nanos>(options_.ready_timeout_s) * kSecond;
  std::string text;
  while (true) {
    if (!AwaitInput(output_, deadline)) {
      return Status(Code::kTimeout, Cat(options_.binary, " did not become ready within ",
                                        options_.ready_timeout_s, " s (--ready-timeout)"));
    }
    char bytes[512];
    const ssize_t count = read(output_, bytes, sizeof bytes);
    if (count <= 0) {
      return Status(Code::kUnavailable,
                    Cat(options_.binary, " ended before it was ready; its message is above"));
    }
    text.append(bytes, static_cast<size_t>(count));
    const size_t line_end = text.find('\n');
    if (line_end == std::string::npos) continue;
    const std::string_view line = std::string_view(text).substr(0, line_end);
    const Result<uint64_t> port = line.starts_with("PORT ") ? ParseUint(line.substr(5)) : Code::kInvalid;
    if (!port.ok() || *port == 0 || *port > UINT16_MAX) {
      return Status(Code::kUnavailable, Cat(options_.binary, " printed '", line, "' instead of PORT n"));
    }
    port_ = static_cast<uint16_t>(*port);
    return Ok();
  }
}

bool NodeProcess::AwaitEnd(Nanos deadline) {
  while (AwaitInput(output_, deadline)) {
    char bytes[512];
    const ssize_t count = read(output_, bytes, sizeof bytes);
    if (count == 0 || (count < 0 && errno != EINTR)) return true;
  }
  return false;
}

Status NodeProcess::Stop() {
  if (reaped_) return Ok();
  kill(pid_, SIGTERM);
  const bool ended = AwaitEnd(SystemClock().Now() + static_cast<Nanos>(options_.stop_timeout_s) * kSecond);
  if (!ended) Kill();
  const int status = Reap();
  if (!ended) {
    return Status(Code::kTimeout,
                  Cat("the node did not stop within ", options_.stop_timeout_s, " s and was killed"));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return Ok();
  return Status(Code::kUnavailable, WIFSIGNALED(status)
                                        ? Cat("the node died of signal ", WTERMSIG(status))
                                        : Cat("the node ended with status ", WEXITSTATUS(status)));
}

std::string ServerBesideThisProgram() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return (self.parent_path() / "dfkv_server").string();
}

}  // namespace dfkv::tools
