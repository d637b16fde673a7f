// Log lines to stderr, or to a sink that a test or an embedding program sets. Never on the hot path. Any
// thread.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "base/text.h"

namespace dfkv {

enum class LogLevel : int { kDebug = 0, kInfo = 1, kWarn = 2, kError = 3, kOff = 4 };

Result<LogLevel> ParseLogLevel(std::string_view text);  // debug, info, warn(ing), error, off; any case
void SetLogLevel(LogLevel level);
LogLevel CurrentLogLevel();

// Receives every line that passes the level; nullptr restores stderr. Not to be called while other threads
// log.
using LogSink = std::function<void(LogLevel, std::string_view)>;
void SetLogSink(LogSink sink);

void WriteLog(LogLevel level, std::string_view message);

// LogWarn("disk ", path, ": ", status.ToString()).
template <typename... Pieces>
void Log(LogLevel level, const Pieces&... pieces) {
  if (level >= CurrentLogLevel()) WriteLog(level, Cat(pieces...));
}
template <typename... Pieces>
void LogDebug(const Pieces&... pieces) {
  Log(LogLevel::kDebug, pieces...);
}
template <typename... Pieces>
void LogInfo(const Pieces&... pieces) {
  Log(LogLevel::kInfo, pieces...);
}
template <typename... Pieces>
void LogWarn(const Pieces&... pieces) {
  Log(LogLevel::kWarn, pieces...);
}
template <typename... Pieces>
void LogError(const Pieces&... pieces) {
  Log(LogLevel::kError, pieces...);
}

}  // namespace dfkv
