#include "session/guest.h"

namespace firebreak::session {
namespace {

class Leased final : public Hold {
 public:
  explicit Leased(control::Lease lease) : lease_(std::move(lease)) {}
  const core::Microvm& microvm() const override { return lease_.microvm(); }
  machine::AgentClient& agent() const override { return lease_.agent(); }
  void count(std::uint64_t in, std::uint64_t out) const override { lease_.count(in, out); }

 private:
  control::Lease lease_;
};

}  // namespace

net::Task<Result<>> Guest::ask(control::Act act) const {
  co_return co_await gate_->ask({.tenant = microvm().tenant, .act = act, .microvm = microvm().id});
}

std::unique_ptr<Flow> Guest::open(Origin origin) const {
  return outlet_->open({microvm().tenant, microvm().id, origin});
}

std::string Guest::out(Flow& flow, std::string bytes) const {
  hold_->count(0, bytes.size());
  return flow.pass(std::move(bytes));
}

std::string Guest::out_whole(Origin origin, std::string value) const {
  const auto flow = open(origin);
  std::string text = out(*flow, std::move(value));
  text += flow->end();
  return text;
}

void Guest::pass_error(Error& error) const {
  error.message = out_whole(Origin::reason, std::move(error.message));
  if (!error.repair.empty()) error.repair = out_whole(Origin::reason, std::move(error.repair));
}

void Guest::relayed(std::uint64_t in, std::uint64_t out) const {
  hold_->count(in, out);
  if (out > 0) outlet_->count_traffic(microvm().tenant, out);
}

net::Task<Result<Guest>> Guests::enter(core::TenantId tenant, core::MicrovmId id,
                                       Deadline deadline) {
  FB_CO_TRY_ASSIGN(control::Lease lease,
                   co_await supervisor_.acquire(std::move(tenant), std::move(id), deadline));
  control::Services& services = supervisor_.services();
  co_return Guest(std::make_unique<Leased>(std::move(lease)), services.gate, services.outlet);
}

}  // namespace firebreak::session
