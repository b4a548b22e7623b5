#include "machine/qemu/base_holder.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "base/json.h"
#include "base/sys.h"
#include "base/text.h"
#include "machine/inventory.h"
#include "machine/process.h"

namespace firebreak::machine {
namespace {

constexpr int kHeldFd = 3;
constexpr std::string_view kName = "firebreak-holder";

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
  record.process.boot_id = reader.string_or("boot_id", "");
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
  // The directory is for whoever looks at processes.
  std::string name(kName);
  std::string holds = directory;
  char* argv[] = {name.data(), holds.data(), nullptr};
  char* environment[] = {nullptr};
  pid_t pid = 0;
  const int err = ::posix_spawn(&pid, program.c_str(), &actions, &attributes, argv, environment);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (err != 0) return fail_errno("starting " + program, err);
  FB_TRY_ASSIGN(const ProcessId id, identify(pid));
  const json::object record{
      {"pid", id.pid}, {"start_time", id.start_time}, {"boot_id", id.boot_id}, {"inode", inode}};
  auto noted = sys::swap_file(record_path(directory), json::serialize(record) + "\n");
  if (noted) return {};
  // Nobody would find it again.
  if (auto process = adopt(id)) (void)process->kill_and_wait(Deadline::in(std::chrono::seconds(5)));
  return noted;
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

std::vector<FoundHolder> holders_below(const std::string& directory) {
  std::vector<FoundHolder> found;
  auto names = sys::list_dir("/proc");
  if (!names) return found;
  for (const std::string& name : *names) {
    const auto pid = parse_u64(name);
    if (!pid) continue;
    auto line = sys::read_file("/proc/" + name + "/cmdline", 8192);
    if (!line) continue;  // ended meanwhile
    const auto words = split(*line, '\0');
    if (words.size() < 2 || words[0] != kName || !words[1].starts_with(directory + "/")) continue;
    // A server in a container may have a directory of the same name.
    if (!is_same_file("/proc/" + name + "/root" + directory, directory)) continue;
    FoundHolder holder{.pid = static_cast<pid_t>(*pid), .directory = std::string(words[1])};
    const auto record = read_record(holder.directory);
    holder.noted = record && record->process.pid == holder.pid && is_alive(record->process);
    found.push_back(std::move(holder));
  }
  return found;
}

void stop_holder(const std::string& directory, Deadline deadline) {
  const auto record = read_record(directory);
  if (!record) return;
  if (auto process = adopt(record->process)) (void)process->kill_and_wait(deadline);
  ::unlink(record_path(directory).c_str());
}

}  // namespace firebreak::machine
