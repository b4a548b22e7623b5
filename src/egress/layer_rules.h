// The part of a rule set that follows from one policy: its maps, and the chain that denies or
// returns. Pure.
#pragma once

#include <string>
#include <vector>

#include "core/egress_decision.h"
#include "egress/ruleset.h"

namespace firebreak::egress {

struct LayerRules {
  std::string text;  // inside a table; uses the sets localN and metadataN, the chain deny_LAYER
  std::vector<PinGroup> groups;
};
// The chain is layer_LAYER. It returns with the number of the rule that allowed it in the
// packet's mark. Of a policy that checks server names there is also named_LAYER, which returns with
// a mark if only a name opens the address, and with 0 otherwise.
LayerRules layer_rules(core::EgressLayer layer, const core::EgressPolicy& policy,
                       const core::EgressPins& pins, core::Time now);

// "203.0.113.7 timeout 60s : 3"; empty when no rule of the group has it pinned any more.
std::string pin_element(const PinGroup& group, const core::EgressPins& pins,
                        const core::IpAddress& address, core::Time now);

}  // namespace firebreak::egress
