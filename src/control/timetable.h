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
  void set(const core::MicrovmId& id, core::Time at) {
    auto [entry, added] = times_.try_emplace(id, at);
    if (!added) {
      if (entry->second <= at) return;
      order_.erase({entry->second, id});
      entry->second = at;
    }
    order_.emplace(at, id);
  }
  void remove(const core::MicrovmId& id) {
    const auto entry = times_.find(id);
    if (entry == times_.end()) return;
    order_.erase({entry->second, id});
    times_.erase(entry);
  }
  // Those whose time has come, earliest first; they have no entry afterwards.
  std::vector<core::MicrovmId> take(core::Time now) {
    std::vector<core::MicrovmId> due;
    while (!order_.empty() && order_.begin()->first <= now) {
      due.push_back(order_.begin()->second);
      times_.erase(due.back());
      order_.erase(order_.begin());
    }
    return due;
  }
  std::size_t size() const { return times_.size(); }

 private:
  std::map<core::MicrovmId, core::Time> times_;
  std::set<std::pair<core::Time, core::MicrovmId>> order_;
};

}  // namespace firebreak::control
