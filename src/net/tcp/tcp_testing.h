// What the tests of the TCP transport share: a handler that they steer, and the transport in front of it.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/crc32c.h"
#include "base/log.h"
#include "base/sync.h"
#include "net/tcp/server.h"
#include "net/testing/wire_client.h"

namespace dfkv::net {

using wire::AnswerItem;
using wire::Op;

// Keeps objects in a map. One reactor, so no lock around what only it touches; the tests look through
// counters.
class FakeHandler final : public RequestHandler {
 public:
  struct Put {
    std::vector<wire::PutItem> items;
    std::vector<uint8_t> codes;
    std::vector<std::string> buffers;
  };

  void OnRequest(const wire::RequestView& request, ServerCall* call) override {
    ++requests;
    switch (request.op()) {
      case Op::kPing:
        if (hold_pings.load() > 0) {
          --hold_pings;
          held_.push_back(call);
          return;
        }
        call->AnswerText("");
        ReleaseHeld();
        return;
      case Op::kStats:
        return call->AnswerText(std::string(100'000, 's'));
      case Op::kMatch:
        return call->AnswerMatch(request.item_count());
      case Op::kGet:
        return OnGet(request, call);
      case Op::kRemove:
        return call->Fail(Status(Code::kDenied, "nothing is removed here"));
      case Op::kLookup:
        return AwaitRoom(call).Spawn();
      default: {
        std::vector<AnswerItem> items(request.item_count());
        for (uint32_t i = 0; i < items.size(); ++i) items[i].index = i;
        return call->Answer(items, {}, true);
      }
    }
  }

  void OnGet(const wire::RequestView& request, ServerCall* call) {
    std::vector<AnswerItem> items;
    std::vector<Value> values;
    for (uint32_t i = 0; i < request.item_count(); ++i) {
      const auto item = request.item<wire::GetItem>(i);
      auto found = objects_.find({item.id_hi, item.id_lo});
      AnswerItem answer;
      answer.index = i;
      if (found == objects_.end()) {
        answer.code = static_cast<uint8_t>(Code::kNotFound);
      } else {
        auto held = found->second;
        const ByteSpan bytes = AsBytes(*held);
        answer.payload_bytes = static_cast<uint32_t>(bytes.size());
        answer.stored_length = bytes.size();
        answer.crc = Crc32c(bytes);
        values.push_back({bytes, Pin(std::move(held))});
      }
      items.push_back(answer);
    }
    call->Answer(items, values, true);
  }

  static constexpr uint64_t kRoom = 1ull << 40;  // more than there ever is

  // Answers its one item with what WaitForRoom says.
  io::Task<void> AwaitRoom(ServerCall* call) {
    ++awaiting_room;
    const Status room = co_await call->WaitForRoom(kRoom);
    if (room.ok()) call->LeaveRoom(kRoom);
    room_code = room.code();
    AnswerItem item;
    item.code = static_cast<uint8_t>(room.code());
    call->Answer({&item, 1}, {}, true);
    --awaiting_room;
  }

  void OnPut(const wire::RequestView& request, ServerCall* call) override {
    deadline_left = call->deadline - call->reactor->Now();
    auto* put = new Put;
    for (uint32_t i = 0; i < request.item_count(); ++i) put->items.push_back(request.item<wire::PutItem>(i));
    put->codes.resize(put->items.size());
    put->buffers.resize(put->items.size());
    call->state = put;
    ++puts;
  }
  Place PlaceValue(ServerCall* call, uint32_t index) override {
    auto* put = static_cast<Put*>(call->state);
    if (waits.load() > 0) {
      --waits;
      return {Place::Kind::kWait, {}, call->reactor->Now() + kMillisecond};
    }
    ++places;
    if (put->items[index].depth == 99) {
      put->codes[index] = static_cast<uint8_t>(Code::kBusy);
      return {};
    }
    std::string& buffer = put->buffers[index];
    buffer.resize(put->items[index].length);
    return {Place::Kind::kReceive, {reinterpret_cast<std::byte*>(buffer.data()), buffer.size()}, 0};
  }
  void OnValue(ServerCall* call, uint32_t index, uint32_t crc) override {
    auto* put = static_cast<Put*>(call->state);
    const wire::PutItem& item = put->items[index];
    if (put->codes[index] == 0) {
      if (crc != item.crc) put->codes[index] = static_cast<uint8_t>(Code::kCorrupt);
      if (crc == item.crc) {
        objects_[{item.id_hi, item.id_lo}] = std::make_shared<std::string>(std::move(put->buffers[index]));
      }
    }
    if (index + 1 < put->items.size()) return;
    std::vector<AnswerItem> items(put->items.size());
    for (uint32_t i = 0; i < items.size(); ++i) {
      items[i].index = i;
      items[i].code = put->codes[i];
    }
    delete put;
    call->Answer(items, {}, true);
  }
  void OnAbandoned(ServerCall* call, uint32_t index) override {
    abandoned_at = static_cast<int>(index);
    ++abandoned;
    delete static_cast<Put*>(call->state);
    call->Fail(Code::kCancelled);
  }

  void ReleaseHeld() {
    for (ServerCall* call : held_) call->AnswerText("");
    held_.clear();
  }

  std::atomic<int> requests{0}, puts{0}, places{0}, abandoned{0}, abandoned_at{-1}, waits{0}, hold_pings{0},
      awaiting_room{0};
  std::atomic<Code> room_code{Code::kUnsupported};  // of the last AwaitRoom
  std::atomic<Nanos> deadline_left{0};              // of the last PUT

 private:
  std::map<ObjectId, std::shared_ptr<std::string>> objects_;
  std::vector<ServerCall*> held_;
};

class TcpTest : public ::testing::TestWithParam<io::ReactorKind> {
 protected:
  void SetUp() override {
    SetLogSink([](LogLevel, std::string_view) {});
  }
  void TearDown() override {
    Stop();
    SetLogSink(nullptr);
  }

  void Start(const TcpOptions& options = {}) {
    io::ReactorOptions reactor_options;
    reactor_options.kind = GetParam();
    bool started = false;
    Mutex mutex;
    CondVar ready;
    thread_ = Thread("reactor", [&] {
      auto made = io::MakeReactor(reactor_options);
      io::Reactor* reactor = nullptr;
      {
        MutexLock lock(mutex);
        if (made.ok()) reactor_ = std::move(*made);
        reactor = reactor_.get();
        started = true;
        ready.NotifyAll();
      }
      if (reactor != nullptr) reactor->Run();
    });
    {
      MutexLock lock(mutex);
      while (!started) ready.Wait(mutex);
    }
    if (reactor_ == nullptr) {
      GTEST_SKIP() << "this system refuses io_uring";
    }
    transport_ = MakeTcpTransport(options, {reactor_.get()}, &handler_, metrics_);
    const Status status = transport_->StartBlocking();
    ASSERT_TRUE(status.ok()) << status.ToString();
    port_ = transport_->port();
  }
  void Stop() {
    if (transport_ != nullptr) {
      EXPECT_TRUE(transport_->StopBlocking(5 * kSecond).ok());
    }
    transport_.reset();
    if (reactor_ != nullptr) reactor_->Stop();
    thread_.Join();
    reactor_.reset();
  }
  // Runs `work` on the reactor's thread and waits for it.
  void OnReactor(const std::function<void()>& work) {
    Mutex mutex;
    CondVar condition;
    bool done = false;
    reactor_->Post([&] {
      work();
      MutexLock lock(mutex);
      done = true;
      condition.NotifyAll();
    });
    MutexLock lock(mutex);
    while (!done) condition.Wait(mutex);
  }
  uint64_t Metric(const std::string& name, const std::string& label = "") {
    uint64_t sum = 0;
    for (const auto& [key, value] : metrics_.Snapshot()) {
      if (key.starts_with(name) && key.find(label) != std::string::npos) sum += static_cast<uint64_t>(value);
    }
    return sum;
  }
  // Waits until the metric has that value: what a client sees may come before the node has counted it.
  testing::AssertionResult Becomes(const std::string& name, const std::string& label, uint64_t value) {
    const Nanos until = SystemClock().Now() + 20 * kSecond;
    while (Metric(name, label) != value) {
      if (SystemClock().Now() > until) {
        return testing::AssertionFailure() << name << " " << label << " is " << Metric(name, label);
      }
      OnReactor([] {});
    }
    return testing::AssertionSuccess();
  }
  // Waits until it is so; bounded, so that a test that has failed ends.
  testing::AssertionResult Comes(const std::function<bool()>& condition) {
    const Nanos until = SystemClock().Now() + 20 * kSecond;
    while (!condition()) {
      if (SystemClock().Now() > until) return testing::AssertionFailure() << "it does not come true";
      OnReactor([] {});
    }
    return testing::AssertionSuccess();
  }
  WireClient Greeted() {
    WireClient client;
    const Status status = client.ConnectAndHello(port_);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return client;
  }

  MetricRegistry metrics_;
  FakeHandler handler_;
  std::unique_ptr<io::Reactor> reactor_;
  Thread thread_;
  std::unique_ptr<Transport> transport_;
  uint16_t port_ = 0;
};

#define START(...)         \
  Start(__VA_ARGS__);      \
  if (IsSkipped()) return; \
  ASSERT_NE(transport_, nullptr)

}  // namespace dfkv::net
