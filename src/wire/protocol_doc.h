// The tables of docs/PROTOCOL.md, made from the code's own: a test compares them with the page.
#pragma once

#include <string>

namespace dfkv::wire {

std::string ProtocolTables();  // Markdown

}  // namespace dfkv::wire
