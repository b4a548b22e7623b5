#include "control/ticker.h"

#include <algorithm>
#include <string>
#include <utility>

#include "control/metering.h"
#include "control/retention.h"
#include "egress/networks.h"

namespace firebreak::control {

using core::MicrovmState;

namespace {
constexpr core::Millis kShortestLook{500};
constexpr core::Seconds kForgetEvery{600};
// How long tasks that were told to end are waited for.
constexpr auto kCutTime = std::chrono::seconds(5);

class Acting {
 public:
  explicit Acting(LivePtr vm) : vm_(std::move(vm)) { vm_->set_acting(true); }
  ~Acting() { vm_->set_acting(false); }
  Acting(const Acting&) = delete;
  Acting& operator=(const Acting&) = delete;

 private:
  LivePtr vm_;
};

}  // namespace

// ------------------------------------------------------------------------------------------- turns

net::Task<void> Ticker::run() {
  last_save_ = services_.clock.now();
  while (!stopping_) {
    co_await services_.pauses.pause(services_.options.tick, wake_);
    co_await tick();
  }
}

net::Task<void> Ticker::stop(Deadline deadline) {
  stopping_ = true;
  wake_.notify();
  if (!co_await tasks_.wait(deadline))
    services_.log.warn("timed actions are cut", {{"running", static_cast<int>(tasks_.size())}});
  (void)co_await tasks_.close(Deadline::in(kCutTime));
}

net::Task<void> Ticker::tick() {
  const core::Time now = services_.clock.now();
  for (const LivePtr& vm : live_.take_due(now)) look(vm, now);
  tell_guests();
  note_states();
  if (now - last_save_ >= services_.options.meter_every) {
    last_save_ = now;
    co_await save_sampled();
    co_await capacity_.relieve();
  }
  if (now - last_forget_ > kForgetEvery) {
    last_forget_ = now;
    co_await forget_old(services_, live_);
  }
}

// One that sleeps uses what it used before: its meter is brought up to date when somebody asks, and
// when it wakes.
bool Ticker::has_due_meter(const LiveMicrovm& vm, core::Time now) const {
  return vm.state() == MicrovmState::running && vm.used.meter.until != core::Time{} &&
         now - vm.used.meter.until >= services_.options.meter_every;
}

void Ticker::look(const LivePtr& vm, core::Time now) {
  const std::string id = vm->record().id.str();
  if (has_due_meter(*vm, now)) {
    sample(*vm, now);
    sampled_.insert(vm->record().id);
  }
  mind_disk(*vm);
  if (vm->state() == MicrovmState::running && !vm->record().role.empty() && now >= vm->refresh_at())
    tasks_.spawn("credentials", transitions_.starting.refresh_credentials(vm), id);
  auto due = core::next_due(core::aging_of(vm->record()), vm->used.activity, now);
  if (vm->state() == MicrovmState::terminating)
    due = core::Due{core::TimedAction::terminate_old, now, vm->record().state_reason};
  if (!vm->acting()) {
    if (vm->is_unsettled())
      tasks_.spawn("settle", transitions_.ending.settle(vm), id);
    else if (due && due->at <= now)
      tasks_.spawn("due", act(vm, *due), id);
  }
  if (const auto next = next_look(*vm, due, now)) live_.look_again(*vm, *next);
}

std::optional<core::Time> Ticker::next_look(const LiveMicrovm& vm,
                                            const std::optional<core::Due>& due,
                                            core::Time now) const {
  const core::Time next_turn = now + services_.options.tick;
  if (vm.acting() || vm.out_of_disk() || vm.is_under_way()) return next_turn;
  std::optional<core::Time> next;
  const auto consider = [&next, next_turn](core::Time at) {
    at = std::max(at, next_turn);
    next = next ? std::min(*next, at) : at;
  };
  if (due) consider(due->at);
  if (vm.state() == MicrovmState::running) {
    consider(vm.used.meter.until + services_.options.meter_every);
    if (!vm.record().role.empty()) consider(vm.refresh_at());
  }
  return next;
}

// -------------------------------------------------------------------------------- disk and network

void Ticker::mind_disk(LiveMicrovm& vm) {
  const bool stands = vm.machine() && vm.machine()->out_of_disk();
  if (stands != vm.out_of_disk()) {
    vm.set_out_of_disk(stands);
    live_.recount(vm);
    services_.log.warn(stands ? "out of disk" : "disk has room again",
                       {{"microvm", vm.record().id.str()}});
  }
  // Where there is still no room it stands still again.
  if (stands) (void)vm.machine()->retry_disk();
}

// Of denials that they do not know of yet.
void Ticker::tell_guests() {
  if (services_.networks == nullptr) return;
  const std::set<std::string> untold = services_.networks->with_news();  // telling changes it
  for (const std::string& id : untold) {
    const LivePtr vm = live_.find(core::MicrovmId(id));
    if (vm && vm->machine())
      tasks_.spawn("tell_guest", transitions_.egress.tell_guest(vm), id);
    else
      (void)services_.networks->news(id);  // a build's, or of one that has gone to sleep
  }
}

void Ticker::note_states() {
  services_.metrics.set("firebreak_microvms_out_of_disk", "",
                        static_cast<double>(live_.out_of_disk()));
  for (MicrovmState state : {MicrovmState::pending, MicrovmState::running, MicrovmState::suspending,
                             MicrovmState::suspended, MicrovmState::terminating}) {
    services_.metrics.set("firebreak_microvms", obs::label("state", to_string(state)),
                          static_cast<double>(live_.count(state)));
  }
}

// ------------------------------------------------------------------------------------------ meters

void Ticker::sample(LiveMicrovm& vm, core::Time now) {
  const core::Time since = vm.used.meter.until;
  const std::uint64_t before = vm.used.meter.total.cpu_usec;
  if (!account(vm, now)) return;
  live_.recount(vm);
  if (vm.state() != MicrovmState::running) return;
  const auto used = static_cast<std::int64_t>(vm.used.meter.total.cpu_usec - before);
  // In less time the work of being asked looks like work.
  if (now - since < kShortestLook) return;
  const auto elapsed_usec = (now - since).count() * 1000;
  if (used * 100 > elapsed_usec * services_.options.busy_cpu_percent) vm.used.activity.saw_cpu(now);
}

net::Task<void> Ticker::save(std::vector<store::UsageRow> rows) {
  if (rows.empty()) co_return;
  auto saved =
      co_await services_.db.run([&rows](store::Store& store) { return store.save_meters(rows); });
  if (!saved) services_.log.error("meters", {{"error", saved.error().text()}});
}

net::Task<void> Ticker::save_meters(std::optional<core::TenantId> tenant) {
  std::vector<store::UsageRow> rows;
  for (const LivePtr& vm : live_.all()) {
    if (!tenant || vm->record().tenant == *tenant)
      rows.push_back({vm->record().id, vm->record().tenant, vm->used.meter});
  }
  co_await save(std::move(rows));
}

net::Task<void> Ticker::save_sampled() {
  std::vector<store::UsageRow> rows;
  for (const core::MicrovmId& id : std::exchange(sampled_, {})) {
    if (const LivePtr vm = live_.find(id))
      rows.push_back({vm->record().id, vm->record().tenant, vm->used.meter});
  }
  co_await save(std::move(rows));
}

// ----------------------------------------------------------------------------------- what is due

// An exec that nobody is attached to is work too; only the guest knows of it.
net::Task<bool> Ticker::guest_works(LivePtr vm) {
  if (!vm->record().idle || vm->record().idle->rule != core::IdleRule::work || !vm->machine())
    co_return false;
  const auto machine = vm->machine();
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

net::Task<void> Ticker::act(LivePtr vm, core::Due due) {
  const Acting acting(vm);
  const Deadline deadline = Deadline::in(std::chrono::seconds(120));
  if (due.action != core::TimedAction::suspend_idle) {
    (void)co_await transitions_.ending.terminate(vm, due.why, deadline);
    co_return;
  }
  const core::Time now = services_.clock.now();
  // Meters are read less often than a short idle time passes.
  sample(*vm, now);
  if (co_await guest_works(vm)) {
    vm->used.activity.saw_cpu(now);
    co_return;
  }
  // A request may have come while we asked.
  auto again = core::next_due(core::aging_of(vm->record()), vm->used.activity, now);
  if (!again || again->at > now || again->action != core::TimedAction::suspend_idle) co_return;
  auto done = co_await transitions_.suspending.suspend(vm, due.why, deadline);
  if (done && vm->record().idle && vm->record().idle->suspended.count() == 0) {
    (void)co_await transitions_.ending.terminate(vm, "Suspended for 0 s.", deadline);
  }
}

}  // namespace firebreak::control
