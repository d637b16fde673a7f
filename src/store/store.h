// Store: the node's storage. RAM tier over one or several disks; every object is named by its ObjectKey and
// is immutable.
//
// Promises: a hit is never other bytes; an acknowledged PUT survives the death of the process (durability
// `disk`); a GET never waits for a PUT of another object; nothing uncommitted is visible; REMOVE is final
// against what is in flight; a present object is never missed while it moves between tiers. Threads: every
// function is for any reactor thread. Plain functions never wait; tasks wait on their caller's reactor. No
// lock is held over I/O. Pins and tickets must be gone before the store is destroyed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/metric.h"
#include "base/status.h"
#include "io/disk.h"
#include "io/reactor.h"

namespace dfkv::store {

enum class Durability : uint8_t {
  kDisk,  // acknowledged = payload and record written; fdatasync follows within sync_ms
  kRam,   // acknowledged = in RAM; written behind. Lost at kill -9: an explicit opt-out
};
enum class EngineKind : uint8_t {
  kSlab,  // preallocated slab files
  kFile,  // one file per object; a diagnostic choice
  kRam,   // no disk at all
};

struct StoreOptions {
  EngineKind engine = EngineKind::kSlab;
  std::vector<std::string> directories;  // one per disk
  std::vector<uint32_t> disk_weights;    // of the inner hash ring; empty: all equal
  uint64_t capacity_bytes = 0;           // over all disks; rounded down to whole extents
  uint64_t ram_bytes = 0;                // the arena; 0 is refused: payloads pass through it
  uint64_t extent_bytes = 0;             // 0: chosen from the capacity
  uint64_t max_object_bytes = 64ull << 20;
  uint64_t put_inflight_bytes = 256ull << 20;  // reserved by PUTs that have not committed
  std::string policy = "tournament";           // of the disk tier
  std::string ram_policy = "lru";
  uint32_t policy_bytes_per_object = 160;
  Durability durability = Durability::kDisk;
  uint32_t sync_ms = 100;           // an acknowledged PUT reaches the medium within this time
  uint32_t put_expiry_ms = 60'000;  // a reservation that does not commit is dropped
  bool populate = true;             // touch the arena's pages at start
};

// Holds an object's verified bytes in the arena against reuse. Move-only; release on any thread.
class ReadPin {
 public:
  ReadPin() = default;
  ReadPin(ReadPin&& other) noexcept;
  ReadPin& operator=(ReadPin&& other) noexcept;
  ~ReadPin();
  ByteSpan bytes() const { return bytes_; }  // the whole object
  uint32_t crc() const { return crc_; }      // CRC32C of bytes()

 private:
  friend class StoreImpl;
  void* owner_ = nullptr;
  uint64_t handle_ = 0;
  ByteSpan bytes_;
  uint32_t crc_ = 0;
};

struct PutRequest {
  ObjectKey key;
  uint64_t length = 0;          // > 0
  uint32_t crc = 0;             // CRC32C of the payload, from the client
  uint32_t depth = UINT32_MAX;  // position in the prefix chain; UINT32_MAX: unknown
};

// A reservation: the place where the payload is received. Destroying it without commit gives the place back.
class PutTicket {
 public:
  PutTicket() = default;
  PutTicket(PutTicket&& other) noexcept;
  PutTicket& operator=(PutTicket&& other) noexcept;
  ~PutTicket();
  MutableByteSpan buffer() const { return buffer_; }  // request.length bytes

 private:
  friend class StoreImpl;
  void* owner_ = nullptr;
  uint64_t handle_ = 0;
  MutableByteSpan buffer_;
};

struct PutStart {
  enum class Outcome : uint8_t {
    kReserved,  // fill ticket.buffer(), then CommitPut
    kPresent,   // the key is stored: answer ok, keep the first bytes
    kInFlight,  // another PUT of the key is on its way: discard the payload, answer what JoinPut says
    kRefused,   // status says why: Busy, NoSpace, TooLarge, Invalid, Quota
  };
  Outcome outcome = Outcome::kRefused;
  PutTicket ticket;
  Status status;
};

enum class BatchKind : uint8_t { kMatch, kGet, kPut };

enum class Lookup : uint8_t { kMiss, kRam, kDisk };

class Store {
 public:
  // Takes the directories' locks, recovers their objects, takes the arena. Locked, NoSpace, IoError, Invalid,
  // Unsupported (a foreign format version): the text names what, where and what to do.
  static Result<std::unique_ptr<Store>> OpenBlocking(const StoreOptions& options, io::Disk& disk,
                                                     MetricRegistry& metrics);
  virtual ~Store() = default;

  // --- Plain ---
  // Tells eviction about one client batch, in the client's order (chain order), before its operations run.
  // `lengths`: of a PUT's values, one per key.
  virtual void NoteBatch(BatchKind kind, std::span<const ObjectKey> keys,
                         std::span<const uint64_t> lengths) = 0;
  void NoteBatch(BatchKind kind, std::span<const ObjectKey> keys) { NoteBatch(kind, keys, {}); }
  // Present length, or NotFound.
  virtual Result<uint64_t> Length(const ObjectKey& key) = 0;
  // kRam: *pin holds the object. kDisk: present, but Get has to read it.
  virtual Lookup TryGet(const ObjectKey& key, ReadPin* pin) = 0;
  virtual PutStart BeginPut(const PutRequest& request) = 0;

  // --- Tasks ---
  // The object's verified bytes; concurrent Gets of one object share the read. NotFound, Corrupt (dropped,
  // counted), Busy (no arena slot), IoError, Timeout.
  virtual io::Task<Result<ReadPin>> Get(ObjectKey key, Nanos deadline) = 0;
  // Verifies the CRC of ticket.buffer() against the request (computed here unless `crc_verified`), writes,
  // records. Ok also when a REMOVE came in between (the object is then gone). Corrupt: the payload is not
  // what the CRC says.
  virtual io::Task<Status> CommitPut(PutTicket ticket, bool crc_verified, Nanos deadline) = 0;
  virtual io::Task<Status> JoinPut(ObjectKey key, Nanos deadline) = 0;
  // Ok when removed or absent; after it the object is gone for good, also after kill -9.
  virtual io::Task<Status> Remove(ObjectKey key, Nanos deadline) = 0;

  // Starts background work (group sync, reclaim) on a reactor; Stop ends it, flushes and syncs. Both once.
  virtual void StartBackground(io::Reactor& reactor) = 0;
  virtual io::Task<Status> Stop(Nanos deadline) = 0;

  virtual uint64_t max_object_bytes() const = 0;  // the effective limit
  virtual uint64_t object_count() const = 0;
  virtual bool healthy() const = 0;  // false when every disk has failed
};

}  // namespace dfkv::store
