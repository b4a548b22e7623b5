// Loaded into QEMU before everything else: guest RAM that costs its memory once.
//
// A private mapping of a sparse memory file pays twice for each page of a hole that the guest
// touches, once in the file and once for the copy. So memory that belongs to nobody is laid over
// the holes as soon as QEMU has mapped the file. A hole reads as zeros either way.
//
// It runs inside the jail, with QEMU's rights, and calls the kernel and nothing else.
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstring>

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "machine/qemu/fd_numbers.h"

#define FB_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using firebreak::machine::fd_number::kRam;
constexpr char kRamPath[] = "/proc/self/fd/10";
static_assert(kRam == 10);

bool is_guest_ram(int fd) {
  struct stat given{};
  struct stat ram{};
  return fd >= 0 && ::fstat(fd, &given) == 0 && ::fstat(kRam, &ram) == 0 &&
         given.st_dev == ram.st_dev && given.st_ino == ram.st_ino;
}

void cover_holes(char* start, std::size_t length, int prot, int fd, off_t offset) {
  const off_t end = offset + static_cast<off_t>(length);
  off_t at = offset;
  while (at < end) {
    off_t hole = ::lseek(fd, at, SEEK_HOLE);
    if (hole < 0 || hole >= end) return;
    off_t data = ::lseek(fd, hole, SEEK_DATA);
    if (data < 0 && errno != ENXIO) return;
    if (data < 0 || data > end) data = end;
    // A failure leaves the file's zeros there, which are the same at twice the price.
    ::syscall(SYS_mmap, start + (hole - offset), static_cast<std::size_t>(data - hole), prot,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    at = data;
  }
}

// QEMU would open its RAM for writing, which nobody may. It works on the descriptor it was given.
int open_file(const char* path, int flags, mode_t mode) {
  if (std::strcmp(path, kRamPath) == 0) return ::fcntl(kRam, F_DUPFD_CLOEXEC, 0);
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}

}  // namespace

FB_EXPORT void* mmap64(void* address, std::size_t length, int prot, int flags, int fd,
                       off64_t offset) {
  void* mapped =
      reinterpret_cast<void*>(::syscall(SYS_mmap, address, length, prot, flags, fd, offset));
  if (mapped != MAP_FAILED && (flags & MAP_PRIVATE) != 0 && (flags & MAP_ANONYMOUS) == 0 &&
      is_guest_ram(fd))
    cover_holes(static_cast<char*>(mapped), length, prot, fd, offset);
  return mapped;
}

FB_EXPORT int open64(const char* path, int flags, ...) {
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  return open_file(path, flags, mode);
}

FB_EXPORT int __open64_2(const char* path, int flags) {  // NOLINT: libc's name for it
  return open_file(path, flags, 0);
}

// What a guest gives back QEMU first takes out of the file, which is sealed and everybody's. The
// file keeps it; QEMU then drops the page that was this guest's alone.
FB_EXPORT int fallocate64(int fd, int mode, off64_t offset, off64_t length) {
  const int result = static_cast<int>(::syscall(SYS_fallocate, fd, mode, offset, length));
  if (result == 0 || (mode & FALLOC_FL_PUNCH_HOLE) == 0 || !is_guest_ram(fd)) return result;
  return errno == EPERM || errno == EBADF ? 0 : result;
}
