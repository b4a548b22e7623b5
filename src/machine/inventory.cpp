#include "machine/inventory.h"

#include <cstdlib>

#include "base/sys.h"
#include "base/text.h"

namespace firebreak::machine {

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
      found.push_back({static_cast<pid_t>(*pid), uid});
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
