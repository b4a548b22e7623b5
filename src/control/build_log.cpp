#include "control/build_log.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/sys.h"

namespace firebreak::control {

void BuildLog::append(const core::BuildId& build, std::string_view text) {
  std::uint64_t& size = sizes_[build];
  if (size >= kMost) return;
  std::string bytes(text.substr(0, kMost - size));
  size += text.size();
  if (size >= kMost) bytes += "\n[the log is full: what follows is not kept]\n";
  if (!sys::mkdirs(directory_, 0700)) return;
  // A log that cannot be written must not fail a build.
  if (auto file = sys::open(path(build), O_WRONLY | O_CREAT | O_APPEND, 0600))
    (void)sys::write_all(file->get(), bytes);
  changed_.notify();
}

Result<std::string> BuildLog::read(const core::BuildId& build, std::uint64_t position) const {
  auto file = sys::open(path(build), O_RDONLY);
  if (!file) return std::string();
  std::string bytes(kPiece, '\0');
  const ssize_t got =
      ::pread(file->get(), bytes.data(), bytes.size(), static_cast<off_t>(position));
  if (got < 0) return fail_errno("reading a build's log");
  bytes.resize(static_cast<std::size_t>(got));
  return bytes;
}

void BuildLog::remove(const core::BuildId& build) {
  ::unlink(path(build).c_str());
  sizes_.erase(build);
}

Result<> BuildLog::keep_only(const std::set<core::BuildId>& builds) {
  if (!sys::exists(directory_)) return {};
  FB_TRY_ASSIGN(const auto names, sys::list_dir(directory_));
  for (const std::string& name : names)
    if (const core::BuildId build(name); !builds.contains(build)) remove(build);
  return {};
}

}  // namespace firebreak::control
