// The seam between a store and the policy that decides which object it gives up next.
//
// One policy serves one space: one size class of one disk, or the RAM tier. The store owns the objects; the
// policy knows each by a 64-bit id, which outlives the object (history and shadows remember ids that are no
// longer cached), and, while it is live, by the store's handle, so that a victim is found without a lookup.
//
// What the store does:
//   batch arrives     OnRequest with all its keys in the client's order, present and absent ones
//   object committed  Insert, once its bytes may be served; in any order, any time after OnRequest
//   space needed      Victim until enough is free; each victim taken is followed by Erase(kEvicted)
//   object removed    Erase(kRemoved) for REMOVE and corruption, Erase(kEvicted) when its extent is reclaimed
//   space moves       SetCapacity; a capacity below the live count is brought about by Victim and Erase
// The policy never drops a live object by itself.
//
// Absent keys matter: a policy learns from what the cache could have held. The size of an absent object is
// unknown before its PUT; the store reports it to one space only, the one where it would go (that of the
// nearest present key of the batch, else of the tenant's last PUT).
//
// One logical request may arrive as several batches (MATCH of a chain, GET of the hit, PUT of the rest). The
// policy counts it once: a batch that continues an earlier one, or asks again what is still unanswered,
// neither advances time nor touches again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/ids.h"
#include "base/status.h"

namespace dfkv::store::evict {

// The store's number of a live object; unique among the live objects of one policy.
using Handle = StrongInt<struct HandleTag, uint32_t>;
inline constexpr Handle kNoHandle{0xffffffffu};
inline constexpr uint32_t kNoDepth = 0xffffffffu;

// One key of a batch, or one object.
struct Access {
  uint64_t id = 0;            // a hash of the whole key; two keys of equal id are told apart while live
  Handle handle = kNoHandle;  // kNoHandle: absent from this space
  uint32_t depth = kNoDepth;  // position in the prefix chain, 0 = first, where the client said so
};

enum class RequestKind : uint8_t {
  kMatch,  // MATCH and batches of EXIST: asks, a GET or PUT of the same keys may follow
  kGet,
  kPut,    // present keys are touches
  kOther,  // LOOKUP, promotion and the like: touches that are no request of a user
};

struct Request {
  RequestKind kind = RequestKind::kGet;
  // The store's count of batches, the same clock for all its policies; never decreases. Stamps are in it.
  uint64_t now = 0;
  std::span<const Access> chain;  // index 0 first; borrowed for the call
};

enum class EraseReason : uint8_t {
  kEvicted,  // given up for space: history keeps the id
  kRemoved,  // gone for good (REMOVE, corrupt): history may forget it
};

// Says whether an object may be evicted now (false: pinned). Borrows the callable for the call. The callable
// must not call the policy.
class MayEvict {
 public:
  template <typename F>
    requires(!std::is_same_v<std::remove_cvref_t<F>, MayEvict> &&
             std::is_invocable_r_v<bool, const F&, Handle>)
  MayEvict(const F& f)  // NOLINT(google-explicit-constructor): a lambda is passed in place
      : context_(&f), call_([](const void* context, Handle handle) -> bool {
          return (*static_cast<const F*>(context))(handle);
        }) {}
  bool operator()(Handle handle) const { return call_(context_, handle); }

 private:
  const void* context_;
  bool (*call_)(const void*, Handle);
};

// Threads: none of its own; the owner serialises all calls. No call allocates more than a bounded step of the
// tables' growth or does more than bounded work per key given.
class Policy {
 public:
  Policy() = default;
  Policy(const Policy&) = delete;
  Policy& operator=(const Policy&) = delete;
  virtual ~Policy() = default;

  // Scores the batch, advances time and touches its keys, deepest first. A handle that is not live under its
  // id is treated as absent.
  virtual void OnRequest(const Request& request) = 0;

  // The object becomes live. Takes the place its id got from the last OnRequest that named it; without one it
  // counts as touched now. An id and handle that are already live: no effect.
  virtual void Insert(const Access& object) = 0;

  // The object is no longer live. An unknown one: no effect.
  virtual void Erase(uint64_t id, Handle handle, EraseReason reason) = 0;

  // The live object to give up next; does not erase it. kNoHandle when none is live, or when a bounded search
  // found none: `may_evict` refused kRefusalsMax candidates, or as many outdated entries were passed as one
  // call may pass. Calling again goes on from there.
  virtual Handle Victim(const MayEvict& may_evict) = 0;

  // How many objects the space can hold; 0 is allowed.
  virtual void SetCapacity(uint64_t objects) = 0;

  // The time (Request::now) of the last touch of the coldest live object: of two spaces of one store the one
  // with the smaller stamp gives up less. kNoStamp when nothing is live.
  virtual uint64_t ColdestStamp() const = 0;

  // Says that a call will name this id soon, so that what is known of it can be brought into the cache: in
  // this order for kPrefetchSteps values of `step`, other ids in between. Changes nothing.
  virtual void Prefetch(uint64_t id, int step) const = 0;
  static constexpr int kPrefetchSteps = 3;

  // Bytes of memory held, everything included.
  virtual size_t MemoryBytes() const = 0;

  static constexpr uint64_t kNoStamp = ~uint64_t{0};
  static constexpr int kRefusalsMax = 128;
};

struct Config {
  uint64_t capacity_objects = 0;
  // Metadata per object of capacity, history included; what does not fit shortens the history. Live objects
  // are always known, whatever they take. A fixed 64 KiB per policy comes on top.
  uint32_t bytes_per_object_max = 160;
};

inline constexpr std::string_view kDefaultPolicy = "tournament";

std::vector<std::string_view> PolicyNames();

// kInvalid for an unknown name; the message lists the known ones.
Result<std::unique_ptr<Policy>> MakePolicy(std::string_view name, const Config& config);

}  // namespace dfkv::store::evict
