// The rules of a .dockerignore file: which paths of a build context an instruction does not see.
// Value; any thread.
#pragma once

#include <string_view>
#include <vector>

#include "wire/path_pattern.h"

namespace firebreak::wire {

class IgnoreRules {
 public:
  static constexpr std::size_t kMaxBytes = std::size_t{256} * 1024;
  static constexpr std::size_t kMaxRules = 1000;

  IgnoreRules() = default;
  // Code::invalid, "NAME:LINE: what is wrong".
  static Result<IgnoreRules> parse(std::string_view text, std::string_view name = ".dockerignore");
  // Patterns of --exclude.
  static Result<IgnoreRules> of(const std::vector<std::string>& patterns);

  // `path` is relative to the context and clean. A path in an excluded directory is excluded,
  // unless a later rule takes it back: the last rule that matches decides.
  bool excludes(std::string_view path) const;
  // Something in an excluded directory may be taken back.
  bool has_exceptions() const { return exceptions_; }
  bool empty() const { return rules_.empty(); }

 private:
  struct Rule {
    PathPattern pattern;
    bool exception;
  };
  Result<> add(std::string_view line);

  std::vector<Rule> rules_;
  bool exceptions_ = false;
};

}  // namespace firebreak::wire
