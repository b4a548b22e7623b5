// Builds of images from Dockerfiles: ordered, then carried out in the background, a few at a time;
// their logs; their end. Owned by the program; one executor.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "control/build_planner.h"
#include "control/capacity.h"
#include "control/egress.h"
#include "control/images.h"
#include "core/preload.h"
#include "image/layer_cache.h"
#include "net/broadcast.h"
#include "net/task_group.h"

namespace firebreak::control {

struct BuildRequest {
  using Context = std::shared_ptr<const image::BuildContext>;

  std::string name;
  std::uint32_t memory_mib = core::kDefaultMemoryMib;
  Context context;  // or, where it is got only once the build goes on:
  std::function<net::Task<Result<Context>>(Deadline)> fetch;
  std::string file = "Dockerfile";
  std::string target;
  std::map<std::string, std::string> args;
  std::map<std::string, std::string> secrets;
  bool no_cache = false;
  core::Hooks hooks;
  std::string ready_path;  // polled with GET in place of the ready hook
  std::uint16_t ready_port = 0;
  std::map<std::string, std::string> env;  // beside what ENV sets
  // What is in the application's environment beneath both, by the number of the version.
  std::function<std::map<std::string, std::string>(std::uint64_t)> platform_env;
  core::Tags tags;
  bool all_capabilities = false;
  bool python_context = false;
  core::Preload preload;
  std::string egress;        // of runs that ask for none; empty: the tenant's default
  std::string build_egress;  // empty: the server's setting, or the tenant's default
  std::string lambda;        // JSON that the Lambda façade keeps in the version
  // The newest version is the answer if the same was asked for when it was made.
  bool reuse_version = false;
  bool prune_versions = false;  // at the limit the oldest that nobody uses goes
};

struct BuildsConfig {
  BaseSettings bases;
  std::string directory;            // of logs
  std::string egress;               // of builds that name none; empty: the tenant's default
  std::chrono::seconds time{1800};  // from its turn on
  std::uint64_t cache_bytes = std::uint64_t{20} << 30;       // of layers, per tenant
  std::uint64_t cache_mount_bytes = std::uint64_t{4} << 30;  // per tenant; 0: none are kept
  image::EnvList run_env = {};                               // for RUN, in no image
  std::shared_ptr<const image::GuestCa> ca = {};
  std::uint32_t parallel = 2;
  std::uint32_t per_tenant = 5;  // waiting ones and uploads included
};

// What builds keep for a tenant's next ones.
struct CacheUse {
  std::uint64_t layers = 0;
  std::uint64_t layer_bytes = 0;
  std::uint64_t mount_bytes = 0;
};

class Builds {
 public:
  // `pool` does what blocks.
  Builds(Services& services, Images& images, Egress& egress, Capacity& capacity,
         image::LayerCache& cache, image::CacheMounts& mounts, net::asio::thread_pool& pool,
         BuildsConfig config);
  // A place among the builds that a tenant may have under way, the upload of a context included.
  using Ticket = TenantCount::Ticket;

  Builds(const Builds&) = delete;
  Builds& operator=(const Builds&) = delete;
  ~Builds() = default;

  // Copies of bases that neither the settings nor a snapshot name any more; caches of tenants that
  // are gone.
  net::Task<Result<>> prune();
  // What images and builds kept for a tenant that is removed. Builds that are under way keep what
  // they need.
  net::Task<Result<>> forget(core::TenantId tenant);
  // To be taken before the first byte of a context: Code::exhausted when the tenant has too many.
  Result<Ticket> admit(const core::TenantId& tenant) { return tickets_.take(tenant); }
  // Checks what can be checked without a machine, writes the records and goes on by itself.
  // Code::invalid with the place in the Dockerfile; Code::conflict while a build of that image goes
  // on. `unchanged`: nothing goes on, because the newest version was made from the same.
  net::Task<Result<NewVersion>> order(core::Tenant tenant, BuildRequest request, Ticket ticket);
  // The same for whoever has nothing to upload.
  net::Task<Result<NewVersion>> order_now(core::Tenant tenant, BuildRequest request);
  // Until it has ended, however.
  net::Task<Result<core::Build>> wait(core::Build build, Deadline deadline);
  // Code::conflict if it is not under way.
  Result<> cancel(const core::BuildId& build);
  // On the file system that holds contexts.
  const std::string& directory() const { return config_.directory; }
  BuildLog& log() { return images_.log(); }
  BaseFinder& bases() { return bases_; }
  net::Task<Result<CacheUse>> cache_use(core::TenantId tenant);
  // Cancels all, and waits for their machines to be gone.
  net::Task<void> close(Deadline deadline);

 private:
  struct Active {
    explicit Active(const net::asio::any_io_executor& executor) : changed(executor) {}
    core::Tenant tenant;
    BuildRequest request;
    NewVersion made;
    std::string egress;  // of the build
    Ticket ticket;
    bool cancelled = false;
    bool finished = false;   // its records say how it ended
    net::Broadcast changed;  // it is finished
    std::set<std::string> machines;
    Room room;  // until the first of them is counted
    std::vector<core::SnapshotRef> held;
    std::shared_ptr<BuildTools> tools = std::make_shared<BuildTools>();
  };
  using ActivePtr = std::shared_ptr<Active>;

  PlanOrder plan_order(const core::TenantId& tenant, const BuildRequest& request,
                       BuildRequest::Context context) const;
  // The newest version of the image, if this order made it and it can be loaded.
  net::Task<Result<std::optional<NewVersion>>> same_version(const core::TenantId& tenant,
                                                            const BuildRequest& request,
                                                            const std::string& order_key);
  net::Task<Result<>> prune_bases();
  net::Task<void> run(ActivePtr active);
  // The limits of the caches, for whom they are, or nothing of a tenant that is gone.
  net::Task<Result<>> shrink_caches(core::TenantId tenant);
  // Until the host has room for its machine.
  net::Task<Result<>> wait_for_room(ActivePtr active, Deadline deadline);
  // The name of the snapshot.
  net::Task<Result<std::string>> build(ActivePtr active, Deadline deadline);
  std::function<void(std::string_view)> output_of(const ActivePtr& active);
  net::Task<Result<std::string>> take_snapshot(ActivePtr active, const image::BuiltDisk& built,
                                               Deadline deadline);
  // One of an earlier build, held.
  net::Task<std::optional<std::string>> same_snapshot(ActivePtr active, std::string key,
                                                      Deadline deadline);
  net::Task<Result<bool>> hold(ActivePtr active, core::SnapshotRef snapshot);
  net::Task<Result<>> validate(ActivePtr active, core::SnapshotRef snapshot, std::string machine_id,
                               Deadline deadline);
  Result<> record(Active& active, const image::BuiltDisk& built, const std::string& key) const;
  image::BuildMachineSpec machine_spec(const ActivePtr& active);
  void say(const Active& active, const std::string& text) {
    images_.log().append(active.made.build.id, text + "\n");
  }

  Services& services_;
  Images& images_;
  Egress& egress_;
  Capacity& capacity_;
  image::LayerCache& cache_;
  image::CacheMounts& mounts_;
  net::asio::thread_pool& pool_;
  BuildsConfig config_;
  BaseFinder bases_;
  BuildPlanner planner_;
  TenantQueue queue_;
  TenantCount tickets_;
  std::map<core::BuildId, ActivePtr> active_;
  bool closing_ = false;
  net::TaskGroup tasks_;  // last: they use what is above
};

}  // namespace firebreak::control
