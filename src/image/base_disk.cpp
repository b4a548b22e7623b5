#include "image/base_disk.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "base/sys.h"
#include "machine/hash.h"
#include "machine/tool.h"

namespace firebreak::image {
namespace {

constexpr const char* kRelease = "/etc/debian_version";
constexpr std::size_t kBlock = 4096;
constexpr std::size_t kPiece = 256 * kBlock;
constexpr std::size_t kMaxRelease = 64;

// Holes and zeros are the same: how a file was copied decides which of them it has.
Result<> hash_content(int fd, BaseDisk& out, Deadline deadline) {
  machine::Sha256 hash;
  std::vector<char> piece(kPiece);
  off_t at = 0;
  for (;;) {
    at = ::lseek(fd, at, SEEK_DATA);
    if (at < 0 && errno == ENXIO) break;
    if (at < 0) return fail_errno("reading a base disk");
    at -= at % static_cast<off_t>(kBlock);
    const ssize_t got = ::pread(fd, piece.data(), piece.size(), at);
    if (got < 0) return fail_errno("reading a base disk");
    const std::string_view all(piece.data(), static_cast<std::size_t>(got));
    for (std::size_t i = 0; i < all.size(); i += kBlock) {
      const std::string_view block = all.substr(i, kBlock);
      if (std::ranges::all_of(block, [](char c) { return c == 0; })) continue;
      hash.update(std::to_string(at + static_cast<off_t>(i)) + ":");
      hash.update(block);
      out.bytes += block.size();
    }
    at += got;
    if (deadline.passed()) return fail(Code::timeout, "reading a base disk took too long");
  }
  out.digest = "sha256:" + hash.hex();
  return {};
}

}  // namespace

Result<BaseDisk> inspect_base_disk(const std::string& disk, Deadline deadline) {
  BaseDisk out;
  FB_TRY_ASSIGN(const UniqueFd fd, sys::open(disk, O_RDONLY));
  FB_TRY(hash_content(fd.get(), out, deadline));
  FB_TRY_ASSIGN(
      const std::string release,
      machine::run_tool({"/sbin/debugfs", "-R", std::string("cat ") + kRelease, disk}, deadline));
  out.version = release.substr(0, std::min(release.find('\n'), kMaxRelease));
  return out;
}

}  // namespace firebreak::image
