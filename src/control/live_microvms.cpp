#include "control/live_microvms.h"

namespace firebreak::control {

void LiveMicrovms::add(LivePtr microvm) {
  LiveMicrovm& vm = *microvm;
  remove(vm.id());
  all_[vm.id()] = std::move(microvm);
  note(vm);
}

void LiveMicrovms::remove(const core::MicrovmId& id) {
  const auto at = all_.find(id);
  if (at == all_.end()) return;
  forget_counts(*at->second);
  timetable_.remove(id);
  all_.erase(at);
}

bool LiveMicrovms::holds(const LiveMicrovm& vm) const {
  const auto at = all_.find(vm.id());
  return at != all_.end() && at->second.get() == &vm;
}

void LiveMicrovms::note(LiveMicrovm& vm) {
  recount(vm);
  look_again(vm, core::Time{});
}

void LiveMicrovms::recount(LiveMicrovm& vm) {
  if (!holds(vm)) return;
  forget_counts(vm);
  vm.counted_ = LiveMicrovm::Counted{use_of(vm), vm.state(), vm.out_of_disk()};
  use_ += vm.counted_->use;
  ++states_[vm.state()];
  if (vm.out_of_disk()) ++out_of_disk_;
}

void LiveMicrovms::forget_counts(LiveMicrovm& vm) {
  if (!vm.counted_) return;
  use_ -= vm.counted_->use;
  --states_[vm.counted_->state];
  if (vm.counted_->out_of_disk) --out_of_disk_;
  vm.counted_.reset();
}

std::size_t LiveMicrovms::count(core::MicrovmState state) const {
  const auto at = states_.find(state);
  return at == states_.end() ? 0 : at->second;
}

void LiveMicrovms::look_again(const LiveMicrovm& vm, core::Time at) {
  if (holds(vm)) timetable_.set(vm.id(), at);
}

std::vector<LivePtr> LiveMicrovms::take_due(core::Time now) {
  std::vector<LivePtr> due;
  for (const core::MicrovmId& id : timetable_.take(now))
    if (LivePtr vm = find(id)) due.push_back(std::move(vm));
  given_ += due.size();
  return due;
}

std::vector<LivePtr> LiveMicrovms::all() const {
  std::vector<LivePtr> list;
  list.reserve(all_.size());
  for (const auto& [id, microvm] : all_) list.push_back(microvm);
  given_ += list.size();
  return list;
}

}  // namespace firebreak::control
