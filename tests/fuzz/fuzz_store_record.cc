// What a start reads from a disk: slot records, meta blocks and run blocks. Any bytes are refused or taken;
// what is taken can be used without further checks, and comes out the same when it is sealed again. The first
// 16 bytes of the input are the disk's salt. A second round seals the input first, so that the checks behind
// the CRC are reached.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "base/check.h"
#include "store/record.h"
#include "store/runs_file.h"
#include "store/size_classes.h"

namespace dfkv::store {
namespace {

void TryRecord(const Salt& salt, ByteSpan bytes) {
  Record record{};
  const RecordState state = DecodeRecord(salt, bytes, &record);
  if (state != RecordState::kValid) {
    DFKV_CHECK(record.length == 0);  // written only on success
    return;
  }
  DFKV_CHECK(record.length > 0 && record.length <= record.slot_bytes);
  DFKV_CHECK(record.slot_bytes % kBlockBytes == 0 && record.slot_address % kBlockBytes == 0);
  Record again = record;
  SealRecord(salt, &again);
  DFKV_CHECK(std::memcmp(&again, bytes.data(), sizeof again) == 0);
}

void TryMeta(ByteSpan bytes) {
  MetaBlock meta{};
  const MetaState state = DecodeMeta(bytes, &meta);
  if (state != MetaState::kValid) {
    DFKV_CHECK(meta.extent_bytes == 0);
    return;
  }
  const SizeClasses classes(meta.extent_bytes);
  DFKV_CHECK(classes.count() > 0 && classes.slot_bytes(classes.count() - 1) == meta.extent_bytes);
  MetaBlock again = meta;
  SealMeta(&again);
  DFKV_CHECK(std::memcmp(&again, bytes.data(), sizeof again) == 0);
}

void TryRun(ByteSpan bytes) {
  RunBlock block{};
  if (!DecodeRunBlock(bytes, &block)) return;
  RunBlock again = block;
  SealRunBlock(&again);
  DFKV_CHECK(std::memcmp(&again, bytes.data(), sizeof again) == 0);
  const RunMark mark{block.store, block.run, block.removing_run};
  const std::array<RunMark, 2> marks = {mark, RunMark{}};
  const RunPlan plan = PlanRun(marks);
  DFKV_CHECK(plan.believed.size() == 2 && plan.last_run >= mark.run);
}

template <typename Block, typename Seal>
void Sealed(ByteSpan bytes, const Seal& seal) {
  if (bytes.size() < sizeof(Block)) return;
  Block block;
  std::memcpy(&block, bytes.data(), sizeof block);
  seal(&block);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  TryMeta(bytes);
  TryRun(bytes);
  Sealed<RunBlock>(bytes, [](RunBlock* block) {
    SealRunBlock(block);
    TryRun({reinterpret_cast<const std::byte*>(block), sizeof *block});
  });
  Sealed<MetaBlock>(bytes, [](MetaBlock* meta) {
    SealMeta(meta);
    TryMeta({reinterpret_cast<const std::byte*>(meta), sizeof *meta});
  });
  Salt salt;
  if (size < sizeof salt) return 0;
  std::memcpy(salt.data(), data, sizeof salt);
  const ByteSpan rest = bytes.subspan(sizeof salt);
  TryRecord(salt, rest);
  Sealed<Record>(rest, [&](Record* record) {
    SealRecord(salt, record);
    TryRecord(salt, {reinterpret_cast<const std::byte*>(record), sizeof *record});
  });
  return 0;
}

}  // namespace dfkv::store
