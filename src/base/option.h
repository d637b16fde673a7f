// Options: each is declared once, and its flag, config-file key, environment variable, help text, docs page
// and dump at start all derive from that row. This header reads the environment; flags and files:
// option_cli.h.
//
//   struct ServerOptions { uint32_t tcp_max_conns = 512; uint64_t cap_bytes = 0; };
//   void RegisterServerOptions(OptionSet* set, ServerOptions* options) {
//     set->Group("Network");
//     set->Add("tcp-max-conns", &options->tcp_max_conns, "Open client connections.").Range(1, 4096);
//     set->Group("Storage");
//     set->AddBytes("cap", &options->cap_bytes, "Space to use on all disks together.");
//   }
//
// A row's default is what its field holds when it is declared. Precedence: flag, environment, config file,
// default, whatever the order of loading. A value that is overridden is still checked.
// Threads: one at a time; after loading, concurrent reads are fine. The fields must outlive the set.
#pragma once

#include <concepts>
#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace dfkv {

enum class OptionType { kBool, kInt, kBytes, kDuration, kDouble, kString, kList, kEnum };
enum class OptionSource { kDefault, kFile, kEnvironment, kFlag };  // in rising precedence

__extension__ using OptionInt = __int128;  // holds every int64_t and uint64_t

// The declared row: all that texts are made of.
struct OptionInfo {
  std::string name;   // "tcp-max-conns": the flag without dashes and the config-file key
  std::string env;    // "DFKV_TCP_MAX_CONNS"
  std::string help;   // one line, a sentence
  std::string group;  // title under which texts list it
  OptionType type = OptionType::kString;
  std::string unit;                          // "ms", "bytes", ...; empty for none
  std::string default_text;                  // as a value is written; "unset" when empty
  std::vector<std::string> choices;          // of an enum
  std::optional<OptionInt> min, max;         // inclusive
  std::optional<double> min_real, max_real;  // of a kDouble
  bool needs_restart = true;
  bool required = false;
  bool is_switch = false;
};

class Option {
 public:
  // Sets what the declaration does not derive; each returns *this, so that a row is one expression.
  Option& Env(std::string name);                // another variable than DFKV_<NAME>
  Option& Range(OptionInt min, OptionInt max);  // of a number, size or time, inclusive
  Option& AtLeast(OptionInt min);               //
  Option& RealRange(double min, double max);    // of a double
  Option& Unit(std::string unit);               // for the texts: "connections", "keys"
  Option& DefaultText(std::string text);        // when the default depends on the machine
  Option& Live();                               // may change without a restart
  Option& Required();                           // CheckRequired() refuses the default
  Option& Switch();                             // a bool flag that never takes the next word as its value
  Option& Check(std::function<Status(std::string_view text)> check);  // after the type's own check

  const OptionInfo& info() const { return info_; }
  std::string value() const { return show_(); }  // re-readable; empty for an unset optional or empty string
  OptionSource source() const { return source_; }
  const std::string& where() const { return where_; }  // "flag --x", "environment DFKV_X", "a.toml:3"
  std::string Allowed() const;                         // "a whole number from 1 to 4096"

 private:
  friend class OptionSet;
  OptionInfo info_;
  std::function<Status(std::string_view text, bool store)> parse_;
  std::function<std::string()> show_;
  std::function<Status(std::string_view text)> check_;
  OptionSource source_ = OptionSource::kDefault;
  std::string where_ = "default";
};

namespace option_internal {
Result<OptionInt> ParseInteger(const OptionInfo& info, std::string_view text);  // checks the range, too
std::string ShowInteger(const OptionInfo& info, OptionInt value);
size_t IndexOfWord(const std::vector<std::string>& words,
                   std::string_view text);  // any case; size() for none
template <typename T>
concept Integer = std::integral<T> && !std::same_as<T, bool> && !std::same_as<T, char>;
}  // namespace option_internal

class OptionSet {
 public:
  OptionSet() = default;
  OptionSet(const OptionSet&) = delete;
  OptionSet& operator=(const OptionSet&) = delete;

  // Declares. A name is lower-case words joined by dashes, unit last; declaring it twice is a CHECK failure.
  // The reference stays valid.
  void Group(std::string title) { group_ = std::move(title); }  // of the rows that follow
  Option& Add(std::string_view name, bool* field, std::string_view help);
  Option& Add(std::string_view name, double* field, std::string_view help);
  Option& Add(std::string_view name, std::string* field, std::string_view help);
  Option& Add(std::string_view name, std::vector<std::string>* field, std::string_view help);  // a,b,c
  // A number. When the name ends in -ns, -us, -ms or -s it is a time in that unit and "2s" or "500ms" is
  // read.
  template <option_internal::Integer T>
  Option& Add(std::string_view name, T* field, std::string_view help) {
    return BindInteger<T>(Declare(name, TypeOfNumber(name), help), field);
  }
  template <option_internal::Integer T>
  Option& Add(std::string_view name, std::optional<T>* field, std::string_view help) {
    return BindInteger<T>(Declare(name, TypeOfNumber(name), help), field);
  }
  // A size: "4096", "64KiB", "100GB".
  template <option_internal::Integer T>
  Option& AddBytes(std::string_view name, T* field, std::string_view help) {
    return BindInteger<T>(Declare(name, OptionType::kBytes, help), field);
  }
  template <option_internal::Integer T>
  Option& AddBytes(std::string_view name, std::optional<T>* field, std::string_view help) {
    return BindInteger<T>(Declare(name, OptionType::kBytes, help), field);
  }
  // One of a few words, any case. Two words may mean one value; the first is the one shown.
  template <typename E>
  using Choices = std::vector<std::pair<std::string, E>>;
  template <typename E>
  Option& AddEnum(std::string_view name, E* field, Choices<std::type_identity_t<E>> choices,
                  std::string_view help);

  // Non-flag words: the program takes `min` to `max` of them, shown in the usage line as `synopsis`.
  void TakeWords(std::string synopsis, size_t min, size_t max);
  const std::vector<std::string>& words() const { return words_; }

  // Gives one option a value. kInvalid names the option, the text, `where` and what is allowed; the field is
  // then unchanged. An unknown name is kInvalid with the nearest known one.
  Status Set(std::string_view name, std::string_view text, OptionSource source, const std::string& where);
  // Takes every variable that is set and not empty. On kInvalid (all bad ones, a line each) the good ones are
  // taken nevertheless, so that a library can log the message and go on.
  Status LoadEnvironment();
  Status CheckRequired() const;  // kInvalid names the missing ones

  const Option* Find(std::string_view name) const;  // '_' equals '-'; nullptr for none
  const std::deque<Option>& options() const { return options_; }
  std::string DidYouMean(std::string_view name) const;  // "; did you mean --x?" or empty

  // Texts. Print is TOML with the source of each value as a comment: it can be used as a config file.
  std::string Help(std::string_view program, std::string_view summary) const;
  std::string Print() const;
  std::string Markdown() const;  // one table per group

 private:
  friend Status SetWords(OptionSet* set, std::vector<std::string> words);
  Option& Declare(std::string_view name, OptionType type, std::string_view help);
  static OptionType TypeOfNumber(std::string_view name);
  template <typename T, typename Field>
  Option& BindInteger(Option& option, Field* field);
  static Option& Finish(Option& option);  // takes the default from the field

  std::deque<Option> options_;
  std::string group_ = "General";
  std::string synopsis_;
  size_t words_min_ = 0;
  size_t words_max_ = 0;
  std::vector<std::string> words_;
};

// Gives the words of the command line to the set; kInvalid when their number is not allowed.
Status SetWords(OptionSet* set, std::vector<std::string> words);

// The variable, or nothing when it is unset or empty: for test harnesses; programs declare options.
std::optional<std::string> ReadEnvironment(const std::string& name);

template <typename T, typename Field>
Option& OptionSet::BindInteger(Option& option, Field* field) {
  option.info_.min = std::numeric_limits<T>::min();
  option.info_.max = std::numeric_limits<T>::max();
  option.parse_ = [&option, field](std::string_view text, bool store) -> Status {
    Result<OptionInt> value = option_internal::ParseInteger(option.info_, text);
    if (!value.ok()) return value.status();
    if (store) *field = static_cast<T>(*value);
    return Ok();
  };
  option.show_ = [&option, field]() -> std::string {
    if constexpr (std::same_as<Field, T>) {
      return option_internal::ShowInteger(option.info_, *field);
    } else {
      return *field ? option_internal::ShowInteger(option.info_, **field) : std::string();
    }
  };
  return Finish(option);
}

template <typename E>
Option& OptionSet::AddEnum(std::string_view name, E* field, Choices<std::type_identity_t<E>> choices,
                           std::string_view help) {
  Option& option = Declare(name, OptionType::kEnum, help);
  for (const auto& choice : choices) option.info_.choices.push_back(choice.first);
  const std::vector<std::string>& words = option.info_.choices;
  option.show_ = [field, choices] {
    for (const auto& [word, value] : choices) {
      if (value == *field) return word;
    }
    return std::string();
  };
  option.parse_ = [field, choices, &words](std::string_view text, bool store) -> Status {
    const size_t index = option_internal::IndexOfWord(words, text);
    if (index == words.size()) return Code::kInvalid;
    if (store) *field = choices[index].second;
    return Ok();
  };
  return Finish(option);
}

}  // namespace dfkv
