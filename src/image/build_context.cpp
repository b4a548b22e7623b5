#include "image/build_context.h"

#include <algorithm>
#include <vector>

#include <fcntl.h>

#include "base/sys.h"
#include "base/text.h"
#include "wire/dockerfile.h"

namespace firebreak::image {
namespace {

constexpr std::size_t kMaxName = 255;
constexpr std::size_t kMaxTarget = 4095;

std::string_view parent_of(std::string_view path) {
  const auto slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

Result<std::string> read_text(const BuildContext& context, const ContextEntry& file,
                              const std::string& name, std::size_t limit) {
  if (file.size > limit)
    return fail(Code::exhausted, name + ": larger than " + std::to_string(limit) + " bytes");
  return context.read(file, 0, limit);
}

}  // namespace

std::string quoted_path(std::string_view path) {
  constexpr std::size_t kShown = 200;
  std::string out = "'";
  for (const char c : path.substr(0, kShown))
    out.push_back(static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c);
  return out + (path.size() > kShown ? "...'" : "'");
}

const ContextEntry* BuildContext::find(std::string_view path) const {
  const auto found = entries_.find(path);
  return found == entries_.end() ? nullptr : &found->second;
}

Result<std::string> BuildContext::read(const ContextEntry& file, std::uint64_t from,
                                       std::size_t want) const {
  const std::uint64_t left = file.size - std::min(from, file.size);
  std::string out(static_cast<std::size_t>(std::min<std::uint64_t>(left, want)), '\0');
  FB_TRY(
      sys::pread_all(contents_.get(), std::as_writable_bytes(std::span(out)), file.offset + from));
  return out;
}

// ----------------------------------------------------------------------------------------------
// writing

ContextWriter::ContextWriter(const ContextLimits& limits, UniqueFd contents)
    : limits_(limits), context_(new BuildContext()) {
  context_->contents_ = std::move(contents);
}

Result<std::unique_ptr<ContextWriter>> ContextWriter::create(const std::string& directory,
                                                             const ContextLimits& limits) {
  FB_TRY_ASSIGN(UniqueFd contents, sys::open(directory, O_TMPFILE | O_RDWR, 0600));
  return std::unique_ptr<ContextWriter>(new ContextWriter(limits, std::move(contents)));
}

// The clean form of a path, which is where it stays.
Result<std::string> ContextWriter::place(std::string_view path, bool dir) {
  const auto refuse = [&](std::string_view why, Repair repair = {}) {
    return fail(Code::invalid, "the context holds " + quoted_path(path) + ", " + std::string(why),
                std::move(repair));
  };
  if (path.starts_with('/'))
    return refuse("an absolute path", Repair{"pack paths relative to its directory"});
  if (path.contains('\0')) return refuse("a path with a NUL byte");
  if (path.size() > limits_.max_path)
    return refuse("a path of more than " + std::to_string(limits_.max_path) + " bytes");
  std::size_t depth = 0;
  for (const std::string_view part : split(path, '/')) {
    if (part == "..") return refuse("a path that leads out of it");
    if (part.size() > kMaxName) return refuse("a name of more than 255 bytes");
    if (++depth > limits_.max_depth)
      return refuse("a path deeper than " + std::to_string(limits_.max_depth) + " directories");
  }
  std::string clean = wire::clean_path(path);
  if (clean == "." && !dir) return refuse("which is not a directory");
  return clean;
}

Result<ContextEntry*> ContextWriter::put(std::string_view path, ContextEntry entry) {
  if (context_->entries_.size() >= limits_.max_entries)
    return fail(Code::exhausted,
                "the context has more than " + std::to_string(limits_.max_entries) + " entries",
                Repair{"leave some out with .dockerignore"});
  const auto [at, added] = context_->entries_.try_emplace(std::string(path), std::move(entry));
  if (!added) return fail(Code::invalid, "the context holds " + quoted_path(path) + " twice");
  return &at->second;
}

Result<> ContextWriter::make_parents(std::string_view path) {
  const std::string_view parent = parent_of(path);
  if (parent.empty()) return {};
  if (const ContextEntry* found = context_->find(parent)) {
    if (found->type == ContextEntry::Type::dir) return {};
    return fail(Code::invalid, "the context holds " + quoted_path(path) + ", but " +
                                   quoted_path(parent) + " is not a directory");
  }
  FB_TRY(make_parents(parent));
  FB_TRY(put(parent, {.type = ContextEntry::Type::dir, .mode = 0755}));
  return {};
}

Result<> ContextWriter::add_dir(std::string_view path, std::uint32_t mode) {
  FB_TRY_ASSIGN(const std::string clean, place(path, true));
  if (clean == ".") return {};
  FB_TRY(make_parents(clean));
  // Named again, or after something in it: only now its mode is known.
  const auto found = context_->entries_.find(clean);
  if (found != context_->entries_.end() && found->second.type == ContextEntry::Type::dir) {
    found->second.mode = mode & 07777;
    return {};
  }
  FB_TRY(put(clean, {.type = ContextEntry::Type::dir, .mode = mode & 07777}));
  return {};
}

Result<> ContextWriter::add_symlink(std::string_view path, std::string_view target) {
  FB_TRY_ASSIGN(const std::string clean, place(path, false));
  if (target.empty() || target.size() > kMaxTarget || target.contains('\0'))
    return fail(Code::invalid, "the context holds " + quoted_path(path) +
                                   ", a symbolic link without a usable target");
  FB_TRY(make_parents(clean));
  FB_TRY(put(clean,
             {.type = ContextEntry::Type::symlink, .mode = 0777, .target = std::string(target)}));
  return {};
}

Result<> ContextWriter::add_hardlink(std::string_view path, std::string_view to) {
  FB_TRY_ASSIGN(const std::string clean, place(path, false));
  FB_TRY_ASSIGN(const std::string original, place(to, false));
  const ContextEntry* found = context_->find(original);
  if (found == nullptr || found->type != ContextEntry::Type::file)
    return fail(Code::invalid, "the context holds " + quoted_path(path) +
                                   ", a hard link to something that is no file before it");
  ContextEntry copy = *found;
  // It shares the content here, and is a file of its own in the image.
  if (copy.size > limits_.max_bytes - std::min(context_->bytes_, limits_.max_bytes))
    return fail(Code::exhausted,
                "the context is larger than " + std::to_string(limits_.max_bytes) + " bytes");
  context_->bytes_ += copy.size;
  FB_TRY(make_parents(clean));
  FB_TRY(put(clean, std::move(copy)));
  return {};
}

Result<> ContextWriter::begin_file(std::string_view path, std::uint32_t mode, std::uint64_t size) {
  FB_TRY_ASSIGN(const std::string clean, place(path, false));
  if (size > limits_.max_file)
    return fail(Code::exhausted,
                "the context holds " + quoted_path(path) + " of " + std::to_string(size) +
                    " bytes; a file has at most " + std::to_string(limits_.max_file),
                Repair{"leave it out with .dockerignore"});
  if (size > limits_.max_bytes - std::min(context_->bytes_, limits_.max_bytes))
    return fail(Code::exhausted,
                "the context is larger than " + std::to_string(limits_.max_bytes) + " bytes",
                Repair{"leave something out with .dockerignore"});
  FB_TRY(make_parents(clean));
  FB_TRY_ASSIGN(const std::uint64_t end, sys::file_size(context_->contents_.get()));
  FB_TRY_ASSIGN(file_, put(clean, {.mode = mode & 07777, .size = size, .offset = end}));
  context_->bytes_ += size;
  left_ = size;
  hash_ = std::make_unique<machine::Sha256>();
  return {};
}

Result<> ContextWriter::write(std::string_view bytes) {
  if (file_ == nullptr || bytes.size() > left_)
    return fail(Code::invalid, "a file of the context is longer than announced");
  FB_TRY(sys::pwrite_all(context_->contents_.get(), std::as_bytes(std::span(bytes)),
                         file_->offset + file_->size - left_));
  left_ -= bytes.size();
  hash_->update(bytes);
  return {};
}

Result<> ContextWriter::end_file() {
  if (file_ == nullptr || left_ != 0)
    return fail(Code::invalid, "a file of the context is shorter than announced");
  file_->sha256 = hash_->hex();
  file_ = nullptr;
  return {};
}

// ----------------------------------------------------------------------------------------------
// reading

Result<std::string> read_dockerfile(const BuildContext& context, const std::string& name) {
  const std::string path = wire::clean_path(name);
  if (const ContextEntry* found = context.find(path)) {
    if (found->type != ContextEntry::Type::file)
      return fail(Code::invalid, quoted_path(name) + " is not a regular file");
    return read_text(context, *found, path, wire::DockerfileLimits().max_bytes);
  }
  Repair repair;
  for (const auto& [other, entry] : context.entries()) {
    if (entry.type != ContextEntry::Type::file) continue;
    if (lower(other) == lower(path))
      repair.text = "there is " + quoted_path(other) + ": rename it, or name it with --file";
    if (repair.text.empty() && other.ends_with("/" + path) && std::ranges::count(other, '/') == 1)
      repair.text = "there is " + quoted_path(other) +
                    ": pack the contents of the directory, not the directory";
  }
  if (context.entries().empty()) repair.text = "the context is empty";
  return fail(Code::not_found, "there is no " + quoted_path(path) + " at the top of the context",
              std::move(repair));
}

Result<wire::IgnoreRules> read_ignore_rules(const BuildContext& context, const std::string& name) {
  for (const std::string& path :
       {wire::clean_path(name) + ".dockerignore", std::string(".dockerignore")}) {
    const ContextEntry* found = context.find(path);
    if (found == nullptr || found->type != ContextEntry::Type::file) continue;
    FB_TRY_ASSIGN(const std::string text,
                  read_text(context, *found, path, wire::IgnoreRules::kMaxBytes));
    return wire::IgnoreRules::parse(text, path);
  }
  return wire::IgnoreRules();
}

Result<> check_links(const BuildContext& context, const wire::IgnoreRules& ignore,
                     Deadline deadline) {
  for (const auto& [path, entry] : context.entries()) {
    if (entry.type != ContextEntry::Type::symlink) continue;
    if (deadline.passed())
      return fail(Code::timeout, "looking at the links of the context took too long",
                  Repair{"use fewer patterns in "
                         ".dockerignore"});
    const std::string_view parent = parent_of(path);
    const std::string target =
        wire::clean_path(parent.empty() ? entry.target : std::string(parent) + "/" + entry.target);
    const bool out = entry.target.starts_with('/') || target == ".." || target.starts_with("../");
    if (!out || ignore.excludes(path)) continue;
    return fail(Code::invalid,
                "the context holds " + quoted_path(path) +
                    ", a symbolic link that leads out of it, to " + quoted_path(entry.target),
                Repair{"replace it by the file, or leave it out with .dockerignore"});
  }
  return {};
}

}  // namespace firebreak::image
