#include "wire/options.h"

#include <algorithm>

#include "base/text.h"

namespace dfkv::wire {

bool OptionReader::Next(OptionView* option) {
  if (rest_.size() < sizeof(OptionHeader)) return false;
  const auto header = LoadLe<OptionHeader>(rest_.data());
  const uint64_t whole = OptionBytes(header.length);
  if (whole > rest_.size()) return false;
  option->type = static_cast<OptionType>(header.type);
  option->bytes = rest_.subspan(sizeof(OptionHeader), header.length);
  rest_ = rest_.subspan(whole);
  return true;
}

Status CheckOptions(ByteSpan block) {
  while (!block.empty()) {
    if (block.size() < sizeof(OptionHeader)) {
      return Status(Code::kInvalid, Cat("options end in ", block.size(), " stray bytes"));
    }
    const auto header = LoadLe<OptionHeader>(block.data());
    const uint64_t whole = OptionBytes(header.length);
    if (whole > block.size()) {
      return Status(Code::kInvalid, Cat("option ", header.type, " has length ", header.length, " with ",
                                        block.size() - sizeof(OptionHeader), " bytes left"));
    }
    block = block.subspan(whole);
  }
  return Ok();
}

std::optional<ByteSpan> FindOption(ByteSpan block, OptionType type) {
  OptionReader reader(block);
  OptionView option;
  while (reader.Next(&option)) {
    if (option.type == type) return option.bytes;
  }
  return std::nullopt;
}

bool OptionWriter::Add(OptionType type, ByteSpan bytes) {
  const uint64_t whole = OptionBytes(bytes.size());
  if (bytes.size() > UINT32_MAX || whole > room_.size() - used_) return false;
  const OptionHeader header{static_cast<uint16_t>(type), 0, static_cast<uint32_t>(bytes.size())};
  ByteWriter writer(room_.subspan(used_, whole));
  writer.Write(header);
  writer.WriteBytes(bytes);
  std::fill(room_.begin() + static_cast<std::ptrdiff_t>(used_ + writer.used()),
            room_.begin() + static_cast<std::ptrdiff_t>(used_ + whole), std::byte{0});
  used_ += whole;
  return true;
}

std::string PrintableText(ByteSpan bytes, size_t bytes_max) {
  std::string text(AsText(bytes.first(std::min(bytes.size(), bytes_max))));
  for (char& c : text) {
    if (c < 0x20 || c > 0x7E) c = '?';
  }
  return text;
}

}  // namespace dfkv::wire
