#include "store/record.h"

#include <algorithm>
#include <bit>

#include "base/crc32c.h"

namespace dfkv::store {
namespace {

uint32_t RecordCrc(const Salt& salt, const Record& record) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&record);
  uint32_t crc = Crc32c(salt);
  crc = Crc32cExtend(crc, {bytes, offsetof(Record, crc)});
  return Crc32cExtend(crc, {bytes + offsetof(Record, tenant), sizeof(Record) - offsetof(Record, tenant)});
}

uint32_t MetaCrc(const MetaBlock& meta) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&meta);
  const uint32_t crc = Crc32c({bytes, offsetof(MetaBlock, crc)});
  return Crc32cExtend(crc,
                      {bytes + offsetof(MetaBlock, salt), sizeof(MetaBlock) - offsetof(MetaBlock, salt)});
}

}  // namespace

void SealRecord(const Salt& salt, Record* record) {
  record->magic = kRecordMagic;
  record->crc = RecordCrc(salt, *record);
}

RecordState DecodeRecord(const Salt& salt, ByteSpan bytes, Record* record) {
  if (bytes.size() != kRecordBytes) return RecordState::kCorrupt;
  Record read;
  std::memcpy(&read, bytes.data(), sizeof read);
  if (read.magic != kRecordMagic) {
    const bool zeros = std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
    return zeros ? RecordState::kEmpty : RecordState::kCorrupt;
  }
  if (read.crc != RecordCrc(salt, read)) return RecordState::kCorrupt;
  if (read.length == 0 || read.slot_bytes == 0 || read.slot_bytes % kBlockBytes != 0 ||
      read.length > read.slot_bytes || read.slot_address % kBlockBytes != 0) {
    return RecordState::kCorrupt;
  }
  *record = read;
  return RecordState::kValid;
}

void SealMeta(MetaBlock* meta) {
  meta->magic = kMetaMagic;
  meta->version = kFormatVersion;
  meta->crc = MetaCrc(*meta);
}

MetaState DecodeMeta(ByteSpan bytes, MetaBlock* meta) {
  if (bytes.size() < sizeof(MetaBlock)) return MetaState::kDamaged;
  MetaBlock read;
  std::memcpy(&read, bytes.data(), sizeof read);
  if (read.magic != kMetaMagic) return MetaState::kDamaged;
  if (read.version != kFormatVersion) return MetaState::kForeign;
  if (read.crc != MetaCrc(read)) return MetaState::kDamaged;
  const bool possible = std::has_single_bit(read.extent_bytes) && read.extent_bytes >= kBlockBytes &&
                        read.extent_bytes <= kExtentBytesLimit;
  if (!possible) return MetaState::kDamaged;
  *meta = read;
  return MetaState::kValid;
}

}  // namespace dfkv::store
