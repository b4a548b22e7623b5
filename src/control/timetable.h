// When each of many is to be looked at next: one time per id, taken in order. Finding those whose
// time has come costs nothing for the others. A value; one executor.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/ids.h"

namespace firebreak::control {

class Timetable {
 public:
  // At this time, or before it if somebody has asked for that.
  void set(const core::MicrovmId& id, core::Time at);
  void remove(const core::MicrovmId& id);
  // Those whose time has come, earliest first; they have no entry afterwards.
  std::vector<core::MicrovmId> take(core::Time now);
  std::size_t size() const { return times_.size(); }

 private:
  std::map<core::MicrovmId, core::Time> times_;
  std::set<std::pair<core::Time, core::MicrovmId>> order_;
};

}  // namespace firebreak::control
