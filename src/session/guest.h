// A microVM that a caller works with: awake, held so that it stays awake, and with the one way in
// and the one way out. The use cases (exec.h, code.h, files.h, ports.h) are functions on it. Lives
// as long as the caller's work; one executor.
#pragma once

#include <memory>

#include "control/gate.h"
#include "control/outlet.h"
#include "control/supervisor.h"

namespace firebreak::session {

using control::Flow;
using control::Origin;

// Keeps a guest awake while somebody works with it.
class Hold {
 public:
  virtual ~Hold() = default;
  virtual const core::Microvm& microvm() const = 0;
  virtual machine::AgentClient& agent() const = 0;
  // Bytes in and out for a user: what keeps a microVM awake and is billed.
  virtual void count(std::uint64_t in, std::uint64_t out) const = 0;
};

class Guest {
 public:
  Guest(std::unique_ptr<Hold> hold, control::Gate& gate, control::Outlet& outlet)
      : hold_(std::move(hold)), gate_(&gate), outlet_(&outlet) {}

  const core::Microvm& microvm() const { return hold_->microvm(); }

  // Before every act; an error is the caller's answer.
  net::Task<Result<>> ask(control::Act act) const;
  // Bytes that a caller sent in: traffic, for idling and for the bill.
  void took(std::uint64_t bytes) const { hold_->count(bytes, 0); }
  // A stream of bytes on its way out.
  std::unique_ptr<Flow> open(Origin origin) const;
  // How many bytes before and behind a range of a stream its flow must see, too.
  std::size_t reach() const { return outlet_->reach(microvm().tenant); }
  // Bytes of a stream: counted as traffic, then through its flow.
  std::string out(Flow& flow, std::string bytes) const;
  // A value that is whole: a name, a result, an error's text.
  std::string out_whole(Origin origin, std::string value) const;
  // What the agent answered. Its words about a failure may quote the guest: they pass the outlet.
  template <class T>
  Result<T> told(Result<T> answer) const {
    if (!answer) pass_error(answer.error());
    return answer;
  }
  // The application's own bytes, which no flow changes.
  void relayed(std::uint64_t in, std::uint64_t out) const;

  // For the files of this layer only: façades have no other way in than the use cases.
  machine::AgentClient& agent() const { return hold_->agent(); }

 private:
  void pass_error(Error& error) const;

  std::unique_ptr<Hold> hold_;
  control::Gate* gate_;
  control::Outlet* outlet_;
};

// Where callers enter. Holds the caller while the microVM starts or wakes; Code::conflict when only
// an explicit resume wakes it, or when it has ended.
class Guests {
 public:
  explicit Guests(control::Supervisor& supervisor) : supervisor_(supervisor) {}
  net::Task<Result<Guest>> enter(core::TenantId tenant, core::MicrovmId id, Deadline deadline);

 private:
  control::Supervisor& supervisor_;
};

}  // namespace firebreak::session
