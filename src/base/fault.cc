#include "base/fault.h"

#include "base/sync.h"
#include "base/text.h"

namespace dfkv {
namespace {

struct ProbeList {
  Mutex mutex;
  std::vector<Probe*> probes GUARDED_BY(mutex);
};

ProbeList& Probes() {
  static auto* list = new ProbeList;  // never destroyed: probes may fire during exit
  return *list;
}

std::function<void(const char*)>& Callback() {
  static std::function<void(const char*)> callback;
  return callback;
}

}  // namespace

std::atomic<bool> SyncPoints::installed_{false};

Probe::Probe(const char* name, const char*, int) : name_(name) {
  ProbeList& list = Probes();
  MutexLock lock(list.mutex);
  list.probes.push_back(this);
}

std::vector<std::string> ProbesReached() {
  ProbeList& list = Probes();
  MutexLock lock(list.mutex);
  std::vector<std::string> lines;
  for (const Probe* probe : list.probes) lines.push_back(Cat(probe->name(), " ", probe->hits()));
  return lines;
}

uint64_t ProbeHits(const std::string& name) {
  ProbeList& list = Probes();
  MutexLock lock(list.mutex);
  uint64_t hits = 0;
  for (const Probe* probe : list.probes) {
    if (name == probe->name()) hits += probe->hits();
  }
  return hits;
}

void SyncPoints::Install(std::function<void(const char*)> callback) {
  Callback() = std::move(callback);
  installed_.store(true, std::memory_order_release);
}

void SyncPoints::Clear() {
  installed_.store(false, std::memory_order_release);
}

void SyncPoints::Reach(const char* name) {
  Callback()(name);
}

}  // namespace dfkv
