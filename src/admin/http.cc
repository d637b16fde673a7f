#include "admin/http.h"

#include <algorithm>

#include "base/text.h"

namespace dfkv::admin {
namespace {

constexpr size_t kMethodLengthMax = 32;

std::string_view Reason(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 503:
      return "Service Unavailable";
    default:
      return "Status";
  }
}

// Printable ASCII: nothing that could end a line of a log or of an answer.
bool IsPlain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < 0x7F; });
}

// The end of the header (one past its last byte), or npos. A bare line feed ends a line, too.
size_t HeaderEnd(std::string_view bytes) {
  for (size_t at = bytes.find('\n'); at != std::string_view::npos; at = bytes.find('\n', at + 1)) {
    if (bytes.substr(at + 1).starts_with('\n')) return at + 2;
    if (bytes.substr(at + 1).starts_with("\r\n")) return at + 3;
  }
  return std::string_view::npos;
}

}  // namespace

ParseState ParseRequest(std::string_view bytes, Request* request) {
  // Waiting for the whole header, of which only the first line counts: a connection that is closed with
  // unread bytes is reset, and the client might lose the answer.
  if (HeaderEnd(bytes) == std::string_view::npos) return ParseState::kIncomplete;
  std::string_view line = bytes.substr(0, bytes.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  const size_t method_end = line.find(' ');
  if (method_end == std::string_view::npos) return ParseState::kMalformed;
  const std::string_view method = line.substr(0, method_end);
  std::string_view target = line.substr(method_end + 1);
  const size_t target_end = target.find(' ');
  if (target_end != std::string_view::npos) {
    if (!target.substr(target_end + 1).starts_with("HTTP/1.")) return ParseState::kMalformed;
    target = target.substr(0, target_end);
  }
  if (method.empty() || method.size() > kMethodLengthMax || !IsPlain(method)) return ParseState::kMalformed;
  if (target.starts_with("http://")) {  // as a proxy's client sends it
    const size_t path = target.find('/', 7);
    target = path == std::string_view::npos ? std::string_view("/") : target.substr(path);
  }
  if (!target.starts_with('/') || !IsPlain(target)) return ParseState::kMalformed;
  const size_t question = std::min(target.find('?'), target.size());
  request->method = method;
  request->path = target.substr(0, question);
  request->query = target.substr(std::min(question + 1, target.size()));
  return ParseState::kComplete;
}

std::string FormatResponse(const Response& response, bool head) {
  std::string bytes =
      Cat("HTTP/1.1 ", response.status, " ", Reason(response.status),
          "\r\nContent-Type: ", response.content_type, "\r\nContent-Length: ", response.body.size(),
          "\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n");
  if (!head) bytes += response.body;
  return bytes;
}

}  // namespace dfkv::admin
