// Answers as a client receives them: refused with a text, or every item readable and its bytes within the
// payload.
#include "tests/fuzz/fuzz_wire.h"
#include "wire/encode.h"
#include "wire/options.h"

using dfkv::wire::AnswerItem;
using dfkv::wire::AnswerView;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto frame = dfkv::wire::TakeFrame(data, size);
  if (!frame) return 0;
  const dfkv::Result<AnswerView> answer = dfkv::wire::DecodeAnswer(frame->header, frame->bytes);
  if (!answer.ok()) {
    DFKV_CHECK(!answer.status().message().empty());
    return 0;
  }
  (void)dfkv::wire::PrintableText(dfkv::AsBytes(answer->message()));
  if (answer->code != dfkv::Code::kOk) {
    DFKV_CHECK(answer->items.empty() && frame->header.payload_bytes == 0);
    return 0;
  }
  if (answer->items.empty()) return 0;
  uint64_t left = frame->header.payload_bytes;
  for (uint32_t i = 0; i < answer->item_count(); ++i) {
    const AnswerItem item = answer->item(i);
    DFKV_CHECK(dfkv::IsKnownCode(item.code));
    DFKV_CHECK(item.payload_bytes <= left);
    left -= item.payload_bytes;
  }
  DFKV_CHECK(left == 0);
  return 0;
}
