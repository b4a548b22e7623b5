// Network namespaces pinned by a file: made, entered, removed. A pin is a bind mount of the
// namespace, so it outlives the server; whatever is in a namespace goes with its last reference.
// Blocking functions; any thread (each runs its work on a thread of its own, so that no thread of
// the caller ever changes its namespace).
#pragma once

#include <functional>
#include <string>
#include <thread>

#include "base/fd.h"
#include "base/result.h"

namespace firebreak::egress {

// A new namespace, pinned at `path` (which is made). conflict: it is there already.
Result<UniqueFd> make_namespace(const std::string& path);
Result<UniqueFd> open_namespace(const std::string& path);
// Removes the pin; a missing one is fine.
Result<> remove_namespace(const std::string& path);

// Runs `work` on a thread that is in the namespace.
Result<> in_namespace(int netns, const std::function<Result<>()>& work);

// A socket of the namespace; it stays one wherever it is used.
Result<UniqueFd> socket_in(int netns, int domain, int type, int protocol);

}  // namespace firebreak::egress
