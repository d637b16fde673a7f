// HttpServer: /metrics, /healthz and the like, for whatever process wants an admin port.
//
//   admin::HttpServer server(options);
//   server.Handle("/metrics", [&](const admin::Request&) {
//     return admin::Response{200, admin::kMetricsContentType, registry.Render()};
//   });
//   DFKV_RETURN_IF_ERROR(server.Start());
//
// Purpose: it answers while the data path is stuck, and says so; hence a thread of its own, and no reactor.
// Threads: handlers run on that one thread, one at a time, and must not wait for long: they render what is
// already known. Handle and Start belong to one thread; Stop may be called from any but a handler. Bounds:
// connections_max connections, request_bytes_max bytes of each, one absolute deadline for a request and one
// for its answer. A connection more than the most closes the oldest, so clients that say nothing cannot keep
// others out. Shutdown: Stop (or the destructor) refuses new connections, gives answers under way stop_ms,
// and joins.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "admin/http.h"
#include "base/option.h"
#include "base/status.h"
#include "base/sync.h"
#include "io/fd.h"

namespace dfkv::admin {

constexpr const char* kMetricsContentType = "text/plain; version=0.0.4; charset=utf-8";
constexpr const char* kJsonContentType = "application/json";

struct HttpOptions {
  std::string bind = "127.0.0.1";  // an IPv4 or IPv6 address
  uint16_t port = 0;               // 0: a free one
  uint32_t connections_max = 64;
  uint32_t request_ms = 30'000;  // from the connection to the last byte of the request's header
  uint32_t answer_ms = 10'000;   // from there to the last byte of the answer
  uint32_t stop_ms = 1'000;
  uint32_t request_bytes_max = 8192;
};

// Declares --metrics-bind, --metrics-max-conns and --metrics-first-req-ms. The port is the program's own row:
// it decides whether there is an admin port at all.
void RegisterHttpOptions(OptionSet* set, HttpOptions* options);

using Handler = std::function<Response(const Request&)>;

class HttpServer {
 public:
  explicit HttpServer(HttpOptions options);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Answers `path` with `handler`, for every method. Before Start. Other paths answer 404.
  void Handle(std::string path, Handler handler);
  // kInvalid: no such address. kUnavailable: the address is taken. Names the address in both cases.
  Status Start();
  void Stop();  // may be called twice

  uint16_t port() const { return port_; }                  // after Start
  const std::string& address() const { return address_; }  // "127.0.0.1:9400", after Start

 private:
  class Loop;

  HttpOptions options_;
  std::map<std::string, Handler> handlers_;
  std::unique_ptr<Loop> loop_;
  uint16_t port_ = 0;
  std::string address_;
  Thread thread_;
};

}  // namespace dfkv::admin
