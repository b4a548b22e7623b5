#include "machine/deep_check.h"

#include "base/sys.h"

namespace firebreak::machine {
namespace {

// Emulated guests on a busy host are slow; a step that needs more than this does not work.
Deadline step_deadline() {
  return Deadline::in(std::chrono::seconds(120));
}

std::string text_of(const Phases& phases) {
  std::string text;
  for (const Phase& phase : phases) {
    if (!text.empty()) text += ", ";
    text += phase.name + " " + std::to_string(phase.took.count() / 1000) + " ms";
  }
  return text;
}

net::Task<Result<std::string>> shell(Machine& machine, std::string command) {
  ExecSpec spec;
  spec.shell = std::move(command);
  FB_CO_TRY_ASSIGN(auto result, co_await machine.agent().run(spec, step_deadline()));
  if (result.exit.exit_code != 0)
    co_return fail(Code::guest, "a command in the guest failed", result.err);
  co_return result.out;
}

net::Task<Result<>> expect(Machine& machine, std::string command, std::string wanted) {
  FB_CO_TRY_ASSIGN(const std::string out, co_await shell(machine, std::move(command)));
  if (out != wanted)
    co_return fail(Code::guest, "a command in the guest printed something else than expected",
                   "'" + out + "' in place of '" + wanted + "'");
  co_return Result<>();
}

std::string text_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += " " + name;
  return text;
}

class DeepCheck {
 public:
  DeepCheck(const HostPaths& paths, ScratchEngine& scratch,
            std::function<void(Check, std::chrono::milliseconds)> report)
      : paths_(paths), scratch_(scratch), report_(std::move(report)) {}

  net::Task<void> run() {
    using Step = net::Task<Result<std::string>> (DeepCheck::*)();
    constexpr std::pair<const char*, Step> kSteps[] = {
        {"boot", &DeepCheck::boot},
        {"exec", &DeepCheck::exec},
        {"snapshot", &DeepCheck::take_snapshot},
        {"clone", &DeepCheck::clone},
        {"suspend", &DeepCheck::suspend},
        {"resume", &DeepCheck::resume},
        {"fork", &DeepCheck::fork},
        {"terminate", &DeepCheck::terminate},
    };
    bool going = true;
    for (const auto& [name, step] : kSteps) {
      if (going) going = co_await timed(name, (this->*step)());
    }
    if (!going) co_await discard_all();
    (void)co_await timed("leaks", look_for_leaks());
  }

 private:
  net::Task<bool> timed(std::string name, net::Task<Result<std::string>> step) {
    const auto began = Deadline::Clock::now();
    auto text = co_await std::move(step);
    const auto took =
        std::chrono::duration_cast<std::chrono::milliseconds>(Deadline::Clock::now() - began);
    Check check{.name = std::move(name)};
    check.status = text ? CheckStatus::ok : CheckStatus::missing;
    check.text = text ? *text : one_line(text.error().text());
    report_(std::move(check), took);
    co_return text.has_value();
  }

  net::Task<Result<std::string>> boot() {
    BootSpec spec{.id = "boot", .disk = {.base = paths_.base_disk(), .layers = {}}};
    FB_CO_TRY_ASSIGN(machine_, co_await engine().boot(std::move(spec), step_deadline()));
    co_return text_of(machine_->phases());
  }

  net::Task<Result<std::string>> exec() {
    FB_CO_TRY_ASSIGN(const std::string kernel, co_await shell(*machine_, "uname -r"));
    co_return "guest kernel " + kernel.substr(0, kernel.find('\n'));
  }

  net::Task<Result<std::string>> take_snapshot() {
    FB_CO_TRY(co_await machine_->snapshot(snapshot_dir(), step_deadline()));
    std::string text = text_of(machine_->phases());
    machine_.reset();
    co_return text;
  }

  net::Task<Result<std::string>> clone() {
    FB_CO_TRY_ASSIGN(auto snapshot, co_await engine().load(snapshot_dir(), step_deadline()));
    FB_CO_TRY_ASSIGN(
        machine_, co_await engine().restore(std::move(snapshot), {.id = "clone"}, step_deadline()));
    std::string text = text_of(machine_->phases());
    FB_CO_TRY(co_await machine_->wake(fresh_identity("clone", 1), step_deadline()));
    FB_CO_TRY(co_await expect(*machine_, "hostname", "clone\n"));
    // What suspend, resume and fork have to keep: a file on the disk and one in memory.
    FB_CO_TRY(co_await expect(
        *machine_, "echo disk > /root/kept; mkdir -p /dev/shm; echo memory > /dev/shm/kept", ""));
    co_return text;
  }

  net::Task<Result<std::string>> suspend() {
    FB_CO_TRY(co_await machine_->suspend(step_deadline()));
    std::string text = text_of(machine_->phases());
    machine_.reset();
    co_return text;
  }

  net::Task<Result<std::string>> resume() {
    FB_CO_TRY_ASSIGN(auto started, co_await start_suspended("clone"));
    machine_ = std::move(started.machine);
    co_return started.phases;
  }

  net::Task<Result<std::string>> fork() {
    FB_CO_TRY(co_await machine_->fork({"child"}, step_deadline()));
    std::string text = text_of(machine_->phases());
    FB_CO_TRY_ASSIGN(const auto child, co_await start_suspended("child"));
    FB_CO_TRY(co_await expect(*child.machine, "hostname", "child\n"));
    FB_CO_TRY(co_await child.machine->terminate(step_deadline()));
    co_return text;
  }

  net::Task<Result<std::string>> terminate() {
    FB_CO_TRY(co_await machine_->terminate(step_deadline()));
    machine_.reset();
    co_return std::string();
  }

  struct Started {
    std::unique_ptr<Machine> machine;
    std::string phases;
  };
  net::Task<Result<Started>> start_suspended(std::string id) {
    FB_CO_TRY_ASSIGN(auto machine, co_await engine().resume(id, step_deadline()));
    std::string phases = text_of(machine->phases());
    FB_CO_TRY(co_await machine->wake(fresh_identity(id, 2), step_deadline()));
    FB_CO_TRY(co_await expect(*machine, "cat /root/kept /dev/shm/kept", "disk\nmemory\n"));
    co_return Started{std::move(machine), std::move(phases)};
  }

  net::Task<void> discard_all() {
    machine_.reset();
    const auto ids = engine().host().machine_ids();
    if (!ids) co_return;
    for (const std::string& id : *ids) (void)co_await engine().discard(id, step_deadline());
  }

  net::Task<Result<std::string>> look_for_leaks() {
    FB_CO_TRY_ASSIGN(const auto machines, engine().host().machine_ids());
    FB_CO_TRY_ASSIGN(const auto cgroups, engine().host().cgroup_names());
    FB_CO_TRY_ASSIGN(const auto leases, engine().host().uid_leases());
    std::vector<std::string> uids;
    uids.reserve(leases.size());
    for (const UidLease& lease : leases) uids.push_back(std::to_string(lease.uid));
    std::string left;
    if (!machines.empty()) left += "; machines:" + text_of(machines);
    if (!cgroups.empty()) left += "; cgroups:" + text_of(cgroups);
    if (!uids.empty()) left += "; uids:" + text_of(uids);
    if (!left.empty()) co_return fail(Code::internal, "something was left" + left);
    co_return "no machine, cgroup or uid was left";
  }

  QemuEngine& engine() { return scratch_.engine(); }
  std::string snapshot_dir() const { return scratch_.directory() + "/snapshots/deep"; }

  const HostPaths& paths_;
  ScratchEngine& scratch_;
  std::function<void(Check, std::chrono::milliseconds)> report_;
  std::unique_ptr<Machine> machine_;
};

}  // namespace

std::vector<DeepStep> run_deep_check(const HostPaths& paths, Accelerator accelerator,
                                     const std::function<void(const DeepStep&)>& on_step) {
  std::vector<DeepStep> steps;
  const auto report = [&](Check check, std::chrono::milliseconds took) {
    steps.push_back({std::move(check), took});
    on_step(steps.back());
  };
  const auto failed = [&](std::string name, const Error& error) {
    report(
        {.name = std::move(name), .status = CheckStatus::missing, .text = one_line(error.text())},
        {});
  };
  const auto scratch = ScratchEngine::create(paths, accelerator);
  if (!scratch) {
    failed("engine", scratch.error());
    return steps;
  }
  {
    DeepCheck deep(paths, **scratch, report);
    (*scratch)->run(deep.run());
  }
  if (const auto removed = (*scratch)->remove(); !removed) failed("removal", removed.error());
  return steps;
}

}  // namespace firebreak::machine
