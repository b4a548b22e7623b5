#include "control/changing.h"

namespace firebreak::control {

net::Task<Result<>> Changing::change_record(LivePtr vm, store::MicrovmChange change,
                                            Deadline deadline) {
  FB_CO_TRY_ASSIGN(auto turn, co_await vm->turn.lock(deadline));
  co_return co_await needs_.journal.commit(*vm, std::move(change));
}

net::Task<Result<>> Changing::change_egress(LivePtr vm, std::string policy, Deadline deadline) {
  bool had = false;
  {
    FB_CO_TRY_ASSIGN(auto turn, co_await vm->turn.lock(deadline));
    had = needs_.egress.has_network(*vm);
    FB_CO_TRY(co_await needs_.journal.commit(*vm, {.egress = policy}));
    // One that does not run gets it when it does.
    if (!vm->machine()) co_return Result<>();
    if (needs_.egress.has_network(*vm)) {
      if (had) co_return co_await needs_.egress.admit(vm, deadline);
    } else {
      co_return had ? co_await needs_.egress.cut_off(vm, deadline) : Result<>();
    }
  }
  // A card gets something behind it only when its machine's process starts.
  FB_CO_TRY(co_await needs_.suspending.suspend(vm, "Its network changes.", deadline));
  co_return co_await needs_.starting.resume(vm, deadline);
}

}  // namespace firebreak::control
