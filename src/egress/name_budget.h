// How many different names a microVM may ask for under wildcard rules: names are chosen by the
// guest and reach the zone's own servers, so each carries a few bytes out. Owned by a Resolver.
#pragma once

#include <chrono>
#include <cstddef>
#include <list>
#include <map>
#include <string>
#include <string_view>

namespace firebreak::egress {

struct NameBudgetLimits {
  std::size_t per_rule = 500;
  std::size_t total = 2000;
  std::chrono::minutes period{60};  // a name is forgotten after this, and counts anew
};

class NameBudget {
 public:
  using Clock = std::chrono::steady_clock;
  explicit NameBudget(NameBudgetLimits limits) : limits_(limits) {}

  // false: the rule has used up its names, and this is a new one.
  bool take(std::string_view rule, std::string_view name, Clock::time_point now);
  void clear();

 private:
  struct Entry {
    std::string rule;
    std::string name;
    Clock::time_point since;
  };

  void forget_old(Clock::time_point now);

  NameBudgetLimits limits_;
  std::list<Entry> entries_;  // oldest first
  std::map<std::string, std::list<Entry>::iterator, std::less<>> by_name_;
  std::map<std::string, std::size_t, std::less<>> per_rule_;
};

}  // namespace firebreak::egress
