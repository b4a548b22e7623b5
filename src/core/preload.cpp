#include "core/preload.h"

#include <algorithm>

#include "base/text.h"
#include "base/words.h"

namespace firebreak::core {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_identifier(std::string_view text) {
  return !text.empty() && !is_digit(text.front()) &&
         std::ranges::all_of(text, [](char c) { return is_letter(c) || is_digit(c) || c == '_'; });
}

// "os.path"
bool is_python_module(std::string_view name) {
  return std::ranges::all_of(split(name, '.'), is_identifier);
}

bool is_npm_part(std::string_view text) {
  return !text.empty() && text.front() != '.' && std::ranges::all_of(text, [](char c) {
    return is_letter(c) || is_digit(c) || std::string_view("-._~").contains(c);
  });
}

// "lodash", "@scope/name", "lodash/fp"; no path, and none that leads out of its package.
bool is_node_module(std::string_view name) {
  const bool scoped = name.starts_with('@');
  const auto parts = split(scoped ? name.substr(1) : name, '/');
  return parts.size() >= (scoped ? 2U : 1U) && std::ranges::all_of(parts, is_npm_part);
}

std::string shown(std::string_view text) {
  return json::serialize(json::value(text.substr(0, kMaxPreloadName)));
}

}  // namespace

Result<> add_preload(Preload& preload, std::string_view language, std::string_view module) {
  const bool python = language == "python";
  if (!python && language != "node")
    return fail(Code::invalid,
                "preload: modules can be of python and node, not of " + shown(language));
  const bool fine = module.size() <= kMaxPreloadName &&
                    (python ? is_python_module(module) : is_node_module(module));
  if (!fine)
    return fail(
        Code::invalid,
        "preload: " + shown(module) + " cannot be a module of " + std::string(language),
        Repair{python ? "names are such as os.path" : "names are such as lodash or @scope/name"});
  std::vector<std::string>& modules = preload[std::string(language)];
  if (std::ranges::find(modules, module) != modules.end()) return {};
  if (modules.size() == kMaxPreload)
    return fail(Code::invalid, "preload: more than " + std::to_string(kMaxPreload) +
                                   " modules of " + std::string(language));
  modules.emplace_back(module);
  return {};
}

Result<> add_preload(Preload& preload, std::string_view text) {
  const auto pair = split_pair(text);
  if (!pair)
    return fail(Code::invalid, "preload must be LANGUAGE=MODULE,MODULE, such as python=pandas");
  for (const std::string_view module : split(pair->value, ','))
    FB_TRY(add_preload(preload, pair->name, module));
  return {};
}

json::object to_json(const Preload& preload) {
  json::object object;
  for (const auto& [language, modules] : preload)
    object[language] = json::array(modules.begin(), modules.end());
  return object;
}

Result<Preload> preload_from_json(const json::object& object) {
  Preload preload;
  for (const auto& [language, modules] : object) {
    if (!modules.is_array())
      return fail(Code::invalid, "preload." + std::string(language) + " must be a list of names");
    for (const json::value& module : modules.get_array()) {
      if (!module.is_string())
        return fail(Code::invalid, "preload." + std::string(language) + " must be a list of names");
      FB_TRY(add_preload(preload, language, std::string_view(module.get_string())));
    }
  }
  return preload;
}

}  // namespace firebreak::core
