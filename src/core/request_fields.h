// The members of values that callers write as JSON: one table each, from which they are checked,
// described and documented. Values; any thread.
#pragma once

#include "base/fields.h"

namespace firebreak::core {

const Fields& limit_fields();
const Fields& idle_fields();
const Fields& hook_fields();
const Fields& preload_fields();
const Fields& egress_policy_fields();
const Fields& role_policy_fields();

}  // namespace firebreak::core
