#include "control/waking.h"

namespace firebreak::control {
namespace {

using core::MicrovmState;

Error not_found(const core::MicrovmId& id) {
  return fail(Code::not_found, Reason{"microvm_not_found"}, "there is no microVM " + id.str())
      .error();
}

// Counts one that sleeps as having a process while it lives.
class WakingMark {
 public:
  WakingMark(LiveMicrovm& vm, LiveMicrovms& live) : vm_(vm), live_(live) { set(true); }
  ~WakingMark() { set(false); }
  WakingMark(const WakingMark&) = delete;
  WakingMark& operator=(const WakingMark&) = delete;

 private:
  void set(bool waking) {
    vm_.set_waking(waking);
    live_.recount(vm_);
  }
  LiveMicrovm& vm_;
  LiveMicrovms& live_;
};

}  // namespace

Lease::Lease(LivePtr vm, const core::Clock& clock, Traffic& traffic)
    : vm_(std::move(vm)), machine_(vm_->machine()), clock_(&clock), traffic_(&traffic) {
  const core::Time now = clock_->now();
  vm_->used.activity.saw_traffic(now);
  vm_->used.activity.begin_work(now);
}

Lease::~Lease() {
  if (vm_) vm_->used.activity.end_work(clock_->now());
}

void Lease::count(std::uint64_t in, std::uint64_t out) const {
  vm_->used.bytes_in += in;
  vm_->used.bytes_out += out;
  vm_->used.activity.saw_traffic(clock_->now());
  if (in > 0) traffic_->in.add(static_cast<double>(in));
  if (out > 0) traffic_->out.add(static_cast<double>(out));
}

net::Task<Result<core::Microvm>> Waking::get(core::TenantId tenant, core::MicrovmId id) {
  if (LivePtr vm = needs_.live.find(tenant, id)) co_return vm->record();
  auto found = co_await needs_.db.run(
      [&](const store::Store& store) { return store.find_microvm(tenant, id); });
  if (!found) co_return std::unexpected(found.error());
  if (!*found) co_return std::unexpected(not_found(id));
  co_return **found;
}

net::Task<Result<LivePtr>> Waking::find(core::TenantId tenant, core::MicrovmId id) {
  if (LivePtr vm = needs_.live.find(tenant, id)) {
    FB_CO_TRY(needs_.engines.get(vm->record().engine));
    co_return vm;
  }
  FB_CO_TRY_ASSIGN(const core::Microvm gone, co_await get(tenant, id));
  co_return fail(Code::conflict, Reason{"ended"},
                 "the microVM is " + std::string(to_string(gone.state)) + ": " + gone.state_reason);
}

net::Task<Result<core::Microvm>> Waking::wait_started(core::TenantId tenant, core::MicrovmId id,
                                                      Deadline deadline) {
  for (;;) {
    const LivePtr vm = needs_.live.find(tenant, id);
    if (!vm) co_return co_await get(tenant, id);
    const MicrovmState state = vm->state();
    if (state != MicrovmState::pending && state != MicrovmState::terminating)
      co_return vm->record();
    if (deadline.passed()) co_return vm->record();
    (void)co_await vm->changed.wait(deadline);
  }
}

net::Task<Result<>> Waking::wake(LivePtr vm, Deadline deadline) {
  // Many may call one that sleeps: it needs room once.
  FB_CO_TRY_ASSIGN(auto waking_turn, co_await vm->waking_turn.lock(deadline));
  if (vm->state() != MicrovmState::suspended)
    co_return co_await needs_.starting.resume(vm, deadline);
  FB_CO_TRY(co_await needs_.gate.ask(
      {.tenant = vm->record().tenant, .act = Act::wake, .microvm = vm->record().id}));
  FB_CO_TRY_ASSIGN(Room room,
                   co_await needs_.capacity.admit(vm->record().tenant, vm->size(), deadline));
  const WakingMark mark(*vm, needs_.live);
  room.release();
  co_return co_await needs_.starting.resume(vm, deadline);
}

net::Task<Result<Lease>> Waking::acquire(core::TenantId tenant, core::MicrovmId id,
                                         Deadline deadline) {
  for (;;) {
    FB_CO_TRY_ASSIGN(LivePtr vm, co_await find(tenant, id));
    switch (vm->state()) {
      case MicrovmState::running:
        if (vm->machine() && vm->machine()->out_of_disk()) {
          needs_.live.note(*vm);  // the ticker minds it from now on
          co_return fail(Code::unavailable, kNoDisk);
        }
        if (vm->machine()) co_return Lease(vm, needs_.clock, needs_.traffic);
        break;
      case MicrovmState::suspended: {
        if (vm->record().idle && !vm->record().idle->auto_resume) {
          co_return fail(Code::conflict, Reason{"suspended"},
                         "the microVM is SUSPENDED and its policy resumes it only when asked",
                         Repair{"resume it first"});
        }
        FB_CO_TRY(co_await wake(vm, deadline));
        continue;
      }
      case MicrovmState::terminating:
        co_return fail(Code::conflict, Reason{"ended"},
                       "the microVM is TERMINATING: " + vm->record().state_reason);
      default:
        break;
    }
    if (deadline.passed()) {
      co_return fail(Code::timeout, "the microVM was still " + std::string(to_string(vm->state())));
    }
    (void)co_await vm->changed.wait(deadline);
  }
}

}  // namespace firebreak::control
