#include "capi/handle_table.h"

#include <pthread.h>

#include <atomic>

#include "base/log.h"

namespace dfkv::capi {
namespace {

// Filled before the first handle is given, in one order for ever: that of the locks.
struct Tables {
  Mutex mutex;
  std::vector<ForkAware*> all GUARDED_BY(mutex);
};
Tables& Watched() {
  static auto* const kTables = new Tables;
  return *kTables;
}

std::atomic<bool> warned{false};

void BeforeFork() NO_THREAD_SAFETY_ANALYSIS {
  Tables& tables = Watched();
  tables.mutex.Lock();
  for (ForkAware* table : tables.all) table->LockBeforeFork();
}

void AfterFork(bool in_child) NO_THREAD_SAFETY_ANALYSIS {
  Tables& tables = Watched();
  for (auto table = tables.all.rbegin(); table != tables.all.rend(); ++table)
    (*table)->UnlockAfterFork(in_child);
  tables.mutex.Unlock();
  if (in_child) warned = false;
}

}  // namespace

void WatchForks(ForkAware* table) {
  Tables& tables = Watched();
  MutexLock lock(tables.mutex);
  if (tables.all.empty()) {
    pthread_atfork(
        BeforeFork, [] { AfterFork(false); }, [] { AfterFork(true); });
  }
  tables.all.push_back(table);
}

void* NextHandle() {
  static std::atomic<uintptr_t> next{1};
  return reinterpret_cast<void*>(next.fetch_add(1) << 4);  // looks like an aligned address, is none
}

void WarnOfFork() {
  if (warned.exchange(true)) return;
  LogWarn(
      "a handle that was opened before fork() is used in the child process: its calls fail; open one there");
}

}  // namespace dfkv::capi
