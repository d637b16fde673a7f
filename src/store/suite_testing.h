// The fixture of suite_test.cc: one store per setting, and tasks that run beside each other.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "io/disk_sim.h"
#include "io/reactor_sim.h"
#include "store/store_testing.h"

namespace dfkv::store {

struct Setting {
  const char* name;
  EngineKind engine;
  io::ReactorKind reactor;
  bool simulated = false;  // disk and reactor, instead of those named
};
inline std::vector<Setting> Settings() {
  return {
      {"slab_epoll", EngineKind::kSlab, io::ReactorKind::kEpoll},
      {"slab_uring", EngineKind::kSlab, io::ReactorKind::kUring},
      {"file_epoll", EngineKind::kFile, io::ReactorKind::kEpoll},
      {"file_uring", EngineKind::kFile, io::ReactorKind::kUring},
      {"slab_sim", EngineKind::kSlab, io::ReactorKind::kEpoll, true},
      {"file_sim", EngineKind::kFile, io::ReactorKind::kEpoll, true},
      {"ram_epoll", EngineKind::kRam, io::ReactorKind::kEpoll},
  };
}

inline std::string NameOf(const testing::TestParamInfo<Setting>& info) {
  return info.param.name;
}

// Tasks that a test waits for together.
struct Group {
  int left = 0;
};

// A task that the test starts from outside the loop.
class Started {
 public:
  explicit Started(io::Task<void> task) : task_(std::move(task)) {}
  void On(io::Reactor* reactor) { reactor->QueueReady(task_.Release()); }

 private:
  io::Task<void> task_;
};

inline Started PutInto(Store* store, ObjectKey key, ByteSpan bytes, Status* result, Group* group) {
  struct Run {
    static io::Task<void> Do(Store* s, ObjectKey k, ByteSpan b, Status* r, Group* g) {
      *r = co_await StoreUser::PutTask(s, k, b, UINT32_MAX);
      --g->left;
    }
  };
  ++group->left;
  return Started(Run::Do(store, key, bytes, result, group));
}

inline Started RemoveInto(Store* store, ObjectKey key, Status* result, Group* group) {
  struct Run {
    static io::Task<void> Do(Store* s, ObjectKey k, Status* r, Group* g) {
      *r = co_await s->Remove(k, kNever);
      --g->left;
    }
  };
  ++group->left;
  return Started(Run::Do(store, key, result, group));
}

inline Started GetInto(Store* store, uint64_t number, size_t size, std::string* result, Group* group) {
  struct Run {
    static io::Task<void> Do(Store* s, uint64_t n, size_t z, std::string* r, Group* g) {
      const Result<ReadPin> got = co_await StoreUser::GetTask(s, KeyOf(n));
      if (!got.ok()) {
        *r = got.code() == Code::kNotFound ? "miss" : std::string(CodeName(got.code()));
      } else {
        *r = got->bytes().size() == z && PatternMatches(n, 0, got->bytes()) ? "hit" : "WRONG";
      }
      --g->left;
    }
  };
  ++group->left;
  return Started(Run::Do(store, number, size, result, group));
}

class AnyStore : public testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    SetLogLevel(LogLevel::kError);
    if (GetParam().simulated) {
      reactor_ = std::make_unique<io::SimReactor>();
      sim_disk_.set_faults({.delay_max = kMillisecond / 20});
    } else {
      io::ReactorOptions reactor;
      reactor.kind = GetParam().reactor;
      auto made = io::MakeReactor(reactor);
      if (!made.ok() && made.code() == Code::kUnavailable) {
        GTEST_SKIP() << "NOT TESTED ON IO_URING: " << made.status().message();
      }
      ASSERT_TRUE(made.ok()) << made.status().ToString();
      reactor_ = std::move(*made);
    }
    options_.engine = GetParam().engine;
    if (!ram_only()) options_.directories = {dir_.path()};
    options_.capacity_bytes = 8 << 20;
    options_.ram_bytes = 4 << 20;
    options_.policy = "lru";
    options_.populate = false;
  }
  void TearDown() override { Close(); }

  bool ram_only() const { return options_.engine == EngineKind::kRam; }
  uint64_t capacity() const { return ram_only() ? options_.ram_bytes : options_.capacity_bytes; }

  io::Disk& disk() {
    io::Disk& simulated = sim_disk_;
    return GetParam().simulated ? simulated : io::PosixDisk();
  }

  Status Open() {
    Close();
    auto opened = Store::OpenBlocking(options_, disk(), metrics_);
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

  // Lets the loop go round about so often, or until it has nothing to do for a moment.
  void Turns(uint64_t count) {
    reactor_->RunUntil([&, turn = uint64_t{0}]() mutable { return ++turn > count; },
                       reactor_->Now() + 2 * kMillisecond);
  }
  // Calls a plain function of the store as a reactor's thread does.
  template <typename F>
  auto OnReactor(const F& call) {
    struct Run {
      static io::Task<decltype(call())> Do(const F* f) { co_return (*f)(); }
    };
    return reactor_->RunTask(Run::Do(&call));
  }
  PutStart Begin(uint64_t number, ByteSpan bytes, uint32_t crc) {
    PutRequest request;
    request.key = KeyOf(number);
    request.length = bytes.size();
    request.crc = crc;
    return OnReactor([&] { return store_->BeginPut(request); });
  }
  PutStart Begin(uint64_t number, ByteSpan bytes) { return Begin(number, bytes, Crc32c(bytes)); }

  // The file engine syncs every object by itself: minutes on a real disk, where file_media_test.cc is.
  TempDir dir_{GetParam().engine == EngineKind::kFile};
  io::SimDisk sim_disk_;
  StoreOptions options_;
  MetricRegistry metrics_;
  std::unique_ptr<io::Reactor> reactor_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<StoreUser> user_;
};

}  // namespace dfkv::store
