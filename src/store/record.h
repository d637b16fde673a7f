// The formats on disk: the slot record and the meta block. FROZEN: a change needs a new version number.
//
// Pure functions over bytes. A record is valid only in the place it was written for: its CRC covers the
// disk's salt and its slot address, so a record that was swapped, duplicated, torn, flipped or copied from
// another disk does not decode.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/status.h"

namespace dfkv::store {

constexpr uint64_t kBlockBytes = 4096;   // slots, payload transfers and table pages are multiples of it
constexpr uint64_t kRecordBytes = 64;    // FROZEN
constexpr uint32_t kFormatVersion = 1;   // of meta block, table and records
constexpr uint64_t kTableHeader = 4096;  // FROZEN: a copy of the meta block; records begin after it

// One slot's contents. FROZEN layout, little-endian.
struct Record {
  uint32_t magic;         // kRecordMagic: tells a record from zeros and from other data
  uint32_t crc;           // CRC32C of the disk's salt, then of all other bytes of the record
  uint64_t tenant;        // identity of the object ...
  uint64_t id_hi;         //
  uint64_t id_lo;         // ... so that the table alone rebuilds the index
  uint64_t generation;    // increases with every PUT of the store: the newest record of a key or place wins
  uint64_t slot_address;  // byte offset of the slot in the slab: binds the record to its place
  uint32_t length;        // of the payload; > 0
  uint32_t payload_crc;   // CRC32C of the payload alone
  uint32_t depth;         // position in the prefix chain, the eviction hint; UINT32_MAX: unknown
  uint32_t slot_bytes;    // the size class that the extent had
};
static_assert(sizeof(Record) == kRecordBytes && alignof(Record) == 8);
static_assert(offsetof(Record, crc) == 4 && offsetof(Record, tenant) == 8 && offsetof(Record, id_hi) == 16);
static_assert(offsetof(Record, id_lo) == 24 && offsetof(Record, generation) == 32);
static_assert(offsetof(Record, slot_address) == 40 && offsetof(Record, length) == 48);
static_assert(offsetof(Record, payload_crc) == 52 && offsetof(Record, depth) == 56);
static_assert(offsetof(Record, slot_bytes) == 60);

constexpr uint32_t kRecordMagic = 0x01524644;  // "DFR" and the version. FROZEN

using Salt = std::array<std::byte, 16>;

// Fills in magic and crc.
void SealRecord(const Salt& salt, Record* record);

enum class RecordState : uint8_t {
  kEmpty,    // all zeros: never written, or cleared
  kValid,    // whole, and of this disk
  kCorrupt,  // anything else
};
// `bytes` holds kRecordBytes. Checks magic, CRC and that length and slot_bytes fit each other; whether the
// record is in its place is the caller's check, since only it knows the place.
RecordState DecodeRecord(const Salt& salt, ByteSpan bytes, Record* record);

// The start of the file `meta`, and of `table`. FROZEN layout, little-endian.
struct MetaBlock {
  uint64_t magic;         // kMetaMagic
  uint32_t version;       // kFormatVersion; its place never moves; a new one is written to the copy first
  uint32_t crc;           // CRC32C of all other bytes of the struct
  Salt salt;              // random, made once: the disk's identity
  uint64_t extent_bytes;  // a power of two, 4096 to kExtentBytesLimit; the geometry of slab and table
  uint32_t engine;        // kEngineSlab, kEngineFile: one directory is never read by the other engine
  uint32_t reserved[3];   // zeros
};
static_assert(sizeof(MetaBlock) == 56 && alignof(MetaBlock) == 8);
static_assert(offsetof(MetaBlock, version) == 8 && offsetof(MetaBlock, crc) == 12);
static_assert(offsetof(MetaBlock, salt) == 16 && offsetof(MetaBlock, extent_bytes) == 32);
static_assert(offsetof(MetaBlock, engine) == 40);

// Slot sizes in bytes fit 32 bits. FROZEN
constexpr uint64_t kExtentBytesLimit = uint64_t{1} << 31;

constexpr uint64_t kMetaMagic = 0x4154454D564B4644;  // "DFKVMETA". FROZEN
constexpr uint32_t kEngineSlab = 1;                  // FROZEN
constexpr uint32_t kEngineFile = 2;                  // FROZEN

void SealMeta(MetaBlock* meta);

enum class MetaState : uint8_t {
  kValid,
  kForeign,  // our magic, another version
  kDamaged,  // zeros, too short, its CRC is wrong, or no extent can have its size
};
MetaState DecodeMeta(ByteSpan bytes, MetaBlock* meta);

}  // namespace dfkv::store
