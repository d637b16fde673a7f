// For tests of the store: a temporary directory, a store in it, and the operations as plain calls.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "io/disk.h"
#include "io/reactor.h"
#include "store/store.h"
#include "store/store_impl.h"

namespace dfkv::store {

class TempDir {
 public:
  // `in_memory`: where the system has such a place. Syncs cost nothing there.
  explicit TempDir(bool in_memory = false) {
    const bool shared_memory = in_memory && std::filesystem::is_directory("/dev/shm");
    if (!shared_memory || !Make("/dev/shm")) Make(std::filesystem::temp_directory_path());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  bool Make(const std::filesystem::path& in) {
    std::string name = (in / "dfkv-store-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) return false;
    path_ = name;
    return true;
  }
  std::string path_;
};

inline ObjectKey KeyOf(uint64_t number, uint64_t tenant = 7) {
  return {TenantHash(tenant), {Mix64(number), Mix64(~number)}};
}

inline std::vector<std::byte> BytesOf(uint64_t seed, size_t size) {
  std::vector<std::byte> bytes(size);
  FillPattern(seed, 0, bytes);
  return bytes;
}

// One store and one reactor in the calling thread.
class StoreUser {
 public:
  StoreUser(Store* store, io::Reactor* reactor) : store_(store), reactor_(reactor) {}

  Status Put(const ObjectKey& key, ByteSpan bytes, uint32_t depth = UINT32_MAX) {
    return reactor_->RunTask(PutTask(store_, key, bytes, depth));
  }
  Status PutSeeded(uint64_t number, size_t size) { return Put(KeyOf(number), BytesOf(number, size)); }
  // Objects first .. first + count - 1, many at a time.
  Status PutMany(uint64_t first, uint64_t count, size_t size) {
    Many many{store_, first, first + count, size, {}, 0};
    for (int i = 0; i < 32; ++i) {
      ++many.workers;
      reactor_->QueueReady(many.Work(&many).Release());
    }
    reactor_->RunUntil([&] { return many.workers == 0; });
    return many.status;
  }
  Status Remove(const ObjectKey& key) { return reactor_->RunTask(store_->Remove(key, kNever)); }
  Result<ReadPin> Get(const ObjectKey& key) { return reactor_->RunTask(GetTask(store_, key)); }
  // "hit", "miss", or the code; "WRONG" when the bytes are not those of PutSeeded.
  std::string Check(uint64_t number, size_t size) {
    const Result<ReadPin> got = Get(KeyOf(number));
    if (!got.ok()) return got.code() == Code::kNotFound ? "miss" : std::string(CodeName(got.code()));
    if (got->bytes().size() != size || !PatternMatches(number, 0, got->bytes())) return "WRONG";
    return "hit";
  }
  Status Stop() { return reactor_->RunTask(store_->Stop(kNever)); }

  static io::Task<Status> PutTask(Store* store, ObjectKey key, ByteSpan bytes, uint32_t depth) {
    PutRequest request;
    request.key = key;
    request.length = bytes.size();
    request.crc = Crc32c(bytes);
    request.depth = depth;
    PutStart start = store->BeginPut(request);
    switch (start.outcome) {
      case PutStart::Outcome::kPresent:
        co_return Ok();
      case PutStart::Outcome::kInFlight: {
        const Status joined = co_await store->JoinPut(key, kNever);
        co_return joined;
      }
      case PutStart::Outcome::kRefused:
        co_return start.status;
      case PutStart::Outcome::kReserved:
        break;
    }
    std::memcpy(start.ticket.buffer().data(), bytes.data(), bytes.size());
    const Status committed = co_await store->CommitPut(std::move(start.ticket), false, kNever);
    co_return committed;
  }
  static io::Task<Result<ReadPin>> GetTask(Store* store, ObjectKey key) {
    ReadPin pin;
    switch (store->TryGet(key, &pin)) {
      case Lookup::kMiss:
        co_return Code::kNotFound;
      case Lookup::kRam:
        co_return std::move(pin);
      case Lookup::kDisk:
        break;
    }
    Result<ReadPin> got = co_await store->Get(key, kNever);
    co_return std::move(got);
  }

 private:
  struct Many {
    Store* store;
    uint64_t next;
    uint64_t end;
    size_t size;
    Status status;
    int workers;
    static io::Task<void> Work(Many* many) {
      while (many->next < many->end) {
        const uint64_t number = many->next++;
        const std::vector<std::byte> bytes = BytesOf(number, many->size);
        const Status status = co_await PutTask(many->store, KeyOf(number), bytes, UINT32_MAX);
        if (!status.ok()) many->status = status;
      }
      --many->workers;
    }
  };
  Store* store_;
  io::Reactor* reactor_;
};

// Runs the reactor until what was begun in the store has ended; a reactor that goes before takes it along.
inline void Settle(Store* store, io::Reactor* reactor) {
  int turns = 0;  // what this one has queued leaves at the end of a turn
  const auto settled = [&] { return ++turns > 4 && static_cast<StoreImpl*>(store)->in_flight() == 0; };
  while (!settled()) reactor->RunUntil([] { return false; }, reactor->Now() + kMillisecond / 4);
}

// A slab store over one real directory, on the epoll reactor; reopened at will.
class SlabStore : public testing::Test {
 protected:
  static std::unique_ptr<io::Reactor> NewReactor() {
    io::ReactorOptions options;
    options.kind = io::ReactorKind::kEpoll;
    return std::move(*io::MakeReactor(options));
  }
  SlabStore() {
    options_.directories = {dir_.path()};

    options_.capacity_bytes = 8 << 20;
    options_.ram_bytes = 4 << 20;
    options_.policy = "lru";
    options_.populate = false;
    SetLogLevel(LogLevel::kError);
    reactor_ = NewReactor();
  }
  ~SlabStore() override { Close(); }

  Status Open() {
    Close();
    auto opened = Store::OpenBlocking(options_, io::PosixDisk(), metrics_);
    if (!opened.ok()) return opened.status();
    store_ = std::move(*opened);
    user_ = std::make_unique<StoreUser>(store_.get(), reactor_.get());
    return Ok();
  }
  void Close() {
    if (!store_) return;
    EXPECT_TRUE(user_->Stop().ok());
    store_.reset();
  }

  TempDir dir_;
  StoreOptions options_;
  MetricRegistry metrics_;
  std::unique_ptr<io::Reactor> reactor_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<StoreUser> user_;
};

inline double MetricOf(const MetricRegistry& registry, const std::string& name) {
  double sum = 0;
  for (const auto& [series, value] : registry.Snapshot()) {
    if (series == name || series.starts_with(name + "{")) sum += value;
  }
  return sum;
}

}  // namespace dfkv::store
