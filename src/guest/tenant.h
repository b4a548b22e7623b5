// Makes the tenant: mounts its disk, starts its PID 1 in namespaces of its own, and moves the data
// thread into them, so that every later exec inherits them. Owned by the data side; data thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/json.h"
#include "guest/card.h"
#include "guest/exec_table.h"
#include "guest/identity.h"
#include "guest/metadata_listener.h"

namespace firebreak::guest {

inline constexpr const char* kReaperName = "firebreak-init";

struct TenantSpec {
  std::string device;  // "none": no namespaces, the agent's own root (tests)
  std::string fstype = "ext4";
  bool app_is_pid1 = false;
  std::optional<ExecSpec> app;
  bool all_capabilities = false;
  std::string user;  // of what is executed and names none; empty: root
  std::string cwd;   // likewise; empty: /
  std::string hostname = "microvm";
  std::map<std::string, std::string> env;
  bool network = false;  // the tenant has the card when its first process starts
};
Result<TenantSpec> parse_tenant_spec(const json::object& body);

// What the control side needs of a new tenant; empty outside of a guest.
struct TenantHandles {
  pid_t pid = 0;
  UniqueFd pidfd;
  UniqueFd disk;       // the mounted root disk
  UniqueFd sock_diag;  // in the tenant's network namespace
  std::optional<Card> card;
  std::optional<MetadataListener> metadata;
  std::unique_ptr<Cgroup> cgroup;
  std::optional<Freezer> freezer;
  std::optional<Freezer> shadow;  // of a process that rehearsals freeze and thaw instead
};

class Tenant final : private Watcher {
 public:
  // `cgroups` is empty outside of a guest.
  Tenant(Reactor& reactor, Spawner& spawner, ExecTable& execs, TenantState& state,
         std::optional<CgroupTree> cgroups);
  Tenant(const Tenant&) = delete;
  Tenant& operator=(const Tenant&) = delete;
  ~Tenant() override;

  Result<TenantHandles> create(const TenantSpec& spec);

 private:
  void on_events(std::uint32_t events) override;  // PID 1 is gone
  Result<TenantHandles> create_here(const TenantSpec& spec);
  Result<TenantHandles> create_in_guest(const TenantSpec& spec);
  Result<Process> start_pid1(const TenantSpec& spec, int disk);
  Result<Freezer> start_shadow();
  Result<std::unique_ptr<Site>> enter_namespaces(const TenantSpec& spec, const Process& pid1);
  Result<> start_app(const TenantSpec& spec);

  Reactor& reactor_;
  Spawner& spawner_;
  ExecTable& execs_;
  TenantState& state_;
  std::optional<CgroupTree> cgroups_;
  bool attempted_ = false;
  bool reap_ = false;  // PID 1 is not an exec: nobody else waits for it
  UniqueFd pidfd_;
  std::optional<Stdio> app_stdio_;  // between the start of an application as PID 1 and its adoption
};

}  // namespace firebreak::guest
