// CPU time of the nodes under test: from their own metrics, else from /proc when they run on this host.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/client.h"
#include "cluster/member.h"

namespace dfkv::tools {

// The sum over all series of a metric in Prometheus text; nothing when it is absent.
std::optional<double> MetricSum(std::string_view text, std::string_view name);

// The process that listens on a TCP port of this host, found through /proc; nothing when it is not visible.
std::optional<int> PidListeningOn(uint16_t port);
// User and system time of a process so far; nothing when it is gone or not ours to read.
std::optional<double> ProcessCpuSeconds(int pid);

// Seconds of CPU that all members have used so far; nothing when one of them cannot be asked.
using CpuProbe = std::function<std::optional<double>(client::Client&)>;
// Asks each member's STATS for dfkv_process_cpu_seconds_total; without it, and with a loopback address,
// /proc.
CpuProbe NodeCpuProbe(std::vector<cluster::Member> members);

// Waits until every member answers STATS, asking again every 50 ms; the last failure after `timeout_s`.
Status WaitUntilReady(client::Client& client, const std::vector<cluster::Member>& members, double timeout_s);

}  // namespace dfkv::tools
