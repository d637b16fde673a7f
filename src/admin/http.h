// The little of HTTP that an admin port needs, as pure functions over bytes: one request per connection, any
// method, the path and its query; the rest of the request is read past.
#pragma once

#include <string>
#include <string_view>

namespace dfkv::admin {

struct Request {
  std::string method;  // "GET", "HEAD", or any other word
  std::string path;    // "/metrics": begins with a slash, as sent (percent signs stay)
  std::string query;   // what follows '?', without it
};

struct Response {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::string body;
};

enum class ParseState { kIncomplete, kComplete, kMalformed };

// Reads a request from all bytes received so far. kIncomplete: more are needed (the caller bounds their
// number); `request` is set only on kComplete. Bytes after the header are a body or noise, and ignored.
ParseState ParseRequest(std::string_view bytes, Request* request);

// The bytes of an answer after which the connection closes. With `head`, the body is announced but not sent.
std::string FormatResponse(const Response& response, bool head);

}  // namespace dfkv::admin
