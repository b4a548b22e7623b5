// When a running microVM is suspended for doing nothing, and when a suspended or old one ends.
// Two rules: AWS counts only bytes through the endpoint; ours also sees work inside. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "core/clock.h"
#include "core/lifecycle.h"

namespace firebreak::core {

enum class IdleRule {
  traffic,  // AWS: only bytes through the endpoint count
  work,     // also: running execs, open requests, leases, CPU above a threshold
};
std::string_view to_string(IdleRule rule);
std::optional<IdleRule> parse_idle_rule(std::string_view text);

struct IdlePolicy {
  Seconds max_idle{0};   // of nothing happening; 0: never suspended for idling
  Seconds suspended{0};  // then terminated
  bool auto_resume = true;
  IdleRule rule = IdleRule::work;
  friend bool operator==(const IdlePolicy&, const IdlePolicy&) = default;
};

// Whether a microVM that the server suspends for memory comes back for its users: the next call
// wakes it, and its policy does not end it for being suspended. True without a policy.
bool comes_back(const std::optional<IdlePolicy>& policy);

// What is known of a microVM's doings. Times are of the last sign of each kind.
struct Activity {
  Time last_traffic{};  // bytes through endpoint, exec, files, contexts
  Time last_cpu{};      // CPU seen above the threshold, or open work that ended
  int open_work = 0;    // running execs, open requests, held leases
  Time work_since{};    // since when open_work or CPU alone keeps it awake; unset by traffic

  void saw_traffic(Time now);
  void saw_cpu(Time now);
  void begin_work(Time now);
  void end_work(Time now);
};

// CPU or open work alone keeps a microVM awake no longer than this.
inline constexpr Seconds kWorkAwakeCap{3600};

enum class TimedAction { suspend_idle, terminate_suspended, terminate_old };

struct Due {
  TimedAction action;
  Time at;
  std::string why;
};

// The facts about one microVM that decide what happens to it when nobody asks.
struct Aging {
  MicrovmState state = MicrovmState::pending;
  std::optional<IdlePolicy> idle;
  std::optional<Seconds> max_duration;  // running and suspended time together
  Time started{};
  Time state_since{};  // a resumed microVM begins its idle time anew
  Time suspended_at{};
};

// The next thing to do and when; nothing when no clock runs for it. An action whose time has
// passed has at <= now: do it now.
std::optional<Due> next_due(const Aging& aging, const Activity& activity, Time now);

// Why it is not suspended now, in words: "exec running", "traffic 12 s ago".
std::string awake_reason(const Aging& aging, const Activity& activity, Time now);

struct IdleBounds {
  Seconds shortest_idle{1};
  Seconds longest{Seconds(7 * 24 * 3600)};
};
Result<> check(const IdlePolicy& policy, const IdleBounds& bounds = {});

}  // namespace firebreak::core
