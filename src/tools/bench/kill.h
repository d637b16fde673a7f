// Killer: kills the node in the middle of a PUT, gets it back, and asks for everything it had promised.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "tools/bench/block_io.h"
#include "tools/bench/replay.h"

namespace dfkv::tools {

class Killer {
 public:
  explicit Killer(bool tracks) : tracks_(tracks) {}
  bool tracks() const { return tracks_; }

  // Remembers the blocks whose PUT was answered Ok.
  void NoteAcknowledged(std::span<const uint64_t> blocks, std::span<const Code> codes);

  // PUTs the blocks and kills the node `delay` after the PUT went out; restarts it, sets `client` to the new
  // client and reads every block that was acknowledged and present before, and all of this PUT.
  Result<KillReport> Kill(const NodeControl& control, client::Client*& client, BlockIo& io,
                          std::span<const uint64_t> blocks, uint64_t depth, Nanos delay);

 private:
  // Of the acknowledged blocks those that eviction has not taken.
  std::vector<uint64_t> PresentNow(const NodeControl& control, client::Client& client, BlockIo& io) const;

  const bool tracks_;
  std::unordered_set<uint64_t> acknowledged_;
};

}  // namespace dfkv::tools
