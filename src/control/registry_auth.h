// Keys for registries, as the operator keeps them: a file as skopeo, podman and docker write it
// (auth.json). Whoever is to speak with a registry gets what is for that one and nothing else.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace firebreak::control {

// The file's text. Code::denied if others than its owner may read it.
Result<std::string> read_registry_auth(const std::string& file);

// The same kind of file with the host's entries alone; empty if there are none. Code::invalid for
// what is no such file, and for one that names programs to ask (credHelpers, credsStore).
Result<std::string> registry_auth_for(std::string_view text, std::string_view host);

}  // namespace firebreak::control
