// Modules that the warm interpreters of an image have loaded before its snapshot freezes them, by
// language. Values and their limits; pure.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"

namespace firebreak::core {

// "python": {"pandas", "numpy"}. In the order in which they are loaded, none twice, and no language
// without a module.
using Preload = std::map<std::string, std::vector<std::string>>;

inline constexpr std::size_t kMaxPreload = 64;  // modules of one language
inline constexpr std::size_t kMaxPreloadName = 200;

// Adds to those named already. Code::invalid for a language that has no modules here, for what
// cannot be the name of one, and for too many.
Result<> add_preload(Preload& preload, std::string_view language, std::string_view module);
// The same from "python=pandas,numpy".
Result<> add_preload(Preload& preload, std::string_view text);

// {"python":["pandas","numpy"]}
json::object to_json(const Preload& preload);
Result<Preload> preload_from_json(const json::object& object);

}  // namespace firebreak::core
