#include "net/testing/wire_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/crc32c.h"
#include "base/random.h"
#include "base/text.h"
#include "wire/ops.h"

namespace dfkv::net {

WireClient::WireClient(WireClient&& other) noexcept
    : deadline_ms(other.deadline_ms),
      tenant(other.tenant),
      fd_(std::exchange(other.fd_, -1)),
      next_id_(other.next_id_),
      mine_(other.mine_),
      node_(other.node_) {}

wire::HelloBody WireClient::Generous() {
  wire::HelloBody hello;
  hello.payload_bytes_max = 1ull << 31;
  hello.object_bytes_max = 1ull << 31;
  hello.items_max = 1 << 20;
  hello.requests_in_flight_max = 1 << 20;
  return hello;
}

Status WireClient::Connect(uint16_t port, int timeout_ms) {
  Close();
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return Status(Code::kUnavailable, Cat("socket: ", ErrnoText(errno)));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    return Status(Code::kUnavailable, Cat("connect: ", ErrnoText(errno)));
  }
  const timeval timeout{timeout_ms / 1000, (timeout_ms % 1000) * 1000};
  (void)::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  const int on = 1;
  (void)::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return Ok();
}

void WireClient::Close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void WireClient::ShutdownSending() {
  ::shutdown(fd_, SHUT_WR);
}

Status WireClient::SendRaw(ByteSpan bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return Status(Code::kUnavailable, Cat("send: ", ErrnoText(errno)));
    bytes = bytes.subspan(static_cast<size_t>(sent));
  }
  return Ok();
}

Status WireClient::ReadFull(MutableByteSpan into) {
  while (!into.empty()) {
    const ssize_t got = ::recv(fd_, into.data(), into.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) return Status(Code::kUnavailable, "closed by the node");
    if (got < 0) {
      const bool late = errno == EAGAIN || errno == EWOULDBLOCK;
      return Status(late ? Code::kTimeout : Code::kUnavailable, Cat("recv: ", ErrnoText(errno)));
    }
    into = into.subspan(static_cast<size_t>(got));
  }
  return Ok();
}

bool WireClient::ClosedByNode() {
  std::byte waste[4096];
  for (;;) {
    const ssize_t got = ::recv(fd_, waste, sizeof waste, 0);
    if (got > 0 || (got < 0 && errno == EINTR)) continue;
    return got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
  }
}

Status WireClient::Hello() {
  scratch_.resize(256);
  const size_t size = wire::EncodeHello(scratch_, next_id_++, mine_);
  DFKV_RETURN_IF_ERROR(SendRaw(ByteSpan(scratch_).first(size)));
  scratch_.resize(wire::kHeaderBytes);
  DFKV_RETURN_IF_ERROR(ReadFull(scratch_));
  Result<wire::FrameHeader> header = wire::DecodeHeader(scratch_, wire::kHelloLimits);
  if (!header.ok()) return header.status();
  scratch_.resize(wire::FrameBytes(*header));
  DFKV_RETURN_IF_ERROR(ReadFull(MutableByteSpan(scratch_).subspan(wire::kHeaderBytes)));
  if (header->code != 0) {
    Result<wire::AnswerView> refused = wire::DecodeAnswer(*header, scratch_);
    if (!refused.ok()) return refused.status();
    return Status(refused->code, std::string(refused->message()));
  }
  Result<wire::HelloView> hello = wire::DecodeHello(*header, scratch_);
  if (!hello.ok()) return hello.status();
  node_ = hello->body;
  return Ok();
}

uint64_t WireClient::SendPutHead(const std::vector<ClientPut>& items, const std::vector<uint64_t>& lengths) {
  std::vector<wire::PutItem> wire_items;
  uint64_t payload = 0;
  for (size_t i = 0; i < items.size(); ++i) {
    const ClientPut& item = items[i];
    wire_items.push_back(
        {item.key.id.hi, item.key.id.lo, lengths[i], Crc32c(AsBytes(item.value)), item.depth});
    payload += lengths[i];
  }
  const wire::RequestSpec spec{wire::Op::kPut, next_id_++, tenant, deadline_ms, payload};
  scratch_.resize(wire::RequestBytes(spec.op, items.size()));
  (void)wire::EncodeRequest(scratch_, spec, wire_items);
  (void)SendRaw(scratch_);
  return spec.request_id;
}

uint64_t WireClient::SendPut(const std::vector<ClientPut>& items) {
  std::vector<uint64_t> lengths;
  for (const ClientPut& item : items) lengths.push_back(item.value.size());
  const uint64_t id = SendPutHead(items, lengths);
  for (const ClientPut& item : items) (void)SendRaw(item.value);
  return id;
}

uint64_t WireClient::SendGet(const std::vector<ClientGet>& items, wire::Op op) {
  std::vector<wire::GetItem> wire_items;
  for (const ClientGet& item : items) {
    wire_items.push_back({item.key.id.hi, item.key.id.lo, item.offset, item.length});
  }
  const wire::RequestSpec spec{op, next_id_++, tenant, deadline_ms, 0};
  scratch_.resize(wire::RequestBytes(op, items.size()));
  (void)wire::EncodeRequest(scratch_, spec, wire_items);
  (void)SendRaw(scratch_);
  return spec.request_id;
}

uint64_t WireClient::SendKeys(wire::Op op, const std::vector<ObjectKey>& keys) {
  std::vector<wire::KeyItem> wire_items;
  for (const ObjectKey& key : keys) wire_items.push_back({key.id.hi, key.id.lo});
  const wire::RequestSpec spec{op, next_id_++, tenant, deadline_ms, 0};
  scratch_.resize(wire::RequestBytes(op, keys.size()));
  (void)wire::EncodeRequest(scratch_, spec, wire_items);
  (void)SendRaw(scratch_);
  return spec.request_id;
}

uint64_t WireClient::SendPlain(wire::Op op) {
  const wire::RequestSpec spec{op, next_id_++, tenant, deadline_ms, 0};
  scratch_.resize(wire::RequestBytes(op, 0));
  (void)wire::EncodeRequest(scratch_, spec);
  (void)SendRaw(scratch_);
  return spec.request_id;
}

Result<uint64_t> WireClient::ReadFrame() {
  const wire::FrameLimits limits{wire::kMetaBytesMax, mine_.payload_bytes_max, mine_.items_max};
  std::vector<std::byte> head(wire::kHeaderBytes);
  DFKV_RETURN_IF_ERROR(ReadFull(head));
  Result<wire::FrameHeader> header = wire::DecodeHeader(head, limits);
  if (!header.ok()) return header.status();
  head.resize(wire::FrameBytes(*header));
  DFKV_RETURN_IF_ERROR(ReadFull(MutableByteSpan(head).subspan(wire::kHeaderBytes)));
  Result<wire::AnswerView> view = wire::DecodeAnswer(*header, head);
  if (!view.ok()) return view.status();
  const uint64_t id = header->request_id;
  ClientAnswer& answer = partial_[id];
  ++answer.frames;
  answer.code = view->code;
  answer.message = view->message();
  answer.present = view->match.present;
  if (view->op() == wire::Op::kStats) {
    answer.text.resize(header->payload_bytes);
    DFKV_RETURN_IF_ERROR(ReadFull({reinterpret_cast<std::byte*>(answer.text.data()), answer.text.size()}));
  }
  const uint32_t count = view->items.empty() ? 0 : view->item_count();
  for (uint32_t i = 0; i < count; ++i) {
    const wire::AnswerItem item = view->item(i);
    if (answer.items.count(item.index) != 0) return Status(Code::kCorrupt, "an item answered twice");
    ClientItem& mine = answer.items[item.index];
    answer.order.push_back(item.index);
    mine.code = static_cast<Code>(item.code);
    mine.stored_length = item.stored_length;
    mine.value.resize(item.payload_bytes);
    DFKV_RETURN_IF_ERROR(ReadFull({reinterpret_cast<std::byte*>(mine.value.data()), mine.value.size()}));
    mine.crc_ok = mine.value.empty() || Crc32c(AsBytes(mine.value)) == item.crc;
  }
  if (!view->more) {
    complete_[id] = std::move(answer);
    partial_.erase(id);
  }
  return id;
}

Result<ClientAnswer> WireClient::Await(uint64_t request_id) {
  while (complete_.count(request_id) == 0) {
    Result<uint64_t> id = ReadFrame();
    if (!id.ok()) return id.status();
  }
  ClientAnswer answer = std::move(complete_[request_id]);
  complete_.erase(request_id);
  return answer;
}

Result<ClientItem> WireClient::RoundTrip(uint64_t request_id) {
  Result<ClientAnswer> answer = Await(request_id);
  if (!answer.ok()) return answer.status();
  if (answer->code != Code::kOk) return Status(answer->code, answer->message);
  if (answer->items.size() != 1) return Status(Code::kCorrupt, "one item was asked for");
  ClientItem item = std::move(answer->items[0]);
  if (!item.crc_ok) item.code = Code::kCorrupt;
  return item;
}

Code WireClient::Put(const ObjectKey& key, std::string_view value) {
  Result<ClientItem> item = RoundTrip(SendPut({{key, value}}));
  return item.ok() ? item->code : item.code();
}

ClientItem WireClient::Get(const ObjectKey& key, uint64_t capacity) {
  Result<ClientItem> item = RoundTrip(SendGet({{key, capacity, 0}}));
  if (item.ok()) return std::move(*item);
  ClientItem failed;
  failed.code = item.code();
  return failed;
}

Code WireClient::Exist(const ObjectKey& key) {
  Result<ClientItem> item = RoundTrip(SendKeys(wire::Op::kExist, {key}));
  return item.ok() ? item->code : item.code();
}

Code WireClient::Remove(const ObjectKey& key) {
  Result<ClientItem> item = RoundTrip(SendKeys(wire::Op::kRemove, {key}));
  return item.ok() ? item->code : item.code();
}

Code WireClient::Ping() {
  Result<ClientAnswer> answer = Await(SendPlain(wire::Op::kPing));
  return answer.ok() ? answer->code : answer.code();
}

ObjectKey TestKey(uint64_t number, uint64_t tenant) {
  return {TenantHash(tenant), {Mix64(number), Mix64(number + 1'000'000'007ull)}};
}

std::string TestValue(uint64_t number, size_t length) {
  std::string value(length, '\0');
  FillPattern(number, 0, {reinterpret_cast<std::byte*>(value.data()), value.size()});
  return value;
}

}  // namespace dfkv::net
