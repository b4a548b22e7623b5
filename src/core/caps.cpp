#include "core/caps.h"

namespace firebreak::core {

const std::array<CapRule, kDimensions>& cap_rules() {
  using enum Dimension;
  static constexpr std::array<CapRule, kDimensions> kRules{
      {{tenant_daily, "tenant_daily", Window::day, 1000,
        "calls a day that run code in sessions; 0 stops them all"},
       {agent_hourly, "agent_hourly", Window::hour, 100,
        "calls an hour of one agent that run code in sessions"},
       {launches_daily, "launches_daily", Window::day, std::nullopt,
        "launches and forked copies a day"},
       {wakes_hourly, "wakes_hourly", Window::hour, std::nullopt,
        "resumes an hour, as asked and by traffic"},
       {execs_daily, "execs_daily", Window::day, std::nullopt,
        "commands, terminals and runs of code in microVMs a day"},
       {builds_daily, "builds_daily", Window::day, std::nullopt, "builds a day"}}};
  return kRules;
}

const CapRule& rule_of(Dimension dimension) {
  return cap_rules()[static_cast<std::size_t>(dimension)];
}

std::string_view to_string(Dimension dimension) {
  return rule_of(dimension).name;
}

std::optional<Dimension> parse_dimension(std::string_view name) {
  for (const CapRule& rule : cap_rules())
    if (rule.name == name) return rule.dimension;
  return std::nullopt;
}

Time begin_of(Window window, Time at) {
  if (window == Window::hour) return std::chrono::floor<std::chrono::hours>(at);
  return std::chrono::floor<std::chrono::days>(at);
}

Time end_of(Window window, Time at) {
  const Time begin = begin_of(window, at);
  if (window == Window::hour) return begin + std::chrono::hours(1);
  return begin + std::chrono::days(1);
}

Caps::Caps() {
  for (const CapRule& rule : cap_rules()) (*this)[rule.dimension] = rule.usual;
}

std::optional<CapAsk> ask_of(const Caps& caps, Dimension dimension, Time now, std::string subject,
                             std::uint64_t amount) {
  const auto& cap = caps[dimension];
  if (!cap) return std::nullopt;
  return CapAsk{.dimension = dimension,
                .subject = std::move(subject),
                .begin = begin_of(rule_of(dimension).window, now),
                .cap = *cap,
                .amount = amount};
}

std::string CapRefusal::message() const {
  return "the cap " + std::string(to_string(dimension)) + " is reached: " + std::to_string(used) +
         " of " + std::to_string(cap) + " used";
}

}  // namespace firebreak::core
