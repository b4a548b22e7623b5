// All microVMs that are not TERMINATED, what they use together, and which of them the ticker looks
// at next. No call but all() costs more with more of them. Owned by the Supervisor; one executor.
#pragma once

#include <map>
#include <vector>

#include "control/live_microvm.h"
#include "control/timetable.h"

namespace firebreak::control {

class LiveMicrovms {
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
    return found && found->tenant() == tenant ? found : nullptr;
  }
  std::size_t size() const { return all_.size(); }
  // A walk: not for what is done per request or per second.
  std::vector<LivePtr> all() const;

  // Its record has changed: it is counted as it is now, and the ticker looks at it in its next
  // turn. To be called after every change of the record.
  void note(LiveMicrovm& vm);
  // Only counts it again: after a change of `waking`, of its memory or of `out_of_disk`.
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
