// For crash_test.cc: what may and what must be found after a crash.
//
// A key's versions are the PUTs that were accepted, oldest first; each has its own bytes. A version is dead
// once a REMOVE that began after it has answered, and owed while it was acknowledged and nothing began that
// ends it. A power cut takes both back where they are younger than the time a sync may take.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/random.h"

namespace dfkv::store {

struct Version {
  uint64_t seed = 0;  // of its bytes
  size_t size = 0;
  Nanos acked_at = kNever;
  Nanos dead_at = kNever;  // its REMOVE answered
  bool owed = true;        // false: removed, superseded or lost, or about to be
};

// One key; calls are in the order in which the operations begin and end.
class KeyModel {
 public:
  size_t Begin(uint64_t seed, size_t size) {
    for (Version& version : versions_) version.owed = false;
    versions_.push_back({seed, size});
    return versions_.size() - 1;
  }
  void Acknowledge(size_t version, Nanos now) { versions_[version].acked_at = now; }
  // Returns what EndRemove needs.
  size_t BeginRemove() {
    for (Version& version : versions_) version.owed = false;
    return versions_.size();
  }
  void EndRemove(size_t count, Nanos now) {
    for (size_t i = 0; i < count; ++i) versions_[i].dead_at = std::min(versions_[i].dead_at, now);
  }

  // Evicted, or on its way out.
  void Lose() {
    for (Version& version : versions_) version.owed = false;
  }

  // The version that has to be a hit, -1 when none has to be.
  int Owed(Nanos acked_by) const {
    for (size_t i = 0; i < versions_.size(); ++i) {
      if (versions_[i].owed && versions_[i].acked_at <= acked_by) return static_cast<int>(i);
    }
    return -1;
  }
  // The version that has these bytes, -1 for none. Seeds are never used twice.
  int Find(ByteSpan bytes) const {
    for (size_t i = 0; i < versions_.size(); ++i) {
      const Version& version = versions_[i];
      if (version.size == bytes.size() && PatternMatches(version.seed, 0, bytes)) return static_cast<int>(i);
    }
    return -1;
  }
  bool DeadSince(int version, Nanos instant) const { return versions_[size_t(version)].dead_at <= instant; }

  // After a crash at `crash`, whose key was found as `found` (-1: missing) at `now`. Where `cut`, what is
  // there is durable; otherwise what was younger than `sync` is not, and has to be synced by the new process.
  void Settle(int found, bool cut, Nanos crash, Nanos now, Nanos sync) {
    for (size_t i = 0; i < versions_.size(); ++i) {
      Version& version = versions_[i];
      const bool here = static_cast<int>(i) == found;
      const bool dead_for_sure = version.dead_at <= crash - sync;
      if (!dead_for_sure && version.dead_at != kNever) version.dead_at = cut ? kNever : now;
      const bool acked_for_sure = version.acked_at <= crash - sync;
      if (here && !acked_for_sure) version.acked_at = cut ? 0 : now;
      version.owed = here;
    }
    if (found >= 0) versions_[size_t(found)].dead_at = kNever;
  }

 private:
  std::vector<Version> versions_;
};

}  // namespace dfkv::store
