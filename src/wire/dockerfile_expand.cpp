#include "wire/dockerfile_expand.h"

#include "wire/shell_pattern.h"

namespace firebreak::wire {
namespace {

constexpr int kMaxDepth = 32;

bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '_';
}

class Expansion {
 public:
  Expansion(std::string_view text, const VariableLookup& lookup, const ExpandRules& rules)
      : text_(text), lookup_(lookup), rules_(rules) {}

  Result<std::string> run() {
    FB_TRY_ASSIGN(std::string out, until('\0', false, true));
    return out;
  }
  std::vector<std::string> take_words() {
    end_word();
    return std::move(words_);
  }

 private:
  bool at_end() const { return at_ == text_.size(); }
  bool next_is(char c) const { return !at_end() && text_[at_] == c; }

  Result<> put(std::string& out, std::string_view bytes) const {
    if (out.size() + bytes.size() > rules_.max_bytes)
      return fail(Code::exhausted,
                  "the value is longer than " + std::to_string(rules_.max_bytes) + " bytes");
    out += bytes;
    return {};
  }

  void end_word() {
    if (!word_.empty()) words_.push_back(std::move(word_));
    word_.clear();
  }
  void add_to_words(std::string_view bytes, bool split) {
    for (const char c : bytes) {
      if (split && is_blank(c)) {
        end_word();
      } else {
        word_.push_back(c);
      }
    }
  }

  // Up to `stop`, or to the end if that is NUL. `raw`: escapes stay, for patterns.
  Result<std::string> until(char stop, bool raw, bool top) {
    std::string out;
    while (!at_end()) {
      const char c = text_[at_];
      if (stop != '\0' && c == stop) {
        ++at_;
        return out;
      }
      std::string part;
      bool split = false;
      if (c == '$') {
        FB_TRY_ASSIGN(part, dollar());
        split = true;
      } else if (rules_.quotes && c == '\'') {
        FB_TRY_ASSIGN(part, single_quoted());
      } else if (rules_.quotes && c == '"') {
        FB_TRY_ASSIGN(part, double_quoted(raw));
      } else {
        ++at_;
        if (c != rules_.escape) {
          part = c;
          split = true;
        } else {
          if (raw) part = c;
          if (!at_end()) part += text_[at_++];
        }
      }
      FB_TRY(put(out, part));
      if (top) add_to_words(part, split);
    }
    if (stop != '\0')
      return fail(Code::invalid, "'" + std::string(1, stop) + "' is missing after '${'");
    return out;
  }

  Result<std::string> single_quoted() {
    const auto end = text_.find('\'', at_ + 1);
    if (end == std::string_view::npos)
      return fail(Code::invalid, "a single quote (') is not closed",
                  Repair{"write \\' for the character"});
    std::string out(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return out;
  }

  Result<std::string> double_quoted(bool raw) {
    std::string out;
    ++at_;
    while (!at_end()) {
      const char c = text_[at_];
      if (c == '"') {
        ++at_;
        return out;
      }
      if (c == '$') {
        FB_TRY_ASSIGN(const std::string value, dollar());
        FB_TRY(put(out, value));
        continue;
      }
      ++at_;
      if (c == rules_.escape && !at_end()) {
        // Only what is special between the quotes can be escaped there.
        const char next = text_[at_];
        const bool special = next == '"' || next == '$' || next == rules_.escape;
        if (!special || raw) out.push_back(c);
        if (special) {
          out.push_back(next);
          ++at_;
        }
        continue;
      }
      if (c != rules_.escape) out.push_back(c);
    }
    return fail(Code::invalid, "a double quote (\") is not closed",
                Repair{"write \\\" for the character"});
  }

  // A variable's name, a position ($12) or one of the shell's special parameters.
  std::string_view name() {
    const std::size_t begin = at_;
    if (at_end()) return {};
    if (is_digit(text_[at_])) {
      while (!at_end() && is_digit(text_[at_])) ++at_;
    } else if (std::string_view("@*#?-$!").contains(text_[at_])) {
      ++at_;
    } else {
      while (!at_end() && is_name(text_[at_])) ++at_;
    }
    return text_.substr(begin, at_ - begin);
  }

  Result<std::string> dollar() {
    ++at_;
    if (!next_is('{')) {
      const std::string_view variable = name();
      if (variable.empty()) return std::string("$");
      return lookup_(variable).value_or("");
    }
    ++at_;
    if (++depth_ > kMaxDepth) return fail(Code::exhausted, "'${' is nested too deep");
    auto value = braces();
    --depth_;
    return value;
  }

  Result<std::string> braces() {
    if (at_end()) return fail(Code::invalid, "'}' is missing after '${'");
    if (std::string_view("{}:").contains(text_[at_]))
      return fail(Code::invalid, "'${' is not followed by the name of a variable");
    const std::string_view variable = name();
    if (at_end()) return fail(Code::invalid, "'}' is missing after '${'");
    const auto value = lookup_(variable);
    switch (text_[at_++]) {
      case '}':
        return value.value_or("");
      case ':':
        if (at_end()) return fail(Code::invalid, "'}' is missing after '${'");
        return choose(variable, value, text_[at_++], true);
      case '-':
      case '+':
      case '?':
        return choose(variable, value, text_[at_ - 1], false);
      case '#':
      case '%':
        return trimmed(value, text_[at_ - 1]);
      case '/':
        return replaced(value);
      default:
        return fail(Code::invalid, unknown_modifier(text_[at_ - 1]));
    }
  }

  static std::string unknown_modifier(char modifier) {
    return "unknown modifier '" + std::string(1, modifier) +
           "' after '${'; there are :- :+ :? - + ? # ## % %% / //";
  }

  Result<std::string> choose(std::string_view variable, const std::optional<std::string>& value,
                             char modifier, bool empty_is_unset) {
    if (!std::string_view("-+?").contains(modifier))
      return fail(Code::invalid, unknown_modifier(modifier));
    FB_TRY_ASSIGN(std::string word, until('}', false, false));
    const bool set = value && !(empty_is_unset && value->empty());
    if (modifier == '+') return set ? std::move(word) : std::string();
    if (set) return *value;
    if (modifier == '-') return word;
    if (word.empty()) word = value ? "may not be empty" : "must be set";
    return fail(Code::invalid, std::string(variable) + ": " + word);
  }

  Result<std::string> trimmed(const std::optional<std::string>& value, char modifier) {
    using Match = ShellPattern::Match;
    FB_TRY_ASSIGN(std::string word, until('}', true, false));
    const bool doubled = word.starts_with(modifier);
    if (doubled) word.erase(0, 1);
    FB_TRY_ASSIGN(const ShellPattern pattern, ShellPattern::parse(word, rules_.escape));
    const Match match = doubled ? Match::longest : Match::shortest;
    return modifier == '#' ? pattern.without_prefix(value.value_or(""), match)
                           : pattern.without_suffix(value.value_or(""), match);
  }

  Result<std::string> replaced(const std::optional<std::string>& value) {
    const bool all = next_is('/');
    if (all) ++at_;
    FB_TRY_ASSIGN(const std::string word, until('/', true, false));
    FB_TRY_ASSIGN(const std::string with, until('}', false, false));
    FB_TRY_ASSIGN(const ShellPattern pattern, ShellPattern::parse(word, rules_.escape));
    return pattern.replace(value.value_or(""), with, all);
  }

  std::string_view text_;
  const VariableLookup& lookup_;
  const ExpandRules& rules_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::vector<std::string> words_;
  std::string word_;
};

}  // namespace

Result<std::string> expand(std::string_view text, const VariableLookup& lookup,
                           const ExpandRules& rules) {
  return Expansion(text, lookup, rules).run();
}

Result<std::vector<std::string>> expand_words(std::string_view text, const VariableLookup& lookup,
                                              const ExpandRules& rules) {
  Expansion expansion(text, lookup, rules);
  FB_TRY(expansion.run());
  return expansion.take_words();
}

Result<> check_expansion(std::string_view text, const ExpandRules& rules) {
  // With every variable set, nothing but the syntax can fail.
  FB_TRY(expand(text, [](std::string_view) { return std::optional<std::string>("x"); }, rules));
  return {};
}

}  // namespace firebreak::wire
