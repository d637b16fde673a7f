// The formats and the pure parts: records, meta blocks, size classes, the index, merged runs.
#include <gtest/gtest.h>

#include <bit>
#include <set>

#include "base/random.h"
#include "store/index.h"
#include "store/media.h"
#include "store/record.h"
#include "store/size_classes.h"
#include "store/store_testing.h"

namespace dfkv::store {
namespace {

Salt SaltOf(uint64_t seed) {
  Salt salt;
  FillPattern(seed, 0, salt);
  return salt;
}

Record Sample() {
  Record record{};
  record.tenant = 1;
  record.id_hi = 2;
  record.id_lo = 3;
  record.generation = 4;
  record.slot_address = 5 * kBlockBytes;
  record.length = 6000;
  record.payload_crc = 7;
  record.depth = 8;
  record.slot_bytes = 8192;
  return record;
}

ByteSpan BytesOfRecord(const Record& record) {
  return {reinterpret_cast<const std::byte*>(&record), sizeof record};
}

TEST(Record, ComesBackWholeAndOnlyOnItsDisk) {
  Record record = Sample();
  SealRecord(SaltOf(1), &record);
  Record read{};
  ASSERT_EQ(DecodeRecord(SaltOf(1), BytesOfRecord(record), &read), RecordState::kValid);
  EXPECT_EQ(std::memcmp(&record, &read, sizeof read), 0);
  EXPECT_EQ(DecodeRecord(SaltOf(2), BytesOfRecord(record), &read), RecordState::kCorrupt);
}

TEST(Record, EveryFlippedBitIsNoticed) {
  Record record = Sample();
  SealRecord(SaltOf(1), &record);
  for (size_t bit = 0; bit < 8 * sizeof record; ++bit) {
    Record flipped = record;
    reinterpret_cast<uint8_t*>(&flipped)[bit / 8] ^= static_cast<uint8_t>(1u << (bit % 8));
    Record read{};
    EXPECT_EQ(DecodeRecord(SaltOf(1), BytesOfRecord(flipped), &read), RecordState::kCorrupt) << bit;
  }
}

TEST(Record, ZerosAreEmptyAndNonsenseIsCorrupt) {
  Record read{};
  const Record zeros{};
  EXPECT_EQ(DecodeRecord(SaltOf(1), BytesOfRecord(zeros), &read), RecordState::kEmpty);
  for (const auto& [length, slot_bytes] : {std::pair{0u, 4096u}, {4097u, 4096u}, {10u, 4095u}, {10u, 0u}}) {
    Record record = Sample();
    record.length = length;
    record.slot_bytes = slot_bytes;
    SealRecord(SaltOf(1), &record);
    EXPECT_EQ(DecodeRecord(SaltOf(1), BytesOfRecord(record), &read), RecordState::kCorrupt);
  }
}

// FROZEN: a record that an earlier build wrote is read by this one.
TEST(Record, BytesAreWhatTheyWere) {
  Record record = Sample();
  SealRecord(SaltOf(1), &record);
  EXPECT_EQ(record.magic, 0x01524644u);
  const uint32_t crc =
      Crc32cExtendPortable(Crc32cExtendPortable(0, SaltOf(1)), BytesOfRecord(record).first(4));
  EXPECT_EQ(record.crc, Crc32cExtendPortable(crc, BytesOfRecord(record).subspan(8)));
}

TEST(Meta, VersionAndDamageAreToldApart) {
  MetaBlock meta{};
  meta.salt = SaltOf(3);
  meta.extent_bytes = 1 << 20;
  meta.engine = kEngineSlab;
  SealMeta(&meta);
  const auto decode = [](const MetaBlock& block) {
    MetaBlock read{};
    return DecodeMeta({reinterpret_cast<const std::byte*>(&block), sizeof block}, &read);
  };
  EXPECT_EQ(decode(meta), MetaState::kValid);
  MetaBlock other = meta;
  other.version = kFormatVersion + 1;
  EXPECT_EQ(decode(other), MetaState::kForeign);
  other = meta;
  other.extent_bytes = 2 << 20;
  EXPECT_EQ(decode(other), MetaState::kDamaged);
  EXPECT_EQ(decode(MetaBlock{}), MetaState::kDamaged);
}

// Also where the CRC is right: what was decoded is used without further checks.
TEST(Meta, AnImpossibleExtentSizeIsDamage) {
  const auto decode = [](uint64_t extent_bytes) {
    MetaBlock meta{};
    meta.extent_bytes = extent_bytes;
    SealMeta(&meta);
    MetaBlock read{};
    return DecodeMeta({reinterpret_cast<const std::byte*>(&meta), sizeof meta}, &read);
  };
  for (uint64_t bytes :
       {uint64_t{0}, uint64_t{2048}, uint64_t{12288}, uint64_t{1} << 32, uint64_t{1} << 63}) {
    EXPECT_EQ(decode(bytes), MetaState::kDamaged) << bytes;
  }
  for (uint64_t bytes : {kBlockBytes, kExtentBytesLimit}) {
    EXPECT_EQ(decode(bytes), MetaState::kValid) << bytes;
    EXPECT_EQ(SizeClasses(bytes).extent_bytes(), bytes);
  }
}

TEST(SizeClasses, HoldEverySizeWithBoundedWaste) {
  for (uint64_t extent = 64 << 10; extent <= 64 << 20; extent *= 2) {
    const SizeClasses classes(extent);
    EXPECT_EQ(classes.slot_bytes(0), 4096u);
    EXPECT_EQ(classes.slot_bytes(classes.count() - 1), extent);
    EXPECT_LE(classes.count(), 64u);
    for (uint32_t c = 0; c < classes.count(); ++c) {
      const uint64_t slot = classes.slot_bytes(c);
      EXPECT_EQ(classes.ClassOf(slot), c);
      EXPECT_EQ(classes.ClassOfSlot(slot), c);
      if (c > 0) {
        EXPECT_EQ(classes.ClassOf(classes.slot_bytes(c - 1) + 1), c);
      }
      EXPECT_LE(slot * classes.slots_per_extent(c), extent);
      // Where 8 or more fit, the next class is at most a third larger, and an eighth of the extent is the
      // most that is left over.
      if (c > 0 && classes.slots_per_extent(c) >= 8) {
        EXPECT_LE(slot, std::max<uint64_t>(classes.slot_bytes(c - 1) * 4 / 3 + 4096, 8192));
        EXPECT_GE(slot * classes.slots_per_extent(c), extent - extent / 8);
      }
    }
    EXPECT_FALSE(classes.ClassOfSlot(5000));
    EXPECT_FALSE(classes.ClassOfSlot(0));
    EXPECT_FALSE(classes.ClassOfSlot(extent * 2));
  }
}

TEST(Index, FindsWhatWasAddedAndForgetsWhatWasFreed) {
  auto index = std::make_unique<Index>();
  const uint64_t seed = SeedFromSystem();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  Random random(seed);
  std::map<ObjectKey, Ref> model;
  for (int step = 0; step < 50'000; ++step) {
    const ObjectKey key = KeyOf(random.Below(5000), 1 + random.Below(2));
    IndexShard& shard = index->ShardOf(key);
    MutexLock lock(shard.mutex);
    const auto known = model.find(key);
    ASSERT_EQ(shard.Find(key), known == model.end() ? kNoRef : known->second);
    if (known == model.end()) {
      const Ref ref = shard.Add(key);
      shard.At(ref).state = Descriptor::State::kCommitted;
      ASSERT_EQ(&index->ShardOf(ref), &shard);
      model[key] = ref;
    } else if (random.OneIn(2)) {
      shard.Free(known->second);
      model.erase(known);
    }
  }
}

TEST(Index, AGhostIsInvisibleUntilNothingIsLeftOfIt) {
  Index index;
  const ObjectKey key = KeyOf(1);
  IndexShard& shard = index.ShardOf(key);
  MutexLock lock(shard.mutex);
  const Ref ghost = shard.Add(key);
  shard.At(ghost).state = Descriptor::State::kGhost;
  shard.At(ghost).Set(Descriptor::kRecorded);
  shard.At(ghost).pins = 1;
  shard.At(ghost).ram_unit = 3;
  EXPECT_EQ(shard.Find(key), kNoRef);
  EXPECT_EQ(shard.FindAny(key, kNoRef), ghost);
  const Ref fresh = shard.Add(key);
  shard.At(fresh).state = Descriptor::State::kWriting;
  EXPECT_EQ(shard.Find(key), fresh);
  for (int left = 3; left > 0; --left) {
    shard.MaybeFree(ghost);
    EXPECT_EQ(shard.size(), 2u);
    if (left == 3) shard.At(ghost).Clear(Descriptor::kRecorded);
    if (left == 2) shard.At(ghost).pins = 0;
    if (left == 1) shard.At(ghost).ram_unit = kNoUnit;
  }
  shard.MaybeFree(ghost);
  EXPECT_EQ(shard.size(), 1u);
}

std::vector<Cell> Cells(std::initializer_list<std::pair<uint32_t, uint32_t>> unit_and_length, uint32_t slot) {
  std::vector<Cell> cells;
  for (const auto& [unit, length] : unit_and_length) {
    Cell cell;
    cell.unit = unit;
    cell.length = length;
    cell.slot_bytes = slot;
    cells.push_back(cell);
  }
  return cells;
}

TEST(MergedRun, TakesNeighboursOfOneExtent) {
  const uint64_t extent = 1 << 20;
  EXPECT_EQ(MergedRun(Cells({{0, 4096}, {1, 100}, {2, 4096}, {4, 4096}}, 4096), 0, extent), 3u);
  EXPECT_EQ(MergedRun(Cells({{254, 4096}, {255, 4096}, {256, 4096}}, 4096), 0, extent), 2u);
  EXPECT_EQ(MergedRun(Cells({{0, 40'000}, {16, 65'536}}, 65'536), 0, extent), 1u);  // too much padding
  EXPECT_EQ(MergedRun(Cells({{0, 60'000}, {16, 65'536}}, 65'536), 0, extent), 2u);
}

}  // namespace
}  // namespace dfkv::store
