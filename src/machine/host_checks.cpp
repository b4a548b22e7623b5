#include "machine/host_checks.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include <linux/capability.h>
#include <linux/magic.h>

#include "base/text.h"

namespace firebreak::machine {
namespace {

constexpr std::uint64_t kGib = 1ULL << 30;
constexpr std::size_t kTextChars = 500;
constexpr long kXfsMagic = 0x58465342;
constexpr long kZfsMagic = 0x2fc12fc1;
constexpr const char* kMorePrivileges = "run firebreak as root; in a container: with --privileged";
constexpr const char* kNewerKernel =
    "apt-get install -y -t bookworm-backports linux-image-amd64 && reboot";

struct Capability {
  int number;
  const char* name;
  const char* use;  // what is not offered without it; null: nothing works
};

constexpr Capability kCapabilities[] = {
    {CAP_SYS_ADMIN, "sys_admin", nullptr},
    {CAP_SETUID, "setuid", nullptr},
    {CAP_SETGID, "setgid", nullptr},
    {CAP_SETPCAP, "setpcap", nullptr},
    {CAP_SYS_PTRACE, "sys_ptrace", nullptr},
    {CAP_KILL, "kill", nullptr},
    {CAP_CHOWN, "chown", nullptr},
    {CAP_DAC_OVERRIDE, "dac_override", nullptr},
    {CAP_NET_ADMIN, "net_admin", "egress policies"},
    {CAP_MKNOD, "mknod", "KVM"},
};

std::string join(const std::vector<std::string>& words, std::string_view separator = ", ") {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += separator;
    text += word;
  }
  return text;
}

std::string upper(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

// "12.3 GiB"
std::string in_gib(std::uint64_t bytes) {
  const std::uint64_t tenths = bytes / (kGib / 10);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " GiB";
}

std::string_view trimmed(std::string_view text) {
  const auto from = text.find_first_not_of(" \t\r\n");
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(" \t\r\n") - from + 1);
}

// What follows the colon of the first line that begins with the key.
std::optional<std::string_view> value_of(std::string_view text, std::string_view key) {
  for (std::string_view line : split(text, '\n')) {
    const auto colon = line.find(':');
    if (colon == std::string_view::npos || trimmed(line.substr(0, colon)) != key) continue;
    return trimmed(line.substr(colon + 1));
  }
  return std::nullopt;
}

std::uint64_t kib_of(std::string_view meminfo, std::string_view key) {
  const auto value = value_of(meminfo, key);
  if (!value) return 0;
  return parse_u64(value->substr(0, value->find(' '))).value_or(0);
}

}  // namespace

std::string_view to_string(CheckStatus status) {
  switch (status) {
    case CheckStatus::ok:
      return "ok";
    case CheckStatus::degraded:
      return "degraded";
    case CheckStatus::missing:
      return "missing";
  }
  return "missing";
}

bool any_missing(const std::vector<Check>& checks) {
  return std::ranges::any_of(
      checks, [](const Check& check) { return check.status == CheckStatus::missing; });
}

std::string one_line(std::string text) {
  std::ranges::replace_if(text, [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  if (text.size() > kTextChars) text = text.substr(0, kTextChars) + "...";
  return text;
}

// ---------------------------------------------------------------------------------------- reading

std::optional<std::uint64_t> parse_effective_capabilities(std::string_view proc_status) {
  const auto text = value_of(proc_status, "CapEff");
  if (!text || text->empty()) return std::nullopt;
  std::uint64_t mask = 0;
  const auto [end, ec] = std::from_chars(text->data(), text->data() + text->size(), mask, 16);
  if (ec != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return mask;
}

CpuFacts parse_cpuinfo(std::string_view cpuinfo) {
  CpuFacts facts;
  if (const auto model = value_of(cpuinfo, "model name")) facts.model = std::string(*model);
  const auto flags = value_of(cpuinfo, "flags");
  for (std::string_view flag : split(flags.value_or(""), ' ')) {
    if (flag != "vmx" && flag != "svm") continue;
    facts.virtualisation = true;
    facts.kvm_module = flag == "vmx" ? "kvm_intel" : "kvm_amd";
  }
  return facts;
}

MemoryFacts parse_meminfo(std::string_view meminfo) {
  return {.total_kib = kib_of(meminfo, "MemTotal"),
          .available_kib = kib_of(meminfo, "MemAvailable")};
}

std::pair<unsigned, unsigned> parse_version(std::string_view text) {
  std::pair<unsigned, unsigned> version{0, 0};
  const char* end = text.data() + text.size();
  const auto [dot, ec] = std::from_chars(text.data(), end, version.first);
  if (ec != std::errc() || dot == end || *dot != '.') return {0, 0};
  if (std::from_chars(dot + 1, end, version.second).ec != std::errc()) return {0, 0};
  return version;
}

std::map<std::string, std::string> parse_packages(std::string_view dpkg_output) {
  std::map<std::string, std::string> installed;
  for (std::string_view line : split(dpkg_output, '\n')) {
    const auto words = split(line, ' ');
    if (words.size() == 3 && words[1] == "installed")
      installed[std::string(words[0])] = std::string(words[2]);
  }
  return installed;
}

std::string file_system_name(long magic) {
  switch (magic) {
    case EXT4_SUPER_MAGIC:
      return "ext4";
    case BTRFS_SUPER_MAGIC:
      return "btrfs";
    case kXfsMagic:
      return "xfs";
    case kZfsMagic:
      return "zfs";
    case TMPFS_MAGIC:
      return "tmpfs";
    case OVERLAYFS_SUPER_MAGIC:
      return "overlay";
    case NFS_SUPER_MAGIC:
      return "nfs";
    default: {
      char digits[16];
      const auto [end, ec] =
          std::to_chars(digits, digits + sizeof digits, static_cast<std::uint32_t>(magic), 16);
      return "file system 0x" + std::string(digits, end);
    }
  }
}

// --------------------------------------------------------------------------------------- deciding

Check check_architecture(std::string_view machine) {
  Check check{.name = "architecture", .text = std::string(machine)};
  if (machine == "x86_64") return check;
  check.status = CheckStatus::missing;
  check.text += ": guests are x86-64 only";
  check.repair = "run firebreak on an x86-64 host";
  return check;
}

Check check_privileges(uid_t user, std::uint64_t effective_capabilities) {
  Check check{.name = "privileges"};
  std::vector<std::string> needed;
  std::vector<std::string> useful;
  std::vector<std::string> added;
  for (const Capability& capability : kCapabilities) {
    if ((effective_capabilities >> capability.number & 1) != 0) continue;
    added.push_back("--cap-add=" + upper(capability.name));
    if (capability.use == nullptr) {
      needed.emplace_back(capability.name);
    } else {
      useful.push_back(std::string(capability.name) + " (" + capability.use + ")");
    }
  }
  check.text = user == 0 ? "root" : "user " + std::to_string(user);
  if (user == 0 && added.empty()) {
    check.text += " with all needed capabilities";
    return check;
  }
  check.status = user != 0 || !needed.empty() ? CheckStatus::missing : CheckStatus::degraded;
  needed.insert(needed.end(), useful.begin(), useful.end());
  if (!needed.empty()) check.text += " without the capabilities " + join(needed);
  check.repair = user != 0 ? "sudo firebreak doctor"
                           : "start the container with " + join(added, " ") + " (or --privileged)";
  return check;
}

Check check_qemu(const std::string& version, const std::vector<std::string>& lacking) {
  Check check{.name = "qemu", .text = version};
  if (version.empty()) {
    check.status = CheckStatus::missing;
    check.text = "qemu-system-x86_64 is not installed or does not run";
    check.repair = "apt-get install -y qemu-system-x86";
  } else if (!lacking.empty()) {
    check.status = CheckStatus::missing;
    check.text += ", but without " + join(lacking);
    check.repair = "apt-get install -y --reinstall qemu-system-x86 qemu-system-data";
  } else if (parse_version(version) < std::pair(7U, 2U)) {
    check.status = CheckStatus::missing;
    check.text += " is too old: 7.2 or newer is needed";
    check.repair = "apt-get update && apt-get install -y qemu-system-x86";
  }
  return check;
}

Check check_cgroups(const CgroupSupport& support, const Result<>& trial) {
  Check check{.name = "cgroup", .text = support.text()};
  if (support.version == CgroupVersion::none) {
    check.status = CheckStatus::missing;
    check.repair = "mount -t cgroup2 cgroup2 /sys/fs/cgroup";
    return check;
  }
  if (!support.missing.empty()) {
    const std::string& first = support.missing.front();
    // Without a memory controller machines run, but cannot be limited.
    check.status = support.missing == std::vector<std::string>{"memory"} ? CheckStatus::degraded
                                                                         : CheckStatus::missing;
    check.repair = support.version == CgroupVersion::v1
                       ? "mkdir -p /sys/fs/cgroup/" + first + " && mount -t cgroup -o " + first +
                             " " + first + " /sys/fs/cgroup/" + first
                       : "boot the host's kernel with cgroup_enable=" + first;
  }
  if (!trial && check.status != CheckStatus::missing) {
    check.status = CheckStatus::missing;
    check.text += "; " + one_line(trial.error().text());
    const std::string mount =
        support.version == CgroupVersion::v2 ? support.v2_mount : support.v1_mounts.begin()->second;
    check.repair =
        trial.error().reason == "read_only" ? "mount -o remount,rw " + mount : kMorePrivileges;
  }
  return check;
}

Check check_namespaces(const std::vector<NamespaceTrial>& trials) {
  Check check{.name = "namespaces"};
  std::vector<std::string> made;
  std::vector<std::string> refused;
  for (const NamespaceTrial& trial : trials) {
    if (trial.error == 0) {
      made.push_back(trial.name);
      continue;
    }
    refused.push_back(trial.name + " (" + std::strerror(trial.error) + ")");
    if (trial.error == ENOSPC) {
      const std::string key = trial.name == "mount" ? "mnt" : trial.name;
      check.repair = "sysctl -w user.max_" + key + "_namespaces=65536";
    } else if (trial.error == EINVAL) {
      check.repair = "apt-get install -y linux-image-amd64 && reboot";
    } else {
      check.repair = kMorePrivileges;
    }
  }
  check.text = join(made);
  if (refused.empty()) return check;
  check.status = CheckStatus::missing;
  check.text = "cannot be made: " + join(refused);
  return check;
}

Check check_nftables(const std::string& version, bool library) {
  Check check{.name = "nftables", .text = version};
  if (!version.empty()) return check;
  check.text = "libnftables";
  if (library) return check;
  check.status = CheckStatus::degraded;
  check.text = "not installed: egress policies need it";
  check.repair = "apt-get install -y nftables";
  return check;
}

Check check_tun(int error) {
  Check check{.name = "tun", .text = "tap devices can be made"};
  if (error == 0) return check;
  check.status = CheckStatus::degraded;
  check.text = "no tap device can be made through /dev/net/tun (" +
               std::string(std::strerror(error)) + "): microVMs have no network";
  check.repair = error == ENOENT || error == ENODEV || error == ENXIO
                     ? "modprobe tun; in a container: start it with --device=/dev/net/tun"
                     : "start the container with --device=/dev/net/tun --cap-add=NET_ADMIN";
  return check;
}

Check check_forwarding(const ForwardingFacts& facts) {
  Check check{.name = "forwarding", .text = "on"};
  if (facts.on) return check;
  check.text = "off; the server switches it on";
  if (facts.writable) return check;
  check.status = CheckStatus::degraded;
  check.text = "off, and cannot be switched on from here: microVMs have no network";
  check.repair = "sysctl -w net.ipv4.ip_forward=1, in the host's own network namespace";
  return check;
}

Check check_disk(const DiskFacts& facts) {
  Check check{.name = "disk"};
  check.text = in_gib(facts.free_bytes) + " free under " + facts.path + " (" + facts.file_system +
               (facts.reflink ? ", reflink" : ", no reflink") + ")";
  if (!facts.writable) {
    check.status = CheckStatus::missing;
    check.text = facts.path + " cannot be written";
    check.repair = "mkdir -p " + facts.path + " && chmod 700 " + facts.path +
                   ", as the user who runs firebreak; or choose another --data-dir";
    return check;
  }
  if (facts.free_bytes >= 10 * kGib) return check;
  check.status = facts.free_bytes >= 2 * kGib ? CheckStatus::degraded : CheckStatus::missing;
  check.text +=
      check.status == CheckStatus::degraded ? "; 10 GiB are advised" : "; 2 GiB are needed";
  check.repair = "apt-get clean, or choose another --data-dir (largest: du -xh / | sort -h | tail)";
  return check;
}

Check check_memory(const MemoryFacts& facts) {
  constexpr std::uint64_t kAdvisedKib = 1 << 20;
  constexpr std::uint64_t kNeededKib = 1 << 19;
  Check check{.name = "memory"};
  check.text =
      in_gib(facts.available_kib << 10) + " of " + in_gib(facts.total_kib << 10) + " available";
  if (facts.available_kib >= kAdvisedKib) return check;
  check.status = facts.available_kib >= kNeededKib ? CheckStatus::degraded : CheckStatus::missing;
  check.text +=
      check.status == CheckStatus::degraded ? "; 1 GiB is advised" : "; 0.5 GiB is needed";
  check.repair = "ps -eo pid,rss,comm --sort=-rss | head, and end what is not needed";
  return check;
}

Check check_memfd(bool sealed) {
  Check check{.name = "memfd", .text = "memory can be sealed for sharing"};
  if (sealed) return check;
  check.status = CheckStatus::missing;
  check.text = "memory cannot be sealed for sharing";
  check.repair = "apt-get install -y linux-image-amd64 && reboot";
  return check;
}

Check check_kernel(const std::string& release, bool pagemap_scan) {
  Check check{.name = "kernel", .text = release};
  // close_range, clone into a cgroup, pidfd_getfd, proc with subset=pid.
  if (parse_version(release) < std::pair(5U, 9U)) {
    check.status = CheckStatus::missing;
    check.text += " is too old: 5.9 or newer is needed";
    check.repair = kNewerKernel;
  } else if (!pagemap_scan) {
    check.status = CheckStatus::degraded;
    check.text +=
        " without PAGEMAP_SCAN: suspend of large guests is slower; kernel 6.7 or newer has it";
    check.repair = kNewerKernel;
  } else {
    check.text += " with PAGEMAP_SCAN: suspend of large guests is fast";
  }
  return check;
}

Check check_guest(const std::string& directory, const std::vector<std::string>& lacking) {
  Check check{.name = "guest", .text = "kernel, initramfs and base disk in " + directory};
  if (lacking.empty()) return check;
  check.status = CheckStatus::missing;
  check.text = directory + " lacks " + join(lacking);
  check.repair = "./dev build, or name the right --guest-dir";
  return check;
}

Check check_holder(const std::string& program, bool executable) {
  Check check{.name = "holder", .text = program};
  if (executable) return check;
  check.status = CheckStatus::missing;
  check.text += " is not there or cannot be executed";
  check.repair = "./dev build";
  return check;
}

const std::vector<std::string>& runtime_packages() {
  static const std::vector<std::string> packages{"qemu-system-x86", "e2fsprogs", "mmdebstrap"};
  return packages;
}

Check check_packages(const std::optional<std::map<std::string, std::string>>& installed) {
  Check check{.name = "packages"};
  if (!installed) {
    check.status = CheckStatus::degraded;
    check.text = "no dpkg here: versions are not known, and images may not build";
    check.repair = "use Debian 12, or install " + join(runtime_packages()) + " by hand";
    return check;
  }
  std::vector<std::string> found;
  std::vector<std::string> lacking;
  for (const std::string& name : runtime_packages()) {
    const auto package = installed->find(name);
    if (package == installed->end()) {
      lacking.push_back(name);
    } else {
      found.push_back(name + " " + package->second);
    }
  }
  check.text = join(found);
  if (lacking.empty()) return check;
  check.status = CheckStatus::degraded;
  check.text =
      "not installed: " + join(lacking) + (found.empty() ? "" : "; installed: " + check.text);
  check.repair = "apt-get install -y " + join(lacking, " ");
  return check;
}

}  // namespace firebreak::machine
