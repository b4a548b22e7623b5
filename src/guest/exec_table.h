// All execs of the agent: makes them, finds them, forgets the oldest finished ones. Owned by the
// data side of the agent; data thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "guest/exec.h"
#include "guest/tenant_state.h"
#include "guest/users.h"

namespace firebreak::guest {

inline constexpr const char* kAppId = "app";

// Where execs run, once there is a tenant.
struct Site {
  UniqueFd root;              // of the tenant, O_PATH
  UniqueFd cgroup_namespace;  // none outside of a guest, as the cgroups
  std::unique_ptr<CgroupPool> cgroups;
  std::unique_ptr<Cgroup> app_cgroup;
  std::unique_ptr<CgroupPool> rehearsal_cgroups;
  std::map<std::string, std::string> env;
  // Of execs that say nothing of it.
  UserSpec default_user;
  std::string default_cwd = "/";
};

// The stdio of a process that is about to start: its ends and ours.
struct Stdio {
  UniqueFd child_in, child_out, child_err;  // child_err is empty with a terminal
  UniqueFd in, out, err;
};

Command make_command(const ExecSpec& spec, const Stdio& stdio, const UserSpec& user,
                     const std::map<std::string, std::string>& env);

class ExecTable final : private Exec::Owner {
 public:
  enum class Purpose { normal, app, rehearsal, kernel };

  ExecTable(Reactor& reactor, Spawner& spawner, TenantState& state, UniqueFd null);
  ExecTable(const ExecTable&) = delete;
  ExecTable& operator=(const ExecTable&) = delete;
  ~ExecTable() override;

  const Site* site() const { return site_.get(); }
  void set_site(std::unique_ptr<Site> site) { site_ = std::move(site); }

  Result<std::shared_ptr<Exec>> create(const ExecSpec& spec, Purpose purpose = Purpose::normal);
  // The interpreter of a context (`kernel.h`): with stdio of the caller, who reads it, and known to
  // the caller only.
  Result<std::shared_ptr<Exec>> create_kernel(const ExecSpec& spec, Stdio stdio);
  // For PID 1 of the tenant, which is started elsewhere (`tenant.h`).
  Result<Stdio> make_stdio(const ExecSpec& spec, int root) const;
  Result<> adopt_app(Process process, Stdio stdio, std::unique_ptr<Cgroup> cgroup);

  Result<std::shared_ptr<Exec>> find(const std::string& id) const;
  const std::map<std::string, std::shared_ptr<Exec>>& all() const { return execs_; }
  // A throw-away of a rehearsal, which takes the way of any exec but is not shown.
  static bool is_rehearsal(const Exec& exec);
  // Kills everything it started.
  Result<> remove(const std::string& id);

 private:
  void on_finished(Exec& exec) override;
  Result<std::string> choose_id(const ExecSpec& spec, Purpose purpose);
  Result<UserSpec> user_of(const ExecSpec& spec) const;
  Result<std::unique_ptr<Cgroup>> cgroup_for(Purpose purpose);
  Result<std::shared_ptr<Exec>> start(const ExecSpec& spec, Purpose purpose, const UserSpec& user,
                                      Stdio stdio);
  Result<std::shared_ptr<Exec>> enter(Exec::Parts parts, const ExecSpec& spec, Purpose purpose);
  void give_back(const std::string& id, std::unique_ptr<Cgroup> cgroup);
  void settle(const std::shared_ptr<Exec>& exec);
  void retire(const std::shared_ptr<Exec>& exec);
  std::size_t running() const;

  Reactor& reactor_;
  Spawner& spawner_;
  TenantState& state_;
  UniqueFd null_;
  RingBudget budget_;
  std::unique_ptr<Site> site_;
  std::map<std::string, std::shared_ptr<Exec>> execs_;
  std::deque<std::string> finished_;            // oldest first
  std::vector<std::shared_ptr<Exec>> removed_;  // killed, not yet reaped
  bool rehearsing_ = false;
  std::vector<std::shared_ptr<Exec>> kernels_;
  std::deque<std::unique_ptr<OutputPipe>> orphans_;
  std::uint64_t next_id_ = 1;
};

}  // namespace firebreak::guest
