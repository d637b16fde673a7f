#include "base/text.h"

#include <cctype>
#include <cmath>
#include <cstring>

namespace dfkv {

void text_internal::AppendDouble(std::string& out, double piece) {
  char digits[40];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, piece).ptr);
}

namespace {

struct Unit {
  std::string_view name;
  uint64_t bytes;
};
constexpr Unit kUnits[] = {
    {"", 1},
    {"b", 1},
    {"k", 1ull << 10},
    {"m", 1ull << 20},
    {"g", 1ull << 30},
    {"t", 1ull << 40},
    {"kib", 1ull << 10},
    {"mib", 1ull << 20},
    {"gib", 1ull << 30},
    {"tib", 1ull << 40},
    {"kb", 1'000},
    {"mb", 1'000'000},
    {"gb", 1'000'000'000},
    {"tb", 1'000'000'000'000},
};

template <typename T>
Result<T> ParseNumber(std::string_view text, const char* what) {
  const std::string_view trimmed = TrimSpace(text);
  T value{};
  const auto [end, error] = std::from_chars(trimmed.data(), trimmed.data() + trimmed.size(), value);
  if (error != std::errc() || end != trimmed.data() + trimmed.size()) {
    return Status(Code::kInvalid, Cat("'", text, "' is not ", what));
  }
  return value;
}

}  // namespace

Result<uint64_t> ParseBytes(std::string_view text) {
  const std::string lower = ToLower(TrimSpace(text));
  double number = 0;
  const auto [end, error] = std::from_chars(lower.data(), lower.data() + lower.size(), number);
  if (error == std::errc() && number >= 0) {
    const std::string_view unit = TrimSpace(std::string_view(end, lower.data() + lower.size()));
    for (const Unit& candidate : kUnits) {
      if (candidate.name != unit) continue;
      uint64_t whole = 0;  // whole numbers are exact beyond 2^53
      const auto exact = std::from_chars(lower.data(), end, whole);
      uint64_t product = 0;
      if (exact.ec == std::errc() && exact.ptr == end) {
        if (__builtin_mul_overflow(whole, candidate.bytes, &product)) break;
        return product;
      }
      const double scaled = number * static_cast<double>(candidate.bytes);
      if (scaled >= 0x1.0p63) break;
      return static_cast<uint64_t>(scaled);
    }
  }
  return Status(Code::kInvalid,
                Cat("'", text, "' is not a size; write bytes or a unit, as in 4096, 64KiB, 100GB"));
}

std::string Hex(uint64_t value, size_t digits) {
  std::string text(digits, '0');
  for (size_t i = digits; i-- > 0; value >>= 4) text[i] = "0123456789abcdef"[value & 15];
  return text;
}

std::string FormatBytes(uint64_t bytes) {
  constexpr const char* kNames[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  double value = static_cast<double>(bytes);
  while (value >= 1024 && unit < 5) {
    value /= 1024;
    ++unit;
  }
  char text[48];
  const bool whole = value == std::floor(value);
  std::snprintf(text, sizeof text, whole ? "%.0f %s" : "%.1f %s", value, kNames[unit]);
  return text;
}

Result<uint64_t> ParseUint(std::string_view text) {
  return ParseNumber<uint64_t>(text, "a whole number");
}
Result<int64_t> ParseInt(std::string_view text) {
  return ParseNumber<int64_t>(text, "a whole number");
}
Result<double> ParseDouble(std::string_view text) {
  return ParseNumber<double>(text, "a number");
}

Result<bool> ParseBool(std::string_view text) {
  const std::string lower = ToLower(TrimSpace(text));
  if (lower == "on" || lower == "true" || lower == "yes" || lower == "1") return true;
  if (lower == "off" || lower == "false" || lower == "no" || lower == "0") return false;
  return Status(Code::kInvalid, Cat("'", text, "' is neither on nor off"));
}

std::string_view TrimSpace(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  return text;
}

std::vector<std::string> SplitTrimmed(std::string_view text, char separator) {
  std::vector<std::string> pieces;
  while (!text.empty()) {
    const size_t end = text.find(separator);
    const std::string_view piece = TrimSpace(text.substr(0, end));
    if (!piece.empty()) pieces.emplace_back(piece);
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return pieces;
}

std::string ToLower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

std::string ErrnoText(int error) {
  char buffer[128];
  return strerror_r(error, buffer, sizeof buffer);
}

}  // namespace dfkv
