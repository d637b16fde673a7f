// Member: a node as a list of members names it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "io/socket.h"

namespace dfkv::cluster {

constexpr uint32_t kWeightMax = 1024;
constexpr size_t kMembersMax = 1024;
constexpr uint64_t kTotalWeightMax = 65'536;  // over all members: bounds the hash ring's memory

struct Member {
  std::string name;     // its place on the hash ring comes from it, so it stays when the address changes
  std::string address;  // "10.0.0.1:7000", "[::1]:7000"
  io::SocketAddress socket;
  uint32_t weight = 1;  // 1..kWeightMax
};

// "name=ip:port,name2=[ip6]:port*weight". Spaces around a member are ignored. Invalid names the member and
// what is wrong with it; names and addresses are unique.
Result<std::vector<Member>> ParseMembers(std::string_view text);

}  // namespace dfkv::cluster
