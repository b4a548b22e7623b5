#include "machine/qemu/ram_image.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <span>
#include <vector>

#include <sys/mman.h>
#include <sys/stat.h>

#include "base/sys.h"
#include "base/text.h"
#include "machine/hash.h"

namespace firebreak::machine {
namespace {

constexpr int kSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
constexpr std::size_t kChunk = 1 << 20;

// Calls `visit(offset, bytes)` for every block of a sparse file that has content. All-zero blocks
// do not count as content, so a copy has the same blocks as its source whatever the file system
// made of the holes.
Result<> for_each_block(
    int fd, std::uint64_t size,
    const std::function<Result<>(std::uint64_t, std::span<const std::byte>)>& visit) {
  std::vector<std::byte> buffer(kChunk);
  const std::vector<std::byte> zero(kChunk);
  std::uint64_t at = 0;
  while (at < size) {
    const off_t data = ::lseek(fd, static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 && errno == ENXIO) return {};
    if (data < 0) return fail_errno("lseek SEEK_DATA");
    const off_t hole = ::lseek(fd, data, SEEK_HOLE);
    if (hole < 0) return fail_errno("lseek SEEK_HOLE");
    // Aligned chunks, so that the visited blocks do not depend on where extents begin.
    at = static_cast<std::uint64_t>(data) / kChunk * kChunk;
    const std::uint64_t end = std::min<std::uint64_t>(size, static_cast<std::uint64_t>(hole));
    while (at < end) {
      const std::size_t n = std::min<std::uint64_t>(kChunk, size - at);
      const auto block = std::span(buffer).first(n);
      FB_TRY(sys::pread_all(fd, block, at));
      if (!std::equal(block.begin(), block.end(), zero.begin())) FB_TRY(visit(at, block));
      at += n;
    }
  }
  return {};
}

void hash_block(Sha256& hash, std::uint64_t offset, std::span<const std::byte> bytes) {
  std::string header;
  put_u64(header, offset);
  put_u64(header, bytes.size());
  hash.update(header);
  hash.update(bytes);
}

}  // namespace

Result<RamImage> RamImage::create(std::uint64_t size) {
  UniqueFd fd(::memfd_create("firebreak-ram", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return fail_errno("memfd_create");
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0) return fail_errno("sizing guest RAM");
  // The jailed QEMU opens it through /proc/self/fd under its own uid.
  if (::fchmod(fd.get(), 0666) != 0) return fail_errno("fchmod of guest RAM");
  return RamImage(std::move(fd), size);
}

Result<RamImage> RamImage::load(const std::string& path, std::uint64_t size,
                                const std::string& sha256) {
  FB_TRY_ASSIGN(UniqueFd file, sys::open(path, O_RDONLY));
  FB_TRY_ASSIGN(const std::uint64_t actual, sys::file_size(file.get()));
  if (actual != size)
    return fail(Code::corrupt, path + " has the wrong size", std::to_string(actual));
  FB_TRY_ASSIGN(RamImage image, create(size));
  Sha256 hash;
  FB_TRY(
      for_each_block(file.get(), size, [&](std::uint64_t offset, std::span<const std::byte> bytes) {
        hash_block(hash, offset, bytes);
        return sys::pwrite_all(image.fd(), bytes, offset);
      }));
  if (hash.hex() != sha256)
    return fail(Code::corrupt, path + " is damaged: its content does not match the recorded hash");
  FB_TRY(image.seal());
  return image;
}

Result<RamImage> RamImage::adopt(UniqueFd fd, std::uint64_t size) {
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals)
    return fail(Code::corrupt, "not a sealed memory file");
  FB_TRY_ASSIGN(const std::uint64_t actual, sys::file_size(fd.get()));
  if (actual != size) return fail(Code::corrupt, "the memory file has the wrong size");
  return RamImage(std::move(fd), size);
}

Result<RamImage> RamImage::copy() const {
  FB_TRY_ASSIGN(RamImage image, create(size_));
  FB_TRY(
      for_each_block(fd_.get(), size_, [&](std::uint64_t offset, std::span<const std::byte> bytes) {
        return sys::pwrite_all(image.fd(), bytes, offset);
      }));
  return image;
}

Result<> RamImage::seal() {
  if (::fcntl(fd_.get(), F_ADD_SEALS, kSeals) != 0) return fail_errno("sealing guest RAM");
  return {};
}

Result<std::string> RamImage::save(const std::string& path) const {
  FB_TRY_ASSIGN(UniqueFd file, sys::open(path, O_WRONLY | O_CREAT | O_EXCL, 0600));
  if (::ftruncate(file.get(), static_cast<off_t>(size_)) != 0) return fail_errno("sizing " + path);
  Sha256 hash;
  FB_TRY(
      for_each_block(fd_.get(), size_, [&](std::uint64_t offset, std::span<const std::byte> bytes) {
        hash_block(hash, offset, bytes);
        return sys::pwrite_all(file.get(), bytes, offset);
      }));
  if (::fsync(file.get()) != 0) return fail_errno("fsync " + path);
  return hash.hex();
}

std::uint64_t RamImage::allocated_bytes() const {
  struct stat st{};
  if (::fstat(fd_.get(), &st) != 0) return 0;
  return static_cast<std::uint64_t>(st.st_blocks) * 512;
}

}  // namespace firebreak::machine
