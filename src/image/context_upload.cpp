#include "image/context_upload.h"

#include <fcntl.h>
#include <sys/mman.h>

#include "base/sys.h"
#include "wire/zip.h"

namespace firebreak::image {
namespace {

constexpr std::size_t kMagic = 4;

// The mapped bytes of a file that nobody else has.
class Mapping {
 public:
  static Result<Mapping> of(int fd, std::uint64_t size) {
    void* at = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED) return fail_errno("map the archive");
    return Mapping(at, size);
  }
  Mapping(Mapping&& other) noexcept : at_(std::exchange(other.at_, nullptr)), size_(other.size_) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    if (at_ != nullptr) ::munmap(at_, size_);
  }
  std::string_view bytes() const { return {static_cast<const char*>(at_), size_}; }

 private:
  Mapping(void* at, std::size_t size) : at_(at), size_(size) {}
  void* at_;
  std::size_t size_;
};

}  // namespace

Result<std::unique_ptr<ContextUpload>> ContextUpload::create(const std::string& directory,
                                                             const ContextLimits& limits) {
  FB_TRY_ASSIGN(auto writer, ContextWriter::create(directory, limits));
  FB_TRY_ASSIGN(UniqueFd spool, sys::open(directory, O_TMPFILE | O_RDWR, 0600));
  return std::unique_ptr<ContextUpload>(
      new ContextUpload(std::move(writer), std::move(spool), limits));
}

Result<> ContextUpload::feed(std::string_view bytes) {
  received_ += bytes.size();
  if (received_ > limits_.max_archive)
    return fail(Code::exhausted,
                "the upload is larger than " + std::to_string(limits_.max_archive) + " bytes");
  if (format_ != Format::unknown) return take(bytes);
  begin_ += bytes;
  if (begin_.size() < kMagic) return {};
  FB_TRY(recognise());
  return take(begin_);
}

Result<> ContextUpload::recognise() {
  constexpr std::string_view kEmptyZip = "PK\x05\x06";
  constexpr std::string_view kZip = "PK\x03\x04";
  const std::string_view magic = std::string_view(begin_).substr(0, kMagic);
  for (const std::string_view packed : {"\x1f\x8b", "\x28\xb5\x2f\xfd", "BZh",
                                        "\xfd"
                                        "7zX"})
    if (magic.starts_with(packed))
      return fail(Code::invalid, "the context is a compressed stream",
                  Repair{"send a plain tar archive or a "
                         "zip archive"});
  format_ = magic == kZip || magic == kEmptyZip ? Format::zip : Format::tar;
  return {};
}

Result<> ContextUpload::take(std::string_view bytes) {
  return format_ == Format::zip ? sys::write_all(spool_.get(), bytes) : tar_.feed(bytes);
}

Result<std::unique_ptr<BuildContext>> ContextUpload::finish() {
  if (format_ == Format::unknown)
    return fail(Code::invalid, "the context is neither a tar archive nor a zip archive");
  if (format_ == Format::zip) {
    FB_TRY(unzip());
  } else {
    FB_TRY(tar_.finish());
  }
  return writer_->finish();
}

Result<> ContextUpload::unzip() {
  FB_TRY_ASSIGN(const Mapping mapping, Mapping::of(spool_.get(), received_));
  const wire::ZipLimits limits{.max_entries = limits_.max_entries, .max_bytes = limits_.max_bytes};
  FB_TRY_ASSIGN(const wire::ZipArchive archive, wire::ZipArchive::open(mapping.bytes(), limits));
  for (const wire::ZipEntry& entry : archive.entries()) {
    if (entry.type == wire::ZipEntry::Type::dir) {
      FB_TRY(writer_->add_dir(entry.path, entry.mode));
    } else if (entry.type == wire::ZipEntry::Type::symlink) {
      std::string target;
      FB_TRY(archive.extract(entry, [&](std::string_view piece) -> Result<> {
        target += piece;
        return {};
      }));
      FB_TRY(writer_->add_symlink(entry.path, target));
    } else {
      FB_TRY(writer_->begin_file(entry.path, entry.mode, entry.size));
      FB_TRY(archive.extract(entry, [&](std::string_view piece) { return writer_->write(piece); }));
      FB_TRY(writer_->end_file());
    }
  }
  return {};
}

Result<> ContextUpload::on_entry(const wire::TarEntry& entry) {
  using wire::TarType;
  in_file_ = entry.type == TarType::file;
  switch (entry.type) {
    case TarType::file:
      return writer_->begin_file(entry.path, entry.mode, entry.size);
    case TarType::dir:
      return writer_->add_dir(entry.path, entry.mode);
    case TarType::symlink:
      return writer_->add_symlink(entry.path, entry.link_target);
    case TarType::hardlink:
      return writer_->add_hardlink(entry.path, entry.link_target);
    case TarType::fifo:
    case TarType::device:
      break;
  }
  return fail(Code::invalid,
              "the context holds " + quoted_path(entry.path) + ", a device or a pipe",
              Repair{"leave it out"});
}

Result<> ContextUpload::on_data(std::string_view bytes) {
  return writer_->write(bytes);
}

Result<> ContextUpload::on_entry_end() {
  return in_file_ ? writer_->end_file() : Result<>();
}

}  // namespace firebreak::image
