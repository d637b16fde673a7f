#include "cluster/member.h"

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
  const Result<io::SocketAddress> socket = io::ParseSocketAddress(rest);
  if (!socket.ok()) return Bad(text, socket.status().message());
  if (socket->port() == 0) return Bad(text, "the port must be 1 to 65535");
  member.weight = *weight;
  member.address = rest;
  member.socket = *socket;
  return member;
}

}  // namespace

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
      if (other.socket.ToString() == member->socket.ToString())
        return Bad(piece, Cat("'", other.name, "' has the same address"));
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
