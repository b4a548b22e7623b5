// What the tenant's PID 1 does to itself between clone and exec: cgroup namespace, root, /proc /sys
// /dev, identity files, loopback, capabilities. Runs in a child that shares memory with the agent:
// raw system calls only, no allocation, no locks.
#pragma once

namespace firebreak::guest {

inline constexpr const char* kTenantRoot = "/tenant";  // where the agent mounts the root disk
inline constexpr const char* kIdentityDir = "/run/identity";  // machine-id, hostname, hosts

struct TenantPlan {
  const char* hostname = "";
  bool all_capabilities = false;
  int member_procs = -1;     // cgroup.procs of the cgroup PID 1 belongs to
  int subtree_control = -1;  // of the tenant's cgroup
};

// 0, or an errno with `*what` naming the step.
int set_up_tenant(const TenantPlan& plan, const char** what);

}  // namespace firebreak::guest
