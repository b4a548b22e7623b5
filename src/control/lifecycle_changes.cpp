// What is changed or copied of a microVM without another state: forks, policies, credentials,
// network.
#include "control/lifecycle.h"

namespace firebreak::control {
namespace {

using core::Intent;
using core::MicrovmState;

constexpr auto kRefreshDeadline = std::chrono::seconds(5);
constexpr core::Seconds kRefreshAgain{30};

}  // namespace

net::Task<Result<>> Lifecycle::fork(LivePtr vm, std::vector<std::string> ids, Deadline deadline) {
  FB_CO_TRY_ASSIGN(auto turn, co_await vm->turn.lock(deadline));
  if (vm->record.state != MicrovmState::running) {
    co_return fail(Code::conflict, "the microVM is " + std::string(to_string(vm->record.state)) +
                                       "; only a RUNNING one can be forked");
  }
  FB_CO_TRY(co_await commit(*vm, {.intent = Intent::fork}));
  services_.reach("fork");
  auto forked = co_await vm->machine->fork(ids, deadline);
  services_.reach("forked");
  FB_CO_TRY(co_await commit(*vm, {.intent = Intent::none}));
  co_return forked;
}

net::Task<Result<>> Lifecycle::change_record(LivePtr vm, store::MicrovmChange change,
                                             Deadline deadline) {
  FB_CO_TRY_ASSIGN(auto turn, co_await vm->turn.lock(deadline));
  co_return co_await commit(*vm, std::move(change));
}

net::Task<void> Lifecycle::refresh_credentials(LivePtr vm) {
  const std::shared_ptr<machine::Machine> machine = vm->machine;
  if (!machine || vm->record.role.empty()) co_return;
  json::object metadata = roles_.metadata(*vm);
  const core::Time next = std::exchange(vm->refresh_at, services_.clock.now() + kRefreshAgain);
  auto set =
      co_await machine->agent().set_metadata(std::move(metadata), Deadline::in(kRefreshDeadline));
  if (set) {
    vm->refresh_at = next;
  } else if (vm->machine == machine && vm->record.state == MicrovmState::running) {
    services_.log.warn("credentials not refreshed",
                       {{"id", vm->record.id.str()}, {"error", set.error().text()}});
  }
}

net::Task<Result<>> Lifecycle::change_egress(LivePtr vm, std::string policy, Deadline deadline) {
  bool had = false;
  {
    FB_CO_TRY_ASSIGN(auto turn, co_await vm->turn.lock(deadline));
    had = egress_.has_network(*vm);
    FB_CO_TRY(co_await commit(*vm, {.egress = policy}));
    // One that does not run gets it when it does.
    if (!vm->machine) co_return Result<>();
    if (egress_.has_network(*vm)) {
      if (had) co_return co_await egress_.admit(vm, deadline);
    } else {
      co_return had ? co_await egress_.cut_off(vm, deadline) : Result<>();
    }
  }
  // A card gets something behind it only when its machine's process starts.
  FB_CO_TRY(co_await suspend(vm, "Its network changes.", deadline));
  co_return co_await resume(vm, deadline);
}

}  // namespace firebreak::control
