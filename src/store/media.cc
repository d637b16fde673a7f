#include "store/media.h"

#include "store/record.h"

namespace dfkv::store {

Record RecordOf(const Cell& cell) {
  Record record{};
  record.tenant = cell.key.tenant.value();
  record.id_hi = cell.key.id.hi;
  record.id_lo = cell.key.id.lo;
  record.generation = cell.generation;
  record.slot_address = uint64_t{cell.unit} * kBlockBytes;
  record.length = cell.length;
  record.payload_crc = cell.crc;
  record.depth = cell.depth;
  record.slot_bytes = cell.slot_bytes;
  return record;
}

Cell CellOf(const Record& record) {
  Cell cell;
  cell.key = {TenantHash(record.tenant), {record.id_hi, record.id_lo}};
  cell.generation = record.generation;
  cell.unit = static_cast<uint32_t>(record.slot_address / kBlockBytes);
  cell.slot_bytes = record.slot_bytes;
  cell.length = record.length;
  cell.crc = record.payload_crc;
  cell.depth = record.depth;
  return cell;
}

}  // namespace dfkv::store
