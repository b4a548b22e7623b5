// What one call takes: query values and the members of its body. Unknown, missing and wrong ones
// are refused by these tables, and the documents are made from them. Pure.
#pragma once

#include <string_view>

#include "base/fields.h"
#include "net/http.h"

namespace firebreak::api {

struct CallFields {
  std::string_view call;  // "GET /v1/microvms"
  Fields query;
  Fields body;
  bool bytes = false;  // the body is no JSON
};

// Unknown, missing, repeated and wrong query values, with the names there are.
Result<> check_query(const CallFields& fields, const net::Target& target);

}  // namespace firebreak::api
