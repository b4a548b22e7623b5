#include "api/fields.h"

#include <algorithm>

#include "base/text.h"
#include "base/words.h"

namespace firebreak::api {
namespace {

Result<> check_value(const Field& field, const std::string& value) {
  std::string why;
  if (field.type == "integer") {
    const auto number = parse_u64(value);
    why = number ? why_not(field, *number) : "must be a number";
  } else {
    why = why_not(field, std::string_view(value));
  }
  if (why.empty()) return {};
  return fail(Code::invalid, Reason{"query_invalid"}, std::string(field.name) + " " + why);
}

}  // namespace

Result<> check_query(const CallFields& fields, const net::Target& target) {
  for (const auto& [name, value] : target.query) {
    const auto field = std::ranges::find(fields.query, name, &Field::name);
    if (field == fields.query.end()) {
      return fail(Code::invalid, Reason{"unknown_query"},
                  "query value '" + name + "' is not known here",
                  Repair{fields.query.empty() ? "there are none"
                                              : "use " + join_words(names_of(fields.query))});
    }
    const auto same = [&name](const auto& entry) { return entry.first == name; };
    if (!field->many && std::ranges::count_if(target.query, same) > 1)
      return fail(Code::invalid, Reason{"query_invalid"},
                  "query value '" + name + "' is given more than once");
    FB_TRY(check_value(*field, value));
  }
  for (const Field& field : fields.query) {
    if (field.required && !target.has_query(field.name))
      return fail(Code::invalid, Reason{"missing_query"},
                  "the query value " + std::string(field.name) + " is missing");
  }
  return {};
}

}  // namespace firebreak::api
