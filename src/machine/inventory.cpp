#include "machine/inventory.h"

#include <cstdlib>

#include <sys/stat.h>

#include "base/sys.h"
#include "base/text.h"

namespace firebreak::machine {
namespace {

std::optional<std::pair<dev_t, ino_t>> identity_of(const std::string& path) {
  struct stat st{};
  if (::stat(path.c_str(), &st) != 0) return std::nullopt;
  return std::pair(st.st_dev, st.st_ino);
}

}  // namespace

bool is_same_file(const std::string& one, const std::string& other) {
  const auto identity = identity_of(one);
  return identity && identity == identity_of(other);
}

OwnProcesses::OwnProcesses(const std::string& data_dir, std::set<pid_t> recorded)
    : recorded_(std::move(recorded)) {
  const std::string directory = data_dir + "/runtime/";
  const auto names = sys::list_dir(directory);
  if (!names) return;
  for (const std::string& name : *names) {
    if (const auto root = identity_of(directory + name + "/root")) roots_.insert(*root);
  }
}

bool OwnProcesses::contains(pid_t pid) const {
  if (recorded_.contains(pid)) return true;
  const auto root = identity_of("/proc/" + std::to_string(pid) + "/root");
  return root && roots_.contains(*root);
}

std::vector<FoundProcess> processes_of(const UidRange& range) {
  std::vector<FoundProcess> found;
  auto names = sys::list_dir("/proc");
  if (!names) return found;
  for (const std::string& name : *names) {
    const auto pid = parse_u64(name);
    if (!pid) continue;
    auto status = sys::read_file("/proc/" + name + "/status");
    if (!status) continue;  // ended meanwhile
    if (status->find("\nState:\tZ") != std::string::npos) continue;
    const auto at = status->find("\nUid:\t");
    if (at == std::string::npos) continue;
    const auto uid = static_cast<uid_t>(std::strtoul(status->c_str() + at + 6, nullptr, 10));
    if (uid >= range.first && uid - range.first < range.count)
      found.push_back({.pid = static_cast<pid_t>(*pid), .uid = uid});
  }
  return found;
}

std::vector<std::string> mounts_below(const std::string& directory) {
  std::vector<std::string> found;
  auto text = sys::read_file("/proc/self/mountinfo", 16UL << 20);
  if (!text) return found;
  for (std::string_view line : split(*text, '\n')) {
    const auto fields = split(line, ' ');
    if (fields.size() > 4 && fields[4].starts_with(directory + "/")) found.emplace_back(fields[4]);
  }
  return found;
}

}  // namespace firebreak::machine
