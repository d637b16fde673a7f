#include "tools/bench/cpu.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

#include "base/clock.h"
#include "base/sync.h"
#include "base/text.h"

namespace dfkv::tools {

std::optional<double> MetricSum(std::string_view text, std::string_view name) {
  std::optional<double> sum;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.starts_with(name)) continue;
    const std::string_view rest = line.substr(name.size());
    if (rest.empty() || (rest[0] != ' ' && rest[0] != '{')) continue;
    const size_t space = rest.rfind(' ');
    if (space == std::string_view::npos) continue;
    if (const Result<double> value = ParseDouble(rest.substr(space + 1)); value.ok()) {
      sum = sum.value_or(0) + *value;
    }
  }
  return sum;
}

namespace {

// The socket's inode from a table of /proc/net: column 2 is the local address, 4 the state, 10 the inode.
std::string ListeningInode(const char* table, uint16_t port) {
  char wanted[8];
  std::snprintf(wanted, sizeof wanted, ":%04X", static_cast<unsigned>(port));
  std::ifstream file(table);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::vector<std::string> columns;
    for (std::string word; columns.size() < 10 && words >> word;) columns.push_back(word);
    if (columns.size() == 10 && columns[1].ends_with(wanted) && columns[3] == "0A") return columns[9];
  }
  return {};
}

struct CloseDirectory {
  void operator()(DIR* directory) const { closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

bool HasOpen(const std::string& descriptors, const std::string& target) {
  const Directory directory(opendir(descriptors.c_str()));
  if (!directory) return false;
  while (const dirent* entry = readdir(directory.get())) {
    char link[64];
    const ssize_t length = readlink(Cat(descriptors, "/", entry->d_name).c_str(), link, sizeof link);
    if (length > 0 && std::string_view(link, static_cast<size_t>(length)) == target) return true;
  }
  return false;
}

}  // namespace

std::optional<int> PidListeningOn(uint16_t port) {
  std::string inode = ListeningInode("/proc/net/tcp", port);
  if (inode.empty()) inode = ListeningInode("/proc/net/tcp6", port);
  if (inode.empty()) return std::nullopt;
  const std::string target = Cat("socket:[", inode, "]");
  const Directory proc(opendir("/proc"));
  if (!proc) return std::nullopt;
  while (const dirent* entry = readdir(proc.get())) {
    const Result<uint64_t> pid = ParseUint(entry->d_name);
    if (pid.ok() && HasOpen(Cat("/proc/", *pid, "/fd"), target)) return static_cast<int>(*pid);
  }
  return std::nullopt;
}

std::optional<double> ProcessCpuSeconds(int pid) {
  std::ifstream file(Cat("/proc/", pid, "/stat"));
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t name_end = text.rfind(')');  // a name may hold spaces and parentheses
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream words(text.substr(name_end + 1));
  std::string word;
  for (int i = 0; i < 11; ++i) words >> word;  // state up to cmajflt
  uint64_t user = 0;
  uint64_t system = 0;
  if (!(words >> user >> system)) return std::nullopt;
  return static_cast<double>(user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

CpuProbe NodeCpuProbe(std::vector<cluster::Member> members) {
  return [members = std::move(members)](client::Client& client) -> std::optional<double> {
    double sum = 0;
    for (const cluster::Member& member : members) {
      std::optional<double> seconds;
      const Result<std::string> stats = client.Stats(member.name, {});
      if (stats.ok()) seconds = MetricSum(*stats, "dfkv_process_cpu_seconds_total");
      if (!seconds && member.socket.IsLoopback()) {
        if (const std::optional<int> pid = PidListeningOn(member.socket.port()))
          seconds = ProcessCpuSeconds(*pid);
      }
      if (!seconds) return std::nullopt;
      sum += *seconds;
    }
    return sum;
  };
}

Status WaitUntilReady(client::Client& client, const std::vector<cluster::Member>& members, double timeout_s) {
  const Nanos end = SystemClock().Now() + static_cast<Nanos>(timeout_s * static_cast<double>(kSecond));
  Mutex mutex;
  CondVar never;
  for (const cluster::Member& member : members) {
    while (true) {
      const Result<std::string> stats = client.Stats(member.name, {});
      if (stats.ok()) break;
      if (SystemClock().Now() >= end) {
        return Status(stats.code(),
                      Cat("member ", member.name, " (", member.address, ") did not answer within ", timeout_s,
                          " s: ", stats.status().ToString()));
      }
      MutexLock lock(mutex);
      never.WaitFor(mutex, 50 * kMillisecond);
    }
  }
  return Ok();
}

}  // namespace dfkv::tools
