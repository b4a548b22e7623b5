// Caps: how often a tenant, or one agent of it, may do something within an hour or a day of UTC.
// One table names them; limits.h holds their values. Values; pure.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/clock.h"

namespace firebreak::core {

// What is counted.
enum class Dimension : std::uint8_t {
  tenant_daily,    // calls that run code in sessions
  agent_hourly,    // those of one agent
  launches_daily,  // launches and forks, copy by copy
  wakes_hourly,    // resumes, by whom ever
  execs_daily,     // commands, terminals and code in microVMs
  builds_daily,
};
inline constexpr std::size_t kDimensions = 6;

enum class Window : std::uint8_t { hour, day };

struct CapRule {
  Dimension dimension;
  std::string_view name;  // as callers and operators say it: "tenant_daily"
  Window window;
  std::optional<std::uint64_t> usual;  // of a new tenant; unset: no cap
  std::string_view about;
};
const std::array<CapRule, kDimensions>& cap_rules();
const CapRule& rule_of(Dimension dimension);
std::string_view to_string(Dimension dimension);
std::optional<Dimension> parse_dimension(std::string_view name);

// The hour or day of UTC in which a moment lies: from its beginning to the beginning of the next.
Time begin_of(Window window, Time at);
Time end_of(Window window, Time at);

// The most of each; unset: no cap. 0 lets nothing through.
struct Caps {
  std::array<std::optional<std::uint64_t>, kDimensions> most;
  Caps();  // as usual
  const std::optional<std::uint64_t>& operator[](Dimension dimension) const {
    return most[static_cast<std::size_t>(dimension)];
  }
  std::optional<std::uint64_t>& operator[](Dimension dimension) {
    return most[static_cast<std::size_t>(dimension)];
  }
  friend bool operator==(const Caps&, const Caps&) = default;
};

// So much of one cap, in the window that began then.
struct CapAsk {
  Dimension dimension = Dimension::tenant_daily;
  std::string subject;  // the agent; empty: the tenant
  Time begin{};
  std::uint64_t cap = 0;
  std::uint64_t amount = 1;
};
// What to ask of the caps for an act at that moment; nullopt where there is no cap.
std::optional<CapAsk> ask_of(const Caps& caps, Dimension dimension, Time now,
                             std::string subject = {}, std::uint64_t amount = 1);

struct CapRefusal {
  Dimension dimension = Dimension::tenant_daily;
  std::uint64_t cap = 0;
  std::uint64_t used = 0;
  Time resets_at{};
  std::string message() const;
  friend bool operator==(const CapRefusal&, const CapRefusal&) = default;
};

}  // namespace firebreak::core
