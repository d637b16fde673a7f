#include "store/evict/trace.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>
#include <unordered_set>

#include "base/text.h"

namespace dfkv::store::evict {
namespace {

constexpr uint64_t kNumberMax = std::numeric_limits<int64_t>::max();

// Reads one line from left to right. Every method leaves `at_` behind what it took; a failure keeps it at the
// place to complain about.
class LineParser {
 public:
  explicit LineParser(std::string_view line) : line_(line) {}

  Status Expected(std::string_view what) const {
    return Status(Code::kInvalid, Cat("column ", at_ + 1, ": expected ", what));
  }
  bool AtEnd() {
    SkipSpace();
    return at_ == line_.size();
  }
  // Takes `c` if it comes next.
  bool Take(char c) {
    SkipSpace();
    if (at_ == line_.size() || line_[at_] != c) return false;
    ++at_;
    return true;
  }
  char Peek() {
    SkipSpace();
    return at_ < line_.size() ? line_[at_] : '\0';
  }

  // A string's raw text; escapes are kept as they are.
  Result<std::string_view> TakeString() {
    if (!Take('"')) return Expected("a string");
    const size_t begin = at_;
    for (; at_ < line_.size(); ++at_) {
      const auto c = static_cast<unsigned char>(line_[at_]);
      if (c < 0x20) return Expected("no control character in a string");
      if (c == '"') return line_.substr(begin, at_++ - begin);
      if (c == '\\' && ++at_ == line_.size()) break;
    }
    return Expected("the end of a string");
  }

  Result<uint64_t> TakeCount() {
    SkipSpace();
    if (!IsDigit()) return Expected("a number that is not negative");
    uint64_t value = 0;
    for (; IsDigit(); ++at_) {
      const auto digit = static_cast<uint64_t>(line_[at_] - '0');
      if (value > (kNumberMax - digit) / 10) return Expected("a number up to 2^63 - 1");
      value = value * 10 + digit;
    }
    if (at_ < line_.size() && (line_[at_] == '.' || line_[at_] == 'e' || line_[at_] == 'E')) {
      return Expected("a whole number");
    }
    return value;
  }

  Status TakeCounts(std::vector<uint64_t>& counts) {
    if (!Take('[')) return Expected("'['");
    if (Take(']')) return Ok();
    do {
      Result<uint64_t> count = TakeCount();
      if (!count.ok()) return count.status();
      counts.push_back(*count);
    } while (Take(','));
    return Take(']') ? Ok() : Expected("',' or ']'");
  }

  Status SkipValue() {
    if (Peek() == '"') return TakeString().status();
    if (Peek() != '[') return SkipNumber();
    Take('[');
    if (Take(']')) return Ok();
    do {
      DFKV_RETURN_IF_ERROR(SkipNumber());
    } while (Take(','));
    return Take(']') ? Ok() : Expected("',' or ']'");
  }

 private:
  bool IsDigit() const { return at_ < line_.size() && line_[at_] >= '0' && line_[at_] <= '9'; }
  void SkipSpace() {
    while (at_ < line_.size() &&
           (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r' || line_[at_] == '\n')) {
      ++at_;
    }
  }
  Status SkipNumber() {
    SkipSpace();
    const size_t begin = at_;
    while (at_ < line_.size() &&
           (IsDigit() || std::string_view("+-.eE").find(line_[at_]) != std::string_view::npos)) {
      ++at_;
    }
    return at_ > begin ? Ok() : Expected("a number, a string or an array of numbers");
  }

  std::string_view line_;
  size_t at_ = 0;
};

enum Field : unsigned { kTimestamp = 1, kInput = 2, kOutput = 4, kBlocks = 8 };

Field FieldOf(std::string_view name) {
  if (name == "timestamp") return kTimestamp;
  if (name == "input_length") return kInput;
  if (name == "output_length") return kOutput;
  if (name == "hash_ids") return kBlocks;
  return Field{0};
}

Status TakeField(LineParser& parser, TraceRequest& request, unsigned& seen) {
  Result<std::string_view> name = parser.TakeString();
  if (!name.ok()) return name.status();
  if (!parser.Take(':')) return parser.Expected("':'");
  const Field field = FieldOf(*name);
  if (field == 0) return parser.SkipValue();
  if (seen & field) return parser.Expected(Cat("no second '", *name, "'"));
  seen |= field;
  if (field == kBlocks) return parser.TakeCounts(request.blocks);
  Result<uint64_t> count = parser.TakeCount();
  if (!count.ok()) return count.status();
  (field == kTimestamp ? request.timestamp_ms
   : field == kInput   ? request.input_tokens
                       : request.output_tokens) = *count;
  return Ok();
}

struct GzCloser {
  void operator()(gzFile_s* file) const { gzclose(file); }
};
using GzHandle = std::unique_ptr<gzFile_s, GzCloser>;

// Appends the next line to `line`; false at the end of the file.
Result<bool> ReadLine(gzFile_s* file, std::string& line) {
  char piece[65536];
  while (gzgets(file, piece, sizeof piece) != nullptr) {
    line += piece;
    if (line.size() > kTraceLineBytesMax) return Status(Code::kInvalid, "line too long");
    if (line.back() == '\n') return true;
  }
  int error = Z_OK;
  const char* text = gzerror(file, &error);
  if (error != Z_OK && error != Z_STREAM_END) return Status(Code::kIoError, Cat("cannot read: ", text));
  return !line.empty();
}

}  // namespace

uint64_t HitTokens(const TraceRequest& request, size_t blocks) {
  return std::min(kTokensPerBlock * blocks, request.input_tokens);
}

Result<TraceRequest> ParseTraceLine(std::string_view line) {
  LineParser parser(line);
  TraceRequest request;
  unsigned seen = 0;
  if (!parser.Take('{')) return parser.Expected("'{'");
  if (!parser.Take('}')) {
    do {
      Status status = TakeField(parser, request, seen);
      if (!status.ok()) return status;
    } while (parser.Take(','));
    if (!parser.Take('}')) return parser.Expected("',' or '}'");
  }
  if (!parser.AtEnd()) return parser.Expected("the end of the line");
  if (seen != (kTimestamp | kInput | kOutput | kBlocks)) {
    return parser.Expected("all of timestamp, input_length, output_length and hash_ids");
  }
  if (request.blocks.empty()) return parser.Expected("at least one hash id");
  return request;
}

Result<std::vector<TraceRequest>> LoadTraceBlocking(const std::string& path) {
  errno = 0;
  GzHandle file(gzopen(path.c_str(), "rb"));
  if (!file) {
    const int error = errno;
    return Status(error == ENOENT ? Code::kNotFound : Code::kIoError,
                  Cat("trace ", path, ": ", error == 0 ? "out of memory" : ErrnoText(error)));
  }
  std::vector<TraceRequest> requests;
  std::string line;
  for (uint64_t number = 1;; ++number) {
    line.clear();
    Result<bool> more = ReadLine(file.get(), line);
    if (!more.ok())
      return Status(more.code(), Cat("trace ", path, ":", number, ": ", more.status().message()));
    if (!*more) return requests;
    if (TrimSpace(line).empty()) continue;
    Result<TraceRequest> request = ParseTraceLine(line);
    if (!request.ok()) {
      return Status(request.code(), Cat("trace ", path, ":", number, ": ", request.status().message()));
    }
    requests.push_back(std::move(*request));
  }
}

uint64_t FootprintBlocks(std::span<const TraceRequest> requests) {
  std::unordered_set<uint64_t> distinct;
  for (const TraceRequest& request : requests) distinct.insert(request.blocks.begin(), request.blocks.end());
  return distinct.size();
}

}  // namespace dfkv::store::evict
