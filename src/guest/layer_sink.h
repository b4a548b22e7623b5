// A layer of an OCI image, unpacked onto the tenant's root with the rules of the specification:
// whiteouts remove, what has another type is replaced, links in paths stay inside the root. The
// archive has whatever it removes first. Blocking: for worker threads, one at a time.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "guest/tenant_tar.h"

namespace firebreak::guest {

class LayerSink final : private wire::TarReader::Sink {
 public:
  static Result<std::unique_ptr<LayerSink>> open(int root_fd);
  LayerSink(const LayerSink&) = delete;
  LayerSink& operator=(const LayerSink&) = delete;
  ~LayerSink() override = default;

  Result<> feed(std::string_view bytes) { return reader_.feed(bytes); }
  // Code::invalid if the archive is cut.
  Result<> finish();

 private:
  LayerSink(UniqueFd root, std::unique_ptr<TarSink> files)
      : root_(std::move(root)), files_(std::move(files)) {}

  Result<> on_entry(const wire::TarEntry& entry) override;
  Result<> on_data(std::string_view bytes) override;
  Result<> on_entry_end() override;

  Result<> set_root(const wire::TarEntry& entry);
  Result<> remove(const std::string& parent, std::string_view whiteout);
  // False: the guest has something of its own there, which stays.
  Result<bool> make_way(const std::string& parent, const std::string& name, bool for_directory);

  UniqueFd root_;
  std::unique_ptr<TarSink> files_;
  bool skipping_ = false;  // the current entry
  wire::TarReader reader_{*this};
};

}  // namespace firebreak::guest
