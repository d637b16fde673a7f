#include "base/log.h"

#define SPDLOG_HEADER_ONLY
#define FMT_HEADER_ONLY
#define SPDLOG_FMT_EXTERNAL 1
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>

namespace dfkv {
namespace {

std::atomic<int> level_now{static_cast<int>(LogLevel::kInfo)};

// Neither this nor the logger is ever destroyed: threads may log while the process exits.
LogSink& Sink() {
  static auto* const kSink = new LogSink;
  return *kSink;
}

spdlog::logger& StderrLogger() {
  static auto* const kLogger = [] {
    auto* logger = new spdlog::logger("dfkv", std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    logger->set_pattern("%Y-%m-%dT%H:%M:%S.%e %^%-5l%$ %v");
    logger->set_level(spdlog::level::debug);
    logger->flush_on(spdlog::level::debug);
    return logger;
  }();
  return *kLogger;
}

spdlog::level::level_enum SpdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
    case LogLevel::kOff:
      break;
  }
  return spdlog::level::off;
}

}  // namespace

Result<LogLevel> ParseLogLevel(std::string_view text) {
  const std::string lower = ToLower(TrimSpace(text));
  if (lower == "debug" || lower == "trace") return LogLevel::kDebug;
  if (lower == "info") return LogLevel::kInfo;
  if (lower == "warn" || lower == "warning") return LogLevel::kWarn;
  if (lower == "error") return LogLevel::kError;
  if (lower == "off") return LogLevel::kOff;
  return Status(Code::kInvalid, Cat("'", text, "' is no log level; use debug, info, warn, error or off"));
}

void SetLogLevel(LogLevel level) {
  level_now.store(static_cast<int>(level), std::memory_order_relaxed);
}
LogLevel CurrentLogLevel() {
  return static_cast<LogLevel>(level_now.load(std::memory_order_relaxed));
}
void SetLogSink(LogSink sink) {
  Sink() = std::move(sink);
}

void WriteLog(LogLevel level, std::string_view message) {
  if (const LogSink& sink = Sink()) {
    sink(level, message);
  } else {
    StderrLogger().log(SpdlogLevel(level), message);
  }
}

}  // namespace dfkv
