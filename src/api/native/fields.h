// What each call of the native API takes, one row a call. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "api/fields.h"

namespace firebreak::api {

const std::vector<CallFields>& all_calls();
// That of a call which takes nothing, if it is not in the table.
const CallFields& fields_of(std::string_view method, std::string_view pattern);

}  // namespace firebreak::api
