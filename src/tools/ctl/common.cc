#include "tools/ctl/common.h"

#include <cstdio>

#include "base/text.h"
#include "client/options.h"

namespace dfkv::tools {

void RegisterCtlOptions(OptionSet* set, CtlOptions* options) {
  set->Group("Cache");
  set->Add("members", &options->client.members, "The nodes: name=ip:port,name2=ip:port*weight.").Required();
  set->Add("namespace", &options->client.key_namespace, "Namespace of the keys.");
  set->Add("deadline-ms", &options->deadline_ms,
           "Of each call; 0: client-stall-ms + bytes / client-min-rate.");
  client::RegisterClientOptions(set, &options->client);
}

int Complain(const std::string& program, const Status& why, int status) {
  std::fprintf(stderr, "%s: %s\n", program.c_str(), why.ToString().c_str());
  return status;
}

Code PutValue(client::Client& client, const std::string& key, ByteSpan value,
              const client::CallOptions& call) {
  const client::PutItem item{AsBytes(key), {&value, 1}};
  client::ItemResult result;
  const Status status = client.Put({&item, 1}, call, {&result, 1});
  return status.ok() ? result.code : status.code();
}

Result<std::vector<std::byte>> GetValue(client::Client& client, const std::string& key,
                                        const client::CallOptions& call) {
  std::vector<std::byte> value(64 << 10);
  for (int tries = 0; tries < 3; ++tries) {  // the object may be replaced by a longer one in between
    const MutableByteSpan room(value);
    const client::GetItem item{AsBytes(key), {&room, 1}};
    client::ItemResult result;
    DFKV_RETURN_IF_ERROR(client.Get({&item, 1}, call, {&result, 1}));
    if (result.code != Code::kOk && result.code != Code::kTooSmall) return result.code;
    value.resize(result.length);
    if (result.code == Code::kOk) return value;
  }
  return Code::kTooSmall;
}

client::ItemResult OnKey(client::Client& client, KeyCall function, const std::string& key,
                         const client::CallOptions& call) {
  const ByteSpan name = AsBytes(key);
  client::ItemResult result;
  const Status status = (client.*function)({&name, 1}, call, {&result, 1});
  if (!status.ok()) result.code = status.code();
  return result;
}

std::string JsonText(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += Cat('\\', c);
    } else if (byte >= 0x20 && byte < 0x7F) {
      out += c;
    } else {
      constexpr const char* kDigits = "0123456789abcdef";
      out += Cat("\\u00", kDigits[byte >> 4], kDigits[byte & 15]);
    }
  }
  return out + '"';
}

}  // namespace dfkv::tools
