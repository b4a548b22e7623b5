#include "machine/host_probe.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include <linux/fs.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <sys/wait.h>

#include "base/sys.h"
#include "base/text.h"
#include "machine/tool.h"

namespace firebreak::machine {
namespace {

constexpr std::chrono::seconds kToolTime{5};
constexpr const char* kQemu = "/usr/bin/qemu-system-x86_64";
constexpr const char* kFirmware = "/usr/share/qemu/bios-microvm.bin";
constexpr const char* kDpkgQuery = "/usr/bin/dpkg-query";
constexpr const char* kNftPaths[] = {"/usr/sbin/nft", "/sbin/nft", "/usr/bin/nft"};
constexpr const char* kNftLibrary = "/usr/lib/x86_64-linux-gnu/libnftables.so.1";

std::string read_or_empty(const std::string& path) {
  auto text = sys::read_file(path, 16 << 20);
  return text ? *std::move(text) : std::string();
}

// Empty when it cannot be run.
std::string first_line_of(const std::vector<std::string>& command) {
  auto output = run_tool(command, Deadline::in(kToolTime));
  return output ? output->substr(0, output->find('\n')) : std::string();
}

Check probe_qemu(const std::string& version) {
  std::vector<std::string> lacking;
  if (!sys::exists(kFirmware)) lacking.emplace_back(kFirmware);
  return check_qemu(version, lacking);
}

Check probe_privileges() {
  const auto mask = parse_effective_capabilities(read_or_empty("/proc/self/status"));
  return check_privileges(::geteuid(), mask.value_or(0));
}

Check probe_cgroups_by_trial() {
  const CgroupSupport support = probe_cgroups();
  const CgroupRoot root("firebreak-probe-" + std::to_string(::getpid()), support);
  CgroupLimits limits{.cpu_weight = 100, .pids_max = 64};
  const auto& lacking = support.missing;
  if (std::ranges::find(lacking, "memory") == lacking.end()) limits.memory_max_bytes = 1 << 30;
  Result<> trial;
  if (const auto group = root.create("trial", limits); !group) {
    trial = std::unexpected(group.error());
  } else {
    trial = group->destroy(Deadline::in(kToolTime));
  }
  (void)root.remove();
  return check_cgroups(support, trial);
}

// The errno that `trial` returns, in a process of its own.
int errno_of(const std::function<int()>& trial) {
  const pid_t child = ::fork();
  if (child < 0) return errno;
  if (child == 0) ::_exit(trial());
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : EINTR;
}

int try_namespace(int flag) {
  return errno_of([flag] { return ::unshare(flag) == 0 ? 0 : errno; });
}

Check probe_namespaces() {
  constexpr std::pair<const char*, int> kKinds[] = {
      {"mount", CLONE_NEWNS}, {"pid", CLONE_NEWPID}, {"net", CLONE_NEWNET},
      {"ipc", CLONE_NEWIPC},  {"uts", CLONE_NEWUTS}, {"cgroup", CLONE_NEWCGROUP},
  };
  std::vector<NamespaceTrial> trials;
  for (const auto& [name, flag] : kKinds) trials.push_back({name, try_namespace(flag)});
  return check_namespaces(trials);
}

Check probe_nftables() {
  std::string version;
  for (const char* path : kNftPaths)
    if (version.empty() && sys::exists(path)) version = first_line_of({path, "--version"});
  return check_nftables(version, sys::exists(kNftLibrary));
}

// As a microVM's card gets one; the device goes with the process and its namespace.
Check probe_tun() {
  return check_tun(errno_of([] {
    if (::unshare(CLONE_NEWNET) != 0) return errno;
    const int fd = ::open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    if (fd < 0) return errno;
    ifreq request{};
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    return ::ioctl(fd, TUNSETIFF, &request) == 0 ? 0 : errno;
  }));
}

Check probe_forwarding() {
  constexpr const char* kSwitch = "/proc/sys/net/ipv4/ip_forward";
  return check_forwarding({.on = read_or_empty(kSwitch).starts_with('1'),
                           .writable = sys::open(kSwitch, O_WRONLY).has_value()});
}

bool supports_reflink(const std::string& directory) {
  // Files without a name: nothing is left, whatever happens.
  const auto from = sys::open(directory, O_TMPFILE | O_RDWR, 0600);
  const auto to = sys::open(directory, O_TMPFILE | O_RDWR, 0600);
  if (!from || !to || !sys::write_all(from->get(), std::string(4096, 'x'))) return false;
  return ::ioctl(to->get(), FICLONE, from->get()) == 0;
}

Check probe_disk(const std::string& data_dir) {
  DiskFacts facts{.path = data_dir};
  facts.writable =
      sys::mkdirs(data_dir, 0700).has_value() && ::access(data_dir.c_str(), W_OK | X_OK) == 0;
  struct statfs fs{};
  if (facts.writable && ::statfs(data_dir.c_str(), &fs) == 0) {
    facts.free_bytes =
        static_cast<std::uint64_t>(fs.f_bavail) * static_cast<std::uint64_t>(fs.f_bsize);
    facts.file_system = file_system_name(static_cast<long>(fs.f_type));
    facts.reflink = supports_reflink(data_dir);
  }
  return check_disk(facts);
}

Check probe_memfd() {
  const UniqueFd fd(::memfd_create("firebreak-probe", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  constexpr int kSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;
  return check_memfd(fd && ::fcntl(fd.get(), F_ADD_SEALS, kSeals) == 0);
}

Check probe_kernel(const std::string& release) {
  // An empty argument is refused with EINVAL by kernels that know the call, others know no such
  // ioctl. The number is from linux/fs.h of 6.7: _IOWR('f', 16, a structure of 96 bytes).
  struct Argument {
    std::uint64_t words[12];
  } argument{};
  const auto pagemap = sys::open("/proc/self/pagemap", O_RDONLY);
  const bool scan = pagemap && (::ioctl(pagemap->get(), _IOWR('f', 16, Argument), &argument) == 0 ||
                                (errno != ENOTTY && errno != EPERM));
  return check_kernel(release, scan);
}

Check probe_guest(const HostPaths& paths) {
  std::vector<std::string> lacking;
  for (const std::string& path : {paths.kernel(), paths.initramfs(), paths.base_disk()}) {
    if (::access(path.c_str(), R_OK) != 0)
      lacking.push_back(std::filesystem::path(path).filename().string());
  }
  return check_guest(paths.guest_dir, lacking);
}

Check probe_packages() {
  if (!sys::exists(kDpkgQuery)) return check_packages(std::nullopt);
  // Asked for one by one: for an unknown package dpkg-query ends with an error.
  std::map<std::string, std::string> installed;
  for (const std::string& name : runtime_packages()) {
    installed.merge(parse_packages(first_line_of(
        {kDpkgQuery, "-W", "-f", "${Package} ${db:Status-Status} ${Version}\n", name})));
  }
  return check_packages(installed);
}

}  // namespace

std::string host_qemu_version() {
  constexpr std::string_view kIntro = "QEMU emulator version ";
  const std::string line = first_line_of({kQemu, "--version"});
  return line.starts_with(kIntro) ? line.substr(kIntro.size()) : std::string();
}

HostReport probe_host(const ProbeConfig& config,
                      const std::function<void(const Check&)>& on_check) {
  HostReport report;
  const auto add = [&](Check check) {
    on_check(check);
    report.checks.push_back(std::move(check));
  };
  utsname host{};
  ::uname(&host);
  const std::string qemu = host_qemu_version();
  add(check_architecture(host.machine));
  add(probe_kernel(host.release));
  add(probe_privileges());
  add(probe_namespaces());
  add(probe_cgroups_by_trial());
  add(probe_memfd());
  add(check_memory(parse_meminfo(read_or_empty("/proc/meminfo"))));
  add(probe_disk(config.paths.data_dir));
  add(probe_packages());
  add(probe_nftables());
  add(probe_tun());
  add(probe_forwarding());
  add(probe_qemu(qemu));
  add(probe_guest(config.paths));
  add(check_holder(config.paths.holder, ::access(config.paths.holder.c_str(), X_OK) == 0));
  // A guest cannot be tried while something is missing; what that is, was said above.
  if (any_missing(report.checks)) {
    add({.name = "accelerator",
         .status = CheckStatus::degraded,
         .text = "KVM was not tried, because something above is missing",
         .repair = "repair that first, then firebreak doctor"});
    return report;
  }
  const AcceleratorChoice choice =
      choose_accelerator(config.paths, qemu, config.fresh, Deadline::in(kTrialTime));
  report.accelerator = choice.accelerator;
  add(check_accelerator(choice));
  return report;
}

}  // namespace firebreak::machine
