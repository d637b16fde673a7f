// The functions with status codes. Their numbers are those of base/status.h.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "capi/items.h"
#include "capi/sized.h"

namespace dfkv::capi {
namespace {

using client::CallOptions;
using client::Client;
using client::GetItem;
using client::ItemResult;
using client::PutItem;

// FROZEN: the size of the first version of each struct that may grow at its end.
constexpr size_t kOpenOptionsFirstBytes = 72;
constexpr size_t kCallOptionsFirstBytes = 16;

// FROZEN layouts; structs that start with struct_size may grow at their end.
static_assert(sizeof(dfkv_open_options3) == 72);
static_assert(offsetof(dfkv_open_options3, min_rate_bytes) == 32);
static_assert(offsetof(dfkv_open_options3, reserved0) == 68);
static_assert(sizeof(dfkv_call_options3) == 16);
static_assert(sizeof(dfkv_buffer3) == 16 && sizeof(dfkv_key3) == 16);
static_assert(sizeof(dfkv_put_item3) == 32 && offsetof(dfkv_put_item3, depth) == 28);
static_assert(sizeof(dfkv_get_item3) == 40 && offsetof(dfkv_get_item3, offset) == 32);
static_assert(sizeof(dfkv_result3) == 16 && offsetof(dfkv_result3, length) == 8);

static_assert(DFKV_OK == static_cast<int>(Code::kOk));
static_assert(DFKV_NOT_FOUND == static_cast<int>(Code::kNotFound));
static_assert(DFKV_BUSY == static_cast<int>(Code::kBusy));
static_assert(DFKV_TIMEOUT == static_cast<int>(Code::kTimeout));
static_assert(DFKV_CORRUPT == static_cast<int>(Code::kCorrupt));
static_assert(DFKV_TOO_SMALL == static_cast<int>(Code::kTooSmall));
static_assert(DFKV_INVALID == static_cast<int>(Code::kInvalid));
static_assert(DFKV_UNAVAILABLE == static_cast<int>(Code::kUnavailable));
static_assert(DFKV_IO_ERROR == static_cast<int>(Code::kIoError));
static_assert(DFKV_NO_SPACE == static_cast<int>(Code::kNoSpace));
static_assert(DFKV_QUOTA == static_cast<int>(Code::kQuota));
static_assert(DFKV_TOO_LARGE == static_cast<int>(Code::kTooLarge));
static_assert(DFKV_CANCELLED == static_cast<int>(Code::kCancelled));
static_assert(DFKV_REJECTED == static_cast<int>(Code::kRejected));
static_assert(DFKV_UNSUPPORTED == static_cast<int>(Code::kUnsupported));
static_assert(DFKV_LOCKED == static_cast<int>(Code::kLocked));
static_assert(DFKV_DENIED == static_cast<int>(Code::kDenied));

// What every call begins with: a live handle and sound options.
struct Call {
  ClientRef client;
  CallOptions options;
};

Result<Call> BeginCall(dfkv_client_t handle, const dfkv_call_options3* options) {
  Call call;
  Result<OpenRef> open = Clients().Find(handle);
  if (!open.ok()) return open.status();
  call.client = BlockingOf(std::move(*open));
  if (options == nullptr) return call;
  dfkv_call_options3 known;
  DFKV_RETURN_IF_ERROR(ReadSized(options, kCallOptionsFirstBytes, "dfkv_call_options3", &known));
  if (known.flags != 0) return Bad("flags has an unknown bit");
  if (known.reserved0 != 0) return Bad("reserved0 is not 0");
  call.options.deadline_ms = known.deadline_ms;
  return call;
}

Status ReadOptions(const dfkv_open_options3* given, dfkv_open_options3* options) {
  if (given == nullptr) return Bad("options is NULL");
  DFKV_RETURN_IF_ERROR(ReadSized(given, kOpenOptionsFirstBytes, "dfkv_open_options3", options));
  if ((options->flags & ~DFKV_OPEN3_NO_VERIFY) != 0) return Bad("flags has an unknown bit");
  if (options->reserved0 != 0) return Bad("reserved0 is not 0");
  if (options->key_namespace == nullptr || options->key_namespace_len == 0) {
    return Bad("key_namespace is empty");
  }
  return Ok();
}

template <typename T>
void Choose(T* field, T wanted) {
  if (wanted != 0) *field = wanted;
}

void Wish(const dfkv_open_options3& options, client::ClientOptions* wanted) {
  if (options.members != nullptr) wanted->members = options.members;
  wanted->key_namespace.assign(static_cast<const char*>(options.key_namespace), options.key_namespace_len);
  if ((options.flags & DFKV_OPEN3_NO_VERIFY) != 0) wanted->verify = false;
  Choose(&wanted->min_rate, options.min_rate_bytes);
  Choose(&wanted->stall_ms, options.stall_ms);
  Choose(&wanted->connect_ms, options.connect_ms);
  Choose(&wanted->lanes_max, options.calls_max);
  Choose(&wanted->idle_ms, options.idle_ms);
  Choose(&wanted->peer_cooldown_ms, options.peer_cooldown_ms);
  Choose(&wanted->peer_cooldown_max_ms, options.peer_cooldown_max_ms);
  Choose(&wanted->spin_us, options.spin_us);
}

// Why an item ended as it did, for the calls of a single item.
Status ItemStatus(const ItemResult& result) {
  switch (result.code) {
    case Code::kInvalid:
      return Bad("the key or the value is empty, or the range begins past the object's end");
    case Code::kTooSmall:
      return {result.code, Cat("the object has ", result.length, " bytes")};
    case Code::kUnavailable:
      return {result.code, "the node cannot be reached, or is avoided since it failed"};
    default:
      return result.code;
  }
}

Status Put(dfkv_client_t handle, ByteSpan key, const void* value, uint64_t value_len, uint32_t depth,
           const dfkv_call_options3* options) {
  const Result<Call> call = BeginCall(handle, options);
  if (!call.ok()) return call.status();
  if (value == nullptr && value_len > 0) return Bad("value is NULL");
  const ByteSpan piece = Bytes(value, value_len);
  const PutItem item{key, {&piece, 1}, depth};
  ItemResult result;
  DFKV_RETURN_IF_ERROR(call->client->Put({&item, 1}, call->options, {&result, 1}));
  return ItemStatus(result);
}

Status Get(dfkv_client_t handle, GetItem item, dfkv_buffer3 into, uint64_t* out_len,
           const dfkv_call_options3* options) {
  if (out_len != nullptr) *out_len = 0;
  const Result<Call> call = BeginCall(handle, options);
  if (!call.ok()) return call.status();
  if (into.ptr == nullptr && into.len > 0) return Bad("the buffer is NULL");
  const MutableByteSpan piece(static_cast<std::byte*>(into.ptr), into.len);
  item.pieces = {&piece, 1};
  ItemResult result;
  DFKV_RETURN_IF_ERROR(call->client->Get({&item, 1}, call->options, {&result, 1}));
  if (out_len != nullptr) *out_len = result.length;
  return ItemStatus(result);
}

using KeysFunction = Status (Client::*)(std::span<const ByteSpan>, const CallOptions&, std::span<ItemResult>);

Status OnKey(dfkv_client_t handle, KeysFunction function, ByteSpan key, uint64_t* out_len,
             const dfkv_call_options3* options) {
  if (out_len != nullptr) *out_len = 0;
  const Result<Call> call = BeginCall(handle, options);
  if (!call.ok()) return call.status();
  ItemResult result;
  DFKV_RETURN_IF_ERROR(((*call->client).*function)({&key, 1}, call->options, {&result, 1}));
  if (out_len != nullptr) *out_len = result.length;
  return ItemStatus(result);
}

// --- Batches ---

Status OnKeys(dfkv_client_t handle, KeysFunction function, std::span<const dfkv_key3> keys,
              dfkv_result3* results, const dfkv_call_options3* options) {
  const Result<Call> call = BeginCall(handle, options);
  if (!call.ok()) return call.status();
  std::vector<ItemResult> inner(keys.size());
  DFKV_RETURN_IF_ERROR(((*call->client).*function)(NamesOf(keys), call->options, inner));
  Export(inner, results);
  return Ok();
}

Status PutAll(dfkv_client_t handle, std::span<const dfkv_put_item3> items, dfkv_result3* results,
              const dfkv_call_options3* options) {
  const Result<Call> call = BeginCall(handle, options);
  if (!call.ok()) return call.status();
  const Puts puts(items);
  std::vector<ItemResult> codes(items.size());
  DFKV_RETURN_IF_ERROR(call->client->Put(puts.items, call->options, codes));
  Export(codes, results);
  return Ok();
}

Status GetAll(dfkv_client_t handle, std::span<const dfkv_get_item3> items, dfkv_result3* results,
              const dfkv_call_options3* options) {
  const Result<Call> call = BeginCall(handle, options);
  if (!call.ok()) return call.status();
  const Gets gets(items);
  std::vector<ItemResult> codes(items.size());
  DFKV_RETURN_IF_ERROR(call->client->Get(gets.items, call->options, codes));
  Export(codes, results);
  return Ok();
}

Status Match(dfkv_client_t handle, std::span<const dfkv_key3> keys, uint64_t* out_present,
             const dfkv_call_options3* options) {
  const Result<Call> call = BeginCall(handle, options);
  if (!call.ok()) return call.status();
  const Result<uint64_t> present = call->client->Match(NamesOf(keys), call->options);
  if (!present.ok()) return present.status();
  *out_present = *present;
  return Ok();
}

struct TextBuffer {
  char* buf;
  uint64_t cap;
  uint64_t* out_len;
};

Status NodeStats(dfkv_client_t handle, const char* member, TextBuffer out,
                 const dfkv_call_options3* options) {
  if (out.out_len != nullptr) *out.out_len = 0;
  if (out.buf != nullptr && out.cap > 0) out.buf[0] = '\0';
  const Result<Call> call = BeginCall(handle, options);
  if (!call.ok()) return call.status();
  if (member == nullptr) return Bad("member is NULL");
  const Result<std::string> text = call->client->Stats(member, call->options);
  if (!text.ok()) return text.status();
  if (out.out_len != nullptr) *out.out_len = text->size();
  if (out.buf != nullptr && out.cap > 0) {
    const size_t size = std::min<uint64_t>(text->size(), out.cap - 1);
    std::memcpy(out.buf, text->data(), size);
    out.buf[size] = '\0';
  }
  return Ok();
}

}  // namespace

// C functions: a namespace does not change their names, but hides the visibility that the header gave them.
#pragma GCC visibility push(default)
extern "C" {

int dfkv_open3(const dfkv_open_options3* options, dfkv_client_t* out_client) {
  if (out_client != nullptr) *out_client = nullptr;
  return Run("dfkv_open3", [&]() -> Status {
    if (out_client == nullptr) return Bad("out_client is NULL");
    dfkv_open_options3 known;
    DFKV_RETURN_IF_ERROR(ReadOptions(options, &known));
    Result<OpenRef> client = Open([&known](client::ClientOptions* wanted) { Wish(known, wanted); });
    if (!client.ok()) return client.status();
    *out_client = Clients().Add(std::move(*client));
    return Ok();
  });
}

int dfkv_put3(dfkv_client_t client, const void* key, uint64_t key_len, const void* value, uint64_t value_len,
              uint32_t depth, const dfkv_call_options3* options) {
  return Run("dfkv_put3", [&] { return Put(client, Bytes(key, key_len), value, value_len, depth, options); });
}

int dfkv_get3(dfkv_client_t client, const void* key, uint64_t key_len, void* buf, uint64_t cap,
              uint64_t* out_len, const dfkv_call_options3* options) {
  return Run("dfkv_get3", [&] {
    GetItem item;
    item.key = Bytes(key, key_len);
    return Get(client, item, {buf, cap}, out_len, options);
  });
}

int dfkv_get_range3(dfkv_client_t client, const void* key, uint64_t key_len, uint64_t offset, void* buf,
                    uint64_t len, uint64_t* out_len, const dfkv_call_options3* options) {
  return Run("dfkv_get_range3", [&] {
    GetItem item;
    item.key = Bytes(key, key_len);
    item.range = true;
    item.offset = offset;
    return Get(client, item, {buf, len}, out_len, options);
  });
}

int dfkv_exist3(dfkv_client_t client, const void* key, uint64_t key_len, const dfkv_call_options3* options) {
  return Run("dfkv_exist3",
             [&] { return OnKey(client, &Client::Exist, Bytes(key, key_len), nullptr, options); });
}

int dfkv_remove3(dfkv_client_t client, const void* key, uint64_t key_len, const dfkv_call_options3* options) {
  return Run("dfkv_remove3",
             [&] { return OnKey(client, &Client::Remove, Bytes(key, key_len), nullptr, options); });
}

int dfkv_lookup3(dfkv_client_t client, const void* key, uint64_t key_len, uint64_t* out_len,
                 const dfkv_call_options3* options) {
  return Run("dfkv_lookup3",
             [&] { return OnKey(client, &Client::Lookup, Bytes(key, key_len), out_len, options); });
}

int dfkv_match3(dfkv_client_t client, const dfkv_key3* keys, uint64_t count, uint64_t* out_present,
                const dfkv_call_options3* options) {
  if (out_present != nullptr) *out_present = 0;
  return Run("dfkv_match3", [&]() -> Status {
    DFKV_RETURN_IF_ERROR(CheckArrays(keys, count, out_present));
    if (out_present == nullptr) return Bad("out_present is NULL");
    return Match(client, {keys, count}, out_present, options);
  });
}

int dfkv_batch_put3(dfkv_client_t client, const dfkv_put_item3* items, uint64_t count, dfkv_result3* results,
                    const dfkv_call_options3* options) {
  return RunBatch("dfkv_batch_put3", items, count, results, [&] {
    return PutAll(client, {items, count}, results, options);
  });
}

int dfkv_batch_get3(dfkv_client_t client, const dfkv_get_item3* items, uint64_t count, dfkv_result3* results,
                    const dfkv_call_options3* options) {
  return RunBatch("dfkv_batch_get3", items, count, results, [&] {
    return GetAll(client, {items, count}, results, options);
  });
}

int dfkv_batch_exist3(dfkv_client_t client, const dfkv_key3* keys, uint64_t count, dfkv_result3* results,
                      const dfkv_call_options3* options) {
  return RunBatch("dfkv_batch_exist3", keys, count, results, [&] {
    return OnKeys(client, &Client::Exist, {keys, count}, results, options);
  });
}

int dfkv_batch_remove3(dfkv_client_t client, const dfkv_key3* keys, uint64_t count, dfkv_result3* results,
                       const dfkv_call_options3* options) {
  return RunBatch("dfkv_batch_remove3", keys, count, results, [&] {
    return OnKeys(client, &Client::Remove, {keys, count}, results, options);
  });
}

int dfkv_batch_lookup3(dfkv_client_t client, const dfkv_key3* keys, uint64_t count, dfkv_result3* results,
                       const dfkv_call_options3* options) {
  return RunBatch("dfkv_batch_lookup3", keys, count, results, [&] {
    return OnKeys(client, &Client::Lookup, {keys, count}, results, options);
  });
}

int dfkv_node_stats3(dfkv_client_t client, const char* member, char* buf, uint64_t cap, uint64_t* out_len,
                     const dfkv_call_options3* options) {
  return Run("dfkv_node_stats3", [&] { return NodeStats(client, member, {buf, cap, out_len}, options); });
}

const char* dfkv_last_error(void) {
  return LastError();
}

const char* dfkv_code_name3(int code) {
  const bool known = code >= 0 && IsKnownCode(static_cast<uint64_t>(code));
  return known ? CodeName(static_cast<Code>(code)).data() : "Unknown";
}

}  // extern "C"
#pragma GCC visibility pop

}  // namespace dfkv::capi
