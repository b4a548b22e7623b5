#include "api/router.h"

#include "base/text.h"

namespace firebreak::api {
namespace {

bool is_name(std::string_view part) {
  return part.starts_with('{') && part.ends_with('}');
}

}  // namespace

void Router::add(Route route) {
  std::vector<std::string> parts;
  for (std::string_view part : split(std::string_view(route.pattern).substr(1), '/'))
    parts.emplace_back(part);
  patterns_.push_back(std::move(parts));
  routes_.push_back(std::move(route));
}

Match Router::match(std::string_view method, const std::vector<std::string>& segments) const {
  Match match;
  for (std::size_t i = 0; i < routes_.size(); ++i) {
    const std::vector<std::string>& pattern = patterns_[i];
    if (pattern.size() != segments.size()) continue;
    std::map<std::string, std::string> params;
    bool fits = true;
    for (std::size_t at = 0; at < pattern.size() && fits; ++at) {
      if (is_name(pattern[at])) {
        params[pattern[at].substr(1, pattern[at].size() - 2)] = segments[at];
        fits = !segments[at].empty();
      } else {
        fits = pattern[at] == segments[at];
      }
    }
    if (!fits) continue;
    match.path_known = true;
    match.methods.push_back(routes_[i].method);
    if (routes_[i].method == method && match.route == nullptr) {
      match.route = &routes_[i];
      match.params = std::move(params);
    }
  }
  return match;
}

}  // namespace firebreak::api
