// The application of a guest as a process: what it printed last, and its end. One executor.
#pragma once

#include <string>

#include "machine/agent_client.h"

namespace firebreak::image {

// Of one that has ended: the last of its output, some thousand bytes.
net::Task<std::string> last_output(machine::AgentClient& agent, Deadline deadline);
// Sends the signal and returns when the application has ended, or at the deadline.
net::Task<void> stop_application(machine::AgentClient& agent, int signal, Deadline deadline);

}  // namespace firebreak::image
