#include "control/limits_gate.h"

namespace firebreak::control {

std::string_view to_string(Act act) {
  switch (act) {
    case Act::launch:
      return "launch";
    case Act::fork:
      return "fork";
    case Act::wake:
      return "wake";
    case Act::exec:
      return "exec";
    case Act::code:
      return "code";
    case Act::write_file:
      return "write_file";
    case Act::build:
      return "build";
  }
  return "unknown";
}

LimitsGate::LimitsGate(Limits limits, const core::Clock& clock, obs::Metrics& metrics)
    : limits_(std::move(limits)), clock_(clock), metrics_(metrics) {
  metrics_.describe("firebreak_acts_total", "counter",
                    "What the gate was asked, by act and by whether it was let through.");
}

Result<> LimitsGate::take_launch(const Ask& ask) {
  const core::TenantLimits* limits = limits_(ask.tenant);
  if (limits == nullptr)
    return fail(Code::not_found, Reason{"tenant_not_found"},
                "there is no tenant " + ask.tenant.str());
  auto [rate, added] = launch_rates_.try_emplace(ask.tenant, limits->launches_per_second);
  rate->second.set_rate(limits->launches_per_second);
  const auto next = rate->second.take(clock_.now());
  if (!next) return {};
  const core::LimitRefusal refusal{"launches_per_second", limits->launches_per_second,
                                   limits->launches_per_second, next};
  return std::unexpected(refusal.error());
}

net::Task<Result<>> LimitsGate::ask(Ask ask) {
  Result<> answer;
  if (ask.act == Act::launch) answer = take_launch(ask);
  metrics_.add("firebreak_acts_total", obs::label("act", to_string(ask.act)) + "," +
                                           obs::label("passed", answer ? "yes" : "no"));
  co_return answer;
}

}  // namespace firebreak::control
