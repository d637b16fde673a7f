#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/text.h"
#include "cluster/hash_ring.h"
#include "cluster/member.h"
#include "cluster/view.h"

namespace dfkv::cluster {
namespace {

std::vector<Member> Parsed(std::string_view text) {
  Result<std::vector<Member>> members = ParseMembers(text);
  EXPECT_TRUE(members.ok()) << members.status().ToString();
  return members.ok() ? *members : std::vector<Member>{};
}

std::string ErrorOf(std::string_view text) {
  const Result<std::vector<Member>> members = ParseMembers(text);
  EXPECT_FALSE(members.ok()) << text;
  if (members.ok()) return "";
  EXPECT_EQ(members.code(), Code::kInvalid);
  return members.status().message();
}

TEST(Members, ParsesNamesAddressesAndWeights) {
  const std::vector<Member> members = Parsed(" a=127.0.0.1:7000 , b-2.x=[::1]:65535*16,c=10.1.2.3:1 * 1024 ");
  ASSERT_EQ(members.size(), 3u);
  EXPECT_EQ(members[0].name, "a");
  EXPECT_EQ(members[0].address, "127.0.0.1:7000");
  EXPECT_EQ(members[0].weight, 1u);
  EXPECT_EQ(members[0].socket.ToString(), "127.0.0.1:7000");
  EXPECT_EQ(members[1].name, "b-2.x");
  EXPECT_EQ(members[1].address, "[::1]:65535");
  EXPECT_EQ(members[1].weight, 16u);
  EXPECT_EQ(members[1].socket.ToString(), "[::1]:65535");
  EXPECT_EQ(members[2].weight, 1024u);
}

TEST(Members, AddressMayServeAsName) {
  const std::vector<Member> members = Parsed("127.0.0.1:7000=127.0.0.1:7000,[::1]:7=[::1]:7");
  ASSERT_EQ(members.size(), 2u);
  EXPECT_EQ(members[0].name, "127.0.0.1:7000");
  EXPECT_EQ(members[1].name, "[::1]:7");
}

TEST(Members, RefusesWithTheReason) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "empty"},
      {" , ,", "empty"},
      {"127.0.0.1:7000", "name=ip:port"},
      {"=127.0.0.1:7000", "name"},
      {"a b=127.0.0.1:7000", "name"},
      {"a=127.0.0.1", "is not an address like"},
      {"a=", "is not an address like"},
      {"a=:7000", "is not an address like"},
      {"a=example.org:7000", "is not an address like"},
      {"a=127.0.0.1:0", "port"},
      {"a=127.0.0.1:65536", "is not an address like"},
      {"a=127.0.0.1:x", "is not an address like"},
      {"a=127.0.0.1:-1", "is not an address like"},
      {"a=::1:7000", "is not an address like"},
      {"a=[::1]", "is not an address like"},
      {"a=[::1:7000", "is not an address like"},
      {"a=[127.0.0.1]:7000", "is not an address like"},
      {"a=[", "is not an address like"},
      {"a=:", "is not an address like"},
      {"a=127.0.0.1:7000*0", "weight"},
      {"a=127.0.0.1:7000*1025", "weight"},
      {"a=127.0.0.1:7000*", "weight"},
      {"a=127.0.0.1:7000*x", "weight"},
      {"a=127.0.0.1:1,a=127.0.0.1:2", "listed twice"},
      {"a=127.0.0.1:1,b=127.0.0.1:1", "same address"},
      {"a=[::1]:1,b=[0:0::1]:1", "same address"},
      {std::string(200, 'n') + "=127.0.0.1:1", "name"},
  };
  for (const auto& [text, reason] : cases) {
    EXPECT_NE(ErrorOf(text).find(reason), std::string::npos) << text << " -> " << ErrorOf(text);
  }
}

TEST(Members, BoundsCountAndTotalWeight) {
  std::string many;
  for (size_t i = 0; i <= kMembersMax; ++i) many += Cat("n", i, "=10.0.", i / 256, ".", i % 256, ":7000,");
  EXPECT_NE(ErrorOf(many).find("more than 1024 members"), std::string::npos);
  std::string heavy;
  for (size_t i = 0; i < 65; ++i) heavy += Cat("n", i, "=10.0.0.", i, ":7000*1024,");
  EXPECT_NE(ErrorOf(heavy).find("weights add up"), std::string::npos);
}

// --- The ring ---

std::vector<std::string> Names(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i) names.push_back(Cat("node-", i));
  return names;
}

HashRing RingOf(const std::vector<std::string>& names, const std::vector<uint32_t>& weights) {
  std::vector<RingMember> members;
  for (size_t i = 0; i < names.size(); ++i) members.push_back({names[i], weights[i]});
  return HashRing(members);
}

std::vector<ObjectId> Ids(size_t count, uint64_t seed) {
  Random random(seed);
  std::vector<ObjectId> ids(count);
  for (ObjectId& id : ids) id = {random.Next(), random.Next()};
  return ids;
}

TEST(HashRing, LoadFollowsWeight) {
  const std::vector<uint32_t> weights = {1, 2, 4, 8, 1, 16};
  const HashRing ring = RingOf(Names(weights.size()), weights);
  EXPECT_EQ(ring.point_count(), 32u * HashRing::kPointsPerWeight);
  std::vector<double> load(weights.size());
  const size_t count = 400'000;
  for (const ObjectId& id : Ids(count, 11)) load[ring.Lookup(id)] += 1.0 / count;
  for (size_t i = 0; i < weights.size(); ++i) {
    const double share = weights[i] / 32.0;
    // The spread of a member's share shrinks with the root of its points: three deviations.
    const double spread = 3 / std::sqrt(HashRing::kPointsPerWeight * weights[i]);
    EXPECT_NEAR(load[i] / share, 1.0, spread) << "member " << i;
  }
}

TEST(HashRing, LeavingMovesOnlyTheLeaversObjects) {
  const std::vector<std::string> names = Names(8);
  const HashRing before = RingOf(names, std::vector<uint32_t>(8, 2));
  std::vector<std::string> rest = names;
  rest.erase(rest.begin() + 3);
  const HashRing after = RingOf(rest, std::vector<uint32_t>(7, 2));
  size_t moved = 0;
  for (const ObjectId& id : Ids(50'000, 12)) {
    const std::string& owner = names[before.Lookup(id)];
    if (owner == "node-3") {
      ++moved;
    } else {
      ASSERT_EQ(rest[after.Lookup(id)], owner);
    }
  }
  EXPECT_NEAR(static_cast<double>(moved) / 50'000, 1.0 / 8, 0.04);
}

TEST(HashRing, MoreWeightOnlyDrawsObjects) {
  const std::vector<std::string> names = Names(5);
  const HashRing before = RingOf(names, {3, 3, 3, 3, 3});
  const HashRing after = RingOf(names, {3, 3, 6, 3, 3});
  for (const ObjectId& id : Ids(50'000, 13)) {
    const uint32_t owner = after.Lookup(id);
    ASSERT_TRUE(owner == 2u || owner == before.Lookup(id));
  }
}

TEST(HashRing, OrderOfTheListDoesNotMatter) {
  const std::vector<std::string> names = {"x", "y", "z"};
  const std::vector<std::string> reversed = {"z", "y", "x"};
  const HashRing a = RingOf(names, {1, 2, 3});
  const HashRing b = RingOf(reversed, {3, 2, 1});
  for (const ObjectId& id : Ids(20'000, 14)) ASSERT_EQ(names[a.Lookup(id)], reversed[b.Lookup(id)]);
}

TEST(HashRing, TheCircleCloses) {
  const std::vector<std::string> names = Names(3);
  const HashRing ring = RingOf(names, {1, 1, 1});
  // Positions at, before and after the ends of the circle.
  for (const uint64_t edge : {uint64_t{0}, uint64_t{1}, UINT64_MAX, UINT64_MAX - 1, uint64_t{1} << 63}) {
    EXPECT_LT(ring.Lookup({edge, 0}), 3u);
  }
  // Past the last point the circle closes: the owner of the first point.
  EXPECT_EQ(ring.Lookup({UINT64_MAX, 0}), ring.Lookup({0, 0}));
}

// FROZEN: owners of fixed digests on a fixed list.
TEST(HashRing, PointsArePinned) {
  const HashRing ring = RingOf({"alpha", "beta", "gamma", "delta"}, {1, 2, 1, 4});
  std::string owners;
  for (uint64_t i = 0; i < 48; ++i) owners += static_cast<char>('0' + ring.Lookup({Mix64(i), i}));
  EXPECT_EQ(owners, "103233013131312033333330033323131233131331331310");
}

TEST(View, StaticViewHoldsMembersAndRing) {
  const auto view = StaticView("a=127.0.0.1:1,b=127.0.0.1:2*3");
  ASSERT_TRUE(view.ok());
  EXPECT_EQ((*view)->epoch, Epoch(1));
  EXPECT_EQ((*view)->members.size(), 2u);
  EXPECT_EQ((*view)->ring.point_count(), 4u * HashRing::kPointsPerWeight);
  EXPECT_EQ(StaticView("nonsense").code(), Code::kInvalid);
}

}  // namespace
}  // namespace dfkv::cluster
