#include "wire/dockerfile_words.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "base/json.h"

namespace firebreak::wire {
namespace {

bool is_blank(char c) {
  return kBlanks.contains(c);
}

// One "--flag" word from `at` on, which it moves behind it.
std::string take_flag(std::string_view line, std::size_t& at, char escape) {
  std::string word;
  char quote = '\0';
  for (; at < line.size(); ++at) {
    const char c = line[at];
    if (quote == '\0' && is_blank(c)) break;
    if (quote == '\0' && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = '\0';
    } else if (c == escape) {
      if (++at == line.size()) break;
      word.push_back(line[at]);
    } else {
      word.push_back(c);
    }
  }
  return word;
}

std::size_t skip_blanks(std::string_view line, std::size_t at) {
  return std::min(line.find_first_not_of(kBlanks, at), line.size());
}

// Behind a quoted part that begins at `at`; npos if it does not end.
std::size_t end_of_quotes(std::string_view line, std::size_t at) {
  const char quote = line[at];
  for (++at; at < line.size(); ++at) {
    if (line[at] == quote) return at + 1;
    if (quote == '"' && line[at] == '\\') ++at;
  }
  return std::string_view::npos;
}

// The shell's words with everything in them as written; "<< NAME" is one word, too.
std::optional<std::vector<Word>> shell_words(std::string_view line, std::size_t from) {
  std::vector<Word> words;
  for (std::size_t at = skip_blanks(line, from); at < line.size(); at = skip_blanks(line, at)) {
    const std::size_t begin = at;
    while (at < line.size() && !is_blank(line[at])) {
      if (line[at] == '\'' || line[at] == '"') {
        at = end_of_quotes(line, at);
        if (at == std::string_view::npos) return std::nullopt;
      } else if (line[at] == '\\') {
        at = std::min(at + 2, line.size());
      } else if (line.substr(at).starts_with("<<")) {
        at = std::min(line.find_first_not_of(" \t\r", at + 2), line.size());
      } else {
        ++at;
      }
    }
    words.push_back({.text = std::string(line.substr(begin, at - begin)), .at = begin});
  }
  return words;
}

}  // namespace

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::string to_upper(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return out;
}

InstructionLine split_instruction(std::string_view line, std::size_t from, char escape) {
  InstructionLine split;
  std::size_t at = std::min(line.find_first_of(kBlanks, from), line.size());
  split.keyword = to_upper(line.substr(from, at - from));
  for (at = skip_blanks(line, at); line.substr(at).starts_with("--"); at = skip_blanks(line, at)) {
    const std::size_t begin = at;
    std::string flag = take_flag(line, at, escape);
    if (flag == "--") {
      at = skip_blanks(line, at);
      break;
    }
    split.flags.push_back({.text = std::move(flag), .at = begin});
  }
  split.rest_at = at;
  return split;
}

std::vector<Word> split_blanks(std::string_view line, std::size_t from) {
  std::vector<Word> words;
  for (std::size_t at = skip_blanks(line, from); at < line.size(); at = skip_blanks(line, at)) {
    const std::size_t end = std::min(line.find_first_of(kBlanks, at), line.size());
    words.push_back({.text = std::string(line.substr(at, end - at)), .at = at});
    at = end;
  }
  return words;
}

std::vector<Word> split_quoted(std::string_view line, std::size_t from, char escape) {
  std::vector<Word> words;
  for (std::size_t at = skip_blanks(line, from); at < line.size(); at = skip_blanks(line, at)) {
    const std::size_t begin = at;
    char quote = '\0';
    for (; at < line.size(); ++at) {
      const char c = line[at];
      if (quote == '\0' && is_blank(c)) break;
      if (c == escape && quote != '\'') {
        if (at + 1 < line.size()) ++at;
      } else if (quote == '\0' && (c == '\'' || c == '"')) {
        quote = c;
      } else if (c == quote) {
        quote = '\0';
      }
    }
    words.push_back({.text = std::string(line.substr(begin, at - begin)), .at = begin});
  }
  return words;
}

Result<std::optional<std::vector<std::string>>> json_strings(std::string_view text) {
  std::optional<std::vector<std::string>> none;
  text = trim(text);
  if (!text.starts_with('[')) return none;
  const auto value = parse_json(text);
  if (!value) return none;
  std::vector<std::string> strings;
  for (const json::value& item : value->as_array()) {
    if (!item.is_string())
      return fail(Code::invalid, "the JSON array holds something that is not a string",
                  Repair{"put it into "
                         "double quotes"});
    strings.emplace_back(item.as_string());
    if (strings.back().contains('\0'))
      return fail(Code::invalid, "a string of the JSON array holds a NUL character");
  }
  return strings;
}

std::optional<Heredoc> as_heredoc(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of("0123456789"), word.size()));
  if (!word.starts_with("<<")) return std::nullopt;
  word.remove_prefix(2);
  Heredoc heredoc;
  heredoc.strip_tabs = word.starts_with('-');
  if (heredoc.strip_tabs) word.remove_prefix(1);
  word.remove_prefix(std::min(word.find_first_not_of(kBlanks), word.size()));
  const auto parts = shell_words(word, 0);
  if (word.contains('<') || !parts || parts->size() != 1) return std::nullopt;
  // There are no variables in the name: a '$' is itself.
  char quote = '\0';
  for (std::size_t i = 0; i < word.size(); ++i) {
    const char c = word[i];
    if (c == quote) {
      quote = '\0';
    } else if (quote == '\0' && (c == '\'' || c == '"')) {
      quote = c;
      heredoc.expand = false;
    } else {
      if (c == '\\' && quote != '\'' && i + 1 < word.size()) ++i;
      heredoc.name.push_back(word[i]);
    }
  }
  if (heredoc.name.empty()) return std::nullopt;
  return heredoc;
}

std::vector<HeredocWord> find_heredocs(std::string_view line, std::size_t from) {
  std::vector<HeredocWord> found;
  const auto words = shell_words(line, from);
  if (!words) return found;
  for (const Word& word : *words)
    if (auto heredoc = as_heredoc(word.text))
      found.push_back({.heredoc = *std::move(heredoc), .at = word.at});
  return found;
}

std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  using std::chrono::nanoseconds;
  static constexpr std::array<std::pair<std::string_view, double>, 7> kUnits{
      {{"ns", 1}, {"us", 1e3}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}}};
  constexpr double kYear = 365.0 * 24 * 3600e9;
  if (text == "0") return nanoseconds(0);
  if (text.empty()) return std::nullopt;
  double total = 0;
  while (!text.empty()) {
    const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
    double number = 0;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + digits, number);
    if (digits == 0 || ec != std::errc() || end != text.data() + digits) return std::nullopt;
    text.remove_prefix(digits);
    const std::size_t letters = std::min(text.find_first_of("0123456789."), text.size());
    const auto unit =
        std::ranges::find(kUnits, text.substr(0, letters), [](const auto& u) { return u.first; });
    if (unit == kUnits.end()) return std::nullopt;
    text.remove_prefix(letters);
    total += number * unit->second;
    if (!(total <= kYear)) return std::nullopt;
  }
  return nanoseconds(static_cast<std::int64_t>(total));
}

}  // namespace firebreak::wire
