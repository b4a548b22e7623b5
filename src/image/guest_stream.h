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

}  // namespace firebreak::image
