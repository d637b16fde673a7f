// Small text helpers: Cat joins anything, sizes and durations read and write as people write them.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/status.h"

namespace dfkv {

namespace text_internal {
inline void Append(std::string& out, std::string_view piece) {
  out += piece;
}
inline void Append(std::string& out, char piece) {
  out += piece;
}
template <typename T>
  requires std::is_same_v<T, bool>
void Append(std::string& out, T piece) {
  out += piece ? "true" : "false";
}
void AppendDouble(std::string& out, double piece);  // shortest form
template <typename T>
  requires std::is_floating_point_v<T>
void Append(std::string& out, T piece) {
  AppendDouble(out, static_cast<double>(piece));
}
template <typename T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool> && !std::is_same_v<T, char>)
void Append(std::string& out, T piece) {
  char digits[24];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, piece).ptr);
}
}  // namespace text_internal

// Cat("port ", 80, " is taken") == "port 80 is taken".
template <typename... Pieces>
std::string Cat(const Pieces&... pieces) {
  std::string out;
  (text_internal::Append(out, pieces), ...);
  return out;
}

// "4096", "64KiB", "100GB", "1.5 GiB": decimal units with B, binary with iB; any case. Invalid names the
// text.
Result<uint64_t> ParseBytes(std::string_view text);
std::string Hex(uint64_t value, size_t digits);  // the lowest digits, in lower case
std::string FormatBytes(uint64_t bytes);         // "1.5 GiB"; exact multiples without a fraction

Result<uint64_t> ParseUint(std::string_view text);
Result<int64_t> ParseInt(std::string_view text);
Result<double> ParseDouble(std::string_view text);
Result<bool> ParseBool(std::string_view text);  // on/off, true/false, yes/no, 1/0; any case

std::string_view TrimSpace(std::string_view text);
std::vector<std::string> SplitTrimmed(std::string_view text, char separator);  // empty pieces are dropped
std::string ToLower(std::string_view text);
std::string ErrnoText(int error);  // "No space left on device"

}  // namespace dfkv
