#include "api/lambda/shapes.h"

#include <algorithm>

namespace firebreak::api::lambda {
namespace {

constexpr std::size_t kMostTold = 12;

class Checker {
 public:
  void structure(std::span<const Member> members, const json::object& object,
                 const std::string& path) {
    for (const Member& member : members) {
      const std::string at =
          path.empty() ? std::string(member.name) : path + "." + std::string(member.name);
      const json::value* value = object.if_contains(member.name);
      if (value != nullptr && !value->is_null()) {
        check(*member.shape, *value, at);
      } else if (member.required) {
        tell(at, "Member must not be null");
      }
    }
  }
  std::vector<std::string> take() { return std::move(told_); }

 private:
  void tell(const std::string& path, const std::string& what) {
    if (told_.size() < kMostTold)
      told_.push_back("Value at '" + path + "' failed to satisfy constraint: " + what);
  }

  void bounds(const Shape& shape, std::int64_t size, std::string_view what,
              const std::string& path) {
    if (size < shape.least)
      tell(path, "Member must have " + std::string(what) + " greater than or equal to " +
                     std::to_string(shape.least));
    if (size > shape.most)
      tell(path, "Member must have " + std::string(what) + " less than or equal to " +
                     std::to_string(shape.most));
  }

  void text(const Shape& shape, std::string_view value, const std::string& path) {
    bounds(shape, static_cast<std::int64_t>(text_length(value)), "length", path);
    if (shape.pattern.fits != nullptr && !shape.pattern.fits(value))
      tell(path,
           "Member must satisfy regular expression pattern: " + std::string(shape.pattern.told));
    if (!shape.values.empty() && std::ranges::find(shape.values, value) == shape.values.end()) {
      std::string set;
      for (std::string_view each : shape.values)
        set += (set.empty() ? "" : ", ") + std::string(each);
      tell(path, "Member must satisfy enum value set: [" + set + "]");
    }
  }

  void map(const Shape& shape, const json::object& object, const std::string& path) {
    bounds(shape, static_cast<std::int64_t>(object.size()), "length", path);
    for (const auto& entry : object) {
      Checker keys;
      keys.text(*shape.key, entry.key(), path);
      if (!keys.told_.empty())
        tell(path, "Map keys must satisfy constraint: [" + reasons(keys) + "]");
      Checker values;
      values.check(*shape.element, entry.value(), path);
      if (!values.told_.empty())
        tell(path, "Map values must satisfy constraint: [" + reasons(values) + "]");
    }
  }

  static std::string reasons(const Checker& checker) {
    std::string out;
    for (const std::string& told : checker.told_) {
      const auto at = told.find(": ");
      out += (out.empty() ? "" : ", ") + told.substr(at + 2);
    }
    return out;
  }

  void tagged_union(const Shape& shape, const json::object& object, const std::string& path) {
    const auto set = std::ranges::count_if(shape.members, [&object](const Member& member) {
      const json::value* value = object.if_contains(member.name);
      return value != nullptr && !value->is_null();
    });
    if (set != 1) tell(path, "Member must have exactly one of its members set");
    structure(shape.members, object, path);
  }

  void check(const Shape& shape, const json::value& value, const std::string& path) {
    using Kind = Shape::Kind;
    switch (shape.kind) {
      case Kind::string:
        return value.is_string() ? text(shape, value.as_string(), path)
                                 : tell(path, "Member must be a string");
      case Kind::integer:
        return value.is_int64() ? bounds(shape, value.as_int64(), "value", path)
                                : tell(path, "Member must be an integer");
      case Kind::boolean:
        return value.is_bool() ? void() : tell(path, "Member must be a boolean");
      case Kind::list:
        if (!value.is_array()) return tell(path, "Member must be a list");
        bounds(shape, static_cast<std::int64_t>(value.as_array().size()), "length", path);
        for (std::size_t i = 0; i < value.as_array().size(); ++i)
          check(*shape.element, value.as_array()[i],
                path + "." + std::to_string(i + 1) + ".member");
        return;
      case Kind::map:
        return value.is_object() ? map(shape, value.as_object(), path)
                                 : tell(path, "Member must be a map");
      case Kind::structure:
        return value.is_object() ? structure(shape.members, value.as_object(), path)
                                 : tell(path, "Member must be a structure");
      case Kind::tagged_union:
        return value.is_object() ? tagged_union(shape, value.as_object(), path)
                                 : tell(path, "Member must be a structure");
    }
  }

  std::vector<std::string> told_;
};

}  // namespace

std::vector<std::string> violations(std::span<const Member> members, const json::object& input) {
  Checker checker;
  checker.structure(members, input, "");
  return checker.take();
}

std::string validation_message(const std::vector<std::string>& violations) {
  std::string out = std::to_string(violations.size()) + " validation error" +
                    (violations.size() == 1 ? "" : "s") + " detected: ";
  for (std::size_t i = 0; i < violations.size(); ++i) out += (i == 0 ? "" : "; ") + violations[i];
  return out;
}

std::size_t text_length(std::string_view utf8) {
  return static_cast<std::size_t>(std::ranges::count_if(
      utf8, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

}  // namespace firebreak::api::lambda
