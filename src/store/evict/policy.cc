#include "store/evict/policy.h"

#include <string>

#include "base/text.h"
#include "store/evict/policies.h"

namespace dfkv::store::evict {
namespace {

struct Row {
  std::string_view name;
  std::unique_ptr<Policy> (*make)(const Config&);
};
constexpr Row kPolicies[] = {{"lru", MakeLru}, {"s3-fifo", MakeS3Fifo}, {"tournament", MakeTournament}};

}  // namespace

std::vector<std::string_view> PolicyNames() {
  std::vector<std::string_view> names;
  for (const Row& row : kPolicies) names.push_back(row.name);
  return names;
}

Result<std::unique_ptr<Policy>> MakePolicy(std::string_view name, const Config& config) {
  std::string known;
  for (const Row& row : kPolicies) {
    if (row.name == name) return row.make(config);
    known += Cat(known.empty() ? "" : ", ", row.name);
  }
  return Status(Code::kInvalid, Cat("unknown eviction policy '", name, "'; known: ", known));
}

}  // namespace dfkv::store::evict
