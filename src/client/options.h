// The client's options: declared once, for the library's environment and the flags of tools.
#pragma once

#include <cstdint>

#include "base/option.h"
#include "client/client.h"

namespace dfkv::client {

// Declares the rows that tune a client (not members or namespace, which are arguments everywhere).
void RegisterClientOptions(OptionSet* set, ClientOptions* options);

}  // namespace dfkv::client
