#include "wire/shell_pattern.h"

#include <algorithm>

#include "wire/characters.h"

namespace firebreak::wire {
namespace {

constexpr std::size_t kNone = std::u32string::npos;
Result<std::u32string> bounded(std::string_view text) {
  if (text.size() > ShellPattern::kMaxText)
    return fail(Code::exhausted, "a pattern works on values of up to " +
                                     std::to_string(ShellPattern::kMaxText) + " bytes");
  return to_characters(text);
}

}  // namespace

Result<ShellPattern> ShellPattern::parse(std::string_view text, char escape) {
  if (text.size() > kMaxPattern)
    return fail(Code::exhausted, "a pattern has at most " + std::to_string(kMaxPattern) + " bytes");
  ShellPattern pattern;
  const std::u32string characters = to_characters(text);
  for (std::size_t i = 0; i < characters.size(); ++i) {
    char32_t c = characters[i];
    if (c == U'*') {
      pattern.runs_.emplace_back();
      continue;
    }
    const bool any = c == U'?';
    if (c == static_cast<unsigned char>(escape)) {
      if (++i == characters.size()) break;
      c = characters[i];
      const std::u32string_view known = U"*?}/";
      if (!known.contains(c) && c != static_cast<unsigned char>(escape))
        return fail(Code::invalid,
                    "in a pattern only * ? / } and the escape character itself are "
                    "escaped");
    }
    pattern.runs_.back().push_back({.character = c, .any = any});
  }
  return pattern;
}

bool ShellPattern::fits(const std::u32string& text, std::size_t at, const Run& run) {
  if (run.size() > text.size() - at) return false;
  for (std::size_t i = 0; i < run.size(); ++i)
    if (!run[i].any && run[i].character != text[at + i]) return false;
  return true;
}

std::size_t ShellPattern::find(const std::u32string& text, std::size_t from, const Run& run) {
  for (std::size_t at = from; at + run.size() <= text.size(); ++at)
    if (fits(text, at, run)) return at;
  return kNone;
}

std::size_t ShellPattern::find_last(const std::u32string& text, std::size_t from, const Run& run) {
  if (text.size() < from + run.size()) return kNone;
  for (std::size_t at = text.size() - run.size() + 1; at-- > from;)
    if (fits(text, at, run)) return at;
  return kNone;
}

// Taking each run between stars at its first place never loses a match, so there is nothing to try
// again; only the last run decides how long the match is.
std::size_t ShellPattern::end_of_match(const std::u32string& text, std::size_t from,
                                       Match match) const {
  if (!fits(text, from, runs_.front())) return kNone;
  std::size_t at = from + runs_.front().size();
  for (std::size_t i = 1; i < runs_.size(); ++i) {
    const bool last = i + 1 == runs_.size();
    const std::size_t found =
        last && match == Match::longest ? find_last(text, at, runs_[i]) : find(text, at, runs_[i]);
    if (found == kNone) return kNone;
    at = found + runs_[i].size();
  }
  return at;
}

Result<std::string> ShellPattern::without_prefix(std::string_view text, Match match) const {
  FB_TRY_ASSIGN(const std::u32string characters, bounded(text));
  const std::size_t end = end_of_match(characters, 0, match);
  return end == kNone ? std::string(text) : to_bytes(std::u32string_view(characters).substr(end));
}

Result<std::string> ShellPattern::without_suffix(std::string_view text, Match match) const {
  FB_TRY_ASSIGN(std::u32string characters, bounded(text));
  ShellPattern mirrored = *this;
  std::ranges::reverse(characters);
  std::ranges::reverse(mirrored.runs_);
  for (Run& run : mirrored.runs_) std::ranges::reverse(run);
  const std::size_t end = mirrored.end_of_match(characters, 0, match);
  if (end == kNone) return std::string(text);
  characters.erase(0, end);
  std::ranges::reverse(characters);
  return to_bytes(characters);
}

Result<std::string> ShellPattern::replace(std::string_view text, std::string_view with,
                                          bool all) const {
  if (runs_.size() == 1 && runs_.front().empty()) return std::string(text);
  FB_TRY_ASSIGN(const std::u32string characters, bounded(text));
  const std::u32string_view view = characters;
  std::string out;
  std::size_t done = 0;
  for (;;) {
    const std::size_t begin = find(characters, done, runs_.front());
    if (begin == kNone) break;
    // If the rest does not match behind the first place of the first run, it matches nowhere.
    const std::size_t end = end_of_match(characters, begin, Match::longest);
    if (end == kNone) break;
    out += to_bytes(view.substr(done, begin - done));
    out += with;
    if (out.size() > kMaxResult)
      return fail(Code::exhausted, "the replacement makes the value too long");
    done = end;
    if (!all || done == characters.size()) break;
  }
  return out + to_bytes(view.substr(done));
}

}  // namespace firebreak::wire
