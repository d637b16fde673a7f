#include "client/fake_node.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/crc32c.h"
#include "base/random.h"
#include "base/text.h"
#include "io/socket.h"
#include "wire/encode.h"

namespace dfkv::client {
namespace {

bool ReadFull(int fd, std::byte* into, size_t size) {
  while (size > 0) {
    const ssize_t n = recv(fd, into, size, 0);
    if (n <= 0) return false;
    into += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

bool SendFull(int fd, ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t n = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return true;
}

}  // namespace

FakeNode::FakeNode(FakeNodeOptions options) : options_(options) {
  listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  DFKV_CHECK(setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(options_.port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  DFKV_CHECK(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  DFKV_CHECK(listen(listener_, 64) == 0);
  socklen_t size = sizeof address;
  DFKV_CHECK(getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0);
  port_ = ntohs(address.sin_port);
  acceptor_ = Thread("fake-accept", [this] { Accept(); });
}

FakeNode::~FakeNode() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  StopListening();
  CloseConnections();
  std::list<Connection> all;
  {
    MutexLock lock(mutex_);
    all.swap(connections_);
  }
  for (Connection& connection : all) {
    connection.thread.Join();
    close(connection.fd);
  }
}

void FakeNode::StopListening() {
  if (listener_ < 0) return;
  shutdown(listener_, SHUT_RDWR);
  acceptor_.Join();
  close(listener_);
  listener_ = -1;
}

void FakeNode::CloseConnections() {
  MutexLock lock(mutex_);
  for (Connection& connection : connections_) shutdown(connection.fd, SHUT_RDWR);
}

std::string FakeNode::address() const {
  return Cat("127.0.0.1:", port_);
}

void FakeNode::Release() {
  MutexLock lock(mutex_);
  released_ = true;
  changed_.NotifyAll();
}

size_t FakeNode::object_count() const {
  MutexLock lock(mutex_);
  return objects_.size();
}

uint64_t FakeNode::requests(wire::Op op) const {
  MutexLock lock(mutex_);
  const auto found = requests_.find(op);
  return found == requests_.end() ? 0 : found->second;
}

uint64_t FakeNode::connections() const {
  MutexLock lock(mutex_);
  return accepted_;
}

uint32_t FakeNode::depth_of(const ObjectKey& key) const {
  MutexLock lock(mutex_);
  const auto found = objects_.find(key);
  return found == objects_.end() ? 0 : found->second.depth;
}

void FakeNode::Accept() {
  for (;;) {
    const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return;
    io::SetNoDelay(fd);
    MutexLock lock(mutex_);
    ++accepted_;
    connections_.emplace_back();
    connections_.back().fd = fd;
    connections_.back().thread = Thread("fake-serve", [this, fd] { Serve(fd); });
  }
}

void FakeNode::Serve(int fd) {
  if (Hello(fd)) {
    Request request;
    while (ReadRequest(fd, &request) && Handle(fd, request)) {
    }
  }
  shutdown(fd, SHUT_RDWR);  // the descriptor stays, so that its number is not taken by another
}

bool FakeNode::Hello(int fd) {
  std::array<std::byte, wire::kHeaderBytes> head;
  if (!ReadFull(fd, head.data(), head.size())) return false;
  const Result<wire::FrameHeader> header = wire::DecodeHeader(head, wire::kHelloLimits);
  if (!header.ok()) return false;
  std::vector<std::byte> frame(head.begin(), head.end());
  frame.resize(wire::FrameBytes(*header));
  if (!ReadFull(fd, frame.data() + head.size(), frame.size() - head.size())) return false;
  {
    MutexLock lock(mutex_);
    ++requests_[static_cast<wire::Op>(header->op)];
  }
  if (hellos_-- == 0 && !WaitForRelease(fd, false)) return false;
  if (!wire::DecodeHello(*header, frame).ok()) return false;
  std::array<std::byte, wire::kErrorAnswerBytesMax> out;
  if (options_.hello_code != Code::kOk) {
    const Status refused(options_.hello_code, "the test says so");
    const size_t bytes = wire::EncodeErrorAnswer(out, header->op, header->request_id, refused);
    return SendFull(fd, ByteSpan(out).first(bytes)) && false;
  }
  wire::HelloBody body;
  body.payload_bytes_max = options_.payload_bytes_max;
  body.object_bytes_max = options_.object_bytes_max;
  body.items_max = options_.items_max;
  body.requests_in_flight_max = options_.requests_in_flight_max;
  body.incarnation = 1;
  const size_t bytes = wire::EncodeHelloAnswer(out, header->request_id, body);
  return SendFull(fd, ByteSpan(out).first(bytes));
}

bool FakeNode::ReadRequest(int fd, Request* request) {
  request->frame.resize(wire::kHeaderBytes);
  if (!ReadFull(fd, request->frame.data(), wire::kHeaderBytes)) return false;
  const wire::FrameLimits limits{wire::kMetaBytesMax, options_.payload_bytes_max, options_.items_max};
  const Result<wire::FrameHeader> header = wire::DecodeHeader(request->frame, limits);
  DFKV_CHECK(header.ok());  // the client under test keeps to what was agreed
  request->frame.resize(wire::FrameBytes(*header));
  if (!ReadFull(fd, request->frame.data() + wire::kHeaderBytes, header->meta_bytes)) return false;
  const Result<wire::RequestView> view = wire::DecodeRequest(*header, request->frame);
  DFKV_CHECK(view.ok());
  request->view = *view;
  request->payload.resize(header->payload_bytes);
  if (options_.slow_read_bytes != 0) return ReadSlowly(fd, request->payload);
  return ReadFull(fd, request->payload.data(), request->payload.size());
}

bool FakeNode::ReadSlowly(int fd, MutableByteSpan into) {
  while (!into.empty()) {
    const size_t piece = std::min(into.size(), options_.slow_read_bytes);
    if (!ReadFull(fd, into.data(), piece)) return false;
    into = into.subspan(piece);
    MutexLock lock(mutex_);
    if (stopping_) return false;
    (void)changed_.WaitFor(mutex_, 5'000'000);
  }
  return true;
}

// Waits until Release (true) or the end. `answer_pings`: meanwhile requests on the connection are read, and
// must be PINGs.
bool FakeNode::WaitForRelease(int fd, bool answer_pings) {
  for (;;) {
    {
      MutexLock lock(mutex_);
      if (stopping_) return false;
      if (released_) return true;
      (void)changed_.WaitFor(mutex_, 5'000'000);
    }
    pollfd readable{fd, POLLIN, 0};
    if (!answer_pings || poll(&readable, 1, 0) <= 0) continue;
    Request ping;
    if (!ReadRequest(fd, &ping) || ping.view.op() != wire::Op::kPing || !Handle(fd, ping)) return false;
  }
}

bool FakeNode::Handle(int fd, Request& request) {
  const wire::Op op = request.view.op();
  Script script;
  {
    MutexLock lock(mutex_);
    ++requests_[op];
    script = script_;
  }
  std::array<std::byte, wire::kErrorAnswerBytesMax> out;
  if (op == wire::Op::kPing) {
    wire::AnswerSpec spec;
    spec.op = op;
    spec.request_id = request.view.header.request_id;
    return SendFull(fd, ByteSpan(out).first(wire::EncodeAnswer(out, spec)));
  }
  const FakeAction action = script ? script(request.view) : FakeAction::kAnswer;
  switch (action) {
    case FakeAction::kClose:
      return false;
    case FakeAction::kHold:
    case FakeAction::kSlow:
      if (!WaitForRelease(fd, action == FakeAction::kSlow)) return false;
      break;
    case FakeAction::kGarbage: {
      std::vector<std::byte> noise(4096);
      Random(7).Fill(noise);
      return SendFull(fd, noise);
    }
    case FakeAction::kBusy: {
      const Status busy(Code::kBusy, "the test says so");
      const size_t bytes =
          wire::EncodeErrorAnswer(out, request.view.header.op, request.view.header.request_id, busy);
      return SendFull(fd, ByteSpan(out).first(bytes));
    }
    default:
      break;
  }
  if (op == wire::Op::kMatch) return Match(fd, request, action);
  if (op == wire::Op::kStats) return Stats(fd, request);
  return SendReply(fd, request, Execute(request), action);
}

wire::AnswerItem FakeNode::Put(const ObjectKey& key, const wire::PutItem& item, ByteSpan value) {
  wire::AnswerItem answer;
  if (value.size() > options_.object_bytes_max) {
    answer.code = static_cast<uint8_t>(Code::kTooLarge);
  } else if (Crc32c(value) != item.crc) {
    answer.code = static_cast<uint8_t>(Code::kCorrupt);
  } else {
    MutexLock lock(mutex_);
    objects_.try_emplace(key, Object{{value.begin(), value.end()}, item.depth});
  }
  return answer;
}

wire::AnswerItem FakeNode::Get(const ObjectKey& key, const wire::GetItem& item, bool range,
                               std::vector<std::byte>* value) {
  wire::AnswerItem answer;
  MutexLock lock(mutex_);
  const auto found = objects_.find(key);
  if (found == objects_.end()) {
    answer.code = static_cast<uint8_t>(Code::kNotFound);
    return answer;
  }
  const std::vector<std::byte>& bytes = found->second.bytes;
  answer.stored_length = bytes.size();
  if (range && item.offset > bytes.size()) {
    answer.code = static_cast<uint8_t>(Code::kInvalid);
  } else if (!range && item.length < bytes.size()) {
    answer.code = static_cast<uint8_t>(Code::kTooSmall);
  } else {
    const uint64_t begin = range ? item.offset : 0;
    const uint64_t end = begin + std::min<uint64_t>(item.length, bytes.size() - begin);
    value->assign(bytes.begin() + static_cast<ptrdiff_t>(begin), bytes.begin() + static_cast<ptrdiff_t>(end));
  }
  return answer;
}

wire::AnswerItem FakeNode::OnKey(wire::Op op, const ObjectKey& key) {
  wire::AnswerItem answer;
  MutexLock lock(mutex_);
  const auto found = objects_.find(key);
  if (op == wire::Op::kRemove) {
    if (found == objects_.end()) answer.code = static_cast<uint8_t>(Code::kNotFound);
    if (found != objects_.end()) objects_.erase(found);
    return answer;
  }
  if (found == objects_.end()) {
    answer.code = static_cast<uint8_t>(Code::kNotFound);
  } else if (op == wire::Op::kLookup) {
    answer.stored_length = found->second.bytes.size();
  }
  return answer;
}

FakeNode::Reply FakeNode::Execute(const Request& request) {
  const wire::RequestView& view = request.view;
  const TenantHash tenant(view.prefix.tenant);
  Reply reply;
  uint64_t at = 0;
  for (uint32_t i = 0; i < view.item_count(); ++i) {
    wire::AnswerItem answer;
    std::vector<std::byte> value;
    if (view.op() == wire::Op::kPut) {
      const auto item = view.item<wire::PutItem>(i);
      answer =
          Put({tenant, {item.id_hi, item.id_lo}}, item, ByteSpan(request.payload).subspan(at, item.length));
      at += item.length;
    } else if (view.op() == wire::Op::kGet || view.op() == wire::Op::kGetRange) {
      const auto item = view.item<wire::GetItem>(i);
      answer = Get({tenant, {item.id_hi, item.id_lo}}, item, view.op() == wire::Op::kGetRange, &value);
    } else {
      const auto item = view.item<wire::KeyItem>(i);
      answer = OnKey(view.op(), {tenant, {item.id_hi, item.id_lo}});
    }
    answer.index = i;
    reply.items.push_back(answer);
    reply.values.push_back(std::move(value));
  }
  return reply;
}

bool FakeNode::Match(int fd, const Request& request, FakeAction action) {
  wire::MatchAnswer answer;
  {
    MutexLock lock(mutex_);
    for (uint32_t i = 0; i < request.view.item_count(); ++i) {
      const auto item = request.view.item<wire::KeyItem>(i);
      const TenantHash tenant(request.view.prefix.tenant);
      if (!objects_.contains({tenant, {item.id_hi, item.id_lo}})) break;
      ++answer.present;
    }
  }
  if (action == FakeAction::kTooMany) answer.present = request.view.item_count() + 1;
  std::array<std::byte, 256> out;
  const size_t bytes = wire::EncodeMatchAnswer(out, request.view.header.request_id, answer);
  return SendFull(fd, ByteSpan(out).first(bytes));
}

bool FakeNode::Stats(int fd, const Request& request) {
  std::string text = Cat("# TYPE dfkv_objects gauge\ndfkv_objects ", object_count(), "\n");
  if (options_.stats_bytes != 0) text.resize(options_.stats_bytes, '#');
  wire::AnswerSpec spec;
  spec.op = wire::Op::kStats;
  spec.request_id = request.view.header.request_id;
  spec.payload_bytes = text.size();
  std::array<std::byte, 256> out;
  return SendFull(fd, ByteSpan(out).first(wire::EncodeAnswer(out, spec))) && SendFull(fd, AsBytes(text));
}

void FakeNode::Spoil(Reply& reply, FakeAction action) const {
  if (action == FakeAction::kTwice) {
    reply.items.push_back(reply.items.front());
    reply.values.push_back(reply.values.front());
  } else if (action == FakeAction::kMissing) {
    reply.items.pop_back();
    reply.values.pop_back();
  } else if (action == FakeAction::kTooLong) {
    for (auto& value : reply.values) value.push_back(std::byte{0});
  } else if (action == FakeAction::kShort) {
    for (auto& value : reply.values) value.resize(value.size() - std::min<size_t>(value.size(), 1));
  } else if (action == FakeAction::kWrongIndex) {
    const auto count = static_cast<uint32_t>(reply.items.size());
    for (auto& item : reply.items) item.index += count;
  }
}

bool FakeNode::SendReply(int fd, const Request& request, Reply reply, FakeAction action) {
  Spoil(reply, action);
  if (options_.reverse) {
    std::reverse(reply.items.begin(), reply.items.end());
    std::reverse(reply.values.begin(), reply.values.end());
  }
  const size_t all = reply.items.size();
  const size_t step = options_.items_per_frame == 0 ? std::max<size_t>(all, 1) : options_.items_per_frame;
  size_t first = 0;
  do {
    const size_t count = std::min(step, all - first);
    const bool more = first + count < all;
    if (!SendFrame(fd, request, std::span(reply.items).subspan(first, count), more,
                   std::span(reply.values).subspan(first, count), action)) {
      return false;
    }
    first += count;
  } while (first < all);
  return true;
}

bool FakeNode::SendFrame(int fd, const Request& request, std::span<const wire::AnswerItem> items, bool more,
                         std::span<const std::vector<std::byte>> values, FakeAction action) {
  std::vector<wire::AnswerItem> filled(items.begin(), items.end());
  std::vector<std::byte> payload;
  for (size_t i = 0; i < filled.size(); ++i) {
    filled[i].payload_bytes = static_cast<uint32_t>(values[i].size());
    filled[i].crc = Crc32c(values[i]);
    payload.insert(payload.end(), values[i].begin(), values[i].end());
  }
  if (action == FakeAction::kFlipByte && !payload.empty()) payload[payload.size() / 2] ^= std::byte{1};
  wire::AnswerSpec spec;
  spec.op = request.view.op();
  spec.request_id = request.view.header.request_id;
  spec.more = more;
  spec.payload_bytes = payload.size();
  std::vector<std::byte> head(wire::AnswerBytes(spec.op, filled.size()));
  DFKV_CHECK(wire::EncodeAnswer(head, spec, filled) == head.size());
  if (action == FakeAction::kCloseHalfway || action == FakeAction::kStopHalfway) {
    const size_t half = payload.size() / 2;
    if (!SendFull(fd, head) || !SendFull(fd, ByteSpan(payload).first(half))) return false;
    if (action == FakeAction::kCloseHalfway) return false;
    ++halves_;
    return WaitForRelease(fd, false) && SendFull(fd, ByteSpan(payload).subspan(half));
  }
  return SendFull(fd, head) && SendFull(fd, payload);
}

}  // namespace dfkv::client
