#include "server/qemu_hosting.h"

#include "base/json.h"
#include "base/sys.h"
#include "machine/host_probe.h"

namespace firebreak::server {

Result<std::unique_ptr<Hosting>> QemuHosting::open(const ServerConfig& config, Needs needs) {
  std::unique_ptr<QemuHosting> hosting(new QemuHosting(config.data_dir));
  const machine::HostPaths paths{
      .data_dir = config.data_dir, .guest_dir = config.guest_dir, .holder = config.holder};
  const auto choice = machine::choose_accelerator(paths, machine::host_qemu_version(), false,
                                                  Deadline::in(machine::kTrialTime));
  needs.log.info("accelerator",
                 {{"use", to_string(choice.accelerator)}, {"reason", choice.reason}});
  machine::QemuConfig engine{.data_dir = config.data_dir,
                             .kernel = paths.kernel(),
                             .initramfs = paths.initramfs(),
                             .holder = paths.holder,
                             .accelerator = choice.accelerator,
                             .uids = {config.uid_first, config.uid_count},
                             .cgroup_root = config.cgroup};
  hosting->open_networks(config, needs);
  engine.networks = hosting->networks_.get();
  // For `firebreak check` when no server runs.
  const json::object host{{"cgroup", config.cgroup},
                          {"initramfs", engine.initramfs},
                          {"uidFirst", config.uid_first},
                          {"uidCount", config.uid_count}};
  FB_TRY(sys::replace_file(config.data_dir + "/host.json", json::serialize(host) + "\n", 0600));
  FB_TRY_ASSIGN(hosting->engine_, machine::QemuEngine::create(engine, needs.executor, needs.pool));
  hosting->engine_->host().faults().set([steps = needs.steps](std::string_view point) {
    steps.reach("machine." + std::string(point));
  });
  hosting->engines_.emplace(*hosting->engine_);
  return hosting;
}

void QemuHosting::open_networks(const ServerConfig& config, const Needs& needs) {
  if (!config.networks) return;
  Result<> opened = [&]() -> Result<> {
    FB_TRY_ASSIGN(names_,
                  egress::HostNames::create(needs.executor, {.servers = config.dns_servers}));
    FB_TRY_ASSIGN(
        networks_,
        egress::Networks::open(
            {.data_dir = config.data_dir, .upstream = names_.get(), .exceptions = needs.exceptions},
            needs.executor, needs.pool, needs.clock, needs.log));
    return {};
  }();
  if (!opened) needs.log.warn("no networks for microVMs", {{"error", opened.error().text()}});
}

void QemuHosting::close() {
  if (networks_) (void)egress::remove_host_side(data_dir_);
}

}  // namespace firebreak::server
