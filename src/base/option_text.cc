// The texts that derive from the rows: help, dump, docs page.
#include <algorithm>

#include "base/option.h"
#include "base/text.h"

namespace dfkv {
namespace {

constexpr size_t kHelpColumn = 34;
constexpr size_t kHelpWidth = 110;

std::string ValueName(const OptionInfo& info) {
  switch (info.type) {
    case OptionType::kBool:
      return info.is_switch ? "" : "on|off";
    case OptionType::kInt:
      return "N";
    case OptionType::kBytes:
      return "SIZE";
    case OptionType::kDuration:
      return info.unit;
    case OptionType::kDouble:
      return "NUMBER";
    case OptionType::kString:
      return "TEXT";
    case OptionType::kList:
      return "A,B,...";
    case OptionType::kEnum:
      break;
  }
  std::string names;
  for (const std::string& choice : info.choices) names += Cat(names.empty() ? "" : "|", choice);
  return names;
}

std::string DefaultOf(const OptionInfo& info) {
  return info.default_text.empty() ? "unset" : info.default_text;
}

// The group titles in the order of their first row.
std::vector<std::string> GroupsOf(const std::deque<Option>& options) {
  std::vector<std::string> groups;
  for (const Option& option : options) {
    const std::string& group = option.info().group;
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
  }
  return groups;
}

// Appends `text` word by word, starting at column `column`, in lines that start at kHelpColumn.
void AppendWrapped(std::string* out, std::string_view text, size_t column) {
  for (const std::string& word : SplitTrimmed(text, ' ')) {
    if (column != kHelpColumn && column + word.size() + 1 > kHelpWidth) {
      *out += Cat("\n", std::string(kHelpColumn, ' '));
      column = kHelpColumn;
    } else if (column != kHelpColumn) {
      *out += ' ';
      ++column;
    }
    *out += word;
    column += word.size();
  }
  *out += '\n';
}

void AppendHelpRow(std::string* out, std::string_view left, std::string_view text) {
  std::string head = Cat("  ", left);
  if (head.size() + 2 > kHelpColumn) {
    *out += Cat(head, "\n");
    head.clear();
  }
  head.resize(kHelpColumn, ' ');
  *out += head;
  AppendWrapped(out, text, kHelpColumn);
}

std::string HelpTextOf(const Option& option) {
  const OptionInfo& info = option.info();
  std::string text = info.help;
  if (info.required) {
    text += " Required.";
  } else {
    text += Cat(" Default: ", DefaultOf(info));
    if (!info.unit.empty() && info.type != OptionType::kBytes && !info.default_text.empty()) {
      text += Cat(" ", info.unit);
    }
    text += ".";
  }
  return Cat(text, " [", info.env, "]");
}

std::string TomlString(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += Cat('\\', c);
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
      constexpr char kHex[] = "0123456789abcdef";
      quoted += Cat("\\u00", kHex[static_cast<unsigned char>(c) >> 4], kHex[c & 15]);
    } else {
      quoted += c;
    }
  }
  return quoted + '"';
}

std::string TomlValue(const Option& option) {
  const std::string value = option.value();
  switch (option.info().type) {
    case OptionType::kBool:
      return value == "on" ? "true" : "false";
    case OptionType::kInt:
    case OptionType::kDuration:
      return value;
    case OptionType::kList: {
      std::string list;
      for (const std::string& piece : SplitTrimmed(value, ',')) {
        list += Cat(list.empty() ? "" : ", ", TomlString(piece));
      }
      return Cat("[", list, "]");
    }
    case OptionType::kBytes:
    case OptionType::kDouble:
    case OptionType::kString:
    case OptionType::kEnum:
      break;
  }
  return TomlString(value);
}

std::string MarkdownCell(std::string_view text) {
  std::string cell;
  for (const char c : text) cell += c == '|' ? std::string("\\|") : std::string(1, c);
  return cell;
}

}  // namespace

std::string OptionSet::Help(std::string_view program, std::string_view summary) const {
  std::string out =
      Cat("Usage: ", program, " [options]", synopsis_.empty() ? "" : " ", synopsis_, "\n\n", summary,
          "\n\nA value comes from the flag, else the environment variable in brackets, else the config file, "
          "else the\n"
          "default.\n");
  for (const std::string& group : GroupsOf(options_)) {
    out += Cat("\n", group, ":\n");
    for (const Option& option : options_) {
      const OptionInfo& info = option.info();
      if (info.group != group) continue;
      const std::string value_name = ValueName(info);
      AppendHelpRow(&out, Cat("--", info.name, value_name.empty() ? "" : " ", value_name),
                    HelpTextOf(option));
    }
  }
  out += "\nStandard:\n";
  AppendHelpRow(&out, "--config FILE", "Read options from a TOML file: name = value. [DFKV_CONFIG]");
  AppendHelpRow(&out, "--print-config", "Print every value and where it comes from, as TOML, and exit.");
  AppendHelpRow(&out, "--print-options-markdown",
                "Print the table of all options for the documentation and exit.");
  AppendHelpRow(&out, "--version", "Print the version and exit.");
  AppendHelpRow(&out, "--help, -h", "Print this text and exit.");
  return out;
}

std::string OptionSet::Print() const {
  std::string out;
  for (const std::string& group : GroupsOf(options_)) {
    out += Cat(out.empty() ? "" : "\n", "# ", group, "\n");
    for (const Option& option : options_) {
      if (option.info().group != group) continue;
      std::string line;
      if (option.value().empty() && option.source() == OptionSource::kDefault) {
        line = Cat("# ", option.info().name, " is unset");
      } else {
        line = Cat(option.info().name, " = ", TomlValue(option));
      }
      if (line.size() < 40) line.resize(40, ' ');
      out += Cat(line, "  # ", option.where(), "\n");
    }
  }
  return out;
}

std::string OptionSet::Markdown() const {
  std::string out;
  for (const std::string& group : GroupsOf(options_)) {
    out += Cat(out.empty() ? "" : "\n", "### ", group,
               "\n\n| option | environment | default | allowed | restart | meaning |\n"
               "|---|---|---|---|---|---|\n");
    for (const Option& option : options_) {
      const OptionInfo& info = option.info();
      if (info.group != group) continue;
      const std::string default_text = info.required ? "required" : Cat("`", DefaultOf(info), "`");
      out += Cat("| `--", info.name, "` | `", info.env, "` | ", MarkdownCell(default_text), " | ",
                 MarkdownCell(option.Allowed()), " | ", info.needs_restart ? "yes" : "no", " | ",
                 MarkdownCell(info.help), " |\n");
    }
  }
  return out;
}

}  // namespace dfkv
