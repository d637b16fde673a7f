// View: the members at an instant, with the hash ring over them. Immutable; shared by the calls that use it.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "base/status.h"
#include "cluster/hash_ring.h"
#include "cluster/member.h"

namespace dfkv::cluster {

struct View {
  Epoch epoch;
  std::vector<Member> members;
  HashRing ring;  // owners are indices into members

  // Shared: calls in flight keep the view that they started with when a newer one arrives.
  static std::shared_ptr<const View> Make(Epoch epoch, std::vector<Member> members);
};

// The view of a list that never changes, epoch 1. Invalid as ParseMembers says.
Result<std::shared_ptr<const View>> StaticView(std::string_view members);

}  // namespace dfkv::cluster
