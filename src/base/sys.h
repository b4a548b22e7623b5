// One door to the system calls that can fail: each captures what was attempted, its argument and
// errno. Any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "base/fd.h"
#include "base/result.h"

namespace firebreak::sys {

// Descriptors are close-on-exec, always.
Result<UniqueFd> open(const std::string& path, int flags, mode_t mode = 0);
Result<UniqueFd> openat(int dir, const std::string& path, int flags, mode_t mode = 0);
Result<UniqueFd> dup(int fd);
Result<std::pair<UniqueFd, UniqueFd>> pipe(int flags = 0);
Result<std::pair<UniqueFd, UniqueFd>> socketpair(int type);

Result<> write_all(int fd, std::span<const std::byte> data);
Result<> write_all(int fd, std::string_view data);
Result<> pwrite_all(int fd, std::span<const std::byte> data, std::uint64_t offset);
// Exactly data.size() bytes, or Code::corrupt when the file ends before.
Result<> pread_all(int fd, std::span<std::byte> data, std::uint64_t offset);

// Whole small file; Code::exhausted above `limit`.
Result<std::string> read_file(const std::string& path, std::size_t limit = 1 << 20);
// Overwrites in place with one write: for files of /proc, /sys and cgroups.
Result<> write_file(const std::string& path, std::string_view content);
// Writes beside it, fsyncs, renames, fsyncs the directory: after success the new content survives a
// power cut.
Result<> replace_file(const std::string& path, std::string_view content, mode_t mode = 0600);
// Replaces it whole as well, but only against a crash of this process, not of the host: no syncing.
Result<> swap_file(const std::string& path, std::string_view content, mode_t mode = 0600);
Result<> fsync_dir(const std::string& path);

Result<> mkdir(const std::string& path, mode_t mode);   // an existing directory is fine
Result<> mkdirs(const std::string& path, mode_t mode);  // with parents
Result<> remove_tree(const std::string& path);  // a missing path is fine; never follows links
Result<std::vector<std::string>> list_dir(const std::string& path);
bool exists(const std::string& path);
Result<std::uint64_t> file_size(int fd);

// Fills with bytes from the kernel's generator; aborts the process if the kernel has none to give.
void random_bytes(std::span<std::byte> out);
std::string random_hex(std::size_t bytes);

}  // namespace firebreak::sys
