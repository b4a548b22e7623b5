#include "control/recovery.h"

#include <map>
#include <set>

#include "control/metering.h"
#include "egress/networks.h"

namespace firebreak::control {
namespace {

using core::Intent;
using core::MicrovmState;

constexpr auto kAdoptDeadline = std::chrono::seconds(60);

// While it waits for guests; then the others are served, and those come when they come.
constexpr auto kWaitForGuests = std::chrono::seconds(30);

class Recovery : public std::enable_shared_from_this<Recovery> {
 public:
  Recovery(Services& services, LiveMicrovms& live, Transitions& transitions, Spawn spawn)
      : services_(services),
        live_(live),
        transitions_(transitions),
        spawn_(std::move(spawn)),
        settled_(services.executor) {}

  net::Task<Result<Recovered>> run() {
    FB_CO_TRY(co_await look());
    FB_CO_TRY_ASSIGN(auto records, co_await services_.db.run([](const store::Store& store) {
      return store.live_microvms();
    }));
    auto nobodys = machines_;
    std::set<std::string> unused = networks_;
    std::vector<LivePtr> live;
    for (const core::Microvm& record : records) {
      nobodys.erase({record.engine, record.id.str()});
      unused.erase(record.id.str());
      auto vm = co_await make_live(record);
      if (!vm) {
        // One record that cannot be read must not keep the others from being served.
        services_.log.error("cannot recover",
                            {{"id", record.id.str()}, {"error", vm.error().text()}});
        continue;
      }
      live_.add(*vm);
      if (waits_for_engine(record)) continue;
      live.push_back(*vm);
    }
    left_ = live.size();
    for (const LivePtr& vm : live) {
      // What is watched from here on must wait until we are done with it.
      FB_CO_TRY_ASSIGN(auto turn, co_await vm->turn.lock(Deadline::in(kAdoptDeadline)));
      spawn_("recovery", settle_one(shared_from_this(), vm, std::move(turn)),
             vm->record().id.str());
    }
    for (const auto& [of, machine] : nobodys) co_await remove_machine(of.first, of.second);
    for (const std::string& id : unused) remove_network(id);
    const Deadline deadline = Deadline::in(kWaitForGuests);
    while (left_ > 0 && !deadline.passed()) (void)co_await settled_.wait(deadline);
    if (left_ > 0)
      services_.log.warn("guests do not answer yet", {{"left", static_cast<int>(left_)}});
    co_return result_;
  }

 private:
  // What is on the host, of any microVM or of none.
  net::Task<Result<>> look() {
    for (const machine::Engine* engine : services_.engines.all()) {
      auto list = [engine]() { return engine->list(); };
      FB_CO_TRY_ASSIGN(const auto found, co_await net::run_blocking(services_.pool, list));
      for (const machine::FoundMachine& machine : found)
        machines_[{engine->name(), machine.id}] = machine;
    }
    if (auto networks = egress::found_networks(services_.data_dir))
      networks_.insert(networks->begin(), networks->end());
    co_return Result<>();
  }

  // Its machine may well run, or be whole on the disk: a server with the engine goes on with it.
  bool waits_for_engine(const core::Microvm& record) {
    const auto engine = services_.engines.get(record.engine);
    if (engine) return false;
    ++result_.waiting;
    services_.log.error("left alone", {{"id", record.id.str()}, {"error", engine.error().message}});
    return true;
  }

  net::Task<void> remove_machine(std::string engine_name, std::string id) {
    const auto engine = services_.engines.get(engine_name);
    if (!engine) co_return;
    auto removed = co_await (*engine)->discard(id, Deadline::in(kAdoptDeadline));
    if (removed)
      ++result_.removed;
    else
      services_.log.error("cannot remove machine", {{"id", id}, {"error", removed.error().text()}});
  }

  // Of a machine that is no more, or has no network any more: made by a launch that was cut before
  // its machine had a directory, left when one was removed by hand, or by a server with networks to
  // one without.
  void remove_network(const std::string& id) {
    if (networks_.erase(id) == 0) return;
    auto removed = services_.networks != nullptr ? services_.networks->detach(id)
                                                 : egress::remove_network(services_.data_dir, id);
    if (!removed)
      services_.log.error("cannot remove network", {{"id", id}, {"error", removed.error().text()}});
  }

  net::Task<Result<LivePtr>> make_live(core::Microvm record) {
    auto version = co_await services_.db.run([&record](const store::Store& store) {
      return store.find_version(record.image, record.image_version);
    });
    if (!version) co_return std::unexpected(version.error());
    // A deleted version: enough to go on with what runs.
    core::ImageVersion known = version->value_or(core::ImageVersion{.image = record.image});
    FB_CO_TRY_ASSIGN(const core::SizeClass size, core::size_for(record.memory_mib));
    auto vm = std::make_shared<LiveMicrovm>(services_.executor, record, std::move(known), size);
    auto meter = co_await services_.db.run(
        [&record](const store::Store& store) { return store.meter(record.id); });
    if (meter && *meter) vm->used.meter = **meter;
    // Of a server that did not save meters together with states.
    if (vm->used.meter.until == core::Time{} && record.state != MicrovmState::pending)
      vm->used.meter.until = record.state_since;
    vm->app.offset = services_.app_log.offset(record.id);
    co_return vm;
  }

  // All at a time: what one guest does not answer must not keep the others.
  static net::Task<void> settle_one(std::shared_ptr<Recovery> self, LivePtr vm,
                                    net::Mutex::Guard turn) {
    co_await self->settle(vm);
    if (!vm->machine() || !self->transitions_.egress.has_network(*vm))
      self->remove_network(vm->record().id.str());
    turn.release();
    vm->changed.notify();
    --self->left_;
    self->settled_.notify();
  }

  net::Task<void> settle(LivePtr vm) {
    switch (vm->state()) {
      case MicrovmState::pending:
        co_return co_await settle_pending(vm);
      case MicrovmState::running:
        co_return co_await settle_running(vm);
      case MicrovmState::suspending:
        co_return co_await settle_suspending(vm);
      case MicrovmState::suspended:
        co_return co_await settle_suspended(vm);
      case MicrovmState::terminating:
        co_await transitions_.ending.end(vm, vm->record().state_reason, false);
        ++result_.finished;
        co_return;
      case MicrovmState::terminated:
        co_return;
    }
  }

  const machine::FoundMachine* machine_of(const LivePtr& vm) const {
    auto at = machines_.find({vm->record().engine, vm->record().id.str()});
    return at == machines_.end() ? nullptr : &at->second;
  }

  // Nobody has seen the clone: launched anew, so that the run hook sees a fresh one.
  net::Task<void> settle_pending(LivePtr vm) {
    const machine::FoundMachine* machine = machine_of(vm);
    if (vm->record().intent == Intent::fork) {
      if (machine != nullptr && machine->suspended) {
        ++result_.relaunched;
        spawn_("fork", transitions_.starting.launch_fork(vm), vm->record().id.str());
      } else {
        co_await transitions_.ending.end(vm, "The server stopped during the fork.", false);
        ++result_.ended;
      }
      co_return;
    }
    if (machine != nullptr) {
      auto gone = co_await transitions_.ending.discard(*vm, Deadline::in(kAdoptDeadline));
      if (!gone) {
        co_await transitions_.ending.end(vm, "The launch could not be repeated.", false);
        ++result_.ended;
        co_return;
      }
    }
    ++result_.relaunched;
    spawn_("launch", transitions_.starting.launch(vm, nullptr), vm->record().id.str());
  }

  net::Task<Result<std::unique_ptr<machine::Machine>>> attach(LivePtr vm) {
    FB_CO_TRY_ASSIGN(machine::Engine* const engine, services_.engines.get(vm->record().engine));
    co_return co_await engine->attach(vm->record().id.str(), Deadline::in(kAdoptDeadline));
  }

  net::Task<bool> adopt(LivePtr vm) {
    auto machine = co_await attach(vm);
    if (!machine) {
      services_.log.warn("cannot adopt",
                         {{"id", vm->record().id.str()}, {"error", machine.error().text()}});
      co_return false;
    }
    vm->set_machine(*std::move(machine));
    if (auto admitted = co_await transitions_.egress.admit(vm, Deadline::in(kAdoptDeadline));
        !admitted) {
      // Without rules nothing passes; the microVM itself is well.
      services_.log.error("no network after the restart",
                          {{"id", vm->record().id.str()}, {"error", admitted.error().text()}});
    }
    co_await transitions_.egress.leave_unused(vm);
    const core::Time now = services_.clock.now();
    vm->used.activity = {};
    vm->used.activity.saw_traffic(now);
    co_return true;
  }

  // A transition that froze the guest may have been cut: waking is harmless for one that is awake.
  net::Task<bool> is_awake(LivePtr vm) {
    auto health = co_await vm->machine()->agent().health(Deadline::in(kAdoptDeadline));
    Result<> awake = health ? Result<>() : std::unexpected(health.error());
    if (health && health->tenant == "frozen") {
      awake = co_await vm->machine()->wake(transitions_.starting.identity_of(*vm),
                                           Deadline::in(kAdoptDeadline));
    } else if (health) {
      co_await transitions_.starting.refresh_credentials(vm);
    }
    if (!awake)
      services_.log.warn("cannot wake",
                         {{"id", vm->record().id.str()}, {"error", awake.error().text()}});
    co_return awake.has_value();
  }

  net::Task<void> settle_running(LivePtr vm) {
    if (!co_await adopt(vm) || !co_await is_awake(vm)) {
      co_await transitions_.ending.end(
          vm, "The machine's process ended while the server was down (or the host was restarted).",
          false);
      ++result_.ended;
      co_return;
    }
    if (vm->record().intent != Intent::none)
      (void)co_await transitions_.journal.commit(*vm, {.intent = Intent::none});
    transitions_.watching.watch(vm);
    ++result_.adopted;
  }

  net::Task<void> settle_suspending(LivePtr vm) {
    const machine::FoundMachine* machine = machine_of(vm);
    if (machine != nullptr && machine->suspended) {
      // Everything was on disk; only the record had not followed.
      (void)co_await attach(vm);
      co_await transitions_.suspending.note_stored(*vm);
      vm->used.meter.total.snapshot_written_bytes += vm->used.stored_bytes;
      core::advance(
          vm->used.meter, vm->size(),
          {.now = vm->record().state_since, .cpu_counter_usec = vm->used.meter.cpu_counter});
      (void)co_await transitions_.journal.commit(
          *vm, {.state = MicrovmState::suspended, .intent = Intent::none});
      ++result_.finished;
      co_return;
    }
    if (!co_await adopt(vm) || !co_await is_awake(vm)) {
      co_await transitions_.ending.end(
          vm, "The machine's process ended while it was being suspended.", false);
      ++result_.ended;
      co_return;
    }
    transitions_.watching.watch(vm);
    auto done = co_await transitions_.suspending.finish(vm, Deadline::in(kAdoptDeadline));
    if (!done) {
      (void)co_await transitions_.journal.commit(
          *vm, {.state = MicrovmState::running,
                .intent = Intent::none,
                .reason = "Not suspended: " + done.error().message});
    }
    ++result_.finished;
  }

  net::Task<void> settle_suspended(LivePtr vm) {
    co_await transitions_.suspending.note_stored(*vm);
    const machine::FoundMachine* machine = machine_of(vm);
    if (machine != nullptr && machine->suspended && vm->record().intent == Intent::none) {
      ++result_.suspended;
      co_return;
    }
    // A resume was under way. Attaching tells: it puts back one whose CPUs never ran.
    if (machine != nullptr && co_await adopt(vm)) {
      if (co_await is_awake(vm)) {
        const core::Time now = services_.clock.now();
        core::advance(
            vm->used.meter, vm->size(),
            {.now = now, .state = MicrovmState::suspended, .saved_bytes = vm->used.stored_bytes});
        vm->used.meter.total.snapshot_read_bytes += vm->used.stored_bytes;
        begin_running(*vm, now);
        // The hook's answer is not known; it is written to be repeatable.
        (void)co_await transitions_.journal.commit(*vm,
                                                   {.state = MicrovmState::running,
                                                    .intent = Intent::none,
                                                    .reason = "",
                                                    .generation = vm->record().generation + 1});
        transitions_.watching.watch(vm);
        ++result_.finished;
        co_return;
      }
      co_await transitions_.ending.end(vm, "The server stopped during the resume.", false);
      ++result_.ended;
      co_return;
    }
    // Looked at again: attaching may have put it back.
    if (co_await transitions_.suspending.is_saved(*vm)) {
      (void)co_await transitions_.journal.commit(*vm, {.intent = Intent::none});
      ++result_.suspended;
      co_return;
    }
    co_await transitions_.ending.end(vm, "Its saved state is gone from the disk.", false);
    ++result_.ended;
  }

  Services& services_;
  LiveMicrovms& live_;
  Transitions& transitions_;
  Spawn spawn_;
  std::map<std::pair<std::string, std::string>, machine::FoundMachine> machines_;  // engine, id
  std::set<std::string> networks_;  // found; those of machines that run stay
  std::size_t left_ = 0;            // microVMs not settled yet
  net::Event settled_;
  Recovered result_;
};

}  // namespace

net::Task<Result<Recovered>> recover(Services& services, LiveMicrovms& live,
                                     Transitions& transitions, Spawn spawn) {
  auto recovery = std::make_shared<Recovery>(services, live, transitions, std::move(spawn));
  co_return co_await recovery->run();
}

}  // namespace firebreak::control
