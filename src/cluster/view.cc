#include "cluster/view.h"

#include <utility>

namespace dfkv::cluster {

std::shared_ptr<const View> View::Make(Epoch epoch, std::vector<Member> members) {
  auto view = std::make_shared<View>();
  view->epoch = epoch;
  view->members = std::move(members);
  std::vector<RingMember> on_ring;
  for (const Member& member : view->members) on_ring.push_back({member.name, member.weight});
  view->ring = HashRing(on_ring);
  return view;
}

Result<std::shared_ptr<const View>> StaticView(std::string_view members) {
  Result<std::vector<Member>> parsed = ParseMembers(members);
  if (!parsed.ok()) return parsed.status();
  return View::Make(Epoch(1), std::move(*parsed));
}

}  // namespace dfkv::cluster
