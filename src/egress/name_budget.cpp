#include "egress/name_budget.h"

namespace firebreak::egress {

bool NameBudget::take(std::string_view rule, std::string_view name, Clock::time_point now) {
  forget_old(now);
  // Under which rule it was counted does not matter: the zone's servers have seen it.
  if (by_name_.contains(name)) return true;
  const auto used = per_rule_.find(rule);
  if (entries_.size() >= limits_.total) return false;
  if (used != per_rule_.end() && used->second >= limits_.per_rule) return false;
  entries_.push_back({std::string(rule), std::string(name), now});
  by_name_.emplace(name, std::prev(entries_.end()));
  ++per_rule_[std::string(rule)];
  return true;
}

void NameBudget::clear() {
  by_name_.clear();
  per_rule_.clear();
  entries_.clear();
}

void NameBudget::forget_old(Clock::time_point now) {
  while (!entries_.empty() && now - entries_.front().since >= limits_.period) {
    const Entry& oldest = entries_.front();
    const auto used = per_rule_.find(oldest.rule);
    if (--used->second == 0) per_rule_.erase(used);
    by_name_.erase(oldest.name);
    entries_.pop_front();
  }
}

}  // namespace firebreak::egress
