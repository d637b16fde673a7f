#include "cluster/member.h"

#include <arpa/inet.h>

#include <cstring>
#include <set>

#include "base/text.h"

namespace dfkv::cluster {
namespace {

constexpr size_t kNameBytesMax = 128;

Status Bad(std::string_view member, std::string_view what) {
  return {Code::kInvalid, Cat("member '", member, "': ", what)};
}

bool NameIsValid(std::string_view name) {
  if (name.empty() || name.size() > kNameBytesMax) return false;
  for (const char c : name) {
    const bool alphanumeric = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!alphanumeric && c != '.' && c != '_' && c != '-' && c != ':' && c != '[' && c != ']') return false;
  }
  return true;
}

// Takes "*weight" off the end of `text`.
Result<uint32_t> TakeWeight(std::string_view member, std::string_view& text) {
  const size_t star = text.rfind('*');
  if (star == std::string_view::npos) return uint32_t{1};
  const Result<uint64_t> weight = ParseUint(text.substr(star + 1));
  if (!weight.ok() || *weight < 1 || *weight > kWeightMax) {
    return Bad(member, Cat("the weight after '*' must be 1 to ", kWeightMax));
  }
  text = TrimSpace(text.substr(0, star));
  return static_cast<uint32_t>(*weight);
}

Result<Member> ParseMember(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return Bad(text, "write name=ip:port");
  Member member;
  member.name = TrimSpace(text.substr(0, equals));
  if (!NameIsValid(member.name)) {
    return Bad(text, Cat("a name has 1 to ", kNameBytesMax, " characters of A-Z a-z 0-9 . _ - : [ ]"));
  }
  std::string_view rest = TrimSpace(text.substr(equals + 1));
  const Result<uint32_t> weight = TakeWeight(text, rest);
  if (!weight.ok()) return weight.status();
  const Result<Address> socket = ParseAddress(rest);
  if (!socket.ok()) return Bad(text, socket.status().message());
  member.weight = *weight;
  member.address = rest;
  member.socket = *socket;
  return member;
}

}  // namespace

bool operator==(const Address& a, const Address& b) {
  if (a.socket.generic.sa_family != b.socket.generic.sa_family) return false;
  if (a.socket.generic.sa_family == AF_INET) {
    return a.socket.v4.sin_port == b.socket.v4.sin_port &&
           a.socket.v4.sin_addr.s_addr == b.socket.v4.sin_addr.s_addr;
  }
  return a.socket.v6.sin6_port == b.socket.v6.sin6_port &&
         std::memcmp(&a.socket.v6.sin6_addr, &b.socket.v6.sin6_addr, sizeof(in6_addr)) == 0;
}

Result<Address> ParseAddress(std::string_view text) {
  const size_t colon = text.rfind(':');
  const bool bracketed = text.starts_with('[');
  if (colon == std::string_view::npos || (bracketed && (colon == 0 || text[colon - 1] != ']'))) {
    return Status(Code::kInvalid, Cat("'", text, "' is not ip:port (an IPv6 address goes in brackets)"));
  }
  const std::string host(bracketed ? text.substr(1, colon - 2) : text.substr(0, colon));
  const Result<uint64_t> port = ParseUint(text.substr(colon + 1));
  if (!port.ok() || *port < 1 || *port > 65535) {
    return Status(Code::kInvalid, Cat("'", text, "': the port must be 1 to 65535"));
  }
  Address address;
  const auto port_on_wire = htons(static_cast<uint16_t>(*port));
  if (!bracketed && inet_pton(AF_INET, host.c_str(), &address.socket.v4.sin_addr) == 1) {
    address.socket.v4.sin_family = AF_INET;
    address.socket.v4.sin_port = port_on_wire;
    address.size = sizeof address.socket.v4;
    return address;
  }
  if (bracketed && inet_pton(AF_INET6, host.c_str(), &address.socket.v6.sin6_addr) == 1) {
    address.socket.v6.sin6_family = AF_INET6;
    address.socket.v6.sin6_port = port_on_wire;
    address.size = sizeof address.socket.v6;
    return address;
  }
  return Status(Code::kInvalid,
                Cat("'", host, "' is no numeric ip address (an IPv6 address goes in brackets)"));
}

Result<std::vector<Member>> ParseMembers(std::string_view text) {
  std::vector<Member> members;
  std::set<std::string, std::less<>> names;
  uint64_t total_weight = 0;
  for (const std::string& piece : SplitTrimmed(text, ',')) {
    Result<Member> member = ParseMember(piece);
    if (!member.ok()) return member.status();
    if (!names.insert(member->name).second) {
      return Bad(piece, Cat("the name '", member->name, "' is listed twice"));
    }
    for (const Member& other : members) {
      if (other.socket == member->socket) return Bad(piece, Cat("'", other.name, "' has the same address"));
    }
    total_weight += member->weight;
    members.push_back(std::move(*member));
    if (members.size() > kMembersMax) {
      return Status(Code::kInvalid, Cat("more than ", kMembersMax, " members"));
    }
  }
  if (members.empty()) return Status(Code::kInvalid, "the list of members is empty; write name=ip:port,...");
  if (total_weight > kTotalWeightMax) {
    return Status(Code::kInvalid, Cat("the weights add up to ", total_weight, ", more than ", kTotalWeightMax,
                                      "; divide them all by a common factor"));
  }
  return members;
}

}  // namespace dfkv::cluster
