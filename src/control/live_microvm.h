// A microVM that is not TERMINATED, as the supervisor holds it: its durable record, its machine
// while it has one, what it is doing. Owned by the registry; one executor; changes of state only
// with `turn` held.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "control/timetable.h"
#include "core/admission.h"
#include "core/model.h"
#include "core/size.h"
#include "machine/engine.h"
#include "net/broadcast.h"
#include "net/semaphore.h"

namespace firebreak::control {

struct LiveMicrovm {
  LiveMicrovm(const net::asio::any_io_executor& executor, core::Microvm microvm,
              core::ImageVersion image_version, core::SizeClass size_class)
      : record(std::move(microvm)),
        version(std::move(image_version)),
        size(size_class),
        app_changed(executor),
        changed(executor),
        waking_turn(executor),
        turn(executor) {}

  core::Microvm record;  // as last written to the store
  core::ImageVersion version;
  core::SizeClass size;
  std::shared_ptr<machine::Machine> machine;  // none while suspended
  core::Activity activity;
  core::Meter meter;
  std::uint64_t bytes_in = 0;  // since the meter was last advanced
  std::uint64_t bytes_out = 0;
  std::uint64_t memory_bytes = 0;  // resident, when last looked at
  std::uint64_t stored_bytes = 0;  // on disk, while suspended
  std::uint64_t app_offset = 0;    // of the application's output, as far as it is logged
  bool app_ended = false;          // and everything that it printed is logged
  net::Event app_changed;
  net::Broadcast changed;     // of those who wait for this one: another state, or settled
  core::Time refresh_at{};    // when its guest needs other credentials
  bool out_of_disk = false;   // its guest stood still for want of disk, when last looked at
  bool in_last_hook = false;  // TERMINATING, while its hook runs: its credentials still work
  bool end_asked = false;     // terminate waits for its turn; what runs should give up
  bool acting = false;        // the ticker suspends or ends it
  bool waking = false;        // SUSPENDED, but there is room for it: it is about to be resumed
  std::optional<std::string> unended;  // why it is to end, while that could not be written
  net::Mutex waking_turn;              // one at a time asks for room to resume it
  net::Mutex turn;                     // one transition at a time

  // As the registry has counted it, and only the registry changes it.
  struct Counted {
    core::HostUse use;
    core::MicrovmState state = core::MicrovmState::pending;
    bool out_of_disk = false;
  };
  std::optional<Counted> counted;
};
using LivePtr = std::shared_ptr<LiveMicrovm>;

// What the host gives for it: nothing while it has no process.
core::HostUse use_of(const LiveMicrovm& vm);
// Rounded up.
std::uint64_t to_mib(std::uint64_t bytes);

// All that are not TERMINATED, what they use together, and which of them the ticker looks at next.
class Registry {
 public:
  void add(LivePtr microvm);
  void remove(const core::MicrovmId& id);
  LivePtr find(const core::MicrovmId& id) const {
    auto at = all_.find(id);
    return at == all_.end() ? nullptr : at->second;
  }
  // The one door for names that came from a caller: a foreign microVM is absent.
  LivePtr find(const core::TenantId& tenant, const core::MicrovmId& id) const {
    LivePtr found = find(id);
    return found && found->record.tenant == tenant ? found : nullptr;
  }
  // A walk: not for what is done per request or per second.
  std::vector<LivePtr> all() const;

  // Its record has changed: it is counted as it is now, and the ticker looks at it in its next
  // turn. To be called after every change of `record`.
  void note(LiveMicrovm& vm);
  // Only counts it again: after a change of `waking`, `memory_bytes` or `out_of_disk`.
  void recount(LiveMicrovm& vm);
  const core::HostUse& use() const { return use_; }
  std::size_t count(core::MicrovmState state) const;
  std::size_t out_of_disk() const { return out_of_disk_; }

  // The ticker's next look at it, unless an earlier one is asked for.
  void look_again(const LiveMicrovm& vm, core::Time at);
  // Those to be looked at now. They are not looked at again unless somebody asks for it.
  std::vector<LivePtr> take_due(core::Time now);
  // How many entries all() and take_due() have given out: tests count what a walk costs.
  std::uint64_t given() const { return given_; }

 private:
  bool holds(const LiveMicrovm& vm) const;
  void forget_counts(LiveMicrovm& vm);

  std::map<core::MicrovmId, LivePtr> all_;
  core::HostUse use_;
  std::map<core::MicrovmState, std::size_t> states_;
  std::size_t out_of_disk_ = 0;
  Timetable timetable_;
  mutable std::uint64_t given_ = 0;
};

}  // namespace firebreak::control
