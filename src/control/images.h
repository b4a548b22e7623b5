// Images as the APIs see them: made, listed, removed, with their versions. Builds run in the
// background and are journalled: one that a crash cut is FAILED after the restart. Owned by the
// program; one executor.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "control/services.h"
#include "control/warm_pool.h"
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
  core::Tags tags;
};

// A version that is being made, with its image and its build.
struct NewVersion {
  core::Image image;
  core::ImageVersion version;
  core::Build build;
  bool first = false;  // the image is new as well

  // Name of its snapshot.
  std::string snapshot_name() const {
    return image.id.str() + "-" + std::to_string(version.number);
  }
};

class Images {
 public:
  Images(Services& services, WarmPool& pool, std::string base_disk)
      : services_(services), pool_(pool), base_disk_(std::move(base_disk)) {}

  // Builds that an earlier server did not finish become FAILED, with the reason.
  net::Task<Result<>> recover();

  // Straight from the base root filesystem. Recorded, then built; returns when the build has ended.
  // An image that exists gets a new version.
  net::Task<Result<core::ImageVersion>> build_from_base(
      core::TenantId tenant, core::TenantLimits limits, BaseImageRequest request,
      std::function<void(std::string_view)> progress, Deadline deadline);
  // Records a version before anything is built: a new image, or one more version of it.
  // Code::conflict while another build of it is under way; Code::exhausted at a limit.
  net::Task<Result<NewVersion>> begin(core::TenantId tenant, core::TenantLimits limits,
                                      std::string name, core::Tags tags,
                                      core::ImageVersion version);
  // How it ended: the name of its snapshot, or why there is none. Half a snapshot is removed.
  net::Task<Result<>> finish(NewVersion& made, Result<std::string> snapshot);
  // A first clone that nobody keeps must say that it is fit, if there is such a hook.
  net::Task<Result<>> validate(std::string snapshot, core::Hooks hooks, std::string machine_id,
                               Deadline deadline);
  // Machines of builds under way.
  std::set<std::string>& building() { return building_; }
  net::Task<Result<core::Image>> find(core::TenantId tenant, std::string name_or_id);
  net::Task<Result<std::vector<core::ImageVersion>>> versions(const core::Image& image);
  // Code::denied for an image of the system; Code::conflict while microVMs of it live.
  net::Task<Result<>> remove(core::TenantId tenant, std::string name_or_id, Deadline deadline);
  // Code::conflict for the last one, and while microVMs of it live.
  net::Task<Result<>> remove_version(core::Image image, core::ImageVersion version,
                                     Deadline deadline);

 private:
  // Its snapshot, if no other version has the same; the record is gone already.
  net::Task<void> forget_snapshot(const core::ImageVersion& version, Deadline deadline);

  Services& services_;
  WarmPool& pool_;
  std::string base_disk_;
  std::set<std::string> building_;
};

}  // namespace firebreak::control
