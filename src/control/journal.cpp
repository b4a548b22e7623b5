#include "control/journal.h"

namespace firebreak::control {

using core::MicrovmState;

// Writes the change, then tells everybody: the log, the metrics, those who wait.
net::Task<Result<>> Journal::commit(LiveMicrovm& vm, store::MicrovmChange change,
                                    store::Durability durability) {
  change.id = vm.record().id;
  change.expected = vm.record().revision;
  change.at = needs_.clock.now();
  if (change.state) change.meter = vm.used.meter;
  const MicrovmState from = vm.state();
  const core::Time since = vm.record().state_since;
  auto written = co_await needs_.db.run(
      [&change](store::Store& store) { return store.change(change); }, durability);
  if (!written) {
    needs_.log.error("store", {{"id", vm.record().id.str()}, {"error", written.error().text()}});
    count_error(written.error());
    needs_.live.note(vm);  // to be settled
    co_return std::unexpected(written.error());
  }
  vm.written(*std::move(written));
  needs_.live.note(vm);
  if (change.state && *change.state != from) {
    needs_.log.info("transition", {{"id", vm.record().id.str()},
                                   {"tenant", vm.record().tenant.str()},
                                   {"from", to_string(from)},
                                   {"to", to_string(vm.state())},
                                   {"after_ms", (change.at - since).count()},
                                   {"reason", vm.record().state_reason}});
    needs_.metrics.add("firebreak_transitions_total", obs::label("to", to_string(vm.state())));
    vm.changed.notify();
    needs_.changed.notify();
  }
  co_return Result<>();
}

net::Task<Result<>> Journal::note(core::MicrovmId id, std::string what) {
  const core::Time now = needs_.clock.now();
  FB_CO_TRY(co_await needs_.db.run([&](store::Store& store) { return store.note(id, what, now); }));
  needs_.changed.notify();
  co_return Result<>();
}

void Journal::count_error(const Error& error) {
  needs_.metrics.add("firebreak_errors_total", obs::label("code", to_string(error.code)));
}

}  // namespace firebreak::control
