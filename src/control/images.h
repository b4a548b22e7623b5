// Images as the APIs see them: made, listed, removed, with their versions. Builds run in the
// background and are journalled: one that a crash cut is FAILED after the restart. Owned by the
// program; one executor.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "control/build_log.h"
#include "control/image_removal.h"
#include "control/services.h"
#include "control/warm_pool.h"
#include "image/guest_ca.h"
#include "image/image_snapshot.h"

namespace firebreak::control {

struct BaseImageRequest {
  std::string name;
  std::uint32_t memory_mib = core::kDefaultMemoryMib;
  std::optional<machine::AppSpec> app;
  bool app_is_pid1 = true;
  core::Hooks hooks;
  std::map<std::string, std::string> env;
  bool python_context = false;
  core::Preload preload;
  core::Tags tags;
};

// A version that is being made, with its image and its build.
struct NewVersion {
  core::Image image;
  core::ImageVersion version;
  core::Build build;
  bool first = false;                       // the image is new as well
  bool unchanged = false;                   // nothing is made: this version is the same
  std::vector<core::ImageVersion> removed;  // to make room for it

  // Of its own, made by its engine.
  core::SnapshotRef snapshot() const {
    return {version.engine, image.id.str() + "-" + std::to_string(version.number)};
  }
};

using machine::SnapshotBytes;

// Versions whose snapshot is gone from the disk become FAILED and say why: nobody runs them, and no
// build takes that snapshot for its own. Which ones.
Result<std::vector<core::ImageVersion>> fail_versions_of(store::Store& store,
                                                         const std::string& snapshot,
                                                         core::Time now);

class Images {
 public:
  // `logs`: directory of what builds print.
  // `ca`: in the base disk.
  Images(Services& services, WarmPool& pool, std::string base_disk, image::CaMark ca,
         std::string logs)
      : services_(services),
        pool_(pool),
        base_disk_(std::move(base_disk)),
        ca_(std::move(ca)),
        log_(services.executor, std::move(logs)) {}

  // Builds that an earlier server did not finish become FAILED, with the reason; then sweep().
  net::Task<Result<>> recover();
  // Removes snapshots and logs of builds that no record names: of tenants that were removed, or
  // left by a crash between a record's end and its files'.
  net::Task<Result<>> sweep();
  // The files of a snapshot are gone: its versions are failed, and what was made from it is ended.
  net::Task<Result<>> lost(core::SnapshotRef snapshot);
  BuildLog& log() { return log_; }
  // Keeps a snapshot while a build needs it, whatever is removed. false: no version has it any
  // more.
  net::Task<Result<bool>> hold(core::SnapshotRef snapshot);
  // The last to let go removes it if no version has it.
  net::Task<void> let_go(core::SnapshotRef snapshot, Deadline deadline);

  // Straight from the base root filesystem. Recorded, then built; returns when the build has ended.
  // An image that exists gets a new version.
  net::Task<Result<core::ImageVersion>> build_from_base(
      core::TenantId tenant, core::TenantLimits limits, BaseImageRequest request,
      std::function<void(std::string_view)> progress, Deadline deadline);
  // Records a version before anything is built: a new image, or one more version of it.
  // Code::conflict while another build of it is under way; Code::exhausted at a limit. `prune`: at
  // the limit of versions the oldest that nobody uses goes.
  net::Task<Result<NewVersion>> begin(core::TenantId tenant, core::TenantLimits limits,
                                      std::string name, core::Tags tags, core::ImageVersion version,
                                      bool prune = false);
  // The newest version that can run, with its build, if it was made by just this order and nothing
  // of the image is being built.
  net::Task<Result<std::optional<NewVersion>>> made_by(core::TenantId tenant, std::string name,
                                                       std::string order_key);
  // How it ended: the name of its snapshot, or why there is none. Half a snapshot is removed.
  net::Task<Result<>> finish(NewVersion& made, Result<std::string> snapshot);
  // A first clone that nobody keeps must say that it is fit, if there is such a hook. `proceed` is
  // asked once the clone is there.
  net::Task<Result<>> validate(core::SnapshotRef snapshot, core::Hooks hooks,
                               std::string machine_id, std::function<Result<>()> proceed,
                               Deadline deadline);
  // What the base disk has of --guest-ca.
  const image::CaMark& ca() const { return ca_; }
  // Machines of builds under way.
  std::set<std::string>& building() { return building_; }
  net::Task<Result<core::Image>> find(core::TenantId tenant, std::string name_or_id);
  net::Task<Result<std::vector<core::ImageVersion>>> versions(const core::Image& image);
  // Looked up on the disk: a version may have taken the snapshot of an older one.
  SnapshotBytes occupied(const core::ImageVersion& version) const;
  // A snapshot that several of them have counts once.
  SnapshotBytes occupied(const std::vector<core::ImageVersion>& versions) const;
  // Code::denied for an image of the system; Code::conflict while microVMs of it live.
  net::Task<Result<>> remove(core::TenantId tenant, std::string name_or_id, Deadline deadline);
  // Code::conflict for the last one, and while microVMs of it live.
  net::Task<Result<>> remove_version(core::Image image, core::ImageVersion version,
                                     Deadline deadline);
  // Whether launches may choose it; one that is not active keeps no clones. Compared and written in
  // one transaction. Code::conflict for one that was not built.
  net::Task<Result<core::ImageVersion>> set_active(core::ImageId image, std::uint32_t number,
                                                   bool active);
  // Removes all versions that nobody uses: not the newest that can run, none whose microVMs live.
  // Those it removed, oldest first. Code::denied for an image of the system.
  net::Task<Result<std::vector<core::ImageVersion>>> prune(core::TenantId tenant,
                                                           std::string name_or_id,
                                                           Deadline deadline);

 private:
  // What belonged to records that are gone.
  net::Task<void> forget(Removed removed, Deadline deadline);
  // Unless a version or a build has it.
  // A version stands on it.
  net::Task<Result<bool>> is_needed(core::SnapshotRef snapshot);
  net::Task<void> forget_snapshot(core::SnapshotRef snapshot, Deadline deadline);

  Services& services_;
  WarmPool& pool_;
  std::string base_disk_;
  image::CaMark ca_;
  BuildLog log_;
  std::set<std::string> building_;
  std::multiset<core::SnapshotRef> held_;
};

}  // namespace firebreak::control
