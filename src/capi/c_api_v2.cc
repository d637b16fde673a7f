// ABI v2. Layouts, numbers and return conventions are FROZEN: existing connectors load them through ctypes.
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "base/version.h"
#include "capi/handle.h"

namespace dfkv::capi {
namespace {

using client::Client;
using client::GetItem;
using client::ItemResult;
using client::PutItem;

constexpr int kSegmentsMax = 29;  // of a scatter/gather item; it is part of connectors' keys

static_assert(sizeof(dfkv_client_options_v2) == 88);
static_assert(offsetof(dfkv_client_options_v2, members) == 8);
static_assert(offsetof(dfkv_client_options_v2, key_namespace) == 16);
static_assert(offsetof(dfkv_client_options_v2, key_namespace_len) == 24);
static_assert(offsetof(dfkv_client_options_v2, batch_concurrency) == 32);
static_assert(offsetof(dfkv_client_options_v2, mds_endpoints) == 40);
static_assert(offsetof(dfkv_client_options_v2, mds_group) == 48);
static_assert(offsetof(dfkv_client_options_v2, mds_poll_ms) == 56);
static_assert(offsetof(dfkv_client_options_v2, flags) == 60);
static_assert(offsetof(dfkv_client_options_v2, client_id) == 64);
static_assert(offsetof(dfkv_client_options_v2, client_info) == 72);
static_assert(offsetof(dfkv_client_options_v2, client_heartbeat_ms) == 80);
static_assert(offsetof(dfkv_client_options_v2, reserved0) == 84);

std::string_view TextOf(const char* text) {
  return text == nullptr ? std::string_view() : std::string_view(text);
}

Status Bad(std::string_view what) {
  return {Code::kInvalid, std::string(what)};
}

bool IsName(std::string_view text) {
  if (text.empty() || text.size() > 128) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

Status CheckOptions(const dfkv_client_options_v2* options) {
  if (options == nullptr) return Bad("options is NULL");
  if (options->struct_size < sizeof *options)
    return Bad("struct_size is smaller than dfkv_client_options_v2");
  if (options->abi_version != DFKV_CLIENT_ABI_VERSION_V2) return Bad("abi_version is not 2");
  if ((options->flags & ~DFKV_CLIENT_OPT_REGISTER_WITH_MDS) != 0) return Bad("flags has an unknown bit");
  if (options->reserved0 != 0) return Bad("reserved0 is not 0");
  if (options->key_namespace == nullptr || options->key_namespace_len == 0) {
    return Bad("key_namespace is empty");
  }
  const std::string_view group = TextOf(options->mds_group);
  if (!group.empty() && !IsName(group)) return Bad("mds_group has 1 to 128 characters of A-Z a-z 0-9 . _ -");
  const std::string_view endpoints = TextOf(options->mds_endpoints);
  if ((options->flags & DFKV_CLIENT_OPT_REGISTER_WITH_MDS) != 0) {
    if (!IsName(TextOf(options->client_id))) {
      return Bad("client_id is required with REGISTER_WITH_MDS: 1 to 128 characters of A-Z a-z 0-9 . _ -");
    }
    if (endpoints.empty()) return Bad("REGISTER_WITH_MDS needs mds_endpoints");
  }
  if (!endpoints.empty()) {
    return {Code::kUnsupported, "mds_endpoints: this version has static members only"};
  }
  return Ok();
}

dfkv_client_t OpenV2(const dfkv_client_options_v2* options) {
  Status status = CheckOptions(options);
  if (status.ok()) {
    Result<OpenRef> client = Open([options](client::ClientOptions* wanted) {
      wanted->members = TextOf(options->members);
      wanted->members_required = false;
      wanted->key_namespace.assign(static_cast<const char*>(options->key_namespace),
                                   options->key_namespace_len);
    });
    if (client.ok()) return Clients().Add(std::move(*client));
    status = client.status();
  }
  SetLastError(Cat("dfkv_open_v2: ", status.ToString()));
  return nullptr;
}

ByteSpan KeyOf(const void* key, uint64_t key_len) {
  if (key == nullptr) return {};
  return {static_cast<const std::byte*>(key), key_len};
}

// An item without a key is Invalid to the client: that is how a bad item of a batch is passed on.
constexpr ByteSpan kBadKey;

// What a call on keys makes 1: with Remove, an object that was absent already is removed, too.
enum class Good : uint8_t { kPresent, kGone };

int FlagOf(Good good, Code code) {
  return code == Code::kOk || (good == Good::kGone && code == Code::kNotFound) ? 1 : 0;
}

using KeysFunction = Status (Client::*)(std::span<const ByteSpan>, const client::CallOptions&,
                                        std::span<ItemResult>);

int OnKey(Good good, dfkv_client_t handle, const void* key, uint64_t key_len, KeysFunction function) {
  const ClientRef client = FindHandle(handle);
  if (!client) return 0;
  const ByteSpan name = KeyOf(key, key_len);
  ItemResult result;
  return ((*client).*function)({&name, 1}, {}, {&result, 1}).ok() ? FlagOf(good, result.code) : 0;
}

int Get(dfkv_client_t handle, ByteSpan key, MutableByteSpan into, bool exact, uint64_t* out_len) {
  const ClientRef client = FindHandle(handle);
  if (!client || (into.data() == nullptr && !into.empty())) return 0;
  GetItem item{key, {&into, 1}};
  item.exact = exact;
  ItemResult result;
  if (!client->Get({&item, 1}, {}, {&result, 1}).ok() || result.code != Code::kOk) return 0;
  if (out_len != nullptr) *out_len = result.length;
  return 1;
}

// The values of a batch: buffers of each item, in order, in one array.
template <typename Span>
struct Values {
  std::vector<Span> spans;
  std::vector<size_t> first;  // of item i; one more at the end

  std::span<const Span> Of(size_t i) const {
    return std::span<const Span>(spans).subspan(first[i], first[i + 1] - first[i]);
  }
};

template <typename Span, typename Pointer>
bool AddBuffer(Values<Span>& values, Pointer ptr, uint64_t size) {
  using Byte = typename Span::element_type;
  if (ptr == nullptr && size > 0) return false;
  values.spans.emplace_back(static_cast<Byte*>(ptr), size);
  return true;
}

// `good` says of each item whether its buffers can be used.
template <typename Span, typename Pointer>
Values<Span> OneBufferEach(Pointer* ptrs, const uint64_t* sizes, size_t n, std::vector<bool>& good) {
  Values<Span> values;
  values.first.push_back(0);
  for (size_t i = 0; i < n; ++i) {
    good[i] = AddBuffer(values, ptrs[i], sizes[i]);
    values.first.push_back(values.spans.size());
  }
  return values;
}

template <typename Span, typename Pointer>
Values<Span> ManyBuffersEach(Pointer** ptrs, const uint64_t** sizes, const int* counts, size_t n,
                             std::vector<bool>& good) {
  Values<Span> values;
  values.first.push_back(0);
  for (size_t i = 0; i < n; ++i) {
    bool usable = counts[i] > 0 && counts[i] <= kSegmentsMax && ptrs[i] != nullptr && sizes[i] != nullptr;
    for (int b = 0; usable && b < counts[i]; ++b) usable = AddBuffer(values, ptrs[i][b], sizes[i][b]);
    good[i] = usable;
    values.first.push_back(values.spans.size());
  }
  return values;
}

struct Keys {
  const void* const* keys;
  const uint64_t* lens;
};

int OnKeys(Client& client, Keys keys, Good good, int* out, size_t count, KeysFunction function) {
  std::vector<ByteSpan> names(count);
  for (size_t i = 0; i < count; ++i) names[i] = KeyOf(keys.keys[i], keys.lens[i]);
  std::vector<ItemResult> results(count);
  if (!(client.*function)(names, {}, results).ok()) return -1;
  for (size_t i = 0; i < count; ++i) out[i] = FlagOf(good, results[i].code);
  return 0;
}

int Put(Client& client, Keys keys, const Values<ByteSpan>& values, const std::vector<bool>& good, int* out) {
  const size_t count = good.size();
  std::vector<PutItem> items(count);
  for (size_t i = 0; i < count; ++i) {
    items[i].key = good[i] ? KeyOf(keys.keys[i], keys.lens[i]) : kBadKey;
    items[i].pieces = values.Of(i);
  }
  std::vector<ItemResult> results(count);
  if (!client.Put(items, {}, results).ok()) return -1;
  for (size_t i = 0; i < count; ++i) out[i] = results[i].code == Code::kOk ? 1 : 0;
  return 0;
}

struct GetOutputs {
  int* hit;
  uint64_t* len;  // null: a hit needs the exact length
};

int GetBatch(Client& client, Keys keys, const Values<MutableByteSpan>& values, const std::vector<bool>& good,
             GetOutputs out) {
  const size_t count = good.size();
  std::vector<GetItem> items(count);
  for (size_t i = 0; i < count; ++i) {
    items[i].key = good[i] ? KeyOf(keys.keys[i], keys.lens[i]) : kBadKey;
    items[i].pieces = values.Of(i);
    items[i].exact = out.len == nullptr;
  }
  std::vector<ItemResult> results(count);
  if (!client.Get(items, {}, results).ok()) return -1;
  for (size_t i = 0; i < count; ++i) {
    if (results[i].code != Code::kOk) continue;
    out.hit[i] = 1;
    if (out.len != nullptr) out.len[i] = results[i].length;
  }
  return 0;
}

// A batch call: zeroes the outputs that are there, then runs body(client, count) when the handle lives and no
// array is missing.
struct Batch {
  dfkv_client_t client;
  int n;
  int* flags;
  uint64_t* lengths = nullptr;
};

template <typename Body>
int RunBatch(const Batch& batch, std::initializer_list<const void*> arrays, const Body& body) noexcept {
  const size_t count = batch.n > 0 ? static_cast<size_t>(batch.n) : 0;
  if (batch.flags != nullptr) std::fill_n(batch.flags, count, 0);
  if (batch.lengths != nullptr) std::fill_n(batch.lengths, count, 0);
  return NoThrow(-1, [&] {
    const ClientRef ref = FindHandle(batch.client);
    if (!ref || batch.n < 0) return -1;
    if (count == 0) return 0;
    if (batch.flags == nullptr || std::find(arrays.begin(), arrays.end(), nullptr) != arrays.end()) return -1;
    return body(*ref, count);
  });
}

}  // namespace

// C functions: a namespace does not change their names, but hides the visibility that the header gave them.
#pragma GCC visibility push(default)
extern "C" {

dfkv_client_t dfkv_open_v2(const dfkv_client_options_v2* options) {
  return NoThrow<dfkv_client_t>(nullptr, [&] { return OpenV2(options); });
}

int dfkv_put(dfkv_client_t client, const void* key, uint64_t key_len, const void* ptr, uint64_t n) {
  return NoThrow(-1, [&] {
    const ClientRef ref = FindHandle(client);
    if (!ref || (ptr == nullptr && n > 0)) return -1;
    const ByteSpan value(static_cast<const std::byte*>(ptr), n);
    const PutItem item{KeyOf(key, key_len), {&value, 1}};
    ItemResult result;
    return ref->Put({&item, 1}, {}, {&result, 1}).ok() && result.code == Code::kOk ? 0 : -1;
  });
}

int dfkv_get(dfkv_client_t client, const void* key, uint64_t key_len, void* ptr, uint64_t n) {
  return NoThrow(0, [&] {
    return Get(client, KeyOf(key, key_len), {static_cast<std::byte*>(ptr), n}, true, nullptr);
  });
}

int dfkv_get_auto(dfkv_client_t client, const void* key, uint64_t key_len, void* ptr, uint64_t cap,
                  uint64_t* out_len) {
  if (out_len != nullptr) *out_len = 0;
  return NoThrow(0, [&] {
    return Get(client, KeyOf(key, key_len), {static_cast<std::byte*>(ptr), cap}, false, out_len);
  });
}

int dfkv_exist(dfkv_client_t client, const void* key, uint64_t key_len) {
  return NoThrow(0, [&] { return OnKey(Good::kPresent, client, key, key_len, &Client::Exist); });
}

int dfkv_remove(dfkv_client_t client, const void* key, uint64_t key_len) {
  return NoThrow(0, [&] { return OnKey(Good::kGone, client, key, key_len, &Client::Remove); });
}

int dfkv_register_memory(dfkv_client_t client, const void*, uint64_t) {
  return NoThrow(-1, [&] { return FindHandle(client) ? 0 : -1; });  // TCP needs no registration
}

uint32_t dfkv_max_sg_segs(dfkv_client_t client) {
  return NoThrow(0u, [&] { return FindHandle(client) ? uint32_t{kSegmentsMax} : 0u; });
}

const char* dfkv_transport_mode(dfkv_client_t client) {
  return NoThrow<const char*>("", [&] { return FindHandle(client) ? client::kTransportMode : ""; });
}

int dfkv_batch_put(dfkv_client_t client, const void* const* keys, const uint64_t* key_lens, const void** ptrs,
                   const uint64_t* sizes, int n, int* out_ok) {
  return RunBatch({client, n, out_ok}, {keys, key_lens, ptrs, sizes}, [&](Client& on, size_t count) {
    std::vector<bool> good(count);
    return Put(on, {keys, key_lens}, OneBufferEach<ByteSpan>(ptrs, sizes, count, good), good, out_ok);
  });
}

int dfkv_batch_get(dfkv_client_t client, const void* const* keys, const uint64_t* key_lens, void** ptrs,
                   const uint64_t* sizes, int n, int* out_hit) {
  return RunBatch({client, n, out_hit}, {keys, key_lens, ptrs, sizes}, [&](Client& on, size_t count) {
    std::vector<bool> good(count);
    const auto values = OneBufferEach<MutableByteSpan>(ptrs, sizes, count, good);
    return GetBatch(on, {keys, key_lens}, values, good, {out_hit, nullptr});
  });
}

int dfkv_batch_get_auto(dfkv_client_t client, const void* const* keys, const uint64_t* key_lens, void** ptrs,
                        const uint64_t* caps, int n, int* out_hit, uint64_t* out_len) {
  const Batch batch = {client, n, out_hit, out_len};
  return RunBatch(batch, {keys, key_lens, ptrs, caps, out_len}, [&](Client& on, size_t count) {
    std::vector<bool> good(count);
    const auto values = OneBufferEach<MutableByteSpan>(ptrs, caps, count, good);
    return GetBatch(on, {keys, key_lens}, values, good, {out_hit, out_len});
  });
}

int dfkv_batch_exist(dfkv_client_t client, const void* const* keys, const uint64_t* key_lens, int n,
                     int* out_exist) {
  return RunBatch({client, n, out_exist}, {keys, key_lens}, [&](Client& on, size_t count) {
    return OnKeys(on, {keys, key_lens}, Good::kPresent, out_exist, count, &Client::Exist);
  });
}

int dfkv_batch_remove(dfkv_client_t client, const void* const* keys, const uint64_t* key_lens, int n,
                      int* out_ok) {
  return RunBatch({client, n, out_ok}, {keys, key_lens}, [&](Client& on, size_t count) {
    return OnKeys(on, {keys, key_lens}, Good::kGone, out_ok, count, &Client::Remove);
  });
}

int dfkv_batch_put_sg(dfkv_client_t client, const void* const* keys, const uint64_t* key_lens,
                      const void*** ptrs, const uint64_t** sizes, const int* num_bufs, int n, int* out_ok) {
  return RunBatch({client, n, out_ok}, {keys, key_lens, ptrs, sizes, num_bufs},
                  [&](Client& on, size_t count) {
                    std::vector<bool> good(count);
                    const auto values = ManyBuffersEach<ByteSpan>(ptrs, sizes, num_bufs, count, good);
                    return Put(on, {keys, key_lens}, values, good, out_ok);
                  });
}

int dfkv_batch_get_auto_sg(dfkv_client_t client, const void* const* keys, const uint64_t* key_lens,
                           void*** dsts, const uint64_t** caps, const int* num_dsts, int n, int* out_hit,
                           uint64_t* out_len) {
  const Batch batch = {client, n, out_hit, out_len};
  return RunBatch(batch, {keys, key_lens, dsts, caps, num_dsts, out_len}, [&](Client& on, size_t count) {
    std::vector<bool> good(count);
    const auto values = ManyBuffersEach<MutableByteSpan>(dsts, caps, num_dsts, count, good);
    return GetBatch(on, {keys, key_lens}, values, good, {out_hit, out_len});
  });
}

uint64_t dfkv_stats_snapshot(dfkv_client_t client, char* buf, uint64_t cap) {
  return NoThrow<uint64_t>(0, [&]() -> uint64_t {
    if (buf != nullptr && cap > 0) buf[0] = '\0';
    const ClientRef ref = FindHandle(client);
    if (!ref) return 0;
    const std::string text = ref->metrics().Render();
    if (buf != nullptr && cap > 0) {
      const size_t size = std::min<uint64_t>(text.size(), cap - 1);
      std::memcpy(buf, text.data(), size);
      buf[size] = '\0';
    }
    return text.size();
  });
}

const char* dfkv_version(void) {
  return DFKV_VERSION;
}

void dfkv_close(dfkv_client_t client) {
  (void)NoThrow(0, [&] {
    (void)Clients().Take(client);
    return 0;
  });
}

}  // extern "C"
#pragma GCC visibility pop

}  // namespace dfkv::capi
