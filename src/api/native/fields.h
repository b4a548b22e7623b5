// What each call of the native API takes: the query values and the members of its body. Unknown
// query values are refused by this table, and the OpenAPI document is made from it. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "net/http.h"

namespace firebreak::api {

struct Field {
  std::string_view name;
  std::string_view type;  // as in JSON Schema; more than one with '|'
  std::string_view about;
  bool required = false;
  bool many = false;             // a query value that may be repeated
  std::string_view of = {};      // type of an array's elements, or of an object's values
  std::vector<Field> members{};  // of an object that has just these, or of an array's objects
};

struct CallFields {
  std::string_view call;  // "GET /v1/microvms"
  std::vector<Field> query;
  std::vector<Field> body;
  bool bytes = false;  // the body is no JSON
};

// That of a call which takes nothing, if it is not in the table.
const CallFields& fields_of(std::string_view method, std::string_view pattern);

// Unknown, missing and repeated query values, with the names there are.
Result<> check_query(const CallFields& fields, const net::Target& target);

}  // namespace firebreak::api
