// The operator's keys for registries: a file as skopeo, podman and docker write it (auth.json). A
// program that asks a registry gets the entries of that registry and no others.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace firebreak::control {

// The file's text. Code::denied if others than its owner may read it.
Result<std::string> read_registry_auth(const std::string& file);

// The same kind of file with the host's entries alone; empty if there are none. Code::invalid for a
// text of another form, and for a file that names helper programs (credHelpers, credsStore).
Result<std::string> registry_auth_for(std::string_view text, std::string_view host);

}  // namespace firebreak::control
