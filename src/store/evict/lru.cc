// LRU, deepest first. One list by recency holds the live objects and places: absent ids that a batch named
// and that may become live soon. A place keeps an object where its request belongs in the order, however late
// and in whatever order a chain's objects are committed.
//
// Invariants: the list runs from the last touched to the longest untouched; a node is live (has a handle) or
// a place (is in places_ too, of which there are at most places_max_).
#include <algorithm>

#include "store/evict/node_table.h"
#include "store/evict/policies.h"

namespace dfkv::store::evict {
namespace {

struct Node {
  uint64_t id = 0;
  Index hash_next = kNil;
  Handle handle = kNoHandle;
  Links recency;
  Links place;
  uint64_t stamp = 0;
};

class Lru final : public Policy {
 public:
  explicit Lru(const Config& config) { Lru::SetCapacity(config.capacity_objects); }

  void OnRequest(const Request& request) override {
    now_ = std::max(now_, request.now);
    for (size_t i = request.chain.size(); i-- > 0;) {
      const Access& access = request.chain[i];
      Index node = access.handle == kNoHandle ? kNil : FindLive(access.id, access.handle);
      if (node != kNil) {
        Touch(node);
      } else if (request.kind != RequestKind::kOther) {
        TouchPlace(access.id, request.kind);
      }
    }
    Compact(2 * request.chain.size() + 8);
  }

  void Insert(const Access& object) override {
    DFKV_CHECK(object.handle != kNoHandle);
    if (FindLive(object.id, object.handle) != kNil) return;
    Index node = FindPlace(object.id);
    if (node == kNil) {
      node = table_.Add(object.id);
      table_[node].stamp = now_;
      recency_.PushHot(table_, node);
    } else {
      places_.Remove(table_, node);
    }
    table_[node].handle = object.handle;
    ++live_;
  }

  void Erase(uint64_t id, Handle handle, EraseReason) override {
    const Index node = handle == kNoHandle ? kNil : FindLive(id, handle);
    if (node == kNil) return;
    recency_.Remove(table_, node);
    table_.Free(node);
    --live_;
    Compact(4);
  }

  Handle Victim(const MayEvict& may_evict) override {
    int refusals = 0;
    for (int step = 0; step < kVictimStepsMax && refusals < kRefusalsMax && live_ > 0; ++step) {
      const Index node = recency_.coldest();
      if (!IsLive(node)) {
        DropPlace(node);  // colder than every live object: it has outlived its use
        continue;
      }
      if (may_evict(table_[node].handle)) return table_[node].handle;
      ++refusals;
      recency_.MoveHot(table_, node);  // pinned: in use
    }
    return kNoHandle;
  }

  void SetCapacity(uint64_t objects) override { places_max_ = objects / 4 + kPlacesMin; }

  uint64_t ColdestStamp() const override {
    if (live_ == 0) return kNoStamp;
    Index node = recency_.coldest();
    for (int step = 0; step < kColdScanMax && !IsLive(node); ++step) node = table_[node].recency.hotter;
    return table_[node].stamp;
  }

  void Prefetch(uint64_t id, int step) const override {
    if (step == 0) return table_.PrefetchHead(id);
    if (step == 1) return table_.PrefetchNode(id);
    if (const Index i = table_.First(id); i != kNil) PrefetchNeighbours(table_, table_[i].recency);
  }

  size_t MemoryBytes() const override { return sizeof(*this) + table_.MemoryBytes(); }

 private:
  static constexpr uint64_t kPlacesMin = 256;
  static constexpr int kVictimStepsMax = 16384;
  static constexpr int kColdScanMax = 64;  // past it a place's stamp stands for the objects just above it

  bool IsLive(Index node) const { return table_[node].handle != kNoHandle; }

  Index FindLive(uint64_t id, Handle handle) const {
    return table_.Find(id, [&](Index i) { return table_[i].handle == handle; });
  }
  Index FindPlace(uint64_t id) const { return FindLive(id, kNoHandle); }

  void Touch(Index node) {
    table_[node].stamp = now_;
    recency_.MoveHot(table_, node);
  }

  // A PUT that continues a MATCH or GET leaves the places where that request put them: behind its hits.
  void TouchPlace(uint64_t id, RequestKind kind) {
    Index node = FindPlace(id);
    if (node != kNil) {
      if (kind != RequestKind::kPut) Touch(node);
      return;
    }
    if (places_.size() >= places_max_) DropPlace(places_.coldest());
    node = table_.Add(id);
    table_[node].stamp = now_;
    recency_.PushHot(table_, node);
    places_.PushHot(table_, node);
  }

  void Compact(size_t steps) {
    if (!table_.Sparse(false)) return;
    table_.Compact(steps, [this](Index from, Index to) {
      recency_.Follow(table_, from, to);
      if (!IsLive(to)) places_.Follow(table_, from, to);
    });
  }

  void DropPlace(Index node) {
    places_.Remove(table_, node);
    recency_.Remove(table_, node);
    table_.Free(node);
  }

  NodeTable<Node> table_;
  List<Node, &Node::recency> recency_;
  List<Node, &Node::place> places_;
  uint64_t places_max_ = 0;
  uint64_t now_ = 0;
  uint64_t live_ = 0;
};

}  // namespace

std::unique_ptr<Policy> MakeLru(const Config& config) {
  return std::make_unique<Lru>(config);
}

}  // namespace dfkv::store::evict
