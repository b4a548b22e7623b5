#include "control/build_env.h"

#include <algorithm>

#include "base/text.h"

namespace firebreak::control {
namespace {

// With the variables of an image they have to fit into one environment.
constexpr std::size_t kMaxBytes = std::size_t{32} * 1024;

bool is_name(std::string_view text) {
  const auto letter = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
  };
  return !text.empty() && letter(text.front()) &&
         std::ranges::all_of(text, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

}  // namespace

Result<BuildEnv> parse_build_env(
    const std::vector<std::string>& given,
    const std::function<std::optional<std::string>(const std::string& name)>& lookup) {
  BuildEnv out;
  std::size_t number = 0;
  std::size_t bytes = 0;
  for (const std::string& item : given) {
    for (const std::string_view line : split(item, '\n')) {
      if (line.empty()) continue;
      ++number;
      const std::size_t equals = line.find('=');
      const std::string name(line.substr(0, equals));
      if (!is_name(name))
        return fail(Code::invalid,
                    "--build-env: number " + std::to_string(number) +
                        " must be NAME=VALUE, or NAME for the server's own value",
                    Repair{"a name has letters, digits and '_'"});
      std::optional<std::string> value;
      if (equals != std::string_view::npos)
        value = line.substr(equals + 1);
      else
        value = lookup(name);
      std::erase_if(out.variables, [&](const auto& known) { return known.first == name; });
      std::erase(out.unset, name);
      if (!value) {
        out.unset.push_back(name);
        continue;
      }
      bytes += name.size() + value->size() + 2;
      out.variables.emplace_back(name, *std::move(value));
    }
  }
  if (bytes > kMaxBytes)
    return fail(Code::invalid, "--build-env: together they hold more than " +
                                   std::to_string(kMaxBytes) + " bytes");
  return out;
}

}  // namespace firebreak::control
