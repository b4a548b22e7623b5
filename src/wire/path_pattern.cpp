#include "wire/path_pattern.h"

#include <algorithm>

#include "base/text.h"
#include "wire/characters.h"

namespace firebreak::wire {

std::string clean_path(std::string_view path) {
  const bool absolute = path.starts_with('/');
  std::vector<std::string_view> parts;
  for (const std::string_view part : split(path, '/')) {
    if (part.empty() || part == ".") continue;
    if (part == ".." && !parts.empty() && parts.back() != "..") {
      parts.pop_back();
    } else if (part != ".." || !absolute) {
      parts.push_back(part);
    }
  }
  std::string out = absolute ? "/" : "";
  for (const std::string_view part : parts) {
    if (!out.empty() && !out.ends_with('/')) out += '/';
    out += part;
  }
  return out.empty() ? "." : out;
}

bool PathPattern::is_pattern(std::string_view text) {
  return text.find_first_of("*?[\\") != std::string_view::npos;
}

bool PathPattern::Token::takes(char32_t c) const {
  switch (kind) {
    case Kind::literal:
      return c == character;
    case Kind::set: {
      const bool found = std::ranges::any_of(
          ranges, [c](const auto& range) { return c >= range.first && c <= range.second; });
      return c != U'/' && found != negated;
    }
    case Kind::any:
    case Kind::star:
      return c != U'/';
    case Kind::deep_inside:
    case Kind::rest:
      return true;
    case Kind::deep:
      return false;
  }
  return false;
}

Result<> PathPattern::parse_set(const std::u32string& text, std::size_t& at) {
  const auto bad = [] {
    return fail(Code::invalid, "a '[' is not closed or its contents are not understood",
                Repair{"write \\[ "
                       "for the character"});
  };
  Token token{.kind = Kind::set};
  token.negated = at < text.size() && text[at] == U'^';
  if (token.negated) ++at;
  const auto take = [&]() -> char32_t {
    if (at == text.size() || text[at] == U'-' || text[at] == U']') return 0;
    if (text[at] == U'\\') ++at;
    return at == text.size() ? 0 : text[at++];
  };
  do {
    const char32_t low = take();
    char32_t high = low;
    if (low != 0 && at < text.size() && text[at] == U'-') {
      ++at;
      high = take();
    }
    if (low == 0 || high == 0 || at == text.size()) return bad();
    token.ranges.emplace_back(low, high);
  } while (text[at] != U']');
  ++at;
  tokens_.push_back(std::move(token));
  return {};
}

// `at` is behind the two stars. A '/' that follows belongs to them.
void PathPattern::parse_double_star(const std::u32string& text, std::size_t& at) {
  const bool first = at == 2;
  const bool slash = at < text.size() && text[at] == U'/';
  if (slash) ++at;
  // "**.pyc": any path that ends so, if nothing else in it is special.
  const bool ending = first && !slash && text.find_first_of(U"*?[]\\", at) == std::u32string::npos;
  if (at == text.size() || ending) {
    tokens_.push_back({.kind = Kind::rest});
    return;
  }
  tokens_.push_back({.kind = Kind::deep});
  tokens_.push_back({.kind = Kind::deep_inside});
}

Result<PathPattern> PathPattern::parse(std::string_view text, Stars stars) {
  if (text.size() > kMaxPattern)
    return fail(Code::exhausted, "a pattern has at most " + std::to_string(kMaxPattern) + " bytes");
  PathPattern pattern;
  const std::u32string characters = to_characters(text);
  for (std::size_t at = 0; at < characters.size();) {
    const char32_t c = characters[at++];
    const bool doubled = c == U'*' && at < characters.size() && characters[at] == U'*';
    if (c == U'*' && doubled && stars == Stars::across_names) {
      pattern.parse_double_star(characters, ++at);
    } else if (c == U'*') {
      pattern.tokens_.push_back({.kind = Kind::star});
    } else if (c == U'?') {
      pattern.tokens_.push_back({.kind = Kind::any});
    } else if (c == U'[') {
      FB_TRY(pattern.parse_set(characters, at));
    } else if (c == U'\\') {
      if (at == characters.size())
        return fail(Code::invalid, "a '\\' at the end", Repair{"write \\\\ for the character"});
      pattern.tokens_.push_back({.character = characters[at++]});
    } else {
      pattern.tokens_.push_back({.character = c});
    }
  }
  const auto literal = [](const Token& token) { return token.kind == Kind::literal; };
  pattern.plain_ = std::ranges::all_of(pattern.tokens_, literal);
  if (pattern.plain_) {
    std::u32string plain;
    for (const Token& token : pattern.tokens_) plain.push_back(token.character);
    pattern.text_ = to_bytes(plain);
  }
  return pattern;
}

void PathPattern::enter(std::vector<char>& places, std::size_t place) const {
  for (;;) {
    places[place] = 1;
    if (place == tokens_.size()) return;
    const Kind kind = tokens_[place].kind;
    if (kind == Kind::deep) {
      places[place + 1] = 1;
      place += 2;
    } else if (kind == Kind::star || kind == Kind::rest) {
      ++place;
    } else {
      return;
    }
  }
}

// All places in the pattern where a match may stand move along the path together.
template <class Accepted>
void PathPattern::run(const std::u32string& path, Accepted accepted) const {
  std::vector<char> here(tokens_.size() + 1);
  std::vector<char> next(tokens_.size() + 1);
  enter(here, 0);
  for (std::size_t at = 0;; ++at) {
    if (here.back() != 0 && !accepted(at)) return;
    if (at == path.size()) return;
    std::ranges::fill(next, 0);
    bool alive = false;
    for (std::size_t place = 0; place < tokens_.size(); ++place) {
      if (here[place] == 0 || !tokens_[place].takes(path[at])) continue;
      alive = true;
      const Kind kind = tokens_[place].kind;
      const bool stays = kind == Kind::star || kind == Kind::rest || kind == Kind::deep_inside;
      if (stays) enter(next, place);
      if (!stays || (kind == Kind::deep_inside && path[at] == U'/')) enter(next, place + 1);
    }
    if (!alive) return;
    std::swap(here, next);
  }
}

bool PathPattern::matches(std::string_view path) const {
  if (plain_) return path == text_;
  const std::u32string characters = to_characters(path);
  bool found = false;
  run(characters, [&](std::size_t at) {
    found = at == characters.size();
    return true;
  });
  return found;
}

bool PathPattern::matches_it_or_parent(std::string_view path) const {
  if (plain_)
    return path.starts_with(text_) && (path.size() == text_.size() || path[text_.size()] == '/');
  const std::u32string characters = to_characters(path);
  bool found = false;
  run(characters, [&](std::size_t at) {
    found = at == characters.size() || characters[at] == U'/';
    return !found;
  });
  return found;
}

}  // namespace firebreak::wire
