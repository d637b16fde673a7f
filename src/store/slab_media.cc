#include "store/slab_media.h"

#include <algorithm>
#include <memory>

#include "base/fault.h"
#include "base/log.h"
#include "base/random.h"
#include "base/text.h"
#include "store/meta_file.h"

namespace dfkv::store {
namespace {

constexpr uint64_t kScanBytes = 1u << 20;
constexpr size_t kClearRecordsMax = 1024;

// Zeros to pad with and to clear with; read only.
alignas(kBlockBytes) constexpr std::byte kZeros[64 << 10] = {};
static_assert(sizeof kZeros >= kMergedGapMax && sizeof kZeros >= kClearRecordsMax * kRecordBytes);

iovec Piece(const std::byte* data, uint64_t size) {
  return {const_cast<std::byte*>(data), size};  // iovec has no const form; writes do not change it
}

// Grows or repairs the slab. The space is the file's from now on.
Status ReserveSlab(io::Disk& disk, io::File& slab, const MediaOptions& options, uint64_t wanted,
                   uint64_t* kept) {
  auto size = slab.SizeBlocking();
  if (!size.ok()) return size.status();
  *kept = *size;
  if (*size > wanted) {
    LogWarn(options.directory, ": the slab shrinks from ", FormatBytes(*size), " to ", FormatBytes(wanted),
            "; the objects beyond are dropped");
  }
  auto space = disk.Space(options.directory);
  if (!space.ok()) return space.status();
  const uint64_t missing = wanted > *size ? wanted - *size : 0;
  const std::string refusal =
      Cat(options.directory, ": the slab needs ", FormatBytes(wanted), ", of which ", FormatBytes(missing),
          " are missing; the filesystem has ", FormatBytes(space->available), " available");
  if (missing > space->available) return {Code::kNoSpace, refusal};
  const Status status = slab.ResizeBlocking(wanted, true);
  if (status == Code::kNoSpace) {
    DFKV_PROBE("slab: fallocate ran out of space");
    if (missing > 0) (void)slab.ResizeBlocking(*size, false);
    return {Code::kNoSpace, refusal};
  }
  return status;
}

}  // namespace

size_t MergedRun(const std::vector<Cell>& cells, size_t first, uint64_t extent_bytes) {
  size_t end = first + 1;
  uint64_t bytes = cells[first].slot_bytes;
  const uint64_t extent_blocks = extent_bytes / kBlockBytes;
  for (; end < cells.size() && end - first < 256; ++end) {
    const Cell& last = cells[end - 1];
    const Cell& next = cells[end];
    const uint64_t gap = last.slot_bytes - AlignUp(last.length, kBlockBytes);
    const bool neighbours = next.unit == last.unit + last.slot_bytes / kBlockBytes &&
                            next.slot_bytes == last.slot_bytes &&
                            next.unit / extent_blocks == last.unit / extent_blocks;
    bytes += next.slot_bytes;
    if (!neighbours || gap > kMergedGapMax || bytes > kMergedBytesMax) break;
  }
  return end - first;
}

SlabMedia::SlabMedia(const MetaBlock& meta, uint32_t extents)
    : meta_(meta),
      classes_(meta.extent_bytes),
      extents_(extents),
      region_bytes_(meta.extent_bytes / kBlockBytes * kRecordBytes) {}

Result<std::unique_ptr<SlabMedia>> SlabMedia::OpenBlocking(io::Disk& disk, const MediaOptions& options) {
  auto opened = OpenDirectoryBlocking(disk, kEngineSlab, options);
  if (!opened.ok()) return opened.status();
  const MetaBlock* meta = &opened->meta;
  const uint64_t extents = opened->extents;
  std::unique_ptr<SlabMedia> media(new SlabMedia(*meta, opened->extents));
  media->directory_ = options.directory;
  media->lock_ = std::move(opened->lock);
  io::OpenOptions open;
  open.create = true;
  auto table = disk.Open(options.directory + "/table", open);
  if (!table.ok()) return table.status();
  open.direct = true;
  auto slab = disk.Open(options.directory + "/slab", open);
  if (!slab.ok()) return slab.status();
  media->table_ = std::move(*table);
  media->slab_ = std::move(*slab);
  DFKV_RETURN_IF_ERROR(
      ReserveSlab(disk, *media->slab_, options, extents * meta->extent_bytes, &media->slab_bytes_kept_));
  // Only now: a start that is refused leaves no geometry behind.
  if (opened->meta_to_write) DFKV_RETURN_IF_ERROR(WriteMetaBlocking(disk, options.directory, *meta));
  DFKV_RETURN_IF_ERROR(media->table_->ResizeBlocking(kTableHeader + extents * media->region_bytes_, false));
  DFKV_RETURN_IF_ERROR(WriteMetaCopyBlocking(*media->table_, *meta));
  DFKV_RETURN_IF_ERROR(media->table_->SyncBlocking());  // it is to be there when the first one is damaged
  return media;
}

bool SlabMedia::InPlace(const Record& record, uint64_t offset) const {
  const uint64_t extent = (offset - kTableHeader) / region_bytes_;
  const uint64_t index = (offset - kTableHeader) % region_bytes_ / kRecordBytes;
  const auto size_class = classes_.ClassOfSlot(record.slot_bytes);
  if (extent >= extents_ || !size_class || index >= classes_.slots_per_extent(*size_class)) return false;
  if (classes_.ClassOf(record.length) != *size_class) return false;
  return record.slot_address == extent * meta_.extent_bytes + index * record.slot_bytes;
}

void SlabMedia::DecodeRange(uint64_t offset, ByteSpan bytes, const std::function<void(const Cell&)>& found,
                            RecoveryCounts* counts) {
  for (uint64_t at = 0; at + kRecordBytes <= bytes.size(); at += kRecordBytes) {
    Record record;
    const RecordState state = DecodeRecord(meta_.salt, bytes.subspan(at, kRecordBytes), &record);
    if (state == RecordState::kEmpty) continue;
    if (state == RecordState::kCorrupt || !InPlace(record, offset + at)) {
      DFKV_PROBE("slab: a record is not valid in its place");
      ++counts->corrupt;
      continue;
    }
    const Cell cell = CellOf(record);
    if (record.slot_address + record.length > slab_bytes_kept_) {
      ++counts->corrupt;
      lost_.push_back(cell);
      continue;
    }
    ++counts->records;
    found(cell);
  }
}

RecoveryCounts SlabMedia::RecoverBlocking(const std::function<void(const Cell&)>& found) {
  RecoveryCounts counts;
  auto ranges = table_->DataRangesBlocking();
  const uint64_t end = kTableHeader + extents_ * region_bytes_;
  std::vector<io::DataRange> all = {{kTableHeader, end}};
  if (ranges.ok()) all = std::move(*ranges);
  std::vector<std::byte> buffer(kScanBytes);
  uint64_t done = kTableHeader;  // ranges are rounded to records: none is read twice
  for (const io::DataRange& range : all) {
    uint64_t at = std::max(done, AlignDown(range.begin, kRecordBytes));
    const uint64_t stop = std::min(end, AlignUp(range.end, kRecordBytes));
    for (; at < stop; at = done) {
      const uint64_t size = std::min(kScanBytes, stop - at);
      done = at + size;
      const MutableByteSpan into(buffer.data(), size);
      counts.scanned_bytes += size;
      if (table_->ReadBlocking(at, into).ok()) {
        DecodeRange(at, into, found, &counts);
        continue;
      }
      DFKV_PROBE("slab: a part of the table is unreadable");
      for (uint64_t page = at; page < done; page += kBlockBytes) {  // keeps what can be read
        const MutableByteSpan piece = into.first(std::min(kBlockBytes, done - page));
        if (table_->ReadBlocking(page, piece).ok()) {
          DecodeRange(page, piece, found, &counts);
        } else {
          ++counts.unreadable;
        }
      }
    }
  }
  // Lest they come back to outvote what is stored under their keys from now on.
  const Status cleared = ClearBlocking(lost_);
  if (!cleared.ok()) LogError(directory_, ": records of lost objects stay: ", cleared.ToString());
  lost_ = std::vector<Cell>();
  return counts;
}

uint64_t SlabMedia::RecordOffset(const Cell& cell) const {
  const uint64_t address = uint64_t{cell.unit} * kBlockBytes;
  const uint64_t extent = address / meta_.extent_bytes;
  const uint64_t index = address % meta_.extent_bytes / cell.slot_bytes;
  return kTableHeader + extent * region_bytes_ + index * kRecordBytes;
}

Status SlabMedia::ClearBlocking(const std::vector<Cell>& cells) {
  for (const Cell& cell : cells) {
    DFKV_RETURN_IF_ERROR(table_->WriteBlocking(RecordOffset(cell), ByteSpan(kZeros, kRecordBytes)));
  }
  return cells.empty() ? Ok() : table_->SyncBlocking();
}

io::Task<Status> SlabMedia::WritePayload(std::vector<Cell> cells) {
  const uint64_t offset = uint64_t{cells[0].unit} * kBlockBytes;
  if (cells.size() == 1) {
    const ByteSpan from(cells[0].data, AlignUp(cells[0].length, kBlockBytes));
    co_return co_await io::WriteFull(slab_.get(), offset, from, kNever);
  }
  std::vector<iovec> pieces;
  pieces.reserve(2 * cells.size());
  for (size_t i = 0; i < cells.size(); ++i) {
    const uint64_t size = AlignUp(cells[i].length, kBlockBytes);
    pieces.push_back(Piece(cells[i].data, size));
    const uint64_t gap = cells[i].slot_bytes - size;
    if (gap > 0 && i + 1 < cells.size()) pieces.push_back(Piece(kZeros, gap));
  }
  co_return co_await io::WriteGathered(slab_.get(), offset, std::move(pieces), kNever);
}

io::Task<Status> SlabMedia::WriteRecords(std::vector<Cell> cells) {
  std::vector<Record> records(cells.size());
  for (size_t i = 0; i < cells.size(); ++i) {
    records[i] = RecordOf(cells[i]);
    SealRecord(meta_.salt, &records[i]);
  }
  for (size_t i = 0; i < cells.size();) {
    const uint64_t offset = RecordOffset(cells[i]);
    size_t n = 1;
    while (i + n < cells.size() && RecordOffset(cells[i + n]) == offset + n * kRecordBytes) ++n;
    const ByteSpan from(reinterpret_cast<const std::byte*>(&records[i]), n * kRecordBytes);
    const Status status = co_await io::WriteFull(table_.get(), offset, from, kNever);
    if (!status.ok()) co_return status;
    i += n;
  }
  co_return Ok();
}

namespace {

struct Gather {
  size_t left = 0;
  Status status;
  io::Event done;
};

io::Task<void> ClearRange(io::File* table, uint64_t offset, size_t records, Gather* gather) {
  const ByteSpan from(kZeros, records * kRecordBytes);
  const Status status = co_await io::WriteFull(table, offset, from, kNever);
  if (!status.ok()) gather->status = status;
  if (--gather->left == 0) gather->done.Set();
}

}  // namespace

io::Task<Status> SlabMedia::Clear(std::vector<Cell> cells) {
  std::vector<uint64_t> offsets;
  offsets.reserve(cells.size());
  for (const Cell& cell : cells) offsets.push_back(RecordOffset(cell));
  std::sort(offsets.begin(), offsets.end());
  Gather gather;
  gather.left = 1;  // held until all are started
  for (size_t i = 0; i < offsets.size();) {
    size_t n = 1;
    while (i + n < offsets.size() && n < kClearRecordsMax &&
           offsets[i + n] == offsets[i] + n * kRecordBytes) {
      ++n;
    }
    ++gather.left;
    ClearRange(table_.get(), offsets[i], n, &gather).Spawn();
    i += n;
  }
  if (--gather.left > 0) co_await gather.done.Wait();
  co_return gather.status;
}

io::Task<Status> SlabMedia::Read(Cell cell) {
  const MutableByteSpan into(cell.data, AlignUp(cell.length, kBlockBytes));
  co_return co_await io::ReadFull(slab_.get(), uint64_t{cell.unit} * kBlockBytes, into, kNever);
}

io::Task<Status> SlabMedia::Sync() {
  const Status payloads = co_await io::SyncFile(slab_.get());
  if (!payloads.ok()) co_return payloads;
  co_return co_await io::SyncFile(table_.get());
}

io::Task<Status> SlabMedia::Probe() {
  std::vector<std::byte> block(sizeof(MetaBlock));
  MutableByteSpan bytes(block);
  const Status read = co_await io::ReadFull(table_.get(), 0, bytes, kNever);
  if (!read.ok()) co_return read;
  std::memcpy(block.data(), &meta_, sizeof meta_);
  const Status written = co_await io::WriteFull(table_.get(), 0, bytes, kNever);
  if (!written.ok()) co_return written;
  co_return co_await Sync();
}

}  // namespace dfkv::store
