// Trees of the tenant as tar streams: TarSource packs, TarSink unpacks. Blocking: for worker
// threads, one thread at a time. Memory is bounded for any tree and any archive; neither ever
// leaves the directory it was given.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "base/fd.h"
#include "base/result.h"
#include "base/rooted.h"
#include "wire/tar.h"

namespace firebreak::guest {

// The contents of a directory, or one regular file. Sockets, devices and what is mounted below are
// left out.
class TarSource {
 public:
  static Result<std::unique_ptr<TarSource>> open(int root_fd, const std::string& path);
  TarSource(const TarSource&) = delete;
  TarSource& operator=(const TarSource&) = delete;
  ~TarSource();

  // Appends archive bytes until `out` holds about `want`; false once the archive is complete.
  Result<bool> read(std::string& out, std::size_t want = std::size_t{64} * 1024);

 private:
  struct Level {
    DirStream dir;
    std::size_t path_size;  // of path_ without this directory's entries
  };

  TarSource() = default;
  Result<> step(std::string& out);
  Result<> add(int dir, const std::string& name, std::string& out);
  Result<> add_file(UniqueFd file, const std::string& path, std::string& out);
  Result<> add_content(std::string& out, std::size_t want);

  wire::TarWriter writer_;
  std::vector<Level> levels_;
  std::string path_;  // of the directory at the top of levels_, with a '/' at the end
  UniqueFd file_;     // whose content is being sent
  std::uint64_t left_ = 0;
  std::string single_;  // name of the only file, until it was begun
  bool finished_ = false;
  // Where files with several links were put first. Full: later links become copies.
  std::map<std::pair<dev_t, ino_t>, std::string> links_;
  std::size_t links_bytes_ = 0;
};

// "a/b" of "/a//./b/". `..` is refused even where it would stay inside: no honest archive needs it.
Result<std::string> archive_path(const std::string& path);

// Unpacks below a directory. An entry replaces a file of its name; directories are merged.
class TarSink final : public wire::TarReader::Sink {
 public:
  static Result<std::unique_ptr<TarSink>> open(int root_fd, const std::string& path);
  // Everything belongs to `owner`; directories that are missing on the way to `path`, too.
  static Result<std::unique_ptr<TarSink>> open_for(int root_fd, const std::string& path,
                                                   std::optional<Owner> owner);
  // Into a root that links in the archive's paths may lead through, but not into what is mounted
  // there.
  static Result<std::unique_ptr<TarSink>> open_root(int root_fd);
  TarSink(const TarSink&) = delete;
  TarSink& operator=(const TarSink&) = delete;
  ~TarSink() override;

  Result<> feed(std::string_view bytes) { return reader_.feed(bytes); }
  // Code::invalid if the archive is cut.
  Result<> finish();

  // For a caller that has read the archive itself.
  Result<> on_entry(const wire::TarEntry& entry) override;
  Result<> on_data(std::string_view bytes) override;
  Result<> on_entry_end() override;

 private:
  struct Times {
    std::string path;
    std::int64_t mtime_ns;
  };

  TarSink(UniqueFd target, std::optional<Owner> owner, std::uint64_t resolve = kBeneath)
      : target_(std::move(target)), owner_(owner), resolve_(resolve) {}

  Result<> make(const wire::TarEntry& entry, const std::string& path);
  Result<> make_directory(const wire::TarEntry& entry, const std::string& path);
  Result<> make_fifo(const wire::TarEntry& entry);
  Result<> make_hardlink(const wire::TarEntry& entry);
  Result<> enter_parent(const std::string& parent);

  UniqueFd target_;
  std::optional<Owner> owner_;              // of everything, whatever the archive says
  std::uint64_t resolve_;                   // how paths are followed from the target
  UniqueFd parent_;                         // of the current entry
  std::optional<std::string> parent_path_;  // below the target; what parent_ is for
  std::string name_;                        // of the current entry in parent_
  std::unique_ptr<NewFile> file_;           // being written; borrows parent_
  wire::TarEntry entry_;                    // the file's
  std::vector<Times> dir_times_;            // set at the end: each new entry changes them
  std::size_t dir_times_bytes_ = 0;
  wire::TarReader reader_{*this};
};

}  // namespace firebreak::guest
