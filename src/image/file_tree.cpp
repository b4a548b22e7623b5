#include "image/file_tree.h"

#include <algorithm>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/sys.h"
#include "wire/decompress.h"
#include "wire/path_pattern.h"
#include "wire/tar.h"

namespace firebreak::image {
namespace {

constexpr std::size_t kPiece = std::size_t{256} * 1024;
constexpr std::size_t kMaxMembers = 10'000;
constexpr std::size_t kMaxNames = std::size_t{4} << 20;

}  // namespace

Result<std::string> FileSpan::read(std::uint64_t from, std::size_t want) const {
  const std::uint64_t left = size - std::min(from, size);
  std::string out(static_cast<std::size_t>(std::min<std::uint64_t>(left, want)), '\0');
  FB_TRY(sys::pread_all(file->get(), std::as_writable_bytes(std::span(out)), offset + from));
  return out;
}

Result<std::string> FileSpan::read_all(std::size_t limit) const {
  if (size > limit)
    return fail(Code::exhausted, "it has more than " + std::to_string(limit) + " bytes");
  return read(0, limit);
}

Result<FileSpan> ContextTree::open(const std::string& path) const {
  const std::string full = wire::clean_path(directory_ + "/" + path);
  const ContextEntry* entry = context_->find(full);
  if (entry == nullptr || entry->type != ContextEntry::Type::file)
    return fail(Code::not_found, "there is no file " + quoted_path(full) + " in the context");
  return FileSpan{
      .file = {context_, &context_->contents()}, .offset = entry->offset, .size = entry->size};
}

Result<FileSpan> DiskTree::open(const std::string& path) const {
  FB_TRY_ASSIGN(UniqueFd fd, sys::open(directory_ + "/" + path, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  struct stat st{};
  if (::fstat(fd.get(), &st) != 0) return fail_errno("stat " + path);
  if (!S_ISREG(st.st_mode)) return fail(Code::not_found, path + " is not a regular file");
  return FileSpan{.file = std::make_shared<const UniqueFd>(std::move(fd)),
                  .offset = 0,
                  .size = static_cast<std::uint64_t>(st.st_size)};
}

// -------------------------------------------------------------------------------------- archives

namespace {

// Notes where files begin. What two entries have the same name, the later one counts, as when they
// are unpacked.
class Places final : public wire::TarReader::Sink {
 public:
  using Found = std::function<void(std::string path, std::uint64_t offset, std::uint64_t size)>;
  explicit Places(Found found) : found_(std::move(found)) {}

  Result<> feed(std::string_view bytes) { return reader_.feed(bytes); }
  Result<> finish() { return reader_.finish(); }

 private:
  Result<> on_entry(const wire::TarEntry& entry) override {
    if (entry.type != wire::TarType::file) return {};
    names_ += entry.path.size();
    if (++members_ > kMaxMembers || names_ > kMaxNames)
      return fail(Code::exhausted, "the archive has too many files for an image");
    found_(wire::clean_path(entry.path), reader_.offset(), entry.size);
    return {};
  }
  Result<> on_data(std::string_view) override { return {}; }
  Result<> on_entry_end() override { return {}; }

  Found found_;
  std::size_t members_ = 0;
  std::size_t names_ = 0;
  wire::TarReader reader_{*this};
};

}  // namespace

Result<std::unique_ptr<ArchiveTree>> ArchiveTree::read(FileSpan archive) {
  std::unique_ptr<ArchiveTree> tree(new ArchiveTree(std::move(archive)));
  Places places([&tree](std::string path, std::uint64_t offset, std::uint64_t size) {
    tree->members_[std::move(path)] = {.offset = offset, .size = size};
  });
  const FileSpan& span = tree->archive_;
  for (std::uint64_t at = 0; at < span.size;) {
    FB_TRY_ASSIGN(const std::string bytes, span.read(at, kPiece));
    if (at == 0 && wire::recognise_compression(bytes) != wire::Compression::none)
      return fail(Code::invalid, "the archive is compressed",
                  Repair{"an OCI archive is a plain tar archive"});
    FB_TRY(places.feed(bytes));
    at += bytes.size();
  }
  FB_TRY(places.finish());
  return tree;
}

Result<FileSpan> ArchiveTree::open(const std::string& path) const {
  const auto found = members_.find(path);
  if (found == members_.end())
    return fail(Code::not_found, "there is no file " + quoted_path(path) + " in the archive");
  return FileSpan{.file = archive_.file,
                  .offset = archive_.offset + found->second.offset,
                  .size = found->second.size};
}

}  // namespace firebreak::image
