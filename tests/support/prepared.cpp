#include "support/prepared.h"

#include <cstdio>
#include <cstdlib>
#include <functional>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/sys.h"
#include "support/environment.h"

namespace firebreak::testing_support {
namespace {

// Which file it is, and when it was written: contents of gigabytes are not read for that.
std::string identity_of(const std::string& path) {
  struct stat about{};
  if (::stat(path.c_str(), &about) != 0) return path + " is missing\n";
  return path + " " + std::to_string(about.st_dev) + " " + std::to_string(about.st_ino) + " " +
         std::to_string(about.st_size) + " " + std::to_string(about.st_mtim.tv_sec) + "." +
         std::to_string(about.st_mtim.tv_nsec) + "\n";
}

// Of everything that a snapshot depends on.
std::string made_from() {
  const std::string build = environment_or_die("FIREBREAK_BUILD_DIR");
  const std::string guest = environment_or_die("FIREBREAK_GUEST_DIR");
  std::string text = sys::read_file("/proc/sys/kernel/random/boot_id").value_or("");
  for (const char* const name : {"/firebreak", "/firebreak-holder"})
    text += identity_of(build + name);
  for (const char* const name :
       {"/vmlinux", "/initramfs.cpio", "/base.ext4", "/debian.ext4", "/scratch.ext4"})
    text += identity_of(guest + name);
  text += identity_of("/usr/bin/qemu-system-x86_64");
  const char* accelerator = std::getenv("FIREBREAK_TEST_ACCELERATOR");
  return text + (accelerator == nullptr ? "" : accelerator);
}

std::string hex_of(std::size_t number) {
  char text[17];
  std::snprintf(text, sizeof text, "%016zx", number);
  return text;
}

// What belongs to the server that ran there, or is linked into place by the next one.
bool is_left_out(const std::string& name) {
  return name == "bases" || name == "holder.json" || name == "server.json" || name == "server.log";
}

// Paths in the record of a snapshot are absolute.
Result<> change_paths(const std::string& record, const std::string& from, const std::string& to) {
  FB_TRY_ASSIGN(std::string text, sys::read_file(record));
  for (std::size_t at = 0; (at = text.find(from + "/", at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return sys::swap_file(record, text);
}

Result<> change_all_paths(const std::string& directory, const std::string& from,
                          const std::string& to) {
  if (sys::exists(directory + "/snapshot.json"))
    return change_paths(directory + "/snapshot.json", from, to);
  FB_TRY_ASSIGN(const auto names, sys::list_dir(directory + "/snapshots"));
  for (const std::string& name : names) {
    const std::string snapshot = directory + "/snapshots/" + name;
    ::unlink((snapshot + "/holder.json").c_str());
    FB_TRY(change_paths(snapshot + "/snapshot.json", from, to));
  }
  return {};
}

// Sparse files stay sparse.
Result<> copy_tree(const std::string& from, const std::string& to) {
  FB_TRY(sys::mkdir(to, 0700));
  FB_TRY_ASSIGN(const auto names, sys::list_dir(from));
  std::string command = "cp -a --reflink=auto";
  for (const std::string& name : names)
    if (!is_left_out(name)) command.append(" '").append(from).append("/").append(name).append("'");
  command.append(" '").append(to).append("'");
  if (std::system(command.c_str()) != 0) return fail(Code::internal, command);
  return {};
}

}  // namespace

Prepared::Prepared(std::string kind)
    : home_(environment_or_die("FIREBREAK_BUILD_DIR") + "/prepared"), kind_(std::move(kind)) {
  path_ = home_ + "/" + kind_ + "-" + hex_of(std::hash<std::string>()(made_from()));
  // A build directory that cannot be written holds nothing prepared, and nothing is lost.
  (void)sys::mkdirs(home_, 0700);
  auto lock = sys::open(home_ + "/" + kind_ + ".lock", O_RDWR | O_CREAT, 0600);
  if (lock && ::flock(lock->get(), LOCK_EX) == 0) lock_ = *std::move(lock);
}

Result<> Prepared::copy_to(const std::string& to) const {
  if (!sys::exists(path_)) return fail(Code::not_found, "nothing of this kind is prepared");
  FB_TRY(copy_tree(path_, to));
  return change_all_paths(to, path_, to);
}

Result<> Prepared::keep(const std::string& from) const {
  if (!lock_) return fail(Code::unavailable, home_ + " cannot be written");
  FB_TRY_ASSIGN(const auto names, sys::list_dir(home_));
  for (const std::string& name : names)
    if (name.starts_with(kind_ + "-")) FB_TRY(sys::remove_tree(home_ + "/" + name));
  const std::string half = home_ + "/half-" + kind_;
  FB_TRY(sys::remove_tree(half));
  FB_TRY(copy_tree(from, half));
  FB_TRY(change_all_paths(half, from, path_));
  if (::rename(half.c_str(), path_.c_str()) != 0) return fail(Code::internal, "rename " + half);
  return {};
}

}  // namespace firebreak::testing_support
