// What the threads of the agent share about the tenant: its phase, generation and application, and
// the gate that keeps a process from being started while the tenant is being frozen. Owned by the
// agent; any thread.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>

#include "base/json.h"
#include "guest/exec.h"

namespace firebreak::guest {

enum class Phase { none, running, frozen, exited };
std::string_view to_string(Phase phase);

class TenantState {
 public:
  Phase phase() const;
  void set_phase(Phase phase);
  void frozen();  // only a running tenant, not one that exited meanwhile
  void thawed();
  std::uint64_t generation() const;
  void set_generation(std::uint64_t generation);
  void app_started();
  void app_exited(const ExecExit& exit);
  json::object app() const;

  // Held while a process is started and while the tenant is frozen or thawed: a child cloned into a
  // frozen cgroup never comes to its exec, and would hold the thread that waits for it.
  std::timed_mutex& gate() { return gate_; }

 private:
  mutable std::mutex mutex_;
  std::timed_mutex gate_;
  Phase phase_ = Phase::none;
  std::uint64_t generation_ = 0;
  bool app_running_ = false;
  std::optional<ExecExit> app_exit_;
};

}  // namespace firebreak::guest
