// What each call of the native API answers with when it succeeds, for the OpenAPI document and the
// types that clients make from it. Answers may get more members later, so none of these schemas is
// closed. Pure.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "api/native/fields.h"

namespace firebreak::api {

// A schema that has a name. In Field::type and Field::of a word that begins with a capital letter
// names one.
struct Schema {
  std::string_view name;
  std::vector<Field> members;
};

enum class Form { json, lines, events, bytes, text, websocket };

struct Answer {
  std::string_view call;  // "GET /v1/microvms"
  std::string_view
      schema;  // of the object, or of each line or event; empty: an object without members
  Form form = Form::json;
  std::string_view lines =
      {};  // schema of the lines that the call answers with instead when it is asked to stream
};

std::span<const Schema> answer_schemas();

// That of a call whose answer has no members, if it is not in the table.
const Answer& answer_of(std::string_view method, std::string_view pattern);

}  // namespace firebreak::api
