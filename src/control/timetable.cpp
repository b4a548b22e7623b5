#include "control/timetable.h"

namespace firebreak::control {

void Timetable::set(const core::MicrovmId& id, core::Time at) {
  auto [entry, added] = times_.try_emplace(id, at);
  if (!added) {
    if (entry->second <= at) return;
    order_.erase({entry->second, id});
    entry->second = at;
  }
  order_.emplace(at, id);
}

void Timetable::remove(const core::MicrovmId& id) {
  const auto entry = times_.find(id);
  if (entry == times_.end()) return;
  order_.erase({entry->second, id});
  times_.erase(entry);
}

std::vector<core::MicrovmId> Timetable::take(core::Time now) {
  std::vector<core::MicrovmId> due;
  while (!order_.empty() && order_.begin()->first <= now) {
    due.push_back(order_.begin()->second);
    times_.erase(due.back());
    order_.erase(order_.begin());
  }
  return due;
}

}  // namespace firebreak::control
