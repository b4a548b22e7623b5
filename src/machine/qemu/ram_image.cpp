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
// Nobody may take part in sealing any more.
constexpr int kAllSeals = kSeals | F_SEAL_SEAL;
constexpr std::size_t kChunk = 1 << 20;

using Visit = std::function<Result<>(std::uint64_t, std::span<const std::byte>)>;

// Calls `visit(offset, bytes)` for every block of a sparse file that has content, and `visit_zero`
// for those that are allocated and all zero. These do not count as content, so a copy has the same
// blocks as its source whatever the file system made of the holes.
Result<> for_each_block(int fd, std::uint64_t size, const Visit& visit,
                        const Visit& visit_zero = {}) {
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
      const bool is_zero = std::equal(block.begin(), block.end(), zero.begin());
      if (!is_zero) FB_TRY(visit(at, block));
      if (is_zero && visit_zero) FB_TRY(visit_zero(at, block));
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
  // Who has a descriptor that only reads shall not open another that writes.
  if (::fchmod(fd.get(), 0600) != 0) return fail_errno("fchmod of guest RAM");
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
  FB_TRY(image.add_seals());
  return image;
}

Result<std::string> sparse_hash(const std::string& path) {
  FB_TRY_ASSIGN(UniqueFd file, sys::open(path, O_RDONLY));
  FB_TRY_ASSIGN(const std::uint64_t size, sys::file_size(file.get()));
  Sha256 hash;
  FB_TRY(
      for_each_block(file.get(), size, [&](std::uint64_t offset, std::span<const std::byte> bytes) {
        hash_block(hash, offset, bytes);
        return Result<>();
      }));
  return hash.hex();
}

Result<RamImage> RamImage::adopt(UniqueFd fd, std::uint64_t size) {
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals)
    return fail(Code::corrupt, "not a sealed memory file");
  FB_TRY_ASSIGN(const std::uint64_t actual, sys::file_size(fd.get()));
  if (actual != size) return fail(Code::corrupt, "the memory file has the wrong size");
  RamImage image(std::move(fd), size);
  if (seals != kAllSeals) FB_TRY(image.add_seals());  // an older server kept it
  return image;
}

Result<UniqueFd> RamImage::reader() const {
  return sys::open("/proc/self/fd/" + std::to_string(fd_.get()), O_RDONLY);
}

Result<RamImage> RamImage::copy() const {
  FB_TRY_ASSIGN(RamImage image, create(size_));
  FB_TRY(
      for_each_block(fd_.get(), size_, [&](std::uint64_t offset, std::span<const std::byte> bytes) {
        return sys::pwrite_all(image.fd(), bytes, offset);
      }));
  return image;
}

Result<> RamImage::add_seals() {
  if (::fcntl(fd_.get(), F_ADD_SEALS, kAllSeals) != 0) return fail_errno("sealing guest RAM");
  return {};
}

Result<> RamImage::settle() {
  return for_each_block(
      fd_.get(), size_,
      // Written, because what is only allocated still counts as a hole.
      [&](std::uint64_t offset, std::span<const std::byte> block) {
        return sys::pwrite_all(fd_.get(), block, offset);
      },
      [&](std::uint64_t offset, std::span<const std::byte> block) -> Result<> {
        if (::fallocate(fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                        static_cast<off_t>(offset), static_cast<off_t>(block.size())) != 0)
          return fail_errno("fallocate of guest RAM");
        return {};
      });
}

Result<> RamImage::seal() {
  FB_TRY(settle());
  return add_seals();
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
