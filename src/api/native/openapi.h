// The OpenAPI 3.1 document of the native API, made from its routes. Pure.
#pragma once

#include <vector>

#include "api/router.h"

namespace firebreak::api {

json::object openapi_document(const std::vector<Route>& routes);

}  // namespace firebreak::api
