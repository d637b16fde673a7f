#include "base/option_cli.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <exception>
#include <fstream>
#include <sstream>
#include <stdexcept>

// toml++ 3.3 asserts on some malformed input ("[=" is one). A bad config file must not abort the program, so
// an assertion becomes an exception, which LoadTomlText catches.
namespace dfkv {
[[noreturn]] static void TomlAssertionFailed() {
  throw std::logic_error("malformed");
}
}  // namespace dfkv
#define TOML_ASSERT(expr) ((expr) ? static_cast<void>(0) : ::dfkv::TomlAssertionFailed())
#include <toml++/toml.h>

#include "base/text.h"
#include "base/version.h"

namespace dfkv {
namespace {

// CLI11 knows options with one value each. A bool that stands alone becomes --name=on, and an explicitly
// empty value (--name=), which CLI11 would fill from the next word, is set aside.
struct Prepared {
  std::vector<std::string> arguments;
  std::vector<std::string> empty;  // names given an empty value
  std::string missing;             // the first name that lacks its value
};

bool IsSwitchWord(std::string_view text) {
  const std::string lower = ToLower(text);
  return lower == "on" || lower == "off" || lower == "true" || lower == "false";
}

Prepared Prepare(const OptionSet& set, int argc, const char* const* argv) {
  Prepared prepared;
  bool words_only = false;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    words_only = words_only || argument == "--";
    if (words_only || !argument.starts_with("--")) {
      prepared.arguments.push_back(std::move(argument));
      continue;
    }
    const std::string name = argument.substr(2, argument.find('=') - 2);
    const Option* option = set.Find(name);
    if (option != nullptr && argument.size() == name.size() + 3 && argument.ends_with('=')) {
      prepared.empty.push_back(name);
      continue;
    }
    const bool bare = argument.find('=') == std::string::npos;
    if (bare && option != nullptr && option->info().type == OptionType::kBool) {
      const bool takes_next = !option->info().is_switch && i + 1 < argc && IsSwitchWord(argv[i + 1]);
      argument += Cat("=", takes_next ? argv[++i] : "on");
    } else if (bare && option != nullptr &&
               (i + 1 == argc || std::string_view(argv[i + 1]).starts_with("--"))) {
      prepared.missing = name;
      break;
    }
    prepared.arguments.push_back(std::move(argument));
  }
  return prepared;
}

Status UnknownFlag(const OptionSet& set, const std::string& argument) {
  const size_t begin = argument.find_first_not_of('-');
  const std::string name =
      begin == std::string::npos ? argument : argument.substr(begin, argument.find('=') - begin);
  return Status(Code::kInvalid,
                Cat("unknown flag ", argument.substr(0, argument.find('=')), set.DidYouMean(name)));
}

// Words and unknown flags, as CLI11 leaves them: in order, with the "--" after which all are words.
Result<std::vector<std::string>> WordsOf(const OptionSet& set, const std::vector<std::string>& remaining) {
  std::vector<std::string> words;
  bool words_only = false;
  for (const std::string& argument : remaining) {
    if (!words_only && argument == "--") {
      words_only = true;
      continue;
    }
    const bool number = argument.size() > 1 && argument[1] >= '0' && argument[1] <= '9';
    if (!words_only && argument.size() > 1 && argument[0] == '-' && !number)
      return UnknownFlag(set, argument);
    words.push_back(argument);
  }
  return words;
}

Status ParseWithCli(OptionSet* set, Prepared prepared, StandardFlags* flags) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  app.add_flag("-h,--help", flags->help);
  app.add_flag("--version", flags->version);
  app.add_flag("--print-config", flags->print_config);
  app.add_flag("--print-options-markdown", flags->print_options_markdown);
  app.add_option("--config", flags->config)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  std::vector<std::pair<const Option*, CLI::Option*>> bound;
  for (const Option& option : set->options()) {
    const std::string flag_name = Cat("--", option.info().name);
    CLI::Option* flag = app.add_option(flag_name, [](const CLI::results_t&) { return true; });
    flag->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->allow_extra_args(false);
    bound.emplace_back(&option, flag);
  }
  std::reverse(prepared.arguments.begin(), prepared.arguments.end());  // the order App::parse(vector) takes
  app.parse(std::move(prepared.arguments));
  Result<std::vector<std::string>> words = WordsOf(*set, app.remaining());
  if (!words.ok()) return words.status();
  if (!prepared.missing.empty()) {
    return Status(Code::kInvalid, Cat("flag --", prepared.missing, " needs a value"));
  }
  for (const std::string& name : prepared.empty) {
    DFKV_RETURN_IF_ERROR(set->Set(name, "", OptionSource::kFlag, Cat("flag --", name)));
  }
  for (const auto& [option, flag] : bound) {
    if (flag->count() == 0) continue;
    std::string text = flag->results().back();
    if (option->info().type == OptionType::kList) text = CLI::detail::join(flag->results(), ",");
    const std::string& name = option->info().name;
    DFKV_RETURN_IF_ERROR(set->Set(name, text, OptionSource::kFlag, Cat("flag --", name)));
  }
  if (flags->help || flags->version || flags->print_options_markdown) return Ok();
  return SetWords(set, std::move(*words));
}

// toml++ 3.3 runs into undefined behaviour when it tests some letters beyond ASCII for white space. So it is
// given ASCII alone: each other byte becomes a marker, which occurs nowhere else in the text, and two hex
// digits.
class AsciiText {
 public:
  explicit AsciiText(std::string_view text) {
    for (int n = 0; marker_.empty() || text.find(marker_) != std::string_view::npos; ++n) {
      marker_ = Cat("byte", n, "_");
    }
    constexpr char kHex[] = "0123456789abcdef";
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      ascii_ += byte < 0x80 ? std::string(1, c) : Cat(marker_, kHex[byte >> 4], kHex[byte & 15]);
    }
  }
  const std::string& ascii() const { return ascii_; }

  // A part of the parsed text with its own bytes again.
  std::string Restore(std::string_view part) const {
    std::string restored;
    size_t at = 0;
    while ((at = part.find(marker_)) != std::string_view::npos) {
      const std::string_view digits = part.substr(at + marker_.size(), 2);
      unsigned byte = 0;
      const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), byte, 16);
      if (digits.size() != 2 || parsed.ptr != digits.data() + 2) break;  // spelt by escapes: not ours
      restored += Cat(part.substr(0, at), static_cast<char>(byte));
      part.remove_prefix(at + marker_.size() + 2);
    }
    return restored += part;
  }

 private:
  std::string marker_;
  std::string ascii_;
};

// The text of a TOML value as an option would read it; nothing for a value that no option takes.
std::optional<std::string> TomlText(const toml::node& node) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return Cat(number->get());
  if (const auto* number = node.as_floating_point()) return Cat(number->get());
  if (const auto* truth = node.as_boolean()) return std::string(truth->get() ? "on" : "off");
  const toml::array* array = node.as_array();
  if (array == nullptr) return std::nullopt;
  std::string list;
  for (const toml::node& element : *array) {
    std::optional<std::string> piece = element.is_array() ? std::nullopt : TomlText(element);
    if (!piece || piece->find(',') != std::string::npos) return std::nullopt;
    list += Cat(list.empty() ? "" : ",", *piece);
  }
  return list;
}

struct TomlReader {
  OptionSet* set;
  const std::string& path;
  const AsciiText& source;
  std::vector<std::string> seen = {};
  std::string problems = {};

  void Problem(const std::string& text) { problems += Cat(problems.empty() ? "" : "\n", text); }

  // Tables nest at most as deep as toml++ parses them (its own limit is 256).
  void ReadTable(const toml::table& table, const std::string& prefix) {
    for (const auto& [key, node] : table) {
      const std::string name = Cat(prefix, source.Restore(key.str()));
      const std::string where = Cat(path, ":", key.source().begin.line);
      if (const toml::table* nested = node.as_table()) {
        ReadTable(*nested, Cat(name, "-"));
        continue;
      }
      ReadValue(name, node, where);
    }
  }

  void ReadValue(const std::string& name, const toml::node& node, const std::string& where) {
    const Option* option = set->Find(name);
    if (option == nullptr) {
      return Problem(Cat("unknown option '", name, "' (", where, ")", set->DidYouMean(name)));
    }
    if (std::find(seen.begin(), seen.end(), option->info().name) != seen.end()) {
      return Problem(Cat(option->info().name, ": set twice (", where, ")"));
    }
    seen.push_back(option->info().name);
    const std::optional<std::string> text = TomlText(node);
    if (!text || (node.is_array() && option->info().type != OptionType::kList)) {
      return Problem(Cat(name, ": the value (", where, ") is not valid; allowed: ", option->Allowed()));
    }
    const Status status = set->Set(name, source.Restore(*text), OptionSource::kFile, where);
    if (!status.ok()) Problem(status.message());
  }
};

void PrintTo(std::FILE* file, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
}

Status LoadAll(OptionSet* set, int argc, const char* const* argv, StandardFlags* flags) {
  DFKV_RETURN_IF_ERROR(ParseArgs(set, argc, argv, flags));
  if (flags->help || flags->version || flags->print_options_markdown) return Ok();
  DFKV_RETURN_IF_ERROR(set->LoadEnvironment());
  if (flags->config.empty()) flags->config = ReadEnvironment("DFKV_CONFIG").value_or("");
  if (!flags->config.empty()) DFKV_RETURN_IF_ERROR(LoadToml(set, flags->config));
  if (flags->print_config) return Ok();
  return set->CheckRequired();
}

}  // namespace

Status ParseArgs(OptionSet* set, int argc, const char* const* argv, StandardFlags* flags) {
  try {
    return ParseWithCli(set, Prepare(*set, argc, argv), flags);
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string what = error.what();
    return Status(Code::kInvalid, Cat("flag ", what.substr(0, what.find(':')), " needs a value"));
  } catch (const std::exception& error) {
    return Status(Code::kInvalid, error.what());
  }
}

Status LoadTomlText(OptionSet* set, std::string_view text, const std::string& path) {
  const AsciiText source(text);
  try {
    const toml::table table = toml::parse(source.ascii(), path);
    TomlReader reader = {set, path, source};
    reader.ReadTable(table, "");
    return reader.problems.empty() ? Ok() : Status(Code::kInvalid, reader.problems);
  } catch (const toml::parse_error& error) {
    const std::string description = source.Restore(error.description());
    return Status(Code::kInvalid, Cat(path, ":", error.source().begin.line, ": ", description));
  } catch (const std::exception& error) {  // an assertion of toml++, or out of memory
    return Status(Code::kInvalid, Cat(path, ": ", error.what()));
  }
}

Status LoadToml(OptionSet* set, const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return Status(Code::kIoError, Cat("config file ", path, ": ", ErrnoText(errno)));
  }
  return LoadTomlText(set, text.str(), path);
}

std::optional<int> LoadProgramOptions(const ProgramText& program, OptionSet* set, int argc,
                                      const char* const* argv) {
  StandardFlags flags;
  const Status status = LoadAll(set, argc, argv, &flags);
  if (!status.ok()) {
    PrintTo(stderr, Cat(program.name, ": ", status.message(), "\nSee ", program.name, " --help.\n"));
    return 2;
  }
  if (flags.help) {
    PrintTo(stdout, set->Help(program.name, program.summary));
  } else if (flags.version) {
    PrintTo(stdout, Cat(program.name, " ", DFKV_VERSION, "\n"));
  } else if (flags.print_options_markdown) {
    PrintTo(stdout, set->Markdown());
  } else if (flags.print_config) {
    PrintTo(stdout, set->Print());
  } else {
    return std::nullopt;
  }
  return 0;
}

}  // namespace dfkv
