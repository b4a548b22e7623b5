// Which kinds of keys may make which call. A call that the table does not name is for owners and
// administrators, so that a new route is closed to all others. Pure.
#pragma once

#include <string_view>

#include "core/key_kind.h"

namespace firebreak::api {

// `admin`: the route says that it needs an administrator's key.
bool may_call(core::KeyKind kind, bool admin, std::string_view method, std::string_view pattern);

}  // namespace firebreak::api
