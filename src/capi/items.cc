#include "capi/items.h"

#include <algorithm>
#include <string>

#include "base/text.h"

namespace dfkv::capi {
namespace {

constexpr uint64_t kItemsMax = 1 << 24;  // of a batch: a larger count is a bug of the caller

template <typename Span, typename Item, typename Inner>
void ImportBuffers(std::span<const Item> from, std::vector<Inner>* items, std::vector<Span>* spans) {
  size_t total = 0;
  for (const Item& item : from) total += item.buffers == nullptr ? 0 : item.num_buffers;
  spans->reserve(total);  // spans of items point into it
  items->resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) {
    const size_t first = spans->size();
    bool usable = from[i].buffers != nullptr || from[i].num_buffers == 0;
    for (uint32_t b = 0; usable && b < from[i].num_buffers; ++b) {
      const dfkv_buffer3& buffer = from[i].buffers[b];
      usable = buffer.ptr != nullptr || buffer.len == 0;
      if (usable) spans->emplace_back(static_cast<std::byte*>(buffer.ptr), buffer.len);
    }
    Inner& item = (*items)[i];
    if (usable) item.key = Bytes(from[i].key, from[i].key_len);
    item.pieces = std::span<const Span>(spans->data() + first, spans->size() - first);
  }
}

}  // namespace

Status Bad(std::string_view what) {
  return {Code::kInvalid, std::string(what)};
}

ByteSpan Bytes(const void* ptr, uint64_t len) {
  return ptr == nullptr ? ByteSpan() : ByteSpan(static_cast<const std::byte*>(ptr), len);
}

Puts::Puts(std::span<const dfkv_put_item3> from) {
  ImportBuffers(from, &items, &spans);
  for (size_t i = 0; i < from.size(); ++i) items[i].depth = from[i].depth;
}

Gets::Gets(std::span<const dfkv_get_item3> from) {
  ImportBuffers(from, &items, &spans);
  for (size_t i = 0; i < from.size(); ++i) {
    items[i].exact = (from[i].flags & DFKV_GET3_EXACT) != 0;
    items[i].range = (from[i].flags & DFKV_GET3_RANGE) != 0;
    items[i].offset = from[i].offset;
    if ((from[i].flags & ~(DFKV_GET3_EXACT | DFKV_GET3_RANGE)) != 0) items[i].key = {};
  }
}

std::vector<ByteSpan> NamesOf(std::span<const dfkv_key3> keys) {
  std::vector<ByteSpan> names(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) names[i] = Bytes(keys[i].key, keys[i].key_len);
  return names;
}

Status CheckArrays(const void* items, uint64_t count, const void* results) {
  if (count > kItemsMax) return Bad(Cat("count is more than ", kItemsMax));
  if (count > 0 && (items == nullptr || results == nullptr)) return Bad("an array is NULL");
  return Ok();
}

void Zero(dfkv_result3* results, uint64_t count) {
  if (results != nullptr && count <= kItemsMax) std::fill_n(results, count, dfkv_result3{});
}

void Export(std::span<const client::ItemResult> from, dfkv_result3* to) {
  for (size_t i = 0; i < from.size(); ++i) to[i] = {static_cast<int32_t>(from[i].code), 0, from[i].length};
}

int Told(const char* function, const Status& status) {
  if (status.ok() || status.code() == Code::kNotFound) {
    SetLastError("");
  } else {
    SetLastError(Cat(function, ": ", status.ToString()));
  }
  return static_cast<int>(status.code());
}

}  // namespace dfkv::capi
