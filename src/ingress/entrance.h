// What the proxy needs of the rest of the program: which microVM a token names, and a way into its
// guest. One executor.
#pragma once

#include <optional>

#include "core/model.h"
#include "session/guest.h"

namespace firebreak::ingress {

// A microVM as the proxy sees it.
struct Destination {
  core::MicrovmId microvm;
  core::TenantId tenant;
  core::EndpointId endpoint;
  std::uint32_t memory_mib = 0;
  core::Hooks hooks;
};

class Entrance {
 public:
  virtual ~Entrance() = default;
  // Nothing for a microVM that has ended.
  virtual std::optional<Destination> find(const core::MicrovmId& microvm) = 0;
  // Waits while it starts or is brought back; many who wait cause one resume.
  virtual net::Task<Result<session::Guest>> enter(core::MicrovmId microvm, Deadline deadline) = 0;
};

}  // namespace firebreak::ingress
