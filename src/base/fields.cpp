#include "base/fields.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "base/words.h"

namespace firebreak {
namespace {

std::unexpected<Error> wrong(Reason reason, const std::string& member, const std::string& what,
                             Repair repair = {}) {
  Error error =
      fail(Code::invalid, std::move(reason), "member '" + member + "' " + what, std::move(repair))
          .error();
  error.data = {{"member", member}};
  return std::unexpected(std::move(error));
}

bool is_type(const json::value& value, std::string_view type) {
  if (type == "string") return value.is_string();
  if (type == "integer") return value.is_uint64() || (value.is_int64() && value.as_int64() >= 0);
  if (type == "boolean") return value.is_bool();
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  return type == "null" && value.is_null();
}

bool has_type(const json::value& value, std::string_view types) {
  return std::ranges::any_of(split(types, '|'),
                             [&](std::string_view type) { return is_type(value, type); });
}

// "a string", "a list or an object"
std::string words_of(std::string_view types) {
  constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"string", "a string"},       {"integer", "a non-negative integer"},
      {"boolean", "true or false"}, {"object", "an object"},
      {"array", "a list"},          {"null", "null"},
  };
  std::string out;
  for (const std::string_view type : split(types, '|'))
    for (const auto& [name, words] : kWords)
      if (name == type) out.append(out.empty() ? "" : " or ").append(words);
  return out;
}

std::uint64_t number_of(const json::value& value) {
  return value.is_uint64() ? value.as_uint64() : static_cast<std::uint64_t>(value.as_int64());
}

Result<> check_elements(const json::array& list, const Field& field, const std::string& member) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string at = member + "[" + std::to_string(i) + "]";
    if (!field.members.empty()) {
      if (!list[i].is_object()) return wrong(Reason{"member_invalid"}, at, "must be an object");
      FB_TRY(check_object(list[i].as_object(), field.members, at + "."));
    } else if (!field.of.empty() && !has_type(list[i], field.of)) {
      return wrong(Reason{"member_invalid"}, member,
                   field.of == "string" ? "must be a list of strings"
                                        : "must be a list, each of it " + words_of(field.of));
    }
  }
  return {};
}

Result<> check_value(const json::value& value, const Field& field, const std::string& member) {
  if (!has_type(value, field.type))
    return wrong(Reason{"member_invalid"}, member, "must be " + words_of(field.type));
  std::string why;
  if (value.is_number()) why = why_not(field, number_of(value));
  if (value.is_string()) why = why_not(field, std::string_view(value.as_string()));
  if (!why.empty()) return wrong(Reason{"member_invalid"}, member, why);
  if (value.is_array()) return check_elements(value.as_array(), field, member);
  if (!value.is_object()) return {};
  if (!field.members.empty()) return check_object(value.as_object(), field.members, member + ".");
  for (const auto& [key, each] : value.as_object())
    if (!field.of.empty() && !has_type(each, field.of))
      return wrong(Reason{"member_invalid"}, member,
                   field.of == "string" ? "must map strings to strings"
                                        : "must map strings to " + words_of(field.of));
  return {};
}

}  // namespace

Field within(Field field, std::uint64_t least, std::uint64_t most) {
  field.least = least;
  field.most = most;
  return field;
}

Field one_of(Field field, std::vector<std::string_view> choices) {
  field.choices = std::move(choices);
  return field;
}

std::vector<std::string_view> names_of(const Fields& fields) {
  std::vector<std::string_view> names;
  names.reserve(fields.size());
  for (const Field& field : fields) names.push_back(field.name);
  return names;
}

std::string why_not(const Field& field, std::uint64_t number) {
  if (number >= field.least && number <= field.most) return {};
  if (field.least == 0) return "must be at most " + std::to_string(field.most);
  return "must be " + std::to_string(field.least) + " to " + std::to_string(field.most);
}

std::string why_not(const Field& field, std::string_view text) {
  if (field.choices.empty() || std::ranges::find(field.choices, text) != field.choices.end())
    return {};
  std::string list;
  for (std::size_t i = 0; i < field.choices.size(); ++i)
    list.append(i == 0                          ? ""
                : i + 1 == field.choices.size() ? " or "
                                                : ", ")
        .append(field.choices[i]);
  return "must be " + list;
}

Result<> check_object(const json::object& object, const Fields& fields, const std::string& path) {
  for (const auto& member : object) {
    const std::string_view name(member.key().data(), member.key().size());
    if (std::ranges::find(fields, name, &Field::name) != fields.end()) continue;
    const std::vector<std::string_view> known = names_of(fields);
    const std::string_view meant = nearest_word(name, known);
    std::string use = known.empty() ? "there are none" : "use " + join_words(known);
    if (!meant.empty()) use += " (did you mean '" + std::string(meant) + "'?)";
    return wrong(Reason{"unknown_member"}, path + std::string(name), "is not known here",
                 Repair{std::move(use)});
  }
  for (const Field& field : fields) {
    const std::string member = path + std::string(field.name);
    const json::value* value = object.if_contains(field.name);
    if (value == nullptr || value->is_null()) {
      if (field.required) return wrong(Reason{"missing_member"}, member, "is missing");
      continue;
    }
    FB_TRY(check_value(*value, field, member));
  }
  return {};
}

}  // namespace firebreak
