// What the command-line clients share: their options, a client, values in plain memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/option.h"
#include "client/client.h"
#include "cluster/member.h"

namespace dfkv::tools {

constexpr int kDone = 0;
constexpr int kFailed = 1;  // a miss, or a call that failed
constexpr int kUsage = 2;

struct CtlOptions {
  client::ClientOptions client;
  uint32_t deadline_ms = 0;
  bool json = false;
  std::string file;

  client::CallOptions call() const { return {deadline_ms}; }
};

// --members, --namespace, --deadline-ms and the client's own.
void RegisterCtlOptions(OptionSet* set, CtlOptions* options);

// Prints "name: message" to stderr and gives `status`.
int Complain(const std::string& program, const Status& why, int status);

Code PutValue(client::Client& client, const std::string& key, ByteSpan value,
              const client::CallOptions& call);
// The whole value, whatever its size.
Result<std::vector<std::byte>> GetValue(client::Client& client, const std::string& key,
                                        const client::CallOptions& call);
using KeyCall = Status (client::Client::*)(std::span<const ByteSpan>, const client::CallOptions&,
                                           std::span<client::ItemResult>);
client::ItemResult OnKey(client::Client& client, KeyCall function, const std::string& key,
                         const client::CallOptions& call);

// A string as JSON writes it, quotes included; a byte that is not printable ASCII becomes \u00XX.
std::string JsonText(std::string_view text);

}  // namespace dfkv::tools
