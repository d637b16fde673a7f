#include "store/runs_file.h"

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "base/fault.h"

namespace dfkv::store {
namespace {

uint32_t RunCrc(const RunBlock& block) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&block);
  const uint32_t crc = Crc32c({bytes, offsetof(RunBlock, crc)});
  return Crc32cExtend(crc, {bytes + offsetof(RunBlock, store), sizeof(RunBlock) - offsetof(RunBlock, store)});
}

}  // namespace

void SealRunBlock(RunBlock* block) {
  block->magic = kRunMagic;
  block->version = kFormatVersion;
  block->crc = RunCrc(*block);
}

bool DecodeRunBlock(ByteSpan bytes, RunBlock* block) {
  if (bytes.size() < sizeof(RunBlock)) return false;
  RunBlock read;
  std::memcpy(&read, bytes.data(), sizeof read);
  const bool valid = read.magic == kRunMagic && read.version == kFormatVersion && read.crc == RunCrc(read) &&
                     read.run > 0 && read.removing_run <= read.run && read.store != Salt{};
  if (valid) *block = read;
  return valid;
}

// The store is the one that most directories name, of several the one named first. A directory of another
// store is not believed, nor is its numbering.
RunPlan PlanRun(std::span<const RunMark> marks) {
  RunPlan plan;
  ptrdiff_t most = 0;
  for (const RunMark& mark : marks) {
    if (mark.run == 0) continue;
    const ptrdiff_t same = std::count_if(
        marks.begin(), marks.end(), [&](const RunMark& m) { return m.run > 0 && m.store == mark.store; });
    if (same <= most) continue;
    most = same;
    plan.store = mark.store;
  }
  for (const RunMark& mark : marks) {
    if (mark.run == 0 || mark.store != plan.store) continue;
    plan.last_run = std::max(plan.last_run, mark.run);
    plan.removing_run = std::max(plan.removing_run, mark.removing_run);
  }
  for (const RunMark& mark : marks) {
    const bool ours = mark.run == 0 || mark.store == plan.store;
    plan.believed.push_back(ours && mark.run >= plan.removing_run);
  }
  return plan;
}

Result<std::unique_ptr<RunsFile>> RunsFile::OpenBlocking(io::Disk& disk, const std::string& directory) {
  io::OpenOptions open;
  open.create = true;
  auto file = disk.Open(directory + "/runs", open);
  if (!file.ok()) return file.status();
  std::unique_ptr<RunsFile> runs(new RunsFile(std::move(*file)));
  for (const uint64_t offset : {uint64_t{0}, kRunBlockSpacing}) {
    std::array<std::byte, sizeof(RunBlock)> bytes{};
    RunBlock block{};
    // One that cannot be read, or is not there yet, says nothing.
    if (!runs->file_->ReadBlocking(offset, bytes).ok() || !DecodeRunBlock(bytes, &block)) continue;
    if (block.sequence < runs->sequence_) continue;
    runs->sequence_ = block.sequence;
    runs->found_ = {block.store, block.run, block.removing_run};
  }
  return runs;
}

RunBlock RunsFile::NextBlock(const RunMark& mark) {
  RunBlock block{};
  block.store = mark.store;
  block.run = mark.run;
  block.removing_run = mark.removing_run;
  block.sequence = ++sequence_;
  SealRunBlock(&block);
  return block;
}

Status RunsFile::WriteBlocking(const RunMark& mark) {
  const RunBlock block = NextBlock(mark);
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(&block), sizeof block);
  DFKV_RETURN_IF_ERROR(file_->WriteBlocking(NextOffset(), bytes));
  return file_->SyncBlocking();
}

io::Task<Status> RunsFile::Write(RunMark mark) {
  const RunBlock block = NextBlock(mark);
  const ByteSpan bytes(reinterpret_cast<const std::byte*>(&block), sizeof block);
  const Status written = co_await io::WriteFull(file_.get(), NextOffset(), bytes, kNever);
  if (!written.ok()) co_return written;
  co_return co_await io::SyncFile(file_.get());
}

}  // namespace dfkv::store
