// Sizes, times and numbers from the environment and the command line: refused, or read and shown so that the
// text reads back to the same value. The first byte chooses the type.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/option.h"
#include "base/text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr const char* kNames[] = {"size", "wait-ms", "wait-us", "wait-s", "number",
                                    "seed", "rate",    "flag",    "list"};
  constexpr size_t kNameCount = sizeof kNames / sizeof kNames[0];
  uint64_t size_bytes = 1;
  uint32_t wait_ms = 1;
  int64_t wait_us = 1;
  uint16_t wait_s = 1;
  int64_t number = 1;
  uint64_t seed = 1;
  double rate = 1;
  bool flag = false;
  std::vector<std::string> list;
  dfkv::OptionSet set;
  set.AddBytes("size", &size_bytes, "");
  set.Add("wait-ms", &wait_ms, "");
  set.Add("wait-us", &wait_us, "");
  set.Add("wait-s", &wait_s, "");
  set.Add("number", &number, "");
  set.Add("seed", &seed, "");
  set.Add("rate", &rate, "");
  set.Add("flag", &flag, "");
  set.Add("list", &list, "");
  const char* name = kNames[data[0] % kNameCount];
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const dfkv::Status status = set.Set(name, text, dfkv::OptionSource::kFlag, "fuzz");
  const std::string shown = set.Find(name)->value();
  DFKV_CHECK(set.Set(name, shown, dfkv::OptionSource::kFlag, "again").ok());
  DFKV_CHECK(set.Find(name)->value() == shown);
  if (!status.ok()) DFKV_CHECK(status.code() == dfkv::Code::kInvalid);
  (void)set.DidYouMean(text.substr(0, 64));
  dfkv::Result<uint64_t> bytes = dfkv::ParseBytes(text);
  if (bytes.ok()) DFKV_CHECK(!dfkv::FormatBytes(*bytes).empty());
  return 0;
}
