// A whole node under a program of requests through its sockets: the input is a list of steps, each on one of
// four connections: well-formed requests of every kind, requests cut short, values that do not match their
// checksum, answers left unread, bytes that are no frame, and restarts. A model says what each answer may be:
// no other bytes, no lost object, nothing back after its removal, and a node that still answers.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "base/text.h"
#include "net/testing/wire_client.h"
#include "node/node.h"

namespace dfkv {
namespace {

using net::ClientAnswer;
using net::ClientGet;
using net::ClientItem;
using net::ClientPut;
using net::WireClient;
using wire::Op;

constexpr int kStepsMax = 48;
constexpr size_t kKeys = 12;
constexpr size_t kConnections = 4;
constexpr std::array<size_t, 8> kLengths = {1, 100, 4096, 4097, 30'000, 65'536, 200'000, 0};

// Reads the input byte by byte; zeros after its end.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool done() const { return at_ >= size_; }
  uint8_t Byte() { return at_ < size_ ? data_[at_++] : 0; }
  size_t Below(size_t bound) { return Byte() % bound; }
  std::string Bytes(size_t count) {
    std::string bytes;
    while (bytes.size() < count) bytes.push_back(static_cast<char>(Byte()));
    return bytes;
  }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t at_ = 0;
};

// What a key may hold: the numbers of the values that a read may find, and whether it may be absent.
struct Register {
  std::set<uint64_t> values;
  bool absent = true;
};

class Program {
 public:
  Program(Input input, std::unique_ptr<node::Node>* node, const node::NodeConfig& config)
      : input_(input), node_(node), config_(config) {}

  void Run() {
    Clear();
    for (int step = 0; step < kStepsMax && !input_.done(); ++step) Step();
    for (WireClient& client : clients_) client.Close();
    for (size_t key = 0; key < kKeys; ++key) CheckGet(Control(), key);  // the node lives, and the model holds
  }

 private:
  // A connection of the harness's own, which no step spoils.
  WireClient& Control() {
    if (!control_) {
      control_.emplace();
      DFKV_CHECK(control_->ConnectAndHello((*node_)->port()).ok());
    }
    return *control_;
  }

  void Clear() {
    for (size_t key = 0; key < kKeys; ++key) Removed(key, Control().Remove(Key(key)));
  }

  WireClient& Client() {
    const size_t i = input_.Below(kConnections);
    if (!usable_[i]) {
      clients_[i].Close();
      DFKV_CHECK(clients_[i].ConnectAndHello((*node_)->port()).ok());
      usable_[i] = true;
    }
    last_ = i;
    return clients_[i];
  }
  void Spoiled() { usable_[last_] = false; }

  static ObjectKey Key(size_t key) { return net::TestKey(1000 + key); }

  // A value that no PUT had before.
  ClientPut Fresh(size_t key) {
    const size_t length = kLengths[input_.Below(kLengths.size())];
    const uint64_t number = ++numbers_;
    lengths_.push_back(length);
    held_.push_back(net::TestValue(number, length));
    return {Key(key), held_.back(), static_cast<uint32_t>(input_.Below(8))};
  }

  void Put(size_t key, Code code) {
    if (code == Code::kOk) {
      if (registers_[key].absent) registers_[key].values.insert(numbers_);
      registers_[key].absent = false;
      return;
    }
    DFKV_CHECK(code == Code::kBusy || code == Code::kInvalid || code == Code::kTooLarge);
  }
  void Removed(size_t key, Code code) {
    DFKV_CHECK(code == Code::kOk || code == Code::kNotFound);
    DFKV_CHECK(code == Code::kOk || registers_[key].absent);
    registers_[key] = {};
  }
  void Got(size_t key, const ClientItem& item) {
    if (item.code == Code::kBusy) return;
    if (item.code == Code::kNotFound) {
      DFKV_CHECK(registers_[key].absent);
      return;
    }
    DFKV_CHECK(item.code == Code::kOk);
    DFKV_CHECK(item.crc_ok);
    for (const uint64_t number : registers_[key].values) {
      if (item.value != net::TestValue(number, lengths_[number - 1])) continue;
      registers_[key] = {{number}, false};  // from now on it is this one
      return;
    }
    DFKV_CHECK(false && "a value that nobody stored");
  }
  void CheckGet(WireClient& client, size_t key) { Got(key, client.Get(Key(key), 1 << 20)); }

  void Step() {
    switch (input_.Below(13)) {
      case 0:
      case 1:
        return StepPut();
      case 2:
        return CheckGet(Client(), input_.Below(kKeys));
      case 3:
        return StepRange();
      case 4: {
        const size_t key = input_.Below(kKeys);
        return Removed(key, Client().Remove(Key(key)));
      }
      case 5:
        return StepExist();
      case 6:
        return StepMatch();
      case 7:
        return StepMultiGet();
      case 8:
        return StepCutPut();
      case 9:
        return StepWrongChecksum();
      case 10:
        return StepUnread();
      case 11:
        return StepGarbage();
      default:
        return StepRestart();
    }
  }

  void StepPut() {
    const size_t key = input_.Below(kKeys);
    WireClient& client = Client();
    const ClientPut put = Fresh(key);
    Put(key, client.Put(put.key, put.value));
  }

  void StepRange() {
    const size_t key = input_.Below(kKeys);
    const uint64_t offset = static_cast<uint64_t>(input_.Byte()) * 997;
    const uint64_t length = 1 + static_cast<uint64_t>(input_.Byte()) * 331;
    WireClient& client = Client();
    const auto answer = client.Await(client.SendGet({{Key(key), length, offset}}, Op::kGetRange));
    DFKV_CHECK(answer.ok() && answer->code == Code::kOk && answer->items.count(0) == 1);
    const ClientItem& item = answer->items.at(0);
    if (item.code == Code::kNotFound) DFKV_CHECK(registers_[key].absent);
    if (item.code != Code::kOk) return;
    DFKV_CHECK(item.crc_ok);
    bool known = false;
    for (const uint64_t number : registers_[key].values) {
      const std::string whole = net::TestValue(number, lengths_[number - 1]);
      known |= offset <= whole.size() && item.value == whole.substr(offset, length);
    }
    DFKV_CHECK(known && "a range of a value that nobody stored");
  }

  void StepExist() {
    const size_t key = input_.Below(kKeys);
    const Code code = Client().Exist(Key(key));
    DFKV_CHECK(code == Code::kOk || code == Code::kNotFound);
    DFKV_CHECK(code == Code::kOk ? !registers_[key].values.empty() : registers_[key].absent);
  }

  void StepMatch() {
    const size_t first = input_.Below(kKeys);
    std::vector<ObjectKey> keys;
    for (size_t key = first; key < kKeys; ++key) keys.push_back(Key(key));
    WireClient& client = Client();
    const auto answer = client.Await(client.SendKeys(Op::kMatch, keys));
    DFKV_CHECK(answer.ok() && answer->code == Code::kOk && answer->present <= keys.size());
    for (size_t i = 0; i < answer->present; ++i) DFKV_CHECK(!registers_[first + i].values.empty());
    if (answer->present < keys.size()) DFKV_CHECK(registers_[first + answer->present].absent);
  }

  // Several values in one request, then all of them in one, in pieces that leave together.
  void StepMultiGet() {
    WireClient& client = Client();
    std::vector<ClientPut> puts;
    std::vector<uint64_t> numbers;
    const size_t first = input_.Below(kKeys - 3);
    for (size_t key = first; key < first + 3; ++key) {
      puts.push_back(Fresh(key));
      numbers.push_back(numbers_);
    }
    const uint64_t put_id = client.SendPut(puts);
    std::vector<ClientGet> gets;
    for (size_t key = 0; key < kKeys; ++key) gets.push_back({Key(key), 1 << 20, 0});
    const auto put = client.Await(put_id);
    DFKV_CHECK(put.ok() && put->code == Code::kOk && put->items.size() == puts.size());
    for (size_t i = 0; i < puts.size(); ++i) {
      Register& of = registers_[first + i];
      const Code code = put->items.at(static_cast<uint32_t>(i)).code;
      DFKV_CHECK(code == Code::kOk || code == Code::kBusy || code == Code::kInvalid);
      if (code != Code::kOk) continue;
      if (of.absent) of.values.insert(numbers[i]);
      of.absent = false;
    }
    const auto got = client.Await(client.SendGet(gets));
    DFKV_CHECK(got.ok() && got->code == Code::kOk && got->items.size() == kKeys);
    for (size_t key = 0; key < kKeys; ++key) Got(key, got->items.at(static_cast<uint32_t>(key)));
  }

  // A PUT whose value stops in the middle: never stored.
  void StepCutPut() {
    const size_t key = input_.Below(kKeys);
    WireClient& client = Client();
    const ClientPut put = Fresh(key);
    if (put.value.empty()) return;
    (void)client.SendPutHead({put}, {put.value.size()});
    (void)client.SendRaw(put.value.substr(0, put.value.size() * input_.Byte() / 256));
    Spoiled();
    client.Close();
  }

  void StepWrongChecksum() {
    const size_t key = input_.Below(kKeys);
    WireClient& client = Client();
    const ClientPut put = Fresh(key);
    if (put.value.empty()) return;
    std::string other(put.value);
    other[other.size() * input_.Byte() / 256] ^= static_cast<char>(1 + input_.Below(255));
    const uint64_t id = client.SendPutHead({put}, {put.value.size()});
    (void)client.SendRaw(other);
    const auto answer = client.Await(id);
    DFKV_CHECK(answer.ok());
    if (answer->code != Code::kOk) return;
    // A present key keeps its first bytes and says ok, whatever is sent; an absent one takes nothing.
    if (answer->items.at(0).code == Code::kOk) DFKV_CHECK(!registers_[key].values.empty());
  }

  // Many requests whose answers nobody reads; then the connection goes.
  void StepUnread() {
    WireClient& client = Client();
    std::vector<ClientGet> gets;
    for (size_t key = 0; key < kKeys; ++key) gets.push_back({Key(key), 1 << 20, 0});
    for (size_t i = input_.Below(8); i > 0; --i) (void)client.SendGet(gets);
    Spoiled();
    client.Close();
  }

  void StepGarbage() {
    WireClient& client = Client();
    std::string bytes = input_.Bytes(5 + input_.Below(96));
    if (input_.Below(2) == 0) bytes.replace(0, 5, "DFK3\x01");  // looks like a frame for longer
    (void)client.SendRaw(bytes);
    Spoiled();
    client.Close();
  }

  void StepRestart() {
    if (restarted_) return;  // once a program: it costs more than all the rest
    restarted_ = true;
    control_.reset();
    for (size_t i = 0; i < kConnections; ++i) {
      clients_[i].Close();
      usable_[i] = false;
    }
    DFKV_CHECK((*node_)->StopBlocking(5 * kSecond).ok());
    node_->reset();
    auto again = node::Node::StartBlocking(config_);
    if (!again.ok()) std::fprintf(stderr, "%s\n", again.status().ToString().c_str());
    DFKV_CHECK(again.ok());
    *node_ = std::move(*again);
  }

  Input input_;
  std::unique_ptr<node::Node>* node_;
  const node::NodeConfig& config_;
  std::optional<WireClient> control_;
  std::array<WireClient, kConnections> clients_;
  std::array<bool, kConnections> usable_{};
  size_t last_ = 0;
  bool restarted_ = false;
  std::array<Register, kKeys> registers_;
  uint64_t numbers_ = 0;
  std::vector<size_t> lengths_;
  std::deque<std::string> held_;
};

// The node that all programs of a run share, with its folder.
class Harness {
 public:
  Harness() {
    SetLogSink([](LogLevel, std::string_view) {});
    DFKV_CHECK(mkdtemp(folder_.data()) != nullptr);
    node::NodeOptions options;
    options.io = io::ReactorKind::kEpoll;
    options.dir = {folder_};
    options.cap_bytes = 128 << 20;
    options.ram_tier_bytes = 16 << 20;
    options.max_object_bytes = 1 << 20;
    options.put_inflight_bytes = 4 << 20;
    options.threads = 2;
    options.log = LogLevel::kError;
    const auto config = node::ResolveNodeOptions(options);
    DFKV_CHECK(config.ok());
    config_ = *config;
    auto node = node::Node::StartBlocking(config_);
    if (!node.ok()) std::fprintf(stderr, "%s\n", node.status().ToString().c_str());
    DFKV_CHECK(node.ok());
    node_ = std::move(*node);
  }
  ~Harness() {
    (void)node_->StopBlocking(5 * kSecond);
    node_.reset();
    std::filesystem::remove_all(folder_);
  }
  void Run(const uint8_t* data, size_t size) { Program(Input(data, size), &node_, config_).Run(); }

 private:
  std::string folder_ = (std::filesystem::temp_directory_path() / "dfkv-fuzz-XXXXXX").string();
  node::NodeConfig config_;
  std::unique_ptr<node::Node> node_;
};

}  // namespace
}  // namespace dfkv

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static dfkv::Harness harness;
  harness.Run(data, size);
  return 0;
}
