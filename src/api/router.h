// A façade's routes as a table: what is matched, what is documented and what a test compares are
// the same rows. Built once at start; then read only.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/call.h"
#include "api/facade.h"

namespace firebreak::api {

struct Route {
  std::string method;
  std::string pattern;  // "/v1/microvms/{id}/exec": a name in braces matches one segment
  std::string summary;
  bool admin = false;
  Carries carries;
  std::function<net::Task<Result<>>(Call&)> handler;
};

struct Match {
  const Route* route = nullptr;
  std::map<std::string, std::string> params;
  bool path_known = false;           // the path exists with another method
  std::vector<std::string> methods;  // those it exists with
};

class Router {
 public:
  void add(Route route);
  Match match(std::string_view method, const std::vector<std::string>& segments) const;
  const std::vector<Route>& routes() const { return routes_; }

 private:
  std::vector<Route> routes_;
  std::vector<std::vector<std::string>> patterns_;  // split, by index
};

}  // namespace firebreak::api
