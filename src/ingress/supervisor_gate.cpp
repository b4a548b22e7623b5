#include "ingress/supervisor_gate.h"

namespace firebreak::ingress {
namespace {

class Leased final : public Visit {
 public:
  explicit Leased(control::Lease lease) : lease_(std::move(lease)) {}
  machine::AgentClient& agent() override { return lease_.agent(); }
  void count(std::uint64_t in, std::uint64_t out) override { lease_.count(in, out); }

 private:
  control::Lease lease_;
};

}  // namespace

std::optional<Place> SupervisorGate::find(const core::MicrovmId& microvm) {
  const control::LivePtr vm = supervisor_.registry().find(microvm);
  if (!vm) return std::nullopt;
  return Place{.microvm = vm->record.id,
               .tenant = vm->record.tenant,
               .endpoint = vm->record.endpoint,
               .memory_mib = vm->record.memory_mib,
               .hooks = vm->version.hooks};
}

net::Task<Result<std::unique_ptr<Visit>>> SupervisorGate::enter(core::MicrovmId microvm,
                                                                Deadline deadline) {
  const control::LivePtr vm = supervisor_.registry().find(microvm);
  if (!vm) co_return fail(Code::not_found, "the microVM has ended");
  FB_CO_TRY_ASSIGN(control::Lease lease,
                   co_await supervisor_.acquire(vm->record.tenant, microvm, deadline));
  co_return std::make_unique<Leased>(std::move(lease));
}

}  // namespace firebreak::ingress
