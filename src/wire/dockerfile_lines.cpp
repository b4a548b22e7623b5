#include "wire/dockerfile_lines.h"

#include <algorithm>

#include "wire/dockerfile_words.h"

namespace firebreak::wire {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::size_t kMaxNotes = 100;

bool is_comment(std::string_view line) {
  return trim(line).starts_with('#');
}

}  // namespace

SourcePosition LogicalLine::position(std::size_t offset) const {
  auto piece = std::ranges::upper_bound(pieces, offset, {}, &Piece::offset);
  if (piece != pieces.begin()) --piece;
  SourcePosition at = piece->at;
  at.column += static_cast<std::uint32_t>(offset - std::min(offset, piece->offset));
  return at;
}

DockerfileLines::DockerfileLines(std::string_view text, std::string_view name)
    : rest_(text), name_(name) {
  if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
}

void DockerfileLines::note(SourcePosition at, std::string text) {
  if (notes_.size() < kMaxNotes) notes_.push_back({.at = at, .text = std::move(text)});
}

std::unexpected<Error> DockerfileLines::fail_at(SourcePosition at, std::string_view what,
                                                Code code) const {
  return fail_at(at, fail(code, std::string(what)).error());
}

std::unexpected<Error> DockerfileLines::fail_at(SourcePosition at, std::string_view what,
                                                Repair repair) const {
  return fail_at(at, fail(Code::invalid, std::string(what), std::move(repair)).error());
}

std::unexpected<Error> DockerfileLines::fail_at(SourcePosition at, Error error) const {
  return fail(std::move(error),
              name_ + ":" + std::to_string(at.line) + ":" + std::to_string(at.column));
}

std::optional<DockerfileLines::PhysicalLine> DockerfileLines::take() {
  if (rest_.empty()) return std::nullopt;
  const auto newline = rest_.find('\n');
  const std::string_view whole =
      rest_.substr(0, newline == std::string_view::npos ? newline : newline + 1);
  rest_.remove_prefix(whole.size());
  std::string_view text = whole;
  while (text.ends_with('\n') || text.ends_with('\r')) text.remove_suffix(1);
  return PhysicalLine{.text = text, .whole = whole, .number = ++number_};
}

// "# key=value" before anything else, even before an empty line or another comment.
Result<> DockerfileLines::directive(const PhysicalLine& line) {
  std::string_view text = trim(line.text);
  if (directives_over_ || !text.starts_with('#')) {
    directives_over_ = true;
    return {};
  }
  text = trim(text.substr(1));
  const auto equals = text.find('=');
  const std::string key = to_upper(trim(text.substr(0, equals)));
  const bool known = key == "ESCAPE" || key == "SYNTAX" || key == "CHECK";
  const std::string_view value =
      equals == std::string_view::npos ? std::string_view() : trim(text.substr(equals + 1));
  if (!known || value.empty()) {
    directives_over_ = true;
    return {};
  }
  const auto column = static_cast<std::uint32_t>(line.text.find('#') + 1);
  return set_directive(key, value, {.line = line.number, .column = column});
}

Result<> DockerfileLines::set_directive(std::string_view key, std::string_view value,
                                        SourcePosition at) {
  if (std::ranges::find(seen_directives_, key) != seen_directives_.end())
    return fail_at(at, "this parser directive is given twice", Repair{"remove one"});
  seen_directives_.emplace_back(key);
  if (key == "ESCAPE") {
    if (value != "\\" && value != "`")
      return fail_at(at, "the escape character is \\ or `, nothing else");
    escape_ = value[0];
  } else if (key == "SYNTAX") {
    note(at, "the syntax directive is ignored: Dockerfiles are always read in the current syntax");
  } else {
    note(at, "the check directive is ignored");
  }
  return {};
}

// The escape character as the last thing of a line, blanks aside; two of them are a character.
bool DockerfileLines::continues(std::string_view& line) const {
  std::string_view cut = line;
  cut.remove_suffix(cut.size() - (cut.find_last_not_of(kBlanks) + 1));
  if (!cut.ends_with(escape_)) return false;
  cut.remove_suffix(1);
  if (cut.ends_with(escape_)) return false;
  line = cut;
  return true;
}

Result<std::optional<LogicalLine>> DockerfileLines::next() {
  LogicalLine logical;
  bool more = false;
  while (auto line = take()) {
    if (!directives_over_) FB_TRY(directive(*line));
    if (is_comment(line->text)) continue;
    std::string_view text = line->text;
    if (trim(text).empty()) {
      if (more)
        note({.line = line->number, .column = 1}, "empty line inside a continued instruction");
      continue;
    }
    more = continues(text);
    std::size_t skipped = 0;
    if (logical.text.empty()) {
      skipped = std::min(text.find_first_not_of(kBlanks), text.size());
      text.remove_prefix(skipped);
    }
    if (!text.empty()) {
      const auto column = static_cast<std::uint32_t>(skipped + 1);
      logical.pieces.push_back(
          {.offset = logical.text.size(), .at = {.line = line->number, .column = column}});
      logical.text += text;
    }
    if (!more && !logical.text.empty()) break;
  }
  logical.text.resize(trim(logical.text).size());
  if (logical.text.empty()) return std::nullopt;
  return logical;
}

Result<> DockerfileLines::read_heredoc(Heredoc& heredoc, SourcePosition begin) {
  while (auto line = take()) {
    std::string_view end = line->text;
    if (heredoc.strip_tabs) end.remove_prefix(std::min(end.find_first_not_of('\t'), end.size()));
    if (end == heredoc.name) return {};
    heredoc.content += line->whole;
  }
  return fail_at(begin, "the here-document <<" + heredoc.name +
                            " is not ended: there is no line '" + heredoc.name + "'");
}

}  // namespace firebreak::wire
