#include "core/idle.h"

#include <algorithm>

namespace firebreak::core {

namespace {

std::string seconds_text(Seconds s) {
  return std::to_string(s.count()) + " s";
}

// The last sign that counts under every rule.
Time last_call(const Aging& aging, const Activity& activity) {
  return std::max({activity.last_traffic, aging.started, aging.state_since});
}

// Until when the signs of life keep it awake, before the policy's idle time is added.
Time awake_until(const IdlePolicy& policy, const Aging& aging, const Activity& activity, Time now) {
  const Time last = last_call(aging, activity);
  if (policy.rule == IdleRule::traffic) return last;
  const Time cap = std::max(activity.work_since, last) + kWorkAwakeCap;
  Time work = activity.last_cpu;
  if (activity.open_work > 0) work = now;
  return std::max(last, std::min(work, cap));
}

}  // namespace

bool comes_back(const std::optional<IdlePolicy>& policy) {
  return !policy || (policy->auto_resume && policy->suspended.count() > 0);
}

void Activity::saw_traffic(Time now) {
  last_traffic = std::max(last_traffic, now);
  work_since = open_work > 0 ? now : Time{};
}

void Activity::saw_cpu(Time now) {
  // Only the first sign since the last traffic: later ones must not move the cap.
  if (work_since == Time{}) work_since = now;
  last_cpu = std::max(last_cpu, now);
}

void Activity::begin_work(Time now) {
  if (work_since == Time{}) work_since = now;
  ++open_work;
}

void Activity::end_work(Time now) {
  open_work = std::max(0, open_work - 1);
  last_cpu = std::max(last_cpu, now);
}

std::string_view to_string(IdleRule rule) {
  return rule == IdleRule::traffic ? "traffic" : "work";
}

std::optional<IdleRule> parse_idle_rule(std::string_view text) {
  if (text == "traffic") return IdleRule::traffic;
  if (text == "work") return IdleRule::work;
  return std::nullopt;
}

std::optional<Due> next_due(const Aging& aging, const Activity& activity, Time now) {
  std::optional<Due> due;
  auto consider = [&due](TimedAction action, Time at, std::string why) {
    if (!due || at < due->at) due = Due{action, at, std::move(why)};
  };

  const bool alive = aging.state == MicrovmState::running || aging.state == MicrovmState::suspended;
  if (!alive) return due;
  if (aging.max_duration) {
    consider(TimedAction::terminate_old, aging.started + *aging.max_duration,
             "Maximum duration of " + seconds_text(*aging.max_duration) + " reached.");
  }
  if (aging.idle && aging.state == MicrovmState::running && aging.idle->max_idle.count() > 0) {
    consider(TimedAction::suspend_idle,
             awake_until(*aging.idle, aging, activity, now) + aging.idle->max_idle,
             "Idle for " + seconds_text(aging.idle->max_idle) + ".");
  }
  if (aging.idle && aging.state == MicrovmState::suspended) {
    consider(TimedAction::terminate_suspended, aging.suspended_at + aging.idle->suspended,
             "Suspended for " + seconds_text(aging.idle->suspended) + ".");
  }
  return due;
}

std::string awake_reason(const Aging& aging, const Activity& activity, Time now) {
  if (!aging.idle || aging.idle->max_idle.count() == 0) return "no idle policy";
  auto ago = [now](Time t) {
    return seconds_text(std::chrono::floor<Seconds>(std::max(Millis(0), now - t)));
  };
  if (aging.idle->rule == IdleRule::work) {
    if (activity.open_work > 0)
      return std::to_string(activity.open_work) + " open execs or requests";
    if (activity.last_cpu > activity.last_traffic)
      return "CPU busy " + ago(activity.last_cpu) + " ago";
  }
  const Time last = last_call(aging, activity);
  return (last == activity.last_traffic ? "traffic " : "started or resumed ") + ago(last) + " ago";
}

Result<> check(const IdlePolicy& policy, const IdleBounds& bounds) {
  if (policy.max_idle.count() != 0 &&
      (policy.max_idle < bounds.shortest_idle || policy.max_idle > bounds.longest)) {
    return fail(Code::invalid, "the idle time must be " +
                                   std::to_string(bounds.shortest_idle.count()) + " to " +
                                   std::to_string(bounds.longest.count()));
  }
  if (policy.suspended.count() < 0 || policy.suspended > bounds.longest) {
    return fail(Code::invalid,
                "the suspended time must be 0 to " + std::to_string(bounds.longest.count()));
  }
  return {};
}

}  // namespace firebreak::core
