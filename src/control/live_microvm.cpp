#include "control/live_microvm.h"

#include <algorithm>

namespace firebreak::control {
namespace {

using core::MicrovmState;

constexpr std::uint64_t kMib = 1024UL * 1024;

// Or is about to have one.
bool has_process(const LiveMicrovm& vm) {
  const MicrovmState state = vm.record.state;
  return state == MicrovmState::pending || state == MicrovmState::running ||
         state == MicrovmState::suspending || vm.record.intent == core::Intent::resume || vm.waking;
}

}  // namespace

std::uint64_t to_mib(std::uint64_t bytes) {
  return (bytes + kMib - 1) / kMib;
}

core::HostUse use_of(const LiveMicrovm& vm) {
  if (!has_process(vm)) return {};
  return {// One that just starts has not been measured yet.
          .resident_mib = std::max(core::kLaunchMib, to_mib(vm.memory_bytes)),
          .baseline_mib = vm.size.memory_mib,
          .baseline_millicpu = vm.size.baseline_millicpu};
}

void Registry::add(LivePtr microvm) {
  LiveMicrovm& vm = *microvm;
  remove(vm.record.id);
  all_[vm.record.id] = std::move(microvm);
  note(vm);
}

void Registry::remove(const core::MicrovmId& id) {
  const auto at = all_.find(id);
  if (at == all_.end()) return;
  forget_counts(*at->second);
  timetable_.remove(id);
  all_.erase(at);
}

bool Registry::holds(const LiveMicrovm& vm) const {
  const auto at = all_.find(vm.record.id);
  return at != all_.end() && at->second.get() == &vm;
}

void Registry::note(LiveMicrovm& vm) {
  recount(vm);
  look_again(vm, core::Time{});
}

void Registry::recount(LiveMicrovm& vm) {
  if (!holds(vm)) return;
  forget_counts(vm);
  vm.counted = LiveMicrovm::Counted{use_of(vm), vm.record.state, vm.out_of_disk};
  use_ += vm.counted->use;
  ++states_[vm.record.state];
  if (vm.out_of_disk) ++out_of_disk_;
}

void Registry::forget_counts(LiveMicrovm& vm) {
  if (!vm.counted) return;
  use_ -= vm.counted->use;
  --states_[vm.counted->state];
  if (vm.counted->out_of_disk) --out_of_disk_;
  vm.counted.reset();
}

std::size_t Registry::count(MicrovmState state) const {
  const auto at = states_.find(state);
  return at == states_.end() ? 0 : at->second;
}

void Registry::look_again(const LiveMicrovm& vm, core::Time at) {
  if (holds(vm)) timetable_.set(vm.record.id, at);
}

std::vector<LivePtr> Registry::take_due(core::Time now) {
  std::vector<LivePtr> due;
  for (const core::MicrovmId& id : timetable_.take(now))
    if (LivePtr vm = find(id)) due.push_back(std::move(vm));
  given_ += due.size();
  return due;
}

std::vector<LivePtr> Registry::all() const {
  std::vector<LivePtr> list;
  list.reserve(all_.size());
  for (const auto& [id, microvm] : all_) list.push_back(microvm);
  given_ += list.size();
  return list;
}

}  // namespace firebreak::control
