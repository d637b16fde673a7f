#include "tools/ctl/ctl.h"

#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>

#include "base/option_cli.h"
#include "base/text.h"
#include "tools/ctl/common.h"

namespace dfkv::tools {
namespace {

constexpr const char* kProgram = "dfkvctl";

struct Command {
  client::Client& client;
  const CtlOptions& options;
  std::vector<std::string> words;  // after the verb

  // One line for people, one JSON object for scripts.
  void Say(const std::string& plain, const std::string& json) const {
    std::printf("%s\n", options.json ? json.c_str() : plain.c_str());
  }
  int SayCode(Code code) const {
    Say(std::string(CodeName(code)), Cat("{\"code\":", JsonText(CodeName(code)), "}"));
    return code == Code::kOk ? kDone : kFailed;
  }
};

int Put(const Command& command) {
  std::string value;
  if (!command.options.file.empty()) {
    std::ifstream file(command.options.file, std::ios::binary);
    if (!file)
      return Complain(kProgram, Status(Code::kIoError, "cannot read " + command.options.file), kFailed);
    value.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  } else if (command.words.size() == 2) {
    value = command.words[1];
  } else {
    return Complain(kProgram, Status(Code::kInvalid, "put KEY VALUE, or put KEY --file FILE"), kUsage);
  }
  return command.SayCode(PutValue(command.client, command.words[0], AsBytes(value), command.options.call()));
}

int Get(const Command& command) {
  const auto value = GetValue(command.client, command.words[0], command.options.call());
  if (!value.ok()) return command.SayCode(value.code());
  if (!command.options.file.empty()) {
    std::ofstream file(command.options.file, std::ios::binary);
    file.write(reinterpret_cast<const char*>(value->data()), static_cast<std::streamsize>(value->size()));
    if (!file.flush()) {
      return Complain(kProgram, Status(Code::kIoError, "cannot write " + command.options.file), kFailed);
    }
    command.Say(Cat("Ok ", value->size(), " bytes"), Cat("{\"code\":\"Ok\",\"length\":", value->size(), "}"));
  } else if (command.options.json) {
    command.Say(
        "", Cat("{\"code\":\"Ok\",\"length\":", value->size(), ",\"value\":", JsonText(AsText(*value)), "}"));
  } else {
    (void)std::fwrite(value->data(), 1, value->size(), stdout);
    if (isatty(STDOUT_FILENO) == 1)
      (void)std::fputc('\n', stdout);  // for a person; files get the bytes alone
  }
  return kDone;
}

int Exist(const Command& command) {
  const auto found = OnKey(command.client, &client::Client::Lookup, command.words[0], command.options.call());
  if (found.code != Code::kOk) return command.SayCode(found.code);
  command.Say(Cat("Ok ", found.length, " bytes"), Cat("{\"code\":\"Ok\",\"length\":", found.length, "}"));
  return kDone;
}

int Remove(const Command& command) {
  return command.SayCode(
      OnKey(command.client, &client::Client::Remove, command.words[0], command.options.call()).code);
}

// --- What nodes say of themselves ---

struct Sample {
  std::string name;  // with its labels
  std::string value;
};

std::vector<Sample> SamplesOf(std::string_view text) {
  std::vector<Sample> samples;
  for (const std::string& line : SplitTrimmed(text, '\n')) {
    const size_t space = line.rfind(' ');
    if (line.starts_with('#') || space == std::string::npos) continue;
    samples.push_back({line.substr(0, space), line.substr(space + 1)});
  }
  return samples;
}

std::vector<std::string> MemberNames(const Command& command) {
  std::vector<std::string> names;
  const auto members = cluster::ParseMembers(command.options.client.members);
  if (members.ok()) {
    for (const cluster::Member& member : *members) names.push_back(member.name);
  }
  return names;
}

int Stat(const Command& command) {
  int status = kDone;
  std::string json;
  for (const std::string& name : command.words.empty() ? MemberNames(command) : command.words) {
    const auto text = command.client.Stats(name, command.options.call());
    if (!text.ok()) status = kFailed;
    if (!command.options.json) {
      std::printf("# member %s\n%s", name.c_str(), text.ok() ? text->c_str() : "");
      if (!text.ok()) (void)Complain(kProgram, text.status(), kFailed);
      continue;
    }
    json += Cat(json.empty() ? "" : ",", JsonText(name), ":{");
    bool first = true;
    if (!text.ok()) json += Cat("\"error\":", JsonText(text.status().ToString()));
    for (const Sample& sample : text.ok() ? SamplesOf(*text) : std::vector<Sample>{}) {
      const bool number = ParseDouble(sample.value).ok() && !sample.value.ends_with("f") &&
                          !sample.value.ends_with("N");  // JSON has neither Inf nor NaN
      json += Cat(first ? "" : ",", JsonText(sample.name), ":", number ? sample.value : "null");
      first = false;
    }
    json += "}";
  }
  if (command.options.json) std::printf("{%s}\n", json.c_str());
  return status;
}

int ListTenants(const Command& command) {
  constexpr std::string_view kPrefix = "dfkv_tenant_used_bytes{tenant_hash=\"";
  std::map<std::string, uint64_t> used;
  int status = kDone;
  for (const std::string& name : MemberNames(command)) {
    const auto text = command.client.Stats(name, command.options.call());
    if (!text.ok()) {
      status = Complain(kProgram, text.status(), kFailed);
      continue;
    }
    for (const Sample& sample : SamplesOf(*text)) {
      if (!sample.name.starts_with(kPrefix)) continue;
      const std::string hash =
          sample.name.substr(kPrefix.size(), sample.name.find('"', kPrefix.size()) - kPrefix.size());
      const auto bytes = ParseDouble(sample.value);
      if (bytes.ok() && *bytes >= 0) used[hash] += static_cast<uint64_t>(*bytes);
    }
  }
  std::string json;
  for (const auto& [hash, bytes] : used) {
    if (!command.options.json) std::printf("%s %llu\n", hash.c_str(), static_cast<unsigned long long>(bytes));
    json += Cat(json.empty() ? "" : ",", "{\"tenant_hash\":", JsonText(hash), ",\"used_bytes\":", bytes, "}");
  }
  if (command.options.json) std::printf("[%s]\n", json.c_str());
  if (used.empty() && !command.options.json) std::fprintf(stderr, "no node reports usage by tenant\n");
  return status;
}

struct Verb {
  const char* name;
  size_t words_min;  // after the verb
  size_t words_max;
  int (*run)(const Command&);
};
constexpr Verb kVerbs[] = {
    {"put", 1, 2, Put},       {"get", 1, 1, Get},      {"exist", 1, 1, Exist},
    {"remove", 1, 1, Remove}, {"stat", 0, 1024, Stat}, {"ls-tenants", 0, 0, ListTenants},
};

}  // namespace

int CtlMain(int argc, const char* const* argv) {
  OptionSet set;
  CtlOptions options;
  options.client.key_namespace = "default";
  RegisterCtlOptions(&set, &options);
  set.Group("Command");
  set.Add("json", &options.json, "Print JSON.").Switch();
  set.Add("file", &options.file, "put: read the value from this file; get: write it there.");
  set.TakeWords("put KEY VALUE | get KEY | exist KEY | remove KEY | stat [MEMBER...] | ls-tenants", 1, 1024);
  const ProgramText text = {kProgram, "One operation on a cache, or a look at its nodes."};
  if (const std::optional<int> status = LoadProgramOptions(text, &set, argc, argv)) return *status;
  const std::vector<std::string>& words = set.words();
  for (const Verb& verb : kVerbs) {
    if (words[0] != verb.name) continue;
    if (words.size() - 1 < verb.words_min || words.size() - 1 > verb.words_max) {
      return Complain(kProgram, Status(Code::kInvalid, Cat("wrong number of words for ", verb.name)), kUsage);
    }
    const auto client = client::Client::Open(options.client);
    if (!client.ok()) return Complain(kProgram, client.status(), kUsage);
    return verb.run({**client, options, {words.begin() + 1, words.end()}});
  }
  return Complain(kProgram, Status(Code::kInvalid, Cat("there is no command '", words[0], "'; see --help")),
                  kUsage);
}

}  // namespace dfkv::tools
