// Egress policies from clients: refused, or understood so well that writing them gives the same
// policy again, names can be decided by it, and the kernel's rules follow from it.
#include <cstdlib>

#include "core/egress_decision.h"
#include "egress/ruleset.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace firebreak;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const core::EgressStack nothing{core::internet_egress(), core::no_egress(), {}};
  if (core::decide_name(nothing, text).allowed) std::abort();
  const auto policy = core::egress_policy_from_json(text);
  if (!policy) return 0;
  const auto again = core::egress_policy_from_json(core::to_json(*policy));
  if (!again || *again != *policy) std::abort();
  egress::RulesetInput input;
  input.stack = {core::internet_egress(), *policy, {}};
  const core::NameDecision decision = core::decide_name(input.stack, "a.example.com");
  const core::IpAddress address = core::parse_address("203.0.113.1").value();
  for (const core::EgressPin& pin :
       core::pins_for(decision, {address}, core::Time(core::Seconds(1)))) {
    input.pins.add(pin);
  }
  if (!egress::compile(input)) std::abort();
  core::decide_packet(input.stack, input.pins, {address, core::kTcp, 443}, core::Time());
  return 0;
}
