#include "store/file_media.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/fault.h"
#include "base/log.h"
#include "base/text.h"
#include "store/meta_file.h"

namespace dfkv::store {
namespace {

constexpr uint32_t kDirectories = 256;    // FROZEN
constexpr size_t kUnitDigits = 8;         // FROZEN: of a file's name
constexpr size_t kGenerationDigits = 16;  // FROZEN
constexpr size_t kRemovedPerTurn = 64;
constexpr int kSyncTasks = 32;

std::string NameOf(uint32_t unit, uint64_t generation) {
  return Cat(Hex(unit, kUnitDigits), "-", Hex(generation, kGenerationDigits));
}

uint32_t DirectoryNumber(uint64_t generation) {
  return static_cast<uint32_t>(generation % kDirectories);
}

// A file that is gone has nothing left to lose.
Status UnlessMissing(Status status) {
  return status == Code::kNotFound ? Ok() : status;
}

}  // namespace

// --- Turnstile ---

io::Task<void> Turnstile::Enter() {
  std::shared_ptr<io::Event> turn;
  {
    MutexLock lock(mutex_);
    if (free_ > 0) {
      --free_;
    } else {
      turn = std::make_shared<io::Event>();
      waiting_.push_back(turn);
    }
  }
  if (turn) co_await turn->Wait();
}

void Turnstile::Leave() {
  std::shared_ptr<io::Event> next;
  {
    MutexLock lock(mutex_);
    if (waiting_.empty()) {
      ++free_;
      return;
    }
    next = std::move(waiting_.front());
    waiting_.pop_front();
  }
  DFKV_PROBE("file: a transfer waited for an open file");
  next->Set();
}

// --- Start ---

FileMedia::FileMedia(io::Disk& disk, const std::string& directory, const MetaBlock& meta, uint32_t extents)
    : disk_(disk), directory_(directory), meta_(meta), classes_(meta.extent_bytes), extents_(extents) {}

std::string FileMedia::DirectoryOf(uint32_t number) const {
  return Cat(directory_, "/objects/", Hex(number, 2));
}

std::string FileMedia::PathOf(uint32_t unit, uint64_t generation) const {
  return Cat(DirectoryOf(DirectoryNumber(generation)), "/", NameOf(unit, generation));
}

Result<std::unique_ptr<FileMedia>> FileMedia::OpenBlocking(io::Disk& disk, const MediaOptions& options) {
  auto opened = OpenDirectoryBlocking(disk, kEngineFile, options);
  if (!opened.ok()) return opened.status();
  const MetaBlock& meta = opened->meta;
  auto space = disk.Space(options.directory);
  if (!space.ok()) return space.status();
  if (space->total < options.capacity_bytes) {
    return Status(Code::kNoSpace, Cat(options.directory, ": ", FormatBytes(options.capacity_bytes),
                                      " of objects do not fit a filesystem of ", FormatBytes(space->total),
                                      ", of which ", FormatBytes(space->available), " are available"));
  }
  std::unique_ptr<FileMedia> media(new FileMedia(disk, options.directory, meta, opened->extents));
  media->lock_ = std::move(opened->lock);
  if (opened->meta_to_write) DFKV_RETURN_IF_ERROR(WriteMetaBlocking(disk, options.directory, meta));
  io::OpenOptions open;
  open.create = true;
  auto table = disk.Open(options.directory + "/table", open);
  if (!table.ok()) return table.status();
  media->table_ = std::move(*table);
  DFKV_RETURN_IF_ERROR(media->table_->ResizeBlocking(kTableHeader, false));
  DFKV_RETURN_IF_ERROR(WriteMetaCopyBlocking(*media->table_, meta));
  DFKV_RETURN_IF_ERROR(media->table_->SyncBlocking());  // it is to be there when the first one is damaged
  DFKV_RETURN_IF_ERROR(media->MakeDirectoriesBlocking());
  return media;
}

Status FileMedia::MakeDirectoriesBlocking() {
  for (uint32_t i = 0; i < kDirectories; ++i) {
    DFKV_RETURN_IF_ERROR(disk_.MakeDirectories(DirectoryOf(i)));
  }
  DFKV_RETURN_IF_ERROR(disk_.SyncDirectoryBlocking(directory_ + "/objects"));
  return disk_.SyncDirectoryBlocking(directory_);
}

bool FileMedia::InPlace(const Record& record) const {
  const uint64_t extent = record.slot_address / meta_.extent_bytes;
  const auto size_class = classes_.ClassOfSlot(record.slot_bytes);
  if (extent >= extents_ || !size_class) return false;
  const uint64_t inside = record.slot_address % meta_.extent_bytes;
  if (inside % record.slot_bytes != 0) return false;
  if (inside / record.slot_bytes >= classes_.slots_per_extent(*size_class)) return false;
  return classes_.ClassOf(record.length) == *size_class;
}

// Files of other names are not ours and stay. One that cannot be read may be whole and stays too.
void FileMedia::RecoverFile(const std::string& directory, const std::string& name,
                            const std::function<void(const Cell&)>& found, RecoveryCounts* counts) {
  const auto digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  constexpr size_t kNameSize = kUnitDigits + 1 + kGenerationDigits;
  if (name.size() != kNameSize || name[kUnitDigits] != '-' ||
      std::count_if(name.begin(), name.end(), digit) != static_cast<ptrdiff_t>(kNameSize - 1)) {
    DFKV_PROBE("file: a file of another name");
    ++counts->corrupt;
    return;
  }
  const std::string path = Cat(directory, "/", name);
  io::OpenOptions open;
  open.read_only = true;
  auto file = disk_.Open(path, open);
  auto size = file.ok() ? (*file)->SizeBlocking() : Result<uint64_t>(file.status());
  std::array<std::byte, kRecordBytes> bytes{};
  const Status read = !size.ok()             ? size.status()
                      : *size < kRecordBytes ? Ok()  // zeros: no record
                                             : (*file)->ReadBlocking(0, bytes);
  if (!read.ok()) {
    DFKV_PROBE("file: an object's file cannot be read");
    ++counts->unreadable;
    return;
  }
  counts->scanned_bytes += kRecordBytes;
  Record record;
  const bool valid = DecodeRecord(meta_.salt, bytes, &record) == RecordState::kValid && InPlace(record);
  const Cell cell = valid ? CellOf(record) : Cell();
  if (valid && *size >= kRecordBytes + cell.length && PathOf(cell.unit, cell.generation) == path) {
    ++counts->records;
    found(cell);
    return;
  }
  DFKV_PROBE("file: a file without a whole object is removed");
  ++counts->corrupt;
  const Status removed = UnlessMissing(disk_.Remove(path));
  if (!removed.ok()) LogError("a file without an object stays: ", removed.ToString());
}

RecoveryCounts FileMedia::RecoverBlocking(const std::function<void(const Cell&)>& found) {
  RecoveryCounts counts;
  for (uint32_t i = 0; i < kDirectories; ++i) {
    const std::string directory = DirectoryOf(i);
    const auto names = disk_.List(directory);
    if (!names.ok()) {
      ++counts.unreadable;
      continue;
    }
    for (const std::string& name : *names) RecoverFile(directory, name, found, &counts);
  }
  return counts;
}

// --- Removing ---

Status FileMedia::RemoveFile(const Cell& cell) {
  const Status status = UnlessMissing(disk_.Remove(PathOf(cell.unit, cell.generation)));
  if (!status.ok()) return status;
  MutexLock lock(mutex_);
  unsynced_.files.erase(cell.generation);
  unsynced_.directories.set(DirectoryNumber(cell.generation));
  return Ok();
}

Status FileMedia::ClearBlocking(const std::vector<Cell>& cells) {
  std::bitset<kDirectories> touched;
  for (const Cell& cell : cells) {
    DFKV_RETURN_IF_ERROR(RemoveFile(cell));
    touched.set(DirectoryNumber(cell.generation));
  }
  for (uint32_t i = 0; i < kDirectories; ++i) {
    if (touched.test(i)) DFKV_RETURN_IF_ERROR(disk_.SyncDirectoryBlocking(DirectoryOf(i)));
  }
  return Ok();
}

io::Task<Status> FileMedia::Clear(std::vector<Cell> cells) {
  Status status;
  for (size_t i = 0; i < cells.size(); ++i) {
    // Before the first, too: a disk tier starts this while it goes through its queue.
    if (i % kRemovedPerTurn == 0) {
      auto others = io::Reactor::Current()->Yield();
      co_await others;
    }
    const Status removed = RemoveFile(cells[i]);
    if (!removed.ok()) status = removed;
  }
  co_return status;
}

// --- Objects ---

io::Task<Status> FileMedia::WritePayload(std::vector<Cell> cells) {
  (void)cells;
  auto others = io::Reactor::Current()->Yield();  // a disk tier starts this while it goes through its queue
  co_await others;
  co_return Ok();
}

// One write from the first byte to the last: of a file that is cut short the start sees that it is.
io::Task<Status> FileMedia::WriteObject(Cell cell) {
  io::OpenOptions open;
  open.create = true;
  open.sync_entry = false;
  auto file = disk_.Open(PathOf(cell.unit, cell.generation), open);
  if (!file.ok()) co_return file.status();
  Record record = RecordOf(cell);
  SealRecord(meta_.salt, &record);
  std::vector<iovec> pieces(2);
  pieces[0] = {&record, sizeof record};
  pieces[1] = {cell.data, cell.length};
  const Status status = co_await io::WriteGathered(file->get(), 0, std::move(pieces), kNever);
  // Not before the write has ended: a sync in between would not cover it and yet take it off the list.
  MutexLock lock(mutex_);
  unsynced_.files[cell.generation] = cell.unit;
  unsynced_.directories.set(DirectoryNumber(cell.generation));
  co_return status;
}

io::Task<Status> FileMedia::WriteRecords(std::vector<Cell> cells) {
  for (const Cell& cell : cells) {
    co_await open_files_.Enter();
    const Status status = co_await WriteObject(cell);
    open_files_.Leave();
    if (!status.ok()) co_return status;
  }
  co_return Ok();
}

io::Task<Status> FileMedia::ReadObject(Cell cell) {
  io::OpenOptions open;
  open.read_only = true;
  auto file = disk_.Open(PathOf(cell.unit, cell.generation), open);
  if (!file.ok() && file.code() == Code::kNotFound) {
    DFKV_PROBE("file: an object's file is missing");
    co_return Status(Code::kCorrupt, file.status().message());
  }
  if (!file.ok()) co_return file.status();
  const auto size = (*file)->SizeBlocking();
  if (!size.ok()) co_return size.status();
  if (*size < kRecordBytes + cell.length) {
    DFKV_PROBE("file: an object's file is short");
    co_return Status(Code::kCorrupt, Cat((*file)->path(), ": ", *size, " bytes"));
  }
  const MutableByteSpan into(cell.data, cell.length);
  const Status status = co_await io::ReadFull(file->get(), kRecordBytes, into, kNever);
  std::memset(cell.data + cell.length, 0, AlignUp(cell.length, kBlockBytes) - cell.length);
  co_return status;
}

io::Task<Status> FileMedia::Read(Cell cell) {
  co_await open_files_.Enter();
  const Status status = co_await ReadObject(cell);
  open_files_.Leave();
  co_return status;
}

// --- Sync ---

struct FileMedia::SyncRun {
  Unsynced what;
  std::map<uint64_t, uint32_t>::const_iterator next;
  Status status;
  int left = 0;
  io::Event done;
};

io::Task<Status> FileMedia::SyncObject(uint32_t unit, uint64_t generation) {
  auto file = disk_.Open(PathOf(unit, generation), io::OpenOptions{});
  if (!file.ok()) co_return UnlessMissing(file.status());
  const Status status = co_await io::SyncFile(file->get());
  co_return status;
}

io::Task<void> FileMedia::SyncSome(SyncRun* run) {
  while (run->next != run->what.files.end()) {
    const auto [generation, unit] = *run->next++;
    co_await open_files_.Enter();
    const Status status = co_await SyncObject(unit, generation);
    open_files_.Leave();
    if (!status.ok()) run->status = status;
  }
  if (--run->left == 0) run->done.Set();
}

// Files first, then the names: what is named after a power cut was whole before.
io::Task<Status> FileMedia::Sync() {
  SyncRun run;
  {
    MutexLock lock(mutex_);
    std::swap(run.what, unsynced_);
  }
  run.next = run.what.files.begin();
  run.left = kSyncTasks + 1;  // one held until all are started
  for (int i = 0; i < kSyncTasks; ++i) SyncSome(&run).Spawn();
  if (--run.left > 0) co_await run.done.Wait();
  for (uint32_t i = 0; i < kDirectories && run.status.ok(); ++i) {
    if (!run.what.directories.test(i)) continue;
    run.status = disk_.SyncDirectoryBlocking(DirectoryOf(i));
    auto others = io::Reactor::Current()->Yield();
    co_await others;
  }
  if (!run.status.ok()) {
    MutexLock lock(mutex_);
    unsynced_.files.merge(run.what.files);
    unsynced_.directories |= run.what.directories;
  }
  co_return run.status;
}

io::Task<Status> FileMedia::Probe() {
  std::vector<std::byte> block(sizeof(MetaBlock));
  const MutableByteSpan bytes(block);
  const Status read = co_await io::ReadFull(table_.get(), 0, bytes, kNever);
  if (!read.ok()) co_return read;
  std::memcpy(block.data(), &meta_, sizeof meta_);
  const ByteSpan again(block);
  const Status written = co_await io::WriteFull(table_.get(), 0, again, kNever);
  if (!written.ok()) co_return written;
  const Status synced = co_await io::SyncFile(table_.get());
  co_return synced;
}

}  // namespace dfkv::store
