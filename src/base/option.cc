#include "base/option.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "base/text.h"

namespace dfkv {
namespace {

struct TimeUnit {
  std::string_view name;
  int64_t nanoseconds;
};
constexpr TimeUnit kTimeUnits[] = {{"ns", 1},
                                   {"us", 1'000},
                                   {"ms", 1'000'000},
                                   {"s", 1'000'000'000},
                                   {"m", 60'000'000'000},
                                   {"min", 60'000'000'000},
                                   {"h", 3'600'000'000'000}};

const TimeUnit* FindTimeUnit(std::string_view name) {
  for (const TimeUnit& unit : kTimeUnits) {
    if (unit.name == name) return &unit;
  }
  return nullptr;
}

// "ms" of "tcp-first-req-ms"; empty when the name does not end in a unit of time.
std::string_view TimeUnitOfName(std::string_view name) {
  const size_t dash = name.rfind('-');
  if (dash == std::string_view::npos) return {};
  const std::string_view last = name.substr(dash + 1);
  return last == "ns" || last == "us" || last == "ms" || last == "s" ? last : std::string_view();
}

bool IsOptionName(std::string_view name) {
  const auto is_word = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (name.empty() || !is_word(name.front()) || !is_word(name.back())) return false;
  for (size_t i = 0; i < name.size(); ++i) {
    if (!is_word(name[i]) && (name[i] != '-' || name[i - 1] == '-')) return false;
  }
  return true;
}

std::string EnvironmentName(std::string_view name) {
  std::string env = "DFKV_";
  for (const char c : name) {
    env += c == '-' ? '_' : c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  }
  return env;
}

std::string IntegerText(OptionInt value) {
  return value < 0 ? Cat(static_cast<int64_t>(value)) : Cat(static_cast<uint64_t>(value));
}

// A whole number in the range of int64_t and uint64_t together.
Result<OptionInt> ParseWhole(std::string_view text) {
  if (text.starts_with('-')) {
    Result<int64_t> value = ParseInt(text);
    return value.ok() ? Result<OptionInt>(*value) : value.status();
  }
  Result<uint64_t> value = ParseUint(text);
  return value.ok() ? Result<OptionInt>(*value) : value.status();
}

// "500" in the option's own unit, or "500ms", "2 s", "1m": a whole multiple of that unit.
Result<OptionInt> ParseTime(std::string_view text, std::string_view own_unit) {
  const std::string lower = ToLower(TrimSpace(text));
  const size_t digits = std::min(lower.find_first_not_of("-0123456789"), lower.size());
  Result<OptionInt> number = ParseWhole(std::string_view(lower).substr(0, digits));
  if (!number.ok()) return number;
  const std::string_view unit_name = TrimSpace(std::string_view(lower).substr(digits));
  if (unit_name.empty()) return number;
  const TimeUnit* unit = FindTimeUnit(unit_name);
  const TimeUnit* own = FindTimeUnit(own_unit);
  if (unit == nullptr) return Code::kInvalid;
  const OptionInt nanoseconds = *number * unit->nanoseconds;
  if (nanoseconds % own->nanoseconds != 0) return Code::kInvalid;
  return nanoseconds / own->nanoseconds;
}

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string WithDashes(std::string_view name) {
  std::string dashed(name);
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  return dashed;
}

// "from 1 to 4096"; bounds that are merely those of the field's type are not worth a word.
std::string RangeText(const OptionInfo& info) {
  const auto show = [&](OptionInt value) { return option_internal::ShowInteger(info, value); };
  const bool has_min = info.min && *info.min > INT32_MIN;
  const bool has_max = info.max && *info.max < INT64_MAX && *info.max != UINT32_MAX && *info.max != INT32_MAX;
  if (has_min && has_max) return Cat(" from ", show(*info.min), " to ", show(*info.max));
  if (has_min) return *info.min == 0 ? std::string() : Cat(", at least ", show(*info.min));
  if (has_max) return Cat(", at most ", show(*info.max));
  return {};
}

}  // namespace

namespace option_internal {

Result<OptionInt> ParseInteger(const OptionInfo& info, std::string_view text) {
  Result<OptionInt> value = Code::kInvalid;
  if (info.type == OptionType::kBytes) {
    Result<uint64_t> bytes = ParseBytes(text);
    if (bytes.ok()) value = static_cast<OptionInt>(*bytes);
  } else if (info.type == OptionType::kDuration) {
    value = ParseTime(text, info.unit);
  } else {
    value = ParseWhole(TrimSpace(text));
  }
  if (!value.ok()) return Code::kInvalid;
  const bool in_range = (!info.min || *value >= *info.min) && (!info.max || *value <= *info.max);
  if (!in_range) return Status(Code::kInvalid, "is out of range");
  return value;
}

// Exact: a size takes the largest unit that divides it, so that a dump can be read back.
std::string ShowInteger(const OptionInfo& info, OptionInt value) {
  if (info.type == OptionType::kBytes && value > 0) {
    constexpr std::pair<uint64_t, const char*> kUnits[] = {
        {1ull << 40, "TiB"},       {1ull << 30, "GiB"},   {1ull << 20, "MiB"}, {1ull << 10, "KiB"},
        {1'000'000'000'000, "TB"}, {1'000'000'000, "GB"}, {1'000'000, "MB"}};
    for (const auto& [unit, name] : kUnits) {
      if (value % unit == 0) return Cat(IntegerText(value / unit), name);
    }
  }
  return IntegerText(value);
}

size_t IndexOfWord(const std::vector<std::string>& words, std::string_view text) {
  const std::string lower = ToLower(TrimSpace(text));
  const auto found =
      std::find_if(words.begin(), words.end(), [&](const auto& w) { return ToLower(w) == lower; });
  return static_cast<size_t>(found - words.begin());
}

}  // namespace option_internal

Option& Option::Env(std::string name) {
  info_.env = std::move(name);
  return *this;
}
Option& Option::Range(OptionInt min, OptionInt max) {
  // The field's own type stays a bound: a range wider than the field would be cut off silently.
  DFKV_CHECK(min <= max && info_.min && min >= *info_.min && max <= *info_.max);
  info_.min = min;
  info_.max = max;
  return *this;
}
Option& Option::AtLeast(OptionInt min) {
  DFKV_CHECK(info_.max.has_value());
  return Range(min, *info_.max);
}
Option& Option::RealRange(double min, double max) {
  info_.min_real = min;
  info_.max_real = max;
  return *this;
}
Option& Option::Unit(std::string unit) {
  DFKV_CHECK(info_.type != OptionType::kDuration);  // there it comes from the name
  info_.unit = std::move(unit);
  return *this;
}
Option& Option::DefaultText(std::string text) {
  info_.default_text = std::move(text);
  return *this;
}
Option& Option::Live() {
  info_.needs_restart = false;
  return *this;
}
Option& Option::Required() {
  info_.required = true;
  return *this;
}
Option& Option::Switch() {
  DFKV_CHECK(info_.type == OptionType::kBool);
  info_.is_switch = true;
  return *this;
}
Option& Option::Check(std::function<Status(std::string_view)> check) {
  check_ = std::move(check);
  return *this;
}

std::string Option::Allowed() const {
  switch (info_.type) {
    case OptionType::kBool:
      return "on or off";
    case OptionType::kInt:
      return Cat("a whole number", RangeText(info_));
    case OptionType::kBytes:
      return Cat("a size (as 4096, 64KiB or 100GB)", RangeText(info_));
    case OptionType::kDuration:
      return Cat("a time in ", info_.unit, " (a whole number, or with a unit as 500ms or 2s)",
                 RangeText(info_));
    case OptionType::kDouble:
      return info_.min_real ? Cat("a number from ", *info_.min_real, " to ", *info_.max_real)
                            : std::string("a number");
    case OptionType::kString:
      return "text";
    case OptionType::kList:
      return "a comma-separated list";
    case OptionType::kEnum:
      break;
  }
  std::string allowed = "one of";
  for (const std::string& choice : info_.choices) {
    allowed += Cat(&choice == &info_.choices.front() ? " " : ", ", choice);
  }
  return allowed;
}

Option& OptionSet::Declare(std::string_view name, OptionType type, std::string_view help) {
  DFKV_CHECK(IsOptionName(name) && Find(name) == nullptr);
  Option& option = options_.emplace_back();
  option.info_.name = name;
  option.info_.env = EnvironmentName(name);
  option.info_.help = help;
  option.info_.group = group_;
  option.info_.type = type;
  if (type == OptionType::kBytes) option.info_.unit = "bytes";
  if (type == OptionType::kDuration) option.info_.unit = TimeUnitOfName(name);
  return option;
}

Option& OptionSet::Finish(Option& option) {
  option.info_.default_text = option.show_();
  return option;
}

OptionType OptionSet::TypeOfNumber(std::string_view name) {
  return TimeUnitOfName(name).empty() ? OptionType::kInt : OptionType::kDuration;
}

Option& OptionSet::Add(std::string_view name, bool* field, std::string_view help) {
  Option& option = Declare(name, OptionType::kBool, help);
  option.show_ = [field] { return std::string(*field ? "on" : "off"); };
  option.parse_ = [field](std::string_view text, bool store) -> Status {
    Result<bool> value = ParseBool(text);
    if (!value.ok()) return Code::kInvalid;
    if (store) *field = *value;
    return Ok();
  };
  return Finish(option);
}

Option& OptionSet::Add(std::string_view name, double* field, std::string_view help) {
  Option& option = Declare(name, OptionType::kDouble, help);
  option.show_ = [field] { return Cat(*field); };
  option.parse_ = [field, &option](std::string_view text, bool store) -> Status {
    Result<double> value = ParseDouble(text);
    if (!value.ok() || *value != *value) return Code::kInvalid;  // the second: not a number
    const OptionInfo& info = option.info_;
    const bool in_range =
        (!info.min_real || *value >= *info.min_real) && (!info.max_real || *value <= *info.max_real);
    if (!in_range) return Status(Code::kInvalid, "is out of range");
    if (store) *field = *value;
    return Ok();
  };
  return Finish(option);
}

Option& OptionSet::Add(std::string_view name, std::string* field, std::string_view help) {
  Option& option = Declare(name, OptionType::kString, help);
  option.show_ = [field] { return *field; };
  option.parse_ = [field](std::string_view text, bool store) -> Status {
    if (store) *field = text;
    return Ok();
  };
  return Finish(option);
}

Option& OptionSet::Add(std::string_view name, std::vector<std::string>* field, std::string_view help) {
  Option& option = Declare(name, OptionType::kList, help);
  option.show_ = [field] {
    std::string text;
    for (const std::string& piece : *field) text += Cat(text.empty() ? "" : ",", piece);
    return text;
  };
  option.parse_ = [field](std::string_view text, bool store) -> Status {
    if (store) *field = SplitTrimmed(text, ',');
    return Ok();
  };
  return Finish(option);
}

void OptionSet::TakeWords(std::string synopsis, size_t min, size_t max) {
  synopsis_ = std::move(synopsis);
  words_min_ = min;
  words_max_ = max;
}

Status SetWords(OptionSet* set, std::vector<std::string> words) {
  if (words.size() > set->words_max_) {
    return Status(Code::kInvalid, Cat("unexpected argument '", words[set->words_max_], "'"));
  }
  if (words.size() < set->words_min_)
    return Status(Code::kInvalid, Cat("missing argument: ", set->synopsis_));
  set->words_ = std::move(words);
  return Ok();
}

Status OptionSet::Set(std::string_view name, std::string_view text, OptionSource source,
                      const std::string& where) {
  // Find is const for readers; the set owns the option.
  Option* option = const_cast<Option*>(Find(name));
  if (option == nullptr) {
    return Status(Code::kInvalid, Cat("unknown option '", name, "' (", where, ")", DidYouMean(name)));
  }
  const bool store = source >= option->source_;
  Status status = option->parse_(text, false);
  std::string problem;
  if (!status.ok()) {
    problem =
        Cat(status.message().empty() ? "is not valid" : status.message(), "; allowed: ", option->Allowed());
  } else if (option->check_) {
    status = option->check_(text);
    problem = Cat("is not allowed: ", status.message());
  }
  if (!status.ok()) {
    return Status(Code::kInvalid, Cat(option->info_.name, ": '", text, "' (", where, ") ", problem));
  }
  if (!store) return Ok();
  option->source_ = source;
  option->where_ = where;
  return option->parse_(text, true);
}

Status OptionSet::LoadEnvironment() {
  std::string problems;
  for (const Option& option : options_) {
    const std::optional<std::string> text = ReadEnvironment(option.info_.env);
    if (!text) continue;
    const Status status =
        Set(option.info_.name, *text, OptionSource::kEnvironment, Cat("environment ", option.info_.env));
    if (!status.ok()) problems += Cat(problems.empty() ? "" : "\n", status.message());
  }
  return problems.empty() ? Ok() : Status(Code::kInvalid, problems);
}

Status OptionSet::CheckRequired() const {
  std::string missing;
  for (const Option& option : options_) {
    if (!option.info_.required || option.source_ != OptionSource::kDefault) continue;
    missing += Cat(missing.empty() ? "" : "\n", "missing --", option.info_.name, " (or ", option.info_.env,
                   "): ", option.info_.help);
  }
  return missing.empty() ? Ok() : Status(Code::kInvalid, missing);
}

const Option* OptionSet::Find(std::string_view name) const {
  const std::string dashed = WithDashes(name);
  for (const Option& option : options_) {
    if (option.info_.name == dashed) return &option;
  }
  return nullptr;
}

std::string OptionSet::DidYouMean(std::string_view name) const {
  const std::string dashed = ToLower(WithDashes(name));
  const Option* best = nullptr;
  size_t best_distance = 1 + std::max<size_t>(2, dashed.size() / 4);
  for (const Option& option : options_) {
    const std::string& known = option.info_.name;
    size_t distance = EditDistance(dashed, known);
    if (dashed.size() >= 3 && known.starts_with(dashed)) distance = std::min<size_t>(distance, 2);
    if (distance < best_distance) {
      best = &option;
      best_distance = distance;
    }
  }
  return best == nullptr ? std::string() : Cat("; did you mean --", best->info_.name, "?");
}

std::optional<std::string> ReadEnvironment(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

}  // namespace dfkv
