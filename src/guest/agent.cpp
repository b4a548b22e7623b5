#include "guest/agent.h"

#include <csignal>
#include <exception>
#include <thread>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "guest/boot.h"
#include "guest/control_service.h"
#include "guest/data_side.h"
#include "guest/log.h"
#include "guest/metadata_server.h"
#include "guest/tenant_setup.h"

namespace firebreak::guest {
namespace {

constexpr std::chrono::seconds kSpawnPatience{5};
constexpr rlim_t kAgentFiles = 65536;

// Every signal is blocked for good: nothing is handled by signals, and children start with an empty
// mask.
void block_signals() {
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
}

void watch_spawner(Reactor& reactor, Spawner& spawner) {
  reactor.after(kSpawnPatience, [&reactor, &spawner] {
    spawner.kill_stuck_child();
    watch_spawner(reactor, spawner);
  });
}

Result<AgentParts> boot() {
  FB_TRY(mount_agent_filesystems());
  log_to_kernel();
  FB_TRY(load_modules("/modules"));
  AgentParts parts;
  parts.kind = Port::Kind::virtio;
  FB_TRY_ASSIGN(parts.identity, Identity::create(kIdentityDir));
  FB_TRY_ASSIGN(CgroupTree cgroups, make_cgroup_tree("/sys/fs/cgroup"));
  parts.cgroups = std::move(cgroups);
  const rlimit files{kAgentFiles, 1048576};
  if (::setrlimit(RLIMIT_NOFILE, &files) != 0) return fail_errno("setrlimit");
  FB_TRY_ASSIGN(Ports ports, open_ports());
  parts.ctl = std::move(ports.ctl);
  parts.data = std::move(ports.data);
  return parts;
}

}  // namespace

Result<> serve(AgentParts parts) {
  block_signals();
  ::umask(022);
  const bool in_guest = parts.kind == Port::Kind::virtio;
  TenantState state;
  FB_TRY_ASSIGN(auto reactor, Reactor::create());
  FB_TRY_ASSIGN(auto data, DataSide::create(std::move(parts.data), parts.kind, state,
                                            std::move(parts.cgroups)));
  Metadata metadata;
  FB_TRY_ASSIGN(auto metadata_server, MetadataServer::create(metadata));
  ControlService control(*reactor, *data, state, metadata, *metadata_server,
                         std::move(parts.identity));
  Port port(*reactor, std::move(parts.ctl), parts.kind, control, [&reactor] { reactor->stop(); });
  FB_TRY(port.start());
  reactor->on_batch_end([&port] { port.flush(); });
  watch_spawner(*reactor, data->spawner());
  std::thread data_thread([&data, in_guest] {
    if (in_guest) {
      if (auto done = make_thread_realtime(); !done) log(done.error().text());
    }
    data->run();
  });
  std::thread metadata_thread([&metadata_server] { metadata_server->run(); });
  if (in_guest) {
    if (auto done = make_thread_realtime(); !done) log(done.error().text());
  }
  reactor->run();
  data->stop();
  metadata_server->stop();
  data_thread.join();
  metadata_thread.join();
  return {};
}

void run_as_init() {
  std::set_terminate([] { fatal("terminated by a bug or for lack of memory"); });
  auto parts = boot();
  if (!parts) fatal("boot: " + parts.error().text());
  auto done = serve(*std::move(parts));
  fatal(done ? "the agent stopped serving" : "serve: " + done.error().text());
}

}  // namespace firebreak::guest
