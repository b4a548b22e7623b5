// The first line is a path, the rest a .dockerignore: a rule for a path holds for all below it, and
// one more rule decides alone.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "wire/dockerignore.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace firebreak::wire;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto newline = std::min(text.find('\n'), text.size());
  const std::string path = clean_path(text.substr(0, newline));
  if (clean_path(path) != path) std::abort();
  if (path.size() > 200 || path.contains('\0')) return 0;
  const std::string rest(text.substr(newline));
  const auto rules = IgnoreRules::parse(rest);
  if (!rules) return 0;
  const bool excluded = rules->excludes(path);
  if (!rules->has_exceptions() && excluded && !rules->excludes(path + "/below")) std::abort();
  const auto all = IgnoreRules::parse(rest + "\n**");
  if (all && !all->excludes(path)) std::abort();
  const auto none = IgnoreRules::parse(rest + "\n!**");
  if (none && none->excludes(path)) std::abort();
  return 0;
}
