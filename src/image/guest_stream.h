// A TCP connection to a port in the tenant's network namespace, as a byte stream. Keeps the machine
// it leads into alive. One executor.
#pragma once

#include <cstdint>
#include <memory>

#include "machine/engine.h"
#include "net/byte_stream.h"

namespace firebreak::image {

// Tries 127.0.0.1, then ::1. Code::unavailable when nothing listens on either.
net::Task<Result<std::unique_ptr<net::ByteStream>>> connect_guest(machine::AgentClient& agent,
                                                                  std::uint16_t port,
                                                                  Deadline deadline);

// The same for a caller that speaks first: the first write connects, and its bytes travel with the
// request for the connection, so that there is one round trip to the guest and not two. That write
// fails as connect_guest() would; the agent must be there until then.
std::unique_ptr<net::ByteStream> speak_to_guest(machine::AgentClient& agent, std::uint16_t port);

}  // namespace firebreak::image
