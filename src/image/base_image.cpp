#include "image/base_image.h"

#include "image/hook_caller.h"

namespace firebreak::image {
namespace {

void say(const BaseImageSpec& spec, std::string_view step) {
  if (spec.progress) spec.progress(step);
}

net::Task<Result<>> prepare(machine::Machine& machine, const BaseImageSpec& spec,
                            Deadline deadline) {
  if (spec.python_context) {
    say(spec, "starting the interpreter");
    FB_CO_TRY(co_await machine.agent().data_call(
        "POST", "/contexts", {{"language", "python"}, {"id", kWarmContext}}, deadline));
  }
  if (spec.tenant.app) {
    say(spec, "waiting for the application");
    auto failure = co_await poll_hook(machine.agent(), spec.hooks, core::Hook::ready);
    if (failure) co_return fail(Code::guest, failure->reason);
    FB_CO_TRY_ASSIGN(const machine::AgentHealth health, co_await machine.agent().health(deadline));
    if (!health.app_running) co_return fail(Code::guest, "the application ended during the build");
  }
  co_return Result<>();
}

}  // namespace

net::Task<Result<>> build_base_image(machine::Engine& engine, BaseImageSpec spec,
                                     Deadline deadline) {
  say(spec, "booting");
  machine::BootSpec boot{
      .id = spec.machine_id,
      .size = {.vcpus = spec.size.peak_vcpus, .memory_mib = spec.size.peak_memory_mib},
      .base_disk = spec.base_disk,
      .tenant = spec.tenant};
  FB_CO_TRY_ASSIGN(auto machine, co_await engine.boot(boot, deadline));
  auto made = co_await prepare(*machine, spec, deadline);
  if (made) {
    say(spec, "taking the snapshot");
    made = co_await machine->snapshot(spec.directory, deadline);
  }
  if (!made) {
    (void)co_await machine->terminate(Deadline::in(std::chrono::seconds(20)));
    co_return made;
  }
  co_return Result<>();
}

}  // namespace firebreak::image
