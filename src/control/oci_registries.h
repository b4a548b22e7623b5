// Images of registries, for builds: which ones may be asked, and the images themselves. A tenant
// writes the names, so nothing is asked but registries that the operator named. Owned by the
// BaseFinder; one executor.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "control/skopeo.h"
#include "image/image_reference.h"
#include "image/oci_source.h"

namespace firebreak::control {

struct RegistrySettings {
  std::vector<image::RegistryHost> allowed;  // the first is asked for names without a host
  std::string directory;                     // for what is fetched, while it is needed
  uid_t uid = 0;                             // that fetches
  std::string auth_file;  // keys (registry_auth.h), read for each call; empty: nobody's
};

// An image where it is. Made only by Registries::find.
struct RegistryPlace {
  image::RegistryHost registry;
  image::RegistryReference name;
  // "docker://HOST/PATH" with the digest in place of the tag, if there is one.
  std::string url(const std::string& digest = "") const;
};

// What a build gives along.
struct RegistryAccess {
  std::shared_ptr<BuildTools> tools;
  std::function<void(std::string line)> log;
};

// One image of a registry, read and checked. Its layers are fetched when the first is asked for, to
// a directory that goes with this object.
class RegistryImage final : public image::LayerBlobs {
 public:
  RegistryImage(Skopeo& skopeo, const RegistrySettings& settings, RegistryPlace place,
                RegistryAccess access, std::string directory)
      : skopeo_(skopeo),
        settings_(settings),
        place_(std::move(place)),
        access_(std::move(access)),
        directory_(std::move(directory)) {}
  ~RegistryImage() override;

  net::Task<Result<>> read(Deadline deadline);
  const image::OciImage& image() const { return image_; }
  net::Task<Result<image::FileSpan>> open(std::string digest, Deadline deadline) override;

 private:
  net::Task<Result<std::string>> inspect(std::vector<std::string> options, std::string url,
                                         Deadline deadline);
  net::Task<Result<>> fetch(Deadline deadline);
  // A command, and what its options about keys are called.
  struct Command {
    std::string name;
    std::string no_keys;
    std::string keys_in;
  };
  net::Task<Result<std::string>> call(Command command, std::vector<std::string> arguments,
                                      std::uint64_t file_bytes, Deadline deadline);
  // Puts this registry's where the program finds them; false if there are none.
  Result<bool> put_keys() const;
  std::string keys_path() const { return directory_ + "/" + kKeys; }

  static constexpr const char* kKeys = "auth.json";

  Skopeo& skopeo_;
  const RegistrySettings& settings_;
  RegistryPlace place_;
  RegistryAccess access_;
  std::string directory_;
  image::OciImage image_;
  bool fetched_ = false;
};

class Registries {
 public:
  // Removes what an earlier server left in the directory.
  Registries(net::asio::any_io_executor executor, net::asio::thread_pool& pool,
             RegistrySettings settings);

  bool any() const { return !settings_.allowed.empty(); }
  // Asks nobody: Code::not_found, with the repair, for a registry that may not be asked.
  Result<RegistryPlace> find(const std::string& name) const;
  net::Task<Result<std::shared_ptr<RegistryImage>>> read(RegistryPlace place, RegistryAccess access,
                                                         Deadline deadline);

 private:
  RegistrySettings settings_;
  Skopeo skopeo_;
};

}  // namespace firebreak::control
