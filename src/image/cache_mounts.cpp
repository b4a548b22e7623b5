#include "image/cache_mounts.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"

namespace firebreak::image {
namespace {

constexpr std::string_view kUnfinished = "new-";

}  // namespace

CacheMounts::Writer::~Writer() {
  if (!path_.empty()) ::unlink(path_.c_str());
}

Result<> CacheMounts::Writer::write(std::string_view bytes) {
  if (bytes.size() > left_)
    return fail(Code::exhausted, "it is larger than what a tenant's cache mounts may hold");
  left_ -= bytes.size();
  return sys::write_all(file_.get(), bytes);
}

Result<> CacheMounts::Writer::commit() {
  // A name whose content a power cut has lost would be worse than none.
  if (::fdatasync(file_.get()) != 0) return fail_errno("sync " + path_);
  if (::rename(path_.c_str(), place_.c_str()) != 0) return fail_errno("rename " + path_);
  path_.clear();
  return {};
}

Result<std::unique_ptr<CacheMounts>> CacheMounts::open(std::string directory) {
  FB_TRY(sys::mkdirs(directory, 0700));
  std::unique_ptr<CacheMounts> mounts(new CacheMounts(std::move(directory)));
  FB_TRY_ASSIGN(const auto owners, mounts->owners());
  for (const std::string& owner : owners) {
    FB_TRY_ASSIGN(const auto names, sys::list_dir(mounts->owner_dir(owner)));
    for (const std::string& name : names)
      if (name.starts_with(kUnfinished)) ::unlink((mounts->owner_dir(owner) + "/" + name).c_str());
  }
  return mounts;
}

std::optional<FileSpan> CacheMounts::find(const std::string& owner, const std::string& key) const {
  const std::string path = owner_dir(owner) + "/" + key;
  auto file = sys::open(path, O_RDONLY);
  if (!file) return std::nullopt;
  const auto size = sys::file_size(file->get());
  if (!size) return std::nullopt;
  ::futimens(file->get(), nullptr);
  return FileSpan{.file = std::make_shared<const UniqueFd>(*std::move(file)), .size = *size};
}

Result<std::unique_ptr<CacheMounts::Writer>> CacheMounts::begin(const std::string& owner,
                                                                const std::string& key,
                                                                std::uint64_t most) const {
  FB_TRY(sys::mkdirs(owner_dir(owner), 0700));
  const std::string path = owner_dir(owner) + "/" + std::string(kUnfinished) + sys::random_hex(16);
  FB_TRY_ASSIGN(UniqueFd file, sys::open(path, O_WRONLY | O_CREAT | O_EXCL, 0600));
  return std::make_unique<Writer>(std::move(file), path, owner_dir(owner) + "/" + key, most);
}

Result<std::vector<std::string>> CacheMounts::owners() const {
  return sys::list_dir(directory_);
}

Result<std::vector<CacheMounts::Entry>> CacheMounts::entries(const std::string& owner) const {
  std::vector<Entry> all;
  if (!sys::exists(owner_dir(owner))) return all;
  FB_TRY_ASSIGN(const auto names, sys::list_dir(owner_dir(owner)));
  for (const std::string& name : names) {
    if (name.starts_with(kUnfinished)) continue;
    const std::string path = owner_dir(owner) + "/" + name;
    struct stat st{};
    if (::stat(path.c_str(), &st) != 0) continue;  // another build has just replaced it
    all.push_back({.path = path,
                   .used = st.st_mtim.tv_sec * 1'000'000'000LL + st.st_mtim.tv_nsec,
                   .bytes = static_cast<std::uint64_t>(st.st_size)});
  }
  return all;
}

Result<std::uint64_t> CacheMounts::bytes(const std::string& owner) const {
  FB_TRY_ASSIGN(const auto all, entries(owner));
  std::uint64_t total = 0;
  for (const Entry& entry : all) total += entry.bytes;
  return total;
}

Result<> CacheMounts::shrink(const std::string& owner, std::uint64_t bytes) const {
  FB_TRY_ASSIGN(auto all, entries(owner));
  std::ranges::sort(all, {}, &Entry::used);
  std::uint64_t total = 0;
  for (const Entry& entry : all) total += entry.bytes;
  for (const Entry& entry : all) {
    if (total <= bytes) break;
    if (::unlink(entry.path.c_str()) != 0 && errno != ENOENT)
      return fail_errno("unlink " + entry.path);
    total -= entry.bytes;
  }
  return {};
}

Result<> CacheMounts::remove(const std::string& owner) const {
  return sys::remove_tree(owner_dir(owner));
}

}  // namespace firebreak::image
