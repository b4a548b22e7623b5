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
#include "image/base_image.h"

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
  // Machines of builds under way.
  const std::set<std::string>& building() const { return building_; }
  net::Task<Result<core::Image>> find(core::TenantId tenant, std::string name_or_id);
  net::Task<Result<std::vector<core::ImageVersion>>> versions(const core::Image& image);
  // Code::denied for an image of the system; Code::conflict while microVMs of it live.
  net::Task<Result<>> remove(core::TenantId tenant, std::string name_or_id, Deadline deadline);
  // Code::conflict for the last one, and while microVMs of it live.
  net::Task<Result<>> remove_version(core::Image image, core::ImageVersion version,
                                     Deadline deadline);

 private:
  net::Task<Result<>> validate(std::shared_ptr<machine::Snapshot> snapshot, core::Hooks hooks,
                               std::string machine_id, Deadline deadline);
  // Its snapshot; the record is gone already.
  net::Task<void> forget_snapshot(const core::ImageVersion& version, Deadline deadline);
  net::Task<Result<>> write(core::Image& image, core::ImageVersion& version, bool is_new);

  Services& services_;
  WarmPool& pool_;
  std::string base_disk_;
  std::set<std::string> building_;
};

}  // namespace firebreak::control
