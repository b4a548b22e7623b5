// What the proxy needs of the rest of the program: which microVM a token names, and a way into its
// guest. One executor.
#pragma once

#include <memory>
#include <optional>

#include "core/model.h"
#include "machine/agent_client.h"

namespace firebreak::ingress {

struct Place {
  core::MicrovmId microvm;
  core::TenantId tenant;
  core::EndpointId endpoint;
  std::uint32_t memory_mib = 0;
  core::Hooks hooks;
};

// A running guest, held while a request is served.
class Visit {
 public:
  virtual ~Visit() = default;
  virtual machine::AgentClient& agent() = 0;
  // Bytes in and out: what keeps a microVM awake and is billed.
  virtual void count(std::uint64_t in, std::uint64_t out) = 0;
};

class Gate {
 public:
  virtual ~Gate() = default;
  // Nothing for a microVM that has ended.
  virtual std::optional<Place> find(const core::MicrovmId& microvm) = 0;
  // Waits while it starts or is brought back; many who wait cause one resume.
  virtual net::Task<Result<std::unique_ptr<Visit>>> enter(core::MicrovmId microvm,
                                                          Deadline deadline) = 0;
};

}  // namespace firebreak::ingress
