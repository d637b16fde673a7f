// S3-FIFO: objects enter a small queue; those touched there move on to the main queue when their turn comes,
// the others leave and are remembered for a while; a remembered id enters the main queue at once. The main
// queue gives touched objects another round.
//
// As in LRU, an absent id that a batch named has a place in its queue, so that a chain's objects stand
// deepest first however late they are committed.
//
// Invariants: a node is live, a place (in places_ too) or a ghost; small_live_ + main_live_ are the live
// ones.
#include <algorithm>

#include "store/evict/logical_request.h"
#include "store/evict/node_table.h"
#include "store/evict/policies.h"

namespace dfkv::store::evict {
namespace {

enum Queue : unsigned { kSmall = 0, kMain = 1, kGhosts = 2, kQueues = 3 };

struct Node {
  uint64_t id = 0;
  Index hash_next = kNil;
  Handle handle = kNoHandle;
  Links queue_links;
  Links place;
  uint64_t last : 48 = 0;
  uint64_t touched : 2 = 0;  // rounds it has earned
  uint64_t queue : 2 = kSmall;
  uint64_t asked : 3 = 0;
  uint64_t put_seen : 1 = 0;

  bool live() const { return handle != kNoHandle; }
};
static_assert(sizeof(Node) == 40);

constexpr uint64_t kTouchedMax = 3;
constexpr uint64_t kSmallPercent = 30;
constexpr uint64_t kPlacesMin = 256;
constexpr int kVictimStepsMax = 16384;
constexpr int kRoundsMax = 1024;  // rounds granted in one call; past it touched objects go too
constexpr int kColdScanMax = 64;  // places passed to find the coldest object

class S3Fifo final : public Policy {
 public:
  explicit S3Fifo(const Config& config) : bytes_per_object_max_(config.bytes_per_object_max) {
    S3Fifo::SetCapacity(config.capacity_objects);
  }

  void OnRequest(const Request& request) override {
    time_ = std::max(time_, (request.now + 1) & kTimeMask);
    steps_.clear();
    uint32_t depth = 0;
    for (const Access& access : request.chain) {
      if (request.kind == RequestKind::kOther && access.handle == kNoHandle) continue;
      steps_.push_back({FindOrAdd(access.id, access.handle), depth++});
    }
    BeginsRequest(table_, request.kind, time_, steps_);
    for (size_t k = steps_.size(); k-- > 0;) Touch(steps_[k].node);
    while (places_.size() > places_max_) DropPlace(places_.coldest());
    TrimGhosts(request.chain.size() + 4);
    Compact(2 * request.chain.size() + 8);
  }

  void Insert(const Access& object) override {
    DFKV_CHECK(object.handle != kNoHandle);
    Index i = FindOrAdd(object.id, object.handle);
    if (table_[i].handle == object.handle) return;
    if (table_[i].live()) i = AddPlace(object.id);  // another object of equal id
    Node& node = table_[i];
    if (node.queue == kGhosts) MoveTo(i, kMain);
    AnswerByInsert(node);
    places_.Remove(table_, i);
    if (node.last == 0) node.last = time_ & kTimeMask;
    node.handle = object.handle;
    ++live_[node.queue];
  }

  void Erase(uint64_t id, Handle handle, EraseReason reason) override {
    const Index i = handle == kNoHandle ? kNil : Find(id, handle);
    if (i == kNil) return;
    Node& node = table_[i];
    --live_[node.queue];
    node.handle = kNoHandle;
    node.touched = 0;
    const bool remember = reason == EraseReason::kEvicted && node.queue == kSmall;
    if (!remember) {
      queues_[node.queue].Remove(table_, i);
      table_.Free(i);
    } else {
      MoveTo(i, kGhosts);
    }
    TrimGhosts(2);
    Compact(4);
  }

  Handle Victim(const MayEvict& may_evict) override {
    int refusals = 0;
    for (int step = 0; step < kVictimStepsMax && refusals < kRefusalsMax; ++step) {
      if (live_[kSmall] + live_[kMain] == 0) return kNoHandle;
      const bool small = live_[kMain] == 0 || (live_[kSmall] > 0 && live_[kSmall] >= small_target_);
      const Queue queue = small ? kSmall : kMain;
      const Index i = queues_[queue].coldest();
      Node& node = table_[i];
      if (!node.live()) {
        DropPlace(i);
        continue;
      }
      if (node.touched > 0 && step < kRoundsMax) {
        node.touched = small ? 0u : (node.touched - 1u) & 3u;
        MoveTo(i, kMain);
        continue;
      }
      if (may_evict(node.handle)) return node.handle;
      ++refusals;
      MoveTo(i, queue);  // pinned: in use
    }
    return kNoHandle;
  }

  void SetCapacity(uint64_t objects) override {
    places_max_ = objects / 4 + kPlacesMin;
    small_target_ = std::max<uint64_t>(1, objects * kSmallPercent / 100);
    // Live objects and places come first; ghosts share what is left of the budget.
    constexpr uint64_t kNodeBytes = sizeof(Node) + sizeof(Index);
    const uint64_t all = objects * bytes_per_object_max_ / kNodeBytes;
    ghosts_max_ = std::min(objects, all - std::min(all, objects + objects / 4));
  }

  uint64_t ColdestStamp() const override {
    uint64_t coldest = kNoStamp;
    for (const Queue queue : {kSmall, kMain}) {
      if (live_[queue] == 0) continue;
      Index i = queues_[queue].coldest();
      for (int step = 0; step < kColdScanMax && !table_[i].live(); ++step) i = table_[i].queue_links.hotter;
      coldest = std::min<uint64_t>(coldest, table_[i].last - 1);
    }
    return coldest;
  }

  void Prefetch(uint64_t id, int step) const override {
    if (step == 0) return table_.PrefetchHead(id);
    if (step == 1) return table_.PrefetchNode(id);
    if (const Index i = table_.First(id); i != kNil) PrefetchNeighbours(table_, table_[i].queue_links);
  }

  size_t MemoryBytes() const override {
    return sizeof(*this) + table_.MemoryBytes() + steps_.capacity() * sizeof(Step);
  }

 private:
  Index Find(uint64_t id, Handle handle) const {
    return table_.Find(id, [&](Index i) { return table_[i].handle == handle; });
  }

  // The node of this id and handle, else any of this id, else a new place.
  Index FindOrAdd(uint64_t id, Handle handle) {
    Index any = kNil;
    const Index exact = table_.Find(id, [&](Index i) {
      any = i;
      return table_[i].handle == handle;
    });
    if (exact != kNil) return exact;
    return any != kNil ? any : AddPlace(id);
  }

  Index AddPlace(uint64_t id) {
    const Index i = table_.Add(id);
    table_[i].queue = kSmall;
    queues_[kSmall].PushHot(table_, i);
    places_.PushHot(table_, i);
    return i;
  }

  // A new place stands where the order of touches puts it: at the hot end; an older one stays.
  void Touch(Index i) {
    Node& node = table_[i];
    if (node.live()) {
      if (node.touched < kTouchedMax) node.touched = (node.touched + 1u) & 3u;
    } else if (node.queue == kGhosts) {
      MoveTo(i, kMain);
    } else if (node.last == 0) {
      MoveTo(i, kSmall);
    }
    node.last = time_ & kTimeMask;
  }

  // To the hot end of a queue. A ghost that leaves its queue becomes a place.
  void MoveTo(Index i, Queue to) {
    Node& node = table_[i];
    const unsigned from = node.queue;
    queues_[from].Remove(table_, i);
    queues_[to].PushHot(table_, i);
    node.queue = to & 3u;
    if (node.live() && from != to) {
      --live_[from];
      ++live_[to];
    }
    if (from == kGhosts) places_.PushHot(table_, i);
  }

  void DropPlace(Index i) {
    places_.Remove(table_, i);
    queues_[table_[i].queue].Remove(table_, i);
    table_.Free(i);
  }

  void Compact(size_t steps) {
    if (!table_.Sparse(false)) return;
    table_.Compact(steps, [this](Index from, Index to) {
      const Node& node = table_[to];
      queues_[node.queue].Follow(table_, from, to);
      if (!node.live() && node.queue != kGhosts) places_.Follow(table_, from, to);
    });
  }

  void TrimGhosts(size_t steps) {
    for (; steps > 0 && queues_[kGhosts].size() > ghosts_max_; --steps) {
      const Index i = queues_[kGhosts].coldest();
      queues_[kGhosts].Remove(table_, i);
      table_.Free(i);
    }
  }

  NodeTable<Node> table_;
  List<Node, &Node::queue_links> queues_[kQueues];
  List<Node, &Node::place> places_;
  uint64_t live_[2] = {};  // by queue: small, main
  std::vector<Step> steps_;
  uint64_t places_max_ = 0;
  uint64_t small_target_ = 0;
  uint64_t ghosts_max_ = 0;
  uint32_t bytes_per_object_max_;
  uint64_t time_ = 1;
};

}  // namespace

std::unique_ptr<Policy> MakeS3Fifo(const Config& config) {
  return std::make_unique<S3Fifo>(config);
}

}  // namespace dfkv::store::evict
