// The table that counts and caps what the policy's table lets through. Apart from it, because a new
// policy replaces that one, and the kernel has no way to count connections that are open already.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/egress_decision.h"
#include "egress/ruleset.h"

namespace firebreak::egress {

inline constexpr std::string_view kMeterTable = "egress_meter";  // of family inet

struct MeterInput {
  core::EgressCaps caps;
  std::string tap;
  std::string uplink;
  bool tls_gate = false;
  friend bool operator==(const MeterInput&, const MeterInput&) = default;
};
MeterInput meter_input(const core::EgressStack& stack, const Wiring& wiring);

// Replaces the table: bytes go on from `counters`, connections are counted anew. `input` is from a
// stack and a wiring that compile() takes.
std::string meter_script(const MeterInput& input, const Counters& counters);

}  // namespace firebreak::egress
