// What a TCP endpoint of a node allows. Each field is an option of dfkv_server (src/node).
#pragma once

#include <cstdint>
#include <string>

namespace dfkv::net {

struct TcpOptions {
  std::string address = "127.0.0.1";  // IPv4 or IPv6, numeric
  uint16_t port = 0;                  // 0: a free one
  uint32_t backlog = 1024;

  uint32_t connections_max = 512;    // the idlest one makes room for a new one
  uint32_t first_frame_ms = 30'000;  // from accept to the last byte of HELLO
  uint32_t idle_ms = 60'000;         // without a request
  uint32_t stall_ms = 1000;          // within a frame: longest time without a byte
  uint64_t min_rate = 8ull << 20;    // bytes/s: n bytes have stall_ms + n / min_rate to arrive, and
                                     // write_stall_ms + n / min_rate to be taken
  uint32_t write_stall_ms = 10'000;  // longest time in which the peer takes no byte of an answer
  uint32_t linger_ms = 500;          // a refused peer may read the reason this long

  uint64_t payload_bytes_max = 64ull << 20;  // of one frame, both directions; below 4 GiB
  uint64_t object_bytes_max = 64ull << 20;   // told in HELLO
  uint32_t items_max = 4096;                 // of one request
  uint32_t requests_in_flight_max = 256;     // of one connection; past it the node stops reading
  uint64_t output_bytes_max =
      16ull << 20;  // queued answers of one connection; past it the node stops reading
  uint64_t output_bytes_total_max = 1ull << 30;  // of all connections together
  uint32_t request_ms = 10'000;                  // deadline of a request that states none
  uint32_t request_ms_max = 600'000;             // the longest one, whatever a request states
  uint64_t incarnation = 0;                      // told in HELLO
};

}  // namespace dfkv::net
