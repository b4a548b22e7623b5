#include "base/sys.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include <dirent.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/text.h"

namespace firebreak::sys {

Result<UniqueFd> open(const std::string& path, int flags, mode_t mode) {
  return openat(AT_FDCWD, path, flags, mode);
}

Result<UniqueFd> openat(int dir, const std::string& path, int flags, mode_t mode) {
  int fd = -1;
  do {
    fd = ::openat(dir, path.c_str(), flags | O_CLOEXEC, mode);
  } while (fd < 0 && errno == EINTR);
  if (fd < 0) return fail_errno("open " + path);
  return UniqueFd(fd);
}

Result<UniqueFd> dup(int fd) {
  int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (copy < 0) return fail_errno("dup");
  return UniqueFd(copy);
}

Result<std::pair<UniqueFd, UniqueFd>> pipe(int flags) {
  int fds[2];
  if (::pipe2(fds, flags | O_CLOEXEC) != 0) return fail_errno("pipe");
  return std::pair(UniqueFd(fds[0]), UniqueFd(fds[1]));
}

Result<std::pair<UniqueFd, UniqueFd>> socketpair(int type) {
  int fds[2];
  if (::socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, fds) != 0) return fail_errno("socketpair");
  return std::pair(UniqueFd(fds[0]), UniqueFd(fds[1]));
}

Result<> write_all(int fd, std::span<const std::byte> data) {
  while (!data.empty()) {
    ssize_t n = ::write(fd, data.data(), data.size());
    if (n < 0) {
      if (errno == EINTR) continue;
      return fail_errno("write");
    }
    data = data.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Result<> write_all(int fd, std::string_view data) {
  return write_all(fd, std::as_bytes(std::span(data)));
}

Result<> pwrite_all(int fd, std::span<const std::byte> data, std::uint64_t offset) {
  while (!data.empty()) {
    ssize_t n = ::pwrite(fd, data.data(), data.size(), static_cast<off_t>(offset));
    if (n < 0) {
      if (errno == EINTR) continue;
      return fail_errno("pwrite");
    }
    data = data.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

Result<> pread_all(int fd, std::span<std::byte> data, std::uint64_t offset) {
  while (!data.empty()) {
    ssize_t n = ::pread(fd, data.data(), data.size(), static_cast<off_t>(offset));
    if (n < 0) {
      if (errno == EINTR) continue;
      return fail_errno("pread");
    }
    if (n == 0) return fail(Code::corrupt, "file ends early");
    data = data.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return {};
}

Result<std::string> read_file(const std::string& path, std::size_t limit) {
  FB_TRY_ASSIGN(UniqueFd fd, open(path, O_RDONLY));
  std::string out;
  char buffer[16384];
  for (;;) {
    ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0) {
      if (errno == EINTR) continue;
      return fail_errno("read " + path);
    }
    if (n == 0) return out;
    if (out.size() + static_cast<std::size_t>(n) > limit)
      return fail(Code::exhausted, path + " is larger than " + std::to_string(limit) + " bytes");
    out.append(buffer, static_cast<std::size_t>(n));
  }
}

Result<> write_file(const std::string& path, std::string_view content) {
  FB_TRY_ASSIGN(UniqueFd fd, open(path, O_WRONLY));
  if (auto done = write_all(fd.get(), content); !done) return fail(done.error(), path);
  return {};
}

Result<> fsync_dir(const std::string& path) {
  FB_TRY_ASSIGN(UniqueFd fd, open(path, O_RDONLY | O_DIRECTORY));
  if (::fsync(fd.get()) != 0) return fail_errno("fsync " + path);
  return {};
}

namespace {
Result<> replace(const std::string& path, std::string_view content, mode_t mode, bool durable) {
  const std::string temporary = path + ".new-" + random_hex(4);
  {
    FB_TRY_ASSIGN(UniqueFd fd, open(temporary, O_WRONLY | O_CREAT | O_EXCL, mode));
    auto done = write_all(fd.get(), content);
    if (done && durable && ::fsync(fd.get()) != 0) done = fail_errno("fsync " + temporary);
    if (!done) {
      ::unlink(temporary.c_str());
      return done;
    }
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    auto error = fail_errno("rename to " + path);
    ::unlink(temporary.c_str());
    return error;
  }
  return {};
}
}  // namespace

Result<> replace_file(const std::string& path, std::string_view content, mode_t mode) {
  FB_TRY(replace(path, content, mode, true));
  return fsync_dir(std::filesystem::path(path).parent_path().string());
}

Result<> swap_file(const std::string& path, std::string_view content, mode_t mode) {
  return replace(path, content, mode, false);
}

Result<> mkdir(const std::string& path, mode_t mode) {
  if (::mkdir(path.c_str(), mode) == 0) return {};
  const int err = errno;
  struct stat st{};
  if (err == EEXIST && ::stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) return {};
  return fail_errno("mkdir " + path, err);
}

Result<> mkdirs(const std::string& path, mode_t mode) {
  const auto parent = std::filesystem::path(path).parent_path().string();
  if (!parent.empty() && parent != path && !exists(parent)) FB_TRY(mkdirs(parent, mode));
  return mkdir(path, mode);
}

Result<> remove_tree(const std::string& path) {
  std::error_code ec;
  std::filesystem::remove_all(path, ec);
  if (ec) return fail_errno("remove " + path, ec.value());
  return {};
}

Result<std::vector<std::string>> list_dir(const std::string& path) {
  std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(path.c_str()), &::closedir);
  if (!dir) return fail_errno("list " + path);
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

bool exists(const std::string& path) {
  struct stat st{};
  return ::lstat(path.c_str(), &st) == 0;
}

Result<std::uint64_t> file_size(int fd) {
  struct stat st{};
  if (::fstat(fd, &st) != 0) return fail_errno("fstat");
  return static_cast<std::uint64_t>(st.st_size);
}

void random_bytes(std::span<std::byte> out) {
  while (!out.empty()) {
    ssize_t n = ::getrandom(out.data(), out.size(), 0);
    if (n < 0) {
      if (errno == EINTR) continue;
      std::abort();
    }
    out = out.subspan(static_cast<std::size_t>(n));
  }
}

std::string random_hex(std::size_t bytes) {
  std::vector<std::byte> raw(bytes);
  random_bytes(raw);
  return to_hex(raw);
}

}  // namespace firebreak::sys
