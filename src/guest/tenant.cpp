#include "guest/tenant.h"

#include <linux/fs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "base/sys.h"
#include "guest/log.h"
#include "guest/sock_diag.h"
#include "guest/tenant_setup.h"

namespace firebreak::guest {
namespace {

constexpr std::size_t kReadyCgroups = 8;
constexpr std::size_t kAppRing = 1 << 20;

ExecSpec app_exec(ExecSpec app) {
  app.overflow = Overflow::drop;
  app.ring_bytes = kAppRing;
  app.with_stdin = false;
  app.terminal.reset();
  app.timeout.reset();
  return app;
}

// The reaper is this program under another name (apps/agent/main.cpp).
struct Reaper {
  UniqueFd program;
  UniqueFd null;

  static Result<Reaper> open() {
    Reaper reaper;
    FB_TRY_ASSIGN(reaper.program, sys::open("/proc/self/exe", O_PATH));
    FB_TRY_ASSIGN(reaper.null, sys::open("/dev/null", O_RDWR));
    return reaper;
  }
  Command command() const {
    Command command;
    command.argv = {kReaperName};
    command.program = program.get();
    command.in = command.out = command.err = null.get();
    return command;
  }
};

// A kernel that was frozen before the mount may have read the beginning of another disk.
Result<> forget_cached(const std::string& device) {
  FB_TRY_ASSIGN(const UniqueFd disk, sys::open(device, O_RDONLY));
  if (::ioctl(disk.get(), BLKFLSBUF, 0) != 0) return fail_errno("flush " + device);
  return {};
}

// What an exec has that says nothing of it. The site's root is open.
Result<> set_defaults(Site& site, const TenantSpec& spec) {
  FB_TRY_ASSIGN(site.default_user,
                resolve_user(site.root.get(), spec.user.empty() ? "0" : spec.user));
  if (!spec.cwd.empty()) site.default_cwd = spec.cwd;
  site.env = spec.env;
  return {};
}

}  // namespace

Result<TenantSpec> parse_tenant_spec(const json::object& body) {
  JsonReader reader(body);
  TenantSpec spec;
  if (const json::object* root = reader.object("root", true)) {
    JsonReader inner(*root, "root.");
    spec.device = inner.string("device");
    spec.fstype = inner.string_or("fstype", "ext4");
    FB_TRY(inner.result());
  }
  const std::string pid1 = reader.string_or("pid1", "reaper");
  if (pid1 != "app" && pid1 != "reaper") reader.reject("pid1", "must be app or reaper");
  spec.app_is_pid1 = pid1 == "app";
  const std::string capabilities = reader.string_or("capabilities", "default");
  if (capabilities != "default" && capabilities != "all")
    reader.reject("capabilities", "must be default or all");
  spec.all_capabilities = capabilities == "all";
  spec.user = reader.string_or("user", "");
  spec.cwd = reader.string_or("cwd", "");
  spec.hostname = reader.string_or("hostname", spec.hostname);
  spec.env = reader.string_map_or_empty("env");
  spec.network = reader.boolean_or("network", false);
  if (const json::object* app = reader.object("app", spec.app_is_pid1)) {
    FB_TRY_ASSIGN(ExecSpec exec, parse_exec_spec(*app));
    spec.app = app_exec(std::move(exec));
  }
  FB_TRY(reader.result());
  return spec;
}

Tenant::Tenant(Reactor& reactor, Spawner& spawner, ExecTable& execs, TenantState& state,
               std::optional<CgroupTree> cgroups)
    : reactor_(reactor),
      spawner_(spawner),
      execs_(execs),
      state_(state),
      cgroups_(std::move(cgroups)) {}

Tenant::~Tenant() {
  if (pidfd_) reactor_.unwatch(pidfd_.get(), *this);
}

Result<TenantHandles> Tenant::create(const TenantSpec& spec) {
  if (attempted_) return fail(Code::conflict, "the tenant was made already");
  attempted_ = true;
  if (!cgroups_) return create_here(spec);
  return create_in_guest(spec);
}

Result<TenantHandles> Tenant::create_here(const TenantSpec& spec) {
  if (spec.device != "none") return fail(Code::invalid, "there is no guest around this agent");
  auto site = std::make_unique<Site>();
  FB_TRY_ASSIGN(site->root, sys::open("/", O_PATH | O_DIRECTORY));
  FB_TRY(set_defaults(*site, spec));
  execs_.set_site(std::move(site));
  state_.set_phase(Phase::running);
  FB_TRY(start_app(spec));
  TenantHandles handles;
  handles.pid = ::getpid();
  return handles;
}

Result<Process> Tenant::start_pid1(const TenantSpec& spec, int disk) {
  TenantPlan plan;
  plan.hostname = spec.hostname.c_str();
  plan.all_capabilities = spec.all_capabilities;
  plan.subtree_control = cgroups_->tenant_subtree_control.get();
  const Cgroup& member = spec.app_is_pid1 ? *cgroups_->app : *cgroups_->init;
  FB_TRY_ASSIGN(UniqueFd procs, sys::openat(member.fd(), "cgroup.procs", O_WRONLY));
  plan.member_procs = procs.get();
  const SpawnPlace place{cgroups_->tenant->fd(), -1};

  if (spec.app_is_pid1) {
    UserSpec user;
    FB_TRY_ASSIGN(user, resolve_user(disk, spec.app->user.empty() ? "0" : spec.app->user));
    FB_TRY_ASSIGN(Stdio stdio, execs_.make_stdio(*spec.app, -1));
    const Command command = make_command(*spec.app, stdio, user, spec.env);
    FB_TRY_ASSIGN(Process process, spawner_.start_tenant(command, place, plan));
    stdio.child_in.reset();
    stdio.child_out.reset();
    stdio.child_err.reset();
    app_stdio_ = std::move(stdio);
    return process;
  }
  FB_TRY_ASSIGN(const Reaper reaper, Reaper::open());
  return spawner_.start_tenant(reaper.command(), place, plan);
}

// A rehearsal must not thaw the tenant, so it thaws this: a process like the tenant's PID 1,
// outside of its namespaces.
Result<Freezer> Tenant::start_shadow() {
  FB_TRY_ASSIGN(const Reaper reaper, Reaper::open());
  FB_TRY(spawner_.start(reaper.command(), SpawnPlace{cgroups_->shadow_member->fd(), -1}));
  return Freezer::open(cgroups_->shadow->fd());
}

// From here on this thread is inside: what it starts inherits the namespaces and cannot have more
// capabilities than its bounding set, without a system call for either. Its own capabilities stay.
Result<std::unique_ptr<Site>> Tenant::enter_namespaces(const TenantSpec& spec,
                                                       const Process& pid1) {
  auto site = std::make_unique<Site>();
  FB_TRY_ASSIGN(site->cgroup_namespace,
                sys::open("/proc/" + std::to_string(pid1.pid) + "/ns/cgroup", O_RDONLY));
  if (::unshare(CLONE_FS) != 0) return fail_errno("unshare");
  if (::setns(pid1.pidfd.get(), CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC) != 0)
    return fail_errno("enter the tenant's namespaces");
  if (!spec.all_capabilities) {
    if (const int err = drop_bounding_set(); err != 0) return fail_errno("capabilities", err);
  }
  FB_TRY_ASSIGN(site->root, sys::open("/", O_PATH | O_DIRECTORY));
  FB_TRY(set_defaults(*site, spec));
  FB_TRY_ASSIGN(site->cgroups, CgroupPool::make(cgroups_->tenant->fd(), kReadyCgroups));
  FB_TRY_ASSIGN(site->rehearsal_cgroups, CgroupPool::make(cgroups_->rehearsal->fd(), 1));
  return site;
}

Result<TenantHandles> Tenant::create_in_guest(const TenantSpec& spec) {
  FB_TRY(sys::mkdir(kTenantRoot, 0755));
  FB_TRY(forget_cached(spec.device));
  const unsigned long flags = spec.all_capabilities ? 0 : MS_NODEV;
  if (::mount(spec.device.c_str(), kTenantRoot, spec.fstype.c_str(), flags, nullptr) != 0)
    return fail_errno("mount " + spec.device);
  TenantHandles handles;
  FB_TRY_ASSIGN(handles.disk, sys::open(kTenantRoot, O_RDONLY | O_DIRECTORY));
  FB_TRY_ASSIGN(handles.shadow, start_shadow());
  // What this thread starts from here on is in it.
  FB_TRY_ASSIGN(handles.card, Card::enter_new_namespace());
  FB_TRY_ASSIGN(handles.metadata, handles.card->open_metadata());
  if (spec.network) FB_TRY(handles.card->give());
  FB_TRY_ASSIGN(Process pid1, start_pid1(spec, handles.disk.get()));
  handles.pid = pid1.pid;
  FB_TRY_ASSIGN(handles.pidfd, sys::dup(pid1.pidfd.get()));
  FB_TRY_ASSIGN(pidfd_, sys::dup(pid1.pidfd.get()));
  FB_TRY(reactor_.watch(pidfd_.get(), EPOLLIN | EPOLLET, *this));
  FB_TRY_ASSIGN(auto site, enter_namespaces(spec, pid1));
  FB_TRY_ASSIGN(handles.sock_diag, open_sock_diag());
  FB_TRY_ASSIGN(Freezer freezer, Freezer::open(cgroups_->tenant->fd()));
  handles.freezer = std::move(freezer);
  handles.cgroup = std::move(cgroups_->tenant);
  state_.set_phase(Phase::running);
  if (spec.app_is_pid1) {
    execs_.set_site(std::move(site));
    FB_TRY(execs_.adopt_app(std::move(pid1), *std::exchange(app_stdio_, std::nullopt),
                            std::move(cgroups_->app)));
    return handles;
  }
  reap_ = true;
  site->app_cgroup = std::move(cgroups_->app);
  execs_.set_site(std::move(site));
  FB_TRY(start_app(spec));
  return handles;
}

Result<> Tenant::start_app(const TenantSpec& spec) {
  if (!spec.app) return {};
  auto app = execs_.create(*spec.app, ExecTable::Purpose::app);
  if (!app) return fail(app.error(), "starting the application");
  return {};
}

void Tenant::on_events(std::uint32_t) {
  if (reap_) {
    siginfo_t info{};
    ::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(pidfd_.get()), &info,
             WEXITED | WNOHANG | __WALL);
    log("the reaper of the tenant has died");
  }
  state_.set_phase(Phase::exited);
  reactor_.unwatch(pidfd_.get(), *this);
}

}  // namespace firebreak::guest
