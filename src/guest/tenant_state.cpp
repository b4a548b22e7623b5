#include "guest/tenant_state.h"

namespace firebreak::guest {

std::string_view to_string(Phase phase) {
  switch (phase) {
    case Phase::none:
      return "none";
    case Phase::running:
      return "running";
    case Phase::frozen:
      return "frozen";
    case Phase::exited:
      return "exited";
  }
  return "none";
}

Phase TenantState::phase() const {
  const std::scoped_lock lock(mutex_);
  return phase_;
}

void TenantState::set_phase(Phase phase) {
  const std::scoped_lock lock(mutex_);
  phase_ = phase;
}

void TenantState::frozen() {
  const std::scoped_lock lock(mutex_);
  if (phase_ == Phase::running) phase_ = Phase::frozen;
}

void TenantState::thawed() {
  const std::scoped_lock lock(mutex_);
  if (phase_ == Phase::frozen) phase_ = Phase::running;
}

std::uint64_t TenantState::generation() const {
  const std::scoped_lock lock(mutex_);
  return generation_;
}

void TenantState::set_generation(std::uint64_t generation) {
  const std::scoped_lock lock(mutex_);
  generation_ = generation;
}

void TenantState::app_started() {
  const std::scoped_lock lock(mutex_);
  app_running_ = true;
}

void TenantState::app_exited(const ExecExit& exit) {
  const std::scoped_lock lock(mutex_);
  app_running_ = false;
  app_exit_ = exit;
}

json::object TenantState::app() const {
  const std::scoped_lock lock(mutex_);
  json::object object{{"running", app_running_}};
  if (app_exit_) {
    if (app_exit_->exit_code) object["exit_code"] = *app_exit_->exit_code;
    if (app_exit_->signal) object["signal"] = *app_exit_->signal;
    object["oom"] = app_exit_->oom;
  }
  return object;
}

}  // namespace firebreak::guest
