// Media: where one disk keeps payloads and records. Two of them: slab files (slab_media) and one file per
// object (file_media). What is stored where, and what leaves, is decided above (disk_tier); a Media moves
// bytes.
//
// Threads: tasks run on any reactor, several at a time, never two of them on one slot's record. Calls ending
// in Blocking are for start, before any task. Memory named by a cell stays in place until the task has ended.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "io/task.h"

namespace dfkv::store {

// One object in its slot.
struct Cell {
  ObjectKey key;
  uint64_t generation = 0;
  uint32_t unit = 0;        // slot address in the slab, in blocks
  uint32_t slot_bytes = 0;  // of its size class
  uint32_t length = 0;
  uint32_t crc = 0;
  uint32_t depth = UINT32_MAX;
  std::byte* data = nullptr;  // slot of the arena; its bytes from length to the next block are zeros
};

struct Record;
Record RecordOf(const Cell& cell);  // unsealed
Cell CellOf(const Record& record);  // without data

struct RecoveryCounts {
  uint64_t records = 0;        // valid, in their place
  uint64_t corrupt = 0;        // neither empty nor valid in their place
  uint64_t scanned_bytes = 0;  // of the table
  uint64_t unreadable = 0;     // parts of the table that could not be read
};

// The directory of one disk, for an engine to open.
struct MediaOptions {
  std::string directory;
  uint64_t capacity_bytes = 0;
  uint64_t extent_bytes = 0;  // of a new directory; an existing one keeps its own
};

class Media {
 public:
  virtual ~Media() = default;

  // Calls `found` with every record that is valid in its place, in any order; keys and slots may repeat.
  virtual RecoveryCounts RecoverBlocking(const std::function<void(const Cell&)>& found) = 0;
  virtual Status ClearBlocking(const std::vector<Cell>& cells) = 0;

  // `cells`: neighbours in ascending order, all of one extent (one cell where `merges` is false).
  virtual io::Task<Status> WritePayload(std::vector<Cell> cells) = 0;
  // After it the objects survive the death of the process.
  virtual io::Task<Status> WriteRecords(std::vector<Cell> cells) = 0;
  // Makes the slots' records void; any cells, in any order.
  virtual io::Task<Status> Clear(std::vector<Cell> cells) = 0;
  // Fills cell.data with the payload, up to the end of its last block.
  virtual io::Task<Status> Read(Cell cell) = 0;
  // What was written before it survives a power cut after it.
  virtual io::Task<Status> Sync() = 0;
  // Whether the disk reads and writes at all.
  virtual io::Task<Status> Probe() = 0;
};

// The longest run of cells, from `first`, whose payloads one gathered write can take. `cells` is sorted by
// unit. Pure.
constexpr uint64_t kMergedBytesMax = 4u << 20;
constexpr uint64_t kMergedGapMax = 16u << 10;  // padding written between two payloads rather than split
size_t MergedRun(const std::vector<Cell>& cells, size_t first, uint64_t extent_bytes);

}  // namespace dfkv::store
