// A directory that comes out of a guest as a tar stream, unpacked on the user's machine. The
// archive is hostile, and so is what an earlier copy left in the target: no name, link or type in
// either makes this write, link or change anything outside of the target. Owned by one copy;
// blocking, one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/fd.h"
#include "base/result.h"
#include "base/rooted.h"
#include "wire/tar.h"

namespace firebreak::client {

// An entry replaces a file or a link of its name; directories are merged. No entry goes through a
// link. Owners and special bits are not taken over, modes are limited by `mask`.
class Unpack final : private wire::TarReader::Sink {
 public:
  // What became something else than the archive said.
  struct Changes {
    std::uint64_t left_out = 0;  // FIFOs and devices
    std::uint64_t texts = 0;     // links that lead out of the target, written as text files
    std::string example;         // path of the first such link
  };

  Unpack(UniqueFd target, mode_t mask) : target_(std::move(target)), mask_(mask) {}
  Unpack(const Unpack&) = delete;
  Unpack& operator=(const Unpack&) = delete;
  ~Unpack() override = default;

  Result<> feed(std::string_view bytes) { return reader_.feed(bytes); }
  // Code::invalid if the archive is cut.
  Result<> finish();
  const Changes& changes() const { return changes_; }

 private:
  struct Directory {
    std::string path;
    mode_t mode;
    std::int64_t mtime_ns;
  };

  Result<> on_entry(const wire::TarEntry& entry) override;
  Result<> on_data(std::string_view bytes) override;
  Result<> on_entry_end() override;

  Result<> make(const wire::TarEntry& entry, const std::string& path);
  Result<> make_directory(const wire::TarEntry& entry, const std::string& path);
  Result<> make_symlink(const wire::TarEntry& entry, const std::string& path);
  Result<> make_hardlink(const wire::TarEntry& entry);
  Result<> begin_file(const wire::TarEntry& entry);
  Result<> enter_parent(const std::string& parent);

  UniqueFd target_;
  mode_t mask_;
  UniqueFd parent_;                         // of the current entry
  std::optional<std::string> parent_path_;  // below the target; what parent_ is for
  std::string name_;                        // of the current entry in parent_
  std::unique_ptr<NewFile> file_;           // being written; borrows parent_
  wire::TarEntry entry_;                    // the file's
  // Made by this copy. They get their modes and times at the end: each new entry needs the one and
  // changes the other.
  std::vector<Directory> directories_;
  std::size_t directories_bytes_ = 0;
  Changes changes_;
  wire::TarReader reader_{*this};
};

struct Entered {
  UniqueFd directory;  // O_PATH
  bool made = false;
};
// The directory `name` in `parent`, which is made if it is missing. A file or a link of that name
// is replaced.
Result<Entered> enter_directory(int parent, const std::string& name, mode_t mode);

// Whether a symbolic link at `path` (relative to the target) stays inside the target, whatever the
// other links there are. `..` may stand at its beginning only: behind a name that is a link itself
// it would lead elsewhere than it seems to.
bool stays_inside(std::string_view path, std::string_view link_target);

}  // namespace firebreak::client
