// Requests and hellos as a node receives them: refused with a text, or every item readable, the lengths of a
// PUT adding up to its payload, and the same frame when encoded again.
#include "tests/fuzz/fuzz_wire.h"
#include "wire/encode.h"
#include "wire/ops.h"
#include "wire/options.h"

namespace dfkv::wire {
namespace {

template <typename Item>
void CheckItems(const RequestView& request, const FuzzFrame& frame) {
  std::vector<Item> items;
  for (uint32_t i = 0; i < request.item_count(); ++i) items.push_back(request.item<Item>(i));
  if constexpr (std::is_same_v<Item, PutItem>) {
    uint64_t left = request.header.payload_bytes;
    for (const Item& item : items) {
      DFKV_CHECK(item.length <= left);
      left -= item.length;
    }
    DFKV_CHECK(left == 0);
  }
  const RequestSpec spec{request.op(), request.header.request_id, request.prefix.tenant,
                         request.prefix.deadline_ms, request.header.payload_bytes};
  std::vector<std::byte> again(frame.bytes.size());
  const size_t size = EncodeRequest(again, spec, std::span<const Item>(items), request.options);
  DFKV_CHECK(size == frame.bytes.size());
  if (request.prefix.reserved != 0 || request.header.flags != 0) return;  // ignored, so not kept
  DFKV_CHECK(again == frame.bytes);
}

void CheckRequest(const FuzzFrame& frame) {
  const Result<RequestView> request = DecodeRequest(frame.header, frame.bytes);
  if (!request.ok()) {
    DFKV_CHECK(!request.status().message().empty());
    return;
  }
  OptionReader reader(request->options);
  OptionView option;
  while (reader.Next(&option)) (void)PrintableText(option.bytes);
  const OpInfo& info = *FindOp(frame.header.op);
  if (info.request_item == "KeyItem") CheckItems<KeyItem>(*request, frame);
  if (info.request_item == "GetItem") CheckItems<GetItem>(*request, frame);
  if (info.request_item == "PutItem") CheckItems<PutItem>(*request, frame);
}

}  // namespace
}  // namespace dfkv::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto frame = dfkv::wire::TakeFrame(data, size);
  if (!frame) return 0;
  const dfkv::Result<dfkv::wire::HelloView> hello = dfkv::wire::DecodeHello(frame->header, frame->bytes);
  if (hello.ok()) {
    const dfkv::wire::HelloBody node{1, 1, 0, 1 << 20, 1 << 20, 100, 10, 5};
    const auto both = dfkv::wire::Negotiate(node, hello->body);
    if (both.ok()) DFKV_CHECK(both->items_max > 0 && both->payload_bytes_max <= 1 << 20);
  }
  dfkv::wire::CheckRequest(*frame);
  return 0;
}
