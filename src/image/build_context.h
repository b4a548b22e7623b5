// The files that came with a build: a tree in memory and one unnamed file with all contents. No
// name of the archive ever becomes a file name on the host, and nothing is left after a crash.
// Written once, then read only; any thread then.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/deadline.h"
#include "base/fd.h"
#include "base/result.h"
#include "machine/hash.h"
#include "wire/dockerignore.h"

namespace firebreak::image {

struct ContextLimits {
  std::uint64_t max_archive = std::uint64_t{2} << 30;  // bytes received
  std::uint64_t max_bytes = std::uint64_t{4} << 30;    // of all contents
  std::uint64_t max_file = std::uint64_t{2} << 30;
  std::size_t max_entries = 100'000;
  std::size_t max_path = 1024;
  std::size_t max_depth = 64;
};

struct ContextEntry {
  enum class Type { file, dir, symlink };
  Type type = Type::file;
  std::uint32_t mode = 0644;  // permission bits
  std::uint64_t size = 0;
  std::uint64_t offset = 0;  // in the file of contents
  std::string sha256;        // of a file, hex
  std::string target;        // of a symlink
  friend bool operator==(const ContextEntry&, const ContextEntry&) = default;
};

class BuildContext {
 public:
  // Paths are relative and clean. Every entry's directory is an entry as well; the top is not.
  using Entries = std::map<std::string, ContextEntry, std::less<>>;
  const Entries& entries() const { return entries_; }
  const ContextEntry* find(std::string_view path) const;
  std::uint64_t bytes() const { return bytes_; }
  // The file that holds all contents.
  const UniqueFd& contents() const { return contents_; }

  // A part of a file's content; shorter only at its end. Blocking.
  Result<std::string> read(const ContextEntry& file, std::uint64_t from, std::size_t want) const;

 private:
  friend class ContextWriter;
  BuildContext() = default;
  Entries entries_;
  UniqueFd contents_;
  std::uint64_t bytes_ = 0;
};

// Puts a context together, entry by entry, from an archive that nobody trusts: paths that are
// absolute or go up, entries below what is not a directory, duplicates and too much of anything are
// refused. Blocking; single thread.
class ContextWriter {
 public:
  // `directory` is on the file system that is to hold the contents.
  static Result<std::unique_ptr<ContextWriter>> create(const std::string& directory,
                                                       const ContextLimits& limits);
  ContextWriter(const ContextWriter&) = delete;
  ContextWriter& operator=(const ContextWriter&) = delete;

  Result<> add_dir(std::string_view path, std::uint32_t mode);
  Result<> add_symlink(std::string_view path, std::string_view target);
  // A second name for a file that is there already: as good as a copy.
  Result<> add_hardlink(std::string_view path, std::string_view to);
  Result<> begin_file(std::string_view path, std::uint32_t mode, std::uint64_t size);
  Result<> write(std::string_view bytes);
  Result<> end_file();

  std::unique_ptr<BuildContext> finish() { return std::move(context_); }

 private:
  ContextWriter(const ContextLimits& limits, UniqueFd contents);
  Result<std::string> place(std::string_view path, bool dir);
  Result<ContextEntry*> put(std::string_view path, ContextEntry entry);
  Result<> make_parents(std::string_view path);

  ContextLimits limits_;
  std::unique_ptr<BuildContext> context_;
  ContextEntry* file_ = nullptr;  // being written
  std::uint64_t left_ = 0;        // of it
  std::unique_ptr<machine::Sha256> hash_;
};

// The text of the Dockerfile; not_found says what may have been meant.
Result<std::string> read_dockerfile(const BuildContext& context, const std::string& name);
// NAME.dockerignore, or .dockerignore, or no rules.
Result<wire::IgnoreRules> read_ignore_rules(const BuildContext& context, const std::string& name);
// Refuses symlinks that lead out of the context, unless the rules leave them out. Many rules on
// many links take long, hence the deadline.
Result<> check_links(const BuildContext& context, const wire::IgnoreRules& ignore,
                     Deadline deadline);

// A path for a message: printable, bounded, in quotes.
std::string quoted_path(std::string_view path);

}  // namespace firebreak::image
