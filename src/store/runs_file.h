// The file `runs` of a data directory: which runs of its store the directory took part in. A start reads it
// to find out whether the directory missed a REMOVE.
//
// A run is the life of a store from one start to the next; runs are numbered. A directory that is not there
// in a run is not reached by that run's REMOVEs: when it returns, what it holds may have been removed. So
// every directory keeps the last run it took part in, and the last run, as far as it knows, in which a REMOVE
// may have been answered. A directory whose last run is older than a removing run that any other knows of is
// not believed. See docs/decisions/0008-a-disk-that-was-away.md.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/disk.h"
#include "store/record.h"

namespace dfkv::store {

// One of the two blocks of `runs`. FROZEN layout, little-endian.
struct RunBlock {
  uint64_t magic;         // kRunMagic
  uint32_t version;       // kFormatVersion
  uint32_t crc;           // CRC32C of all other bytes of the struct
  Salt store;             // random, made once, in all directories of a store: a strange directory is told
  uint64_t run;           // the last run that had this directory; counts from 1
  uint64_t removing_run;  // the last run in which a REMOVE may have been answered; 0: none
  uint64_t sequence;      // counts writes of this file: of two valid blocks the higher one counts
  uint64_t reserved;      // zeros
};
static_assert(sizeof(RunBlock) == 64 && alignof(RunBlock) == 8);
static_assert(offsetof(RunBlock, version) == 8 && offsetof(RunBlock, crc) == 12);
static_assert(offsetof(RunBlock, store) == 16 && offsetof(RunBlock, run) == 32);
static_assert(offsetof(RunBlock, removing_run) == 40 && offsetof(RunBlock, sequence) == 48);

constexpr uint64_t kRunMagic = 0x534E5552564B4644;  // "DFKVRUNS". FROZEN
constexpr uint64_t kRunBlockSpacing = 4096;         // FROZEN: the second block's offset

void SealRunBlock(RunBlock* block);
bool DecodeRunBlock(ByteSpan bytes, RunBlock* block);

// What a directory knows; run 0: nothing, it is new or its file is damaged.
struct RunMark {
  Salt store{};
  uint64_t run = 0;
  uint64_t removing_run = 0;
};

// What a start makes of the marks of its directories. Pure.
struct RunPlan {
  Salt store{};  // zeros: one is to be made
  uint64_t last_run = 0;
  uint64_t removing_run = 0;
  std::vector<bool> believed;  // per directory; false: it may hold what was removed
};
RunPlan PlanRun(std::span<const RunMark> marks);

class RunsFile {
 public:
  // IoError, NoSpace.
  static Result<std::unique_ptr<RunsFile>> OpenBlocking(io::Disk& disk, const std::string& directory);

  const RunMark& found() const { return found_; }  // when it was opened
  // Written and synced. Never over the block that counts: a torn write leaves what was there before.
  Status WriteBlocking(const RunMark& mark);
  io::Task<Status> Write(RunMark mark);

 private:
  explicit RunsFile(std::unique_ptr<io::File> file) : file_(std::move(file)) {}
  RunBlock NextBlock(const RunMark& mark);
  uint64_t NextOffset() const { return sequence_ % 2 * kRunBlockSpacing; }

  std::unique_ptr<io::File> file_;
  RunMark found_;
  uint64_t sequence_ = 0;  // of the block written last
};

}  // namespace dfkv::store
