#include "machine/cgroup.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <set>
#include <thread>
#include <utility>

#include <sys/syscall.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"

namespace firebreak::machine {
namespace {

constexpr const char* kNeeded[] = {"cpu", "memory", "pids"};
constexpr const char* kUsedOfV1[] = {"cpu", "cpuacct", "memory", "pids"};
constexpr std::uint64_t kCpuPeriodUsec = 100'000;

std::string join(const std::vector<std::string>& words, std::string_view separator) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += separator;
    text += word;
  }
  return text;
}

Result<> check_name(const std::string& name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
  };
  // No dot: the kernel's own files ("cpu.max", "cgroup.procs") share the directory with the groups.
  if (name.empty() || name.size() > 200 || !std::ranges::all_of(name, allowed))
    return fail(Code::invalid, "'" + name + "' is not a name for a cgroup");
  return {};
}

bool contains(const std::vector<std::string>& words, std::string_view word) {
  return std::ranges::find(words, word) != words.end();
}

std::vector<std::string> words_of(const std::string& path) {
  std::vector<std::string> words;
  const auto text = sys::read_file(path);
  if (!text) return words;
  for (std::string_view line : split(*text, '\n')) {
    for (std::string_view word : split(line, ' ')) {
      if (!word.empty()) words.emplace_back(word);
    }
  }
  return words;
}

Result<std::uint64_t> read_number(const std::string& path) {
  FB_TRY_ASSIGN(std::string text, sys::read_file(path));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const auto value = parse_u64(text);
  if (!value) return fail(Code::internal, path + " does not hold a number");
  return *value;
}

// Of a file with lines "key value".
Result<std::uint64_t> read_key(const std::string& path, std::string_view key) {
  FB_TRY_ASSIGN(const std::string text, sys::read_file(path));
  for (std::string_view line : split(text, '\n')) {
    const auto words = split(line, ' ');
    if (words.size() != 2 || words[0] != key) continue;
    if (const auto value = parse_u64(words[1])) return *value;
  }
  return fail(Code::unavailable, path + " does not report " + std::string(key));
}

// Without what can be had back at once.
Result<std::uint64_t> held_bytes(const std::string& directory, std::uint64_t charged) {
  std::uint64_t cache = 0;
  for (const std::string_view key : {"inactive_file", "active_file"}) {
    FB_TRY_ASSIGN(const std::uint64_t bytes, read_key(directory + "/memory.stat", key));
    cache += bytes;
  }
  return charged - std::min(charged, cache);
}

void pause_briefly() {
  std::this_thread::sleep_for(std::chrono::microseconds(500));
}

// A group whose last process has just ended refuses removal for a moment.
Result<> remove_group(const std::string& directory, Deadline deadline) {
  for (;;) {
    if (::rmdir(directory.c_str()) == 0 || errno == ENOENT) return {};
    if (errno != EBUSY || deadline.passed()) return fail_errno("remove cgroup " + directory);
    pause_briefly();
  }
}

}  // namespace

std::string CgroupSupport::text() const {
  if (version == CgroupVersion::none) return "no cgroups";
  std::string text = version == CgroupVersion::v2 ? "cgroup v2: " : "cgroup v1: ";
  text += join(controllers, ", ");
  if (!missing.empty()) text += "; missing: " + join(missing, ", ");
  return text;
}

CgroupSupport probe_cgroups(const std::string& mountinfo) {
  CgroupSupport support;
  const auto text = sys::read_file(mountinfo, 16 << 20);
  std::vector<std::string> v2_controllers;
  for (std::string_view line : split(text ? *text : "", '\n')) {
    const auto dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const auto left = split(line.substr(0, dash), ' ');
    const auto right = split(line.substr(dash + 3), ' ');
    if (left.size() < 6 || right.size() < 3) continue;
    const std::string mount_point(left[4]);
    if (right[0] == "cgroup2") {
      support.v2_mount = mount_point;
      v2_controllers = words_of(mount_point + "/cgroup.controllers");
    } else if (right[0] == "cgroup") {
      for (std::string_view option : split(right[2], ',')) {
        for (const char* controller : kUsedOfV1) {
          if (option == controller) support.v1_mounts[controller] = mount_point;
        }
      }
    }
  }
  // A host may mount v2 beside v1 with no controller left for it.
  const bool v2 = !support.v2_mount.empty() &&
                  (support.v1_mounts.empty() || std::ranges::all_of(kNeeded, [&](const char* name) {
                     return contains(v2_controllers, name);
                   }));
  if (v2) {
    support.version = CgroupVersion::v2;
    support.controllers = std::move(v2_controllers);
  } else if (!support.v1_mounts.empty()) {
    support.version = CgroupVersion::v1;
    for (const auto& [controller, mount_point] : support.v1_mounts)
      support.controllers.push_back(controller);
  }
  for (const char* name : kNeeded) {
    if (!contains(support.controllers, name)) support.missing.emplace_back(name);
  }
  return support;
}

std::vector<CgroupSetting> cgroup_settings(CgroupVersion version, const CgroupLimits& limits) {
  std::vector<CgroupSetting> settings;
  const bool v2 = version == CgroupVersion::v2;
  const auto add = [&](std::string controller, std::string file, std::string value,
                       bool optional = false) {
    settings.push_back({std::move(controller), std::move(file), std::move(value), optional});
  };
  if (limits.memory_max_bytes != 0) {
    const std::string bytes = std::to_string(limits.memory_max_bytes);
    if (v2) {
      add("memory", "memory.max", bytes);
      add("memory", "memory.swap.max", "0", true);
      add("memory", "memory.oom.group", "1", true);
    } else {
      add("memory", "memory.limit_in_bytes", bytes);
      add("memory", "memory.memsw.limit_in_bytes", bytes, true);
      add("memory", "memory.swappiness", "0", true);
    }
  }
  if (limits.cpu_weight != 0) {
    const std::uint64_t weight = std::clamp<std::uint64_t>(limits.cpu_weight, 1, 10'000);
    if (v2) {
      add("cpu", "cpu.weight", std::to_string(weight));
    } else {
      // The defaults of both correspond: weight 100, 1024 shares.
      add("cpu", "cpu.shares", std::to_string(std::max<std::uint64_t>(weight * 1024 / 100, 2)));
    }
  }
  if (limits.cpu_quota_percent != 0) {
    const std::string quota = std::to_string(limits.cpu_quota_percent * kCpuPeriodUsec / 100);
    const std::string period = std::to_string(kCpuPeriodUsec);
    if (v2) {
      add("cpu", "cpu.max", quota + " " + period);
    } else {
      add("cpu", "cpu.cfs_period_us", period);
      add("cpu", "cpu.cfs_quota_us", quota);
    }
  }
  if (limits.pids_max != 0) add("pids", "pids.max", std::to_string(limits.pids_max));
  return settings;
}

Result<CgroupJoin> Cgroup::open_join() const {
  CgroupJoin join;
  if (version_ == CgroupVersion::v2) {
    FB_TRY_ASSIGN(join.v2_directory, sys::open(directories_.at(""), O_RDONLY | O_DIRECTORY));
    return join;
  }
  std::set<std::string> opened;
  for (const auto& [controller, directory] : directories_) {
    if (!opened.insert(directory).second) continue;
    // `tasks`, not `cgroup.procs`: a thread that moves itself needs no host-wide lock, which can
    // cost milliseconds.
    FB_TRY_ASSIGN(UniqueFd tasks, sys::open(directory + "/tasks", O_WRONLY));
    join.v1_tasks.push_back(std::move(tasks));
  }
  return join;
}

Result<CgroupUsage> Cgroup::usage() const {
  CgroupUsage usage;
  if (version_ == CgroupVersion::v2) {
    const std::string& directory = directories_.at("");
    FB_TRY_ASSIGN(usage.cpu_usec, read_key(directory + "/cpu.stat", "usage_usec"));
    FB_TRY_ASSIGN(const std::uint64_t charged, read_number(directory + "/memory.current"));
    FB_TRY_ASSIGN(usage.memory_bytes, held_bytes(directory, charged));
    FB_TRY_ASSIGN(usage.oom_kills, read_key(directory + "/memory.events", "oom_kill"));
    return usage;
  }
  const auto cpuacct = directories_.find("cpuacct");
  const auto memory = directories_.find("memory");
  if (cpuacct == directories_.end() || memory == directories_.end())
    return fail(Code::unavailable, "the host lacks the cgroup controllers cpuacct or memory");
  FB_TRY_ASSIGN(const std::uint64_t cpu_nsec, read_number(cpuacct->second + "/cpuacct.usage"));
  usage.cpu_usec = cpu_nsec / 1000;
  FB_TRY_ASSIGN(const std::uint64_t charged,
                read_number(memory->second + "/memory.usage_in_bytes"));
  FB_TRY_ASSIGN(usage.memory_bytes, held_bytes(memory->second, charged));
  FB_TRY_ASSIGN(usage.oom_kills, read_key(memory->second + "/memory.oom_control", "oom_kill"));
  return usage;
}

Result<std::vector<pid_t>> Cgroup::processes() const {
  std::set<pid_t> found;
  for (const auto& [controller, directory] : directories_) {
    const auto text = sys::read_file(directory + "/cgroup.procs");
    if (!text) {
      if (text.error().code == Code::not_found) continue;
      return std::unexpected(text.error());
    }
    for (std::string_view line : split(*text, '\n')) {
      // 0 stands for a process of a pid namespace that is not below ours; it cannot be named from
      // here.
      const auto pid = parse_u64(line);
      if (pid && *pid != 0) found.insert(static_cast<pid_t>(*pid));
    }
  }
  return std::vector<pid_t>(found.begin(), found.end());
}

Result<> Cgroup::kill_all() const {
  if (version_ == CgroupVersion::v2) {
    const auto killed = sys::write_file(directories_.at("") + "/cgroup.kill", "1");
    // Kernels before 5.14 lack the file.
    if (killed || killed.error().code != Code::not_found) return killed;
  }
  FB_TRY_ASSIGN(const std::vector<pid_t> before, processes());
  std::vector<std::pair<pid_t, UniqueFd>> opened;
  for (pid_t pid : before)
    opened.emplace_back(pid, UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))));
  if (opened.empty()) return {};
  // Only what is still a member after it was opened: a pid may have been recycled in between.
  FB_TRY_ASSIGN(const std::vector<pid_t> now, processes());
  for (const auto& [pid, pidfd] : opened) {
    if (pidfd && std::ranges::binary_search(now, pid))
      ::syscall(SYS_pidfd_send_signal, pidfd.get(), SIGKILL, nullptr, 0);
  }
  return {};
}

Result<> Cgroup::destroy(Deadline deadline) const {
  for (;;) {
    FB_TRY(kill_all());
    FB_TRY_ASSIGN(const std::vector<pid_t> left, processes());
    if (left.empty()) break;
    if (deadline.passed())
      return fail(Code::timeout, "processes of cgroup " + name_ + " have not ended in time");
    pause_briefly();
  }
  std::set<std::string> removed;
  for (const auto& [controller, directory] : directories_) {
    if (removed.insert(directory).second) FB_TRY(remove_group(directory, deadline));
  }
  return {};
}

Result<> Cgroup::apply(const CgroupLimits& limits) const {
  for (const CgroupSetting& setting : cgroup_settings(version_, limits)) {
    const auto directory =
        directories_.find(version_ == CgroupVersion::v2 ? "" : setting.controller);
    if (directory == directories_.end())
      return fail(Code::unavailable, "the host lacks the cgroup controller " + setting.controller);
    auto written = sys::write_file(directory->second + "/" + setting.file, setting.value);
    if (!written && !(setting.optional && written.error().code == Code::not_found)) return written;
  }
  return {};
}

std::vector<std::pair<std::string, std::string>> CgroupRoot::parents() const {
  if (support_.version == CgroupVersion::v2) return {{"", support_.v2_mount + "/" + name_}};
  std::vector<std::pair<std::string, std::string>> parents;
  for (const auto& [controller, mount_point] : support_.v1_mounts)
    parents.emplace_back(controller, mount_point + "/" + name_);
  return parents;
}

// Also what this group does not ask for: its usage and limits that it gets later need their files.
Result<> CgroupRoot::delegate_v2(const std::vector<CgroupSetting>& settings) const {
  for (const std::string& directory : {support_.v2_mount, support_.v2_mount + "/" + name_}) {
    const std::string file = directory + "/cgroup.subtree_control";
    const std::vector<std::string> enabled = words_of(file);
    const std::vector<std::string> offered = words_of(directory + "/cgroup.controllers");
    for (const std::string controller : kNeeded) {
      const bool asked =
          std::ranges::find(settings, controller, &CgroupSetting::controller) != settings.end();
      if (contains(enabled, controller) || (!asked && !contains(offered, controller))) continue;
      if (auto written = sys::write_file(file, "+" + controller); !written) {
        Error error = std::move(written).error();
        error.code = Code::unavailable;
        error.detail = std::exchange(
            error.message, "the host does not let us use the cgroup controller " + controller);
        return std::unexpected(std::move(error));
      }
    }
  }
  return {};
}

Result<> CgroupRoot::weigh_v1() const {
  const auto cpu = support_.v1_mounts.find("cpu");
  if (cpu == support_.v1_mounts.end()) return {};
  const std::string file = cpu->second + "/" + name_ + "/cpu.shares";
  // As much as one process on each CPU: machines that keep all CPUs busy get half of each beside
  // the host's own work, and one machine alone cannot push that work aside.
  const std::uint64_t shares = 1024 * std::max(1U, std::thread::hardware_concurrency());
  FB_TRY_ASSIGN(const std::uint64_t now, read_number(file));
  if (now == shares) return {};
  return sys::write_file(file, std::to_string(shares));
}

Result<Cgroup> CgroupRoot::create(const std::string& name, const CgroupLimits& limits) const {
  FB_TRY(check_name(name_));
  FB_TRY(check_name(name));
  if (support_.version == CgroupVersion::none)
    return fail(Code::unavailable, "the host has no usable cgroups mounted");
  for (const auto& [key, parent] : parents()) FB_TRY(sys::mkdir(parent, 0755));
  if (support_.version == CgroupVersion::v2) {
    FB_TRY(delegate_v2(cgroup_settings(support_.version, limits)));
  } else {
    FB_TRY(weigh_v1());
  }

  Cgroup group(name, support_.version);
  Result<> made;
  std::set<std::string> created;
  for (const auto& [key, parent] : parents()) {
    const std::string directory = parent + "/" + name;
    if (!created.contains(directory)) {
      if (::mkdir(directory.c_str(), 0755) != 0) {
        made = fail_errno("create cgroup " + directory);
        break;
      }
      created.insert(directory);
    }
    group.directories_[key] = directory;
  }
  if (made) made = group.apply(limits);
  if (!made) {
    for (const std::string& directory : created) ::rmdir(directory.c_str());
    return std::unexpected(std::move(made).error());
  }
  return group;
}

Result<Cgroup> CgroupRoot::open(const std::string& name) const {
  FB_TRY(check_name(name));
  Cgroup group(name, support_.version);
  for (const auto& [key, parent] : parents()) {
    const std::string directory = parent + "/" + name;
    if (sys::exists(directory)) group.directories_[key] = directory;
  }
  if (group.directories_.empty()) return fail(Code::not_found, "there is no cgroup " + name);
  return group;
}

Result<std::vector<std::string>> CgroupRoot::list() const {
  std::set<std::string> names;
  for (const auto& [key, parent] : parents()) {
    auto entries = sys::list_dir(parent);
    if (!entries) {
      if (entries.error().code == Code::not_found) continue;
      return std::unexpected(std::move(entries).error());
    }
    // Only groups have names without a dot that are directories; the kernel's files of v1 include
    // "tasks".
    for (const std::string& entry : *entries) {
      struct stat st{};
      const bool is_group =
          ::lstat((parent + "/" + entry).c_str(), &st) == 0 && S_ISDIR(st.st_mode);
      if (is_group) names.insert(entry);
    }
  }
  return std::vector<std::string>(names.begin(), names.end());
}

Result<> CgroupRoot::remove() const {
  for (const auto& [key, parent] : parents()) {
    if (::rmdir(parent.c_str()) != 0 && errno != ENOENT)
      return fail_errno("remove cgroup " + parent);
  }
  return {};
}

}  // namespace firebreak::machine
