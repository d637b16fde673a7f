#include "tools/bench/progress.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include "base/clock.h"

namespace dfkv::tools {

Progress::Progress(ProgressMode mode, std::function<std::string()> line) : line_(std::move(line)) {
  if (mode == ProgressMode::kOff) return;
  terminal_ = isatty(STDERR_FILENO) == 1;
  period_ns_ = terminal_ ? kSecond / 4 : mode == ProgressMode::kOn ? kSecond : 5 * kSecond;
  thread_ = Thread("progress", [this] { Run(); });
}

void Progress::Run() {
  while (true) {
    {
      MutexLock lock(mutex_);
      // A wake-up before its time only prints a line early.
      if (!stop_) wake_.WaitFor(mutex_, period_ns_);
      if (stop_) return;
    }
    const std::string text = line_();
    std::fprintf(stderr, terminal_ ? "\r%s\x1b[K" : "%s\n", text.c_str());
    std::fflush(stderr);
  }
}

void Progress::Finish() {
  {
    MutexLock lock(mutex_);
    if (stop_) return;
    stop_ = true;
    wake_.NotifyAll();
  }
  thread_.Join();
  if (terminal_ && period_ns_ != 0) std::fprintf(stderr, "\r\x1b[K");
}

double GigabytesPerSecond(uint64_t bytes, double seconds) {
  return seconds > 0 ? static_cast<double>(bytes) * 1e-9 / seconds : 0;
}

std::string Fixed(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return text;
}

double Percent(uint64_t part, uint64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace dfkv::tools
