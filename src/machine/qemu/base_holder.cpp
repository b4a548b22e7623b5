#include "machine/qemu/base_holder.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/json.h"
#include "base/sys.h"
#include "machine/process.h"

namespace firebreak::machine {
namespace {

constexpr int kHeldFd = 3;

struct HolderRecord {
  ProcessId process;
  std::uint64_t inode = 0;
};

std::string record_path(const std::string& directory) {
  return directory + "/holder.json";
}

std::optional<HolderRecord> read_record(const std::string& directory) {
  auto text = sys::read_file(record_path(directory));
  if (!text) return std::nullopt;
  auto object = parse_json_object(*text);
  if (!object) return std::nullopt;
  JsonReader reader(*object);
  HolderRecord record;
  record.process.pid = static_cast<pid_t>(reader.u64("pid"));
  record.process.start_time = reader.u64("start_time");
  record.inode = reader.u64("inode");
  if (!reader.result()) return std::nullopt;
  return record;
}

Result<std::uint64_t> inode_of(int fd) {
  struct stat st{};
  if (::fstat(fd, &st) != 0) return fail_errno("fstat");
  return static_cast<std::uint64_t>(st.st_ino);
}

}  // namespace

Result<> start_holder(const std::string& program, const std::string& directory,
                      const RamImage& ram) {
  FB_TRY_ASSIGN(const std::uint64_t inode, inode_of(ram.fd()));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ram.fd(), kHeldFd);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  std::string name = "firebreak-holder";
  char* argv[] = {name.data(), nullptr};
  char* environment[] = {nullptr};
  pid_t pid = 0;
  const int err = ::posix_spawn(&pid, program.c_str(), &actions, &attributes, argv, environment);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (err != 0) return fail_errno("starting " + program, err);
  FB_TRY_ASSIGN(const ProcessId id, identify(pid));
  const json::object record{{"pid", id.pid}, {"start_time", id.start_time}, {"inode", inode}};
  return sys::swap_file(record_path(directory), json::serialize(record) + "\n");
}

std::optional<RamImage> adopt_from_holder(const std::string& directory, std::uint64_t size) {
  const auto record = read_record(directory);
  if (!record) return std::nullopt;
  auto process = adopt(record->process);
  if (!process) return std::nullopt;
  UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_getfd, process->pidfd(), kHeldFd, 0)));
  if (!fd) return std::nullopt;
  auto inode = inode_of(fd.get());
  if (!inode || *inode != record->inode) return std::nullopt;
  auto ram = RamImage::adopt(std::move(fd), size);
  if (!ram) return std::nullopt;
  return *std::move(ram);
}

void stop_holder(const std::string& directory, Deadline deadline) {
  const auto record = read_record(directory);
  if (!record) return;
  if (auto process = adopt(record->process)) (void)process->kill_and_wait(deadline);
  ::unlink(record_path(directory).c_str());
}

}  // namespace firebreak::machine
