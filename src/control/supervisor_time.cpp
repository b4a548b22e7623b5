// What time does to microVMs: meters are read, the idle are suspended, the old are ended.
#include <map>
#include <utility>

#include "control/metering.h"
#include "control/retention.h"
#include "control/supervisor.h"

namespace firebreak::control {

using core::MicrovmState;

namespace {
constexpr core::Millis kShortestLook{500};
constexpr core::Seconds kAccountAgain{1};

class Acting {
 public:
  explicit Acting(LivePtr vm) : vm_(std::move(vm)) { vm_->acting = true; }
  ~Acting() { vm_->acting = false; }
  Acting(const Acting&) = delete;
  Acting& operator=(const Acting&) = delete;

 private:
  LivePtr vm_;
};

}  // namespace

std::optional<Supervisor::Outlook> Supervisor::outlook(const core::MicrovmId& id) const {
  const LivePtr vm = registry_.find(id);
  if (!vm) return std::nullopt;
  const core::Time now = services_.clock.now();
  const core::Aging aging = core::aging_of(vm->record);
  const bool stands = vm->machine && vm->machine->out_of_disk();
  return Outlook{stands ? kNoDisk : core::awake_reason(aging, vm->activity, now),
                 core::next_due(aging, vm->activity, now)};
}

void Supervisor::sample(LiveMicrovm& vm, core::Time now) {
  const core::Time since = vm.meter.until;
  const std::uint64_t before = vm.meter.total.cpu_usec;
  if (!account(vm, now) || vm.record.state != MicrovmState::running) return;
  const auto used = static_cast<std::int64_t>(vm.meter.total.cpu_usec - before);
  // In less time the work of being asked looks like work.
  if (now - since < kShortestLook) return;
  const auto elapsed_usec = (now - since).count() * 1000;
  if (used * 100 > elapsed_usec * services_.options.busy_cpu_percent) vm.activity.saw_cpu(now);
}

net::Task<void> Supervisor::save_meters(std::optional<core::TenantId> tenant) {
  std::vector<store::UsageRow> rows;
  for (const LivePtr& vm : registry_.all()) {
    if (!tenant || vm->record.tenant == *tenant)
      rows.push_back({vm->record.id, vm->record.tenant, vm->meter});
  }
  if (rows.empty()) co_return;
  auto saved =
      co_await services_.db.run([&rows](store::Store& store) { return store.save_meters(rows); });
  if (!saved) services_.log.error("meters", {{"error", saved.error().text()}});
}

net::Task<void> Supervisor::account_now(core::TenantId tenant) {
  const core::Time now = services_.clock.now();
  core::Time& last = accounted_[tenant];
  if (now >= last && now - last < kAccountAgain) co_return;
  last = now;
  for (const LivePtr& vm : registry_.all()) {
    if (vm->record.tenant == tenant) sample(*vm, now);
  }
  co_await save_meters(tenant);
}

void Supervisor::mind_disk(LiveMicrovm& vm) {
  const bool stands = vm.machine && vm.machine->out_of_disk();
  if (stands != vm.out_of_disk) {
    vm.out_of_disk = stands;
    services_.log.warn(stands ? "out of disk" : "disk has room again",
                       {{"microvm", vm.record.id.str()}});
  }
  // Where there is still no room it stands still again.
  if (stands) (void)vm.machine->retry_disk();
}

void Supervisor::note_states() {
  std::map<MicrovmState, int> counts;
  int out_of_disk = 0;
  for (const LivePtr& vm : registry_.all()) {
    ++counts[vm->record.state];
    if (vm->out_of_disk) ++out_of_disk;
  }
  services_.metrics.set("firebreak_microvms_out_of_disk", "", out_of_disk);
  for (MicrovmState state : {MicrovmState::pending, MicrovmState::running, MicrovmState::suspending,
                             MicrovmState::suspended, MicrovmState::terminating}) {
    services_.metrics.set("firebreak_microvms", obs::label("state", to_string(state)),
                          counts[state]);
  }
}

// An exec that nobody is attached to is work too; only the guest knows of it.
net::Task<bool> Supervisor::guest_works(LivePtr vm) {
  if (!vm->record.idle || vm->record.idle->rule != core::IdleRule::work || !vm->machine)
    co_return false;
  const auto machine = vm->machine;
  auto answer = co_await machine->agent().data_call("GET", "/execs", {},
                                                    Deadline::in(std::chrono::seconds(5)));
  if (!answer) co_return false;
  const json::value* list = answer->if_contains("execs");
  if (list == nullptr || !list->is_array()) co_return false;
  for (const json::value& exec : list->as_array()) {
    if (!exec.is_object()) continue;
    const json::value* running = exec.as_object().if_contains("running");
    const json::value* id = exec.as_object().if_contains("id");
    if (id != nullptr && id->is_string() && id->as_string() == "app") continue;
    if (running != nullptr && running->is_bool() && running->as_bool()) co_return true;
  }
  co_return false;
}

net::Task<void> Supervisor::act(LivePtr vm, core::Due due) {
  const Acting acting(vm);
  const Deadline deadline = Deadline::in(std::chrono::seconds(120));
  if (due.action != core::TimedAction::suspend_idle) {
    (void)co_await lifecycle_.terminate(vm, due.why, deadline);
    co_return;
  }
  const core::Time now = services_.clock.now();
  // Meters are read less often than a short idle time passes.
  sample(*vm, now);
  if (co_await guest_works(vm)) {
    vm->activity.saw_cpu(now);
    co_return;
  }
  // A request may have come while we asked.
  auto again = core::next_due(core::aging_of(vm->record), vm->activity, now);
  if (!again || again->at > now || again->action != core::TimedAction::suspend_idle) co_return;
  auto done = co_await lifecycle_.suspend(vm, due.why, deadline);
  if (done && vm->record.idle && vm->record.idle->suspended.count() == 0) {
    (void)co_await lifecycle_.terminate(vm, "Suspended for 0 s.", deadline);
  }
}

net::Task<void> Supervisor::tick() {
  core::Time last_meter = services_.clock.now();
  core::Time last_forget{};
  while (!stopping_) {
    (void)co_await wake_ticker_.wait(Deadline::in(services_.options.tick));
    const core::Time now = services_.clock.now();
    const bool meter = now - last_meter >= services_.options.meter_every;
    for (const LivePtr& vm : registry_.all()) {
      if (meter) sample(*vm, now);
      mind_disk(*vm);
      const std::string id = vm->record.id.str();
      if (lifecycle_.egress().has_network(*vm))
        tasks_.spawn("tell_guest", lifecycle_.egress().tell_guest(vm), id);
      if (vm->record.state == MicrovmState::running && !vm->record.role.empty() &&
          now >= vm->refresh_at)
        tasks_.spawn("credentials", lifecycle_.refresh_credentials(vm), id);
      auto due = core::next_due(core::aging_of(vm->record), vm->activity, now);
      if (vm->record.state == MicrovmState::terminating)
        due = core::Due{core::TimedAction::terminate_old, now, vm->record.state_reason};
      if (vm->acting) continue;
      if (Lifecycle::is_unsettled(*vm)) {
        tasks_.spawn("settle", lifecycle_.settle(vm), id);
        continue;
      }
      if (!due || due->at > now) continue;
      tasks_.spawn("due", act(vm, *due), id);
    }
    note_states();
    if (meter) {
      last_meter = now;
      co_await save_meters({});
      co_await capacity_.relieve();
    }
    if (now - last_forget > core::Seconds(600)) {
      last_forget = now;
      co_await forget_old(services_, registry_);
    }
  }
}

}  // namespace firebreak::control
