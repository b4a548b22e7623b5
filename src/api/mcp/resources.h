// Files of the caller's sandboxes as resources: "sandbox://ID/path". One executor.
#pragma once

#include <string>

#include "api/mcp/tool.h"

namespace firebreak::api::mcp {

// Files in the usual directories of sandboxes that run; one that sleeps is not woken for it.
net::Task<Result<json::array>> list_resources(Parts& parts, session::SandboxOwner owner);
json::array resource_templates();
// The content of one; Code::not_found for a URI that leads to nothing the caller has.
net::Task<Result<json::array>> read_resource(Parts& parts, session::SandboxOwner owner,
                                             std::string uri);

}  // namespace firebreak::api::mcp
