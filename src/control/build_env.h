// Variables of the operator for the RUN steps of builds, as --build-env names them. Values; any
// thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "image/image_config.h"

namespace firebreak::control {

struct BuildEnv {
  image::EnvList variables;        // each name once; the last that was given counts
  std::vector<std::string> unset;  // names without a value, which the server does not have either
};

// Each of `given` is "NAME=VALUE", or "NAME" for what `lookup` says, or several of them, one a
// line. Code::invalid names the option, never a value.
Result<BuildEnv> parse_build_env(
    const std::vector<std::string>& given,
    const std::function<std::optional<std::string>(const std::string& name)>& lookup);

}  // namespace firebreak::control
