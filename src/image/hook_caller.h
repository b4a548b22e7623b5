// Calls the lifecycle hooks of the application in a guest: HTTP/1.1 through a tunnel, as specified.
// The answer is hostile input. One executor.
#pragma once

#include <string>

#include "core/hooks.h"
#include "machine/engine.h"

namespace firebreak::image {

// How a hook ended, when it did not answer 200; `reason` is for users.
struct HookFailure {
  enum class Kind { status, timeout, unreachable };
  Kind kind = Kind::unreachable;
  int status = 0;
  std::string reason;
};

// nullopt: 200. Runtime hooks are called once with their timeout as the deadline.
net::Task<std::optional<HookFailure>> call_hook(machine::AgentClient& agent,
                                                const core::Hooks& hooks, core::Hook hook,
                                                std::string body);
// Build hooks are polled until 200: 503 and a port where nothing listens yet mean "not yet", any
// other answer is final. `alive` is asked before each further try: once it is false there is none.
net::Task<std::optional<HookFailure>> poll_hook(machine::AgentClient& agent,
                                                const core::Hooks& hooks, core::Hook hook,
                                                std::function<net::Task<bool>()> alive);

// The status of a GET; an error when nothing answers.
net::Task<Result<int>> get_status(machine::AgentClient& agent, std::uint16_t port, std::string path,
                                  Deadline deadline);

}  // namespace firebreak::image
