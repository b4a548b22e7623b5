// What time does to microVMs: meters are read, the idle are suspended, the old are ended,
// credentials are renewed. A turn looks only at those whose time has come (LiveMicrovms::take_due),
// so that it costs the same however many sleep. Owned by the Supervisor; one executor.
#pragma once

#include <optional>
#include <set>
#include <vector>

#include "control/capacity.h"
#include "control/services.h"
#include "control/transitions.h"
#include "net/task_group.h"

namespace firebreak::control {

class Ticker {
 public:
  Ticker(Services& services, LiveMicrovms& live, Transitions& transitions, Capacity& capacity)
      : services_(services),
        live_(live),
        transitions_(transitions),
        capacity_(capacity),
        wake_(services.executor),
        tasks_(services.executor, services.exceptions()) {}

  // A turn each `options.tick` until stop().
  void start() { tasks_.spawn("ticker", run()); }
  // Lets what is under way end until the deadline, then cuts it.
  net::Task<void> stop(Deadline deadline);

  // One turn.
  net::Task<void> tick();
  // Brings the meter of one up to now; a guest that used its CPUs counts as working.
  void sample(LiveMicrovm& vm, core::Time now);
  // Writes the meters of a tenant's microVMs, or of all.
  net::Task<void> save_meters(std::optional<core::TenantId> tenant);

 private:
  net::Task<void> run();
  void look(const LivePtr& vm, core::Time now);
  // When it is to be looked at again if nothing changes; nothing: not at all.
  std::optional<core::Time> next_look(const LiveMicrovm& vm, const std::optional<core::Due>& due,
                                      core::Time now) const;
  bool has_due_meter(const LiveMicrovm& vm, core::Time now) const;
  // A guest that stands still for want of disk is let go on as soon as there is room.
  void mind_disk(LiveMicrovm& vm);
  void tell_guests();
  void note_states();
  net::Task<void> act(LivePtr vm, core::Due due);
  net::Task<bool> guest_works(LivePtr vm);
  net::Task<void> save(std::vector<store::UsageRow> rows);
  // What was sampled since the last call.
  net::Task<void> save_sampled();

  Services& services_;
  LiveMicrovms& live_;
  Transitions& transitions_;
  Capacity& capacity_;
  net::Event wake_;
  bool stopping_ = false;
  core::Time last_save_{};
  core::Time last_forget_{};
  std::set<core::MicrovmId> sampled_;  // and not yet saved
  net::TaskGroup tasks_;               // last: they use what is above
};

}  // namespace firebreak::control
