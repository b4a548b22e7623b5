#include "wire/dockerignore.h"

#include "base/text.h"
#include "wire/dockerfile_words.h"

namespace firebreak::wire {

Result<> IgnoreRules::add(std::string_view line) {
  std::string_view text = trim(line);
  if (text.empty()) return {};
  const bool exception = text.starts_with('!');
  if (exception) text = trim(text.substr(1));
  if (text.empty()) return fail(Code::invalid, "a '!' without a pattern");
  if (rules_.size() == kMaxRules)
    return fail(Code::exhausted, "more than " + std::to_string(kMaxRules) + " patterns");
  std::string clean = clean_path(text);
  if (clean.size() > 1 && clean.starts_with('/')) clean.erase(0, 1);
  FB_TRY_ASSIGN(PathPattern pattern, PathPattern::parse(clean, PathPattern::Stars::across_names));
  rules_.push_back({.pattern = std::move(pattern), .exception = exception});
  exceptions_ = exceptions_ || exception;
  return {};
}

Result<IgnoreRules> IgnoreRules::parse(std::string_view text, std::string_view name) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.size() > kMaxBytes)
    return fail(Code::exhausted,
                std::string(name) + ": larger than " + std::to_string(kMaxBytes) + " bytes");
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  IgnoreRules rules;
  std::size_t number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    if (line.starts_with('#')) continue;
    if (auto added = rules.add(line); !added) {
      Error error = added.error();
      error.message = std::string(name) + ":" + std::to_string(number) + ": " + error.message;
      return std::unexpected(std::move(error));
    }
  }
  return rules;
}

Result<IgnoreRules> IgnoreRules::of(const std::vector<std::string>& patterns) {
  IgnoreRules rules;
  for (const std::string& pattern : patterns) FB_TRY(rules.add(pattern));
  return rules;
}

bool IgnoreRules::excludes(std::string_view path) const {
  bool excluded = false;
  for (const Rule& rule : rules_)
    if (rule.exception == excluded && rule.pattern.matches_it_or_parent(path))
      excluded = !rule.exception;
  return excluded;
}

}  // namespace firebreak::wire
