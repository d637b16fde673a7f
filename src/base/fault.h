// Probes and sync points: how tests reach rare paths and order threads without sleeps.
//
// DFKV_PROBE("name") marks a rare path; a test run can list the probes never reached (ProbesNotReached).
// DFKV_SYNC_POINT("name") is where a test may stop a thread (SyncPoints). With no test attached it costs one
// relaxed load.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

namespace dfkv {

class Probe {
 public:
  Probe(const char* name, const char* file, int line);
  void Hit() { hits_.fetch_add(1, std::memory_order_relaxed); }
  const char* name() const { return name_; }
  uint64_t hits() const { return hits_.load(std::memory_order_relaxed); }

 private:
  const char* name_;
  std::atomic<uint64_t> hits_{0};
};

// "name hits" of every probe whose code ran at least once; tests compare against the names they expect.
std::vector<std::string> ProbesReached();
uint64_t ProbeHits(const std::string& name);

// A test installs one callback; it is called with the point's name on the thread that reaches it, and may
// block there.
class SyncPoints {
 public:
  static void Install(std::function<void(const char* name)> callback);  // no thread may be at a point
  static void Clear();
  static bool installed() { return installed_.load(std::memory_order_acquire); }
  static void Reach(const char* name);

 private:
  static std::atomic<bool> installed_;
};

}  // namespace dfkv

#define DFKV_PROBE(name)                                        \
  do {                                                          \
    static ::dfkv::Probe dfkv_probe_(name, __FILE__, __LINE__); \
    dfkv_probe_.Hit();                                          \
  } while (0)

#define DFKV_SYNC_POINT(name)                                                                  \
  do {                                                                                         \
    if (__builtin_expect(::dfkv::SyncPoints::installed(), 0)) ::dfkv::SyncPoints::Reach(name); \
  } while (0)
