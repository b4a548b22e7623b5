// What RUN --mount=type=cache left, from build to build: one archive for each owner and key, as a
// guest packed it. The host never looks inside; only a guest of the same owner gets it back. An
// archive appears whole or not at all, and the last build to put one there wins. Owned by the
// program; blocking functions, any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "image/file_tree.h"

namespace firebreak::image {

class CacheMounts {
 public:
  // An archive on its way here; it vanishes unless it is committed.
  class Writer {
   public:
    Writer(UniqueFd file, std::string path, std::string place, std::uint64_t most)
        : file_(std::move(file)), path_(std::move(path)), place_(std::move(place)), left_(most) {}
    ~Writer();
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;

    // Code::exhausted once there is more than it may have.
    Result<> write(std::string_view bytes);
    Result<> commit();

   private:
    UniqueFd file_;
    std::string path_;   // until it is committed
    std::string place_;  // then
    std::uint64_t left_;
  };

  // Removes archives that were cut off.
  static Result<std::unique_ptr<CacheMounts>> open(std::string directory);
  CacheMounts(const CacheMounts&) = delete;
  CacheMounts& operator=(const CacheMounts&) = delete;
  ~CacheMounts() = default;

  // Counts as a use. The file stays readable while another build replaces or removes it.
  std::optional<FileSpan> find(const std::string& owner, const std::string& key) const;
  Result<std::unique_ptr<Writer>> begin(const std::string& owner, const std::string& key,
                                        std::uint64_t most) const;

  Result<std::uint64_t> bytes(const std::string& owner) const;
  // Removes the owner's least recently used until `bytes` are left.
  Result<> shrink(const std::string& owner, std::uint64_t bytes) const;
  Result<> remove(const std::string& owner) const;
  Result<std::vector<std::string>> owners() const;

 private:
  struct Entry {
    std::string path;
    std::int64_t used = 0;
    std::uint64_t bytes = 0;
  };

  explicit CacheMounts(std::string directory) : directory_(std::move(directory)) {}
  std::string owner_dir(const std::string& owner) const { return directory_ + "/" + owner; }
  Result<std::vector<Entry>> entries(const std::string& owner) const;

  std::string directory_;
};

}  // namespace firebreak::image
