// Config files are typed by people and templates: any bytes are refused or taken, and what was taken prints
// and reads back.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "base/option.h"
#include "base/option_cli.h"

namespace {

struct Fields {
  bool flag = false;
  int64_t number = 0;
  uint64_t size_bytes = 1;
  uint32_t wait_ms = 1;
  double rate = 0;
  std::string text;
  std::vector<std::string> list;
  std::optional<uint16_t> port;
};

void Register(dfkv::OptionSet* set, Fields* fields) {
  set->Add("flag", &fields->flag, "");
  set->Add("number", &fields->number, "");
  set->AddBytes("size", &fields->size_bytes, "");
  set->Add("tcp-wait-ms", &fields->wait_ms, "");
  set->Add("rate", &fields->rate, "");
  set->Add("text", &fields->text, "");
  set->Add("list", &fields->list, "");
  set->Add("port", &fields->port, "");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Fields fields;
  dfkv::OptionSet set;
  Register(&set, &fields);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const dfkv::Status status = dfkv::LoadTomlText(&set, text, "fuzz.toml");
  DFKV_CHECK(status.ok() || !status.message().empty());
  Fields copy;
  dfkv::OptionSet again;
  Register(&again, &copy);
  DFKV_CHECK(dfkv::LoadTomlText(&again, set.Print(), "printed").ok());
  DFKV_CHECK(copy.flag == fields.flag && copy.number == fields.number &&
             copy.size_bytes == fields.size_bytes);
  DFKV_CHECK(copy.wait_ms == fields.wait_ms && copy.text == fields.text && copy.list == fields.list);
  DFKV_CHECK(copy.port == fields.port && copy.rate == fields.rate);
  return 0;
}
