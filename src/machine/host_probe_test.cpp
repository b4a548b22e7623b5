#include <cerrno>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>

#include "machine/accelerator_probe.h"
#include "machine/host_checks.h"

namespace firebreak::machine {
namespace {

using testing::AllOf;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::uint64_t kGib = 1ULL << 30;
constexpr std::uint64_t kAll = (1ULL << 41) - 1;

auto is_ok() {
  return AllOf(Field(&Check::status, CheckStatus::ok), Field(&Check::repair, IsEmpty()));
}
// Every line that is not ok says how to repair it.
auto is_degraded(const std::string& repair) {
  return AllOf(Field(&Check::status, CheckStatus::degraded),
               Field(&Check::repair, HasSubstr(repair)));
}
auto is_missing(const std::string& repair) {
  return AllOf(Field(&Check::status, CheckStatus::missing),
               Field(&Check::repair, HasSubstr(repair)));
}

TEST(HostFacts, EffectiveCapabilities) {
  EXPECT_EQ(parse_effective_capabilities(
                "Name:\tx\nCapPrm:\t0000000000000001\nCapEff:\t000001fffeffffff\n"),
            0x1fffeffffffULL);
  EXPECT_EQ(parse_effective_capabilities("Name:\tx\n"), std::nullopt);
  EXPECT_EQ(parse_effective_capabilities("CapEff:\t\n"), std::nullopt);
  EXPECT_EQ(parse_effective_capabilities("CapEff:\t12zz\n"), std::nullopt);
  EXPECT_EQ(parse_effective_capabilities("CapEff:\t11111111111111111\n"), std::nullopt);
}

TEST(HostFacts, Cpuinfo) {
  const CpuFacts intel =
      parse_cpuinfo("processor\t: 0\nmodel name\t: Intel(R) Xeon\nflags\t\t: fpu vmx sse\n");
  EXPECT_EQ(intel.model, "Intel(R) Xeon");
  EXPECT_TRUE(intel.virtualisation);
  EXPECT_EQ(intel.kvm_module, "kvm_intel");
  EXPECT_EQ(parse_cpuinfo("flags : svm\n").kvm_module, "kvm_amd");
  const CpuFacts none = parse_cpuinfo("model name : X\nflags : fpu vmx_not\n");
  EXPECT_FALSE(none.virtualisation);
  EXPECT_EQ(parse_cpuinfo("").model, "unknown CPU");
}

TEST(HostFacts, Meminfo) {
  const MemoryFacts facts =
      parse_meminfo("MemTotal:       24633344 kB\nMemFree: 1 kB\nMemAvailable:   1048576 kB\n");
  EXPECT_EQ(facts.total_kib, 24633344U);
  EXPECT_EQ(facts.available_kib, 1048576U);
  EXPECT_EQ(parse_meminfo("rubbish").total_kib, 0U);
}

TEST(HostFacts, Versions) {
  EXPECT_EQ(parse_version("6.18.44-fc"), std::pair(6U, 18U));
  EXPECT_EQ(parse_version("7.2.22 (Debian 1:7.2)"), std::pair(7U, 2U));
  EXPECT_EQ(parse_version("10.0"), std::pair(10U, 0U));
  EXPECT_EQ(parse_version("7"), std::pair(0U, 0U));
  EXPECT_EQ(parse_version("x.1"), std::pair(0U, 0U));
  EXPECT_EQ(parse_version(""), std::pair(0U, 0U));
}

TEST(HostFacts, PackagesCountOnlyWhenInstalled) {
  const auto packages =
      parse_packages("a installed 1:2.3-4\nb config-files 1\nc not-installed \nd installed 5\n");
  EXPECT_THAT(packages, testing::UnorderedElementsAre(testing::Pair("a", "1:2.3-4"),
                                                      testing::Pair("d", "5")));
}

TEST(HostFacts, FileSystems) {
  EXPECT_EQ(file_system_name(0xEF53), "ext4");
  EXPECT_EQ(file_system_name(0x9123683E), "btrfs");
  EXPECT_EQ(file_system_name(0xabc), "file system 0xabc");
}

TEST(HostFacts, ProgramTextBecomesOneLine) {
  EXPECT_EQ(one_line("a\nb\tc\x1b[0m"), "a b c [0m");
  EXPECT_EQ(one_line(std::string(9000, 'x')).size(), 503U);
}

TEST(HostChecks, Architecture) {
  EXPECT_THAT(check_architecture("x86_64"), is_ok());
  EXPECT_THAT(check_architecture("aarch64"), is_missing("x86-64"));
}

TEST(HostChecks, Privileges) {
  EXPECT_THAT(check_privileges(0, kAll), is_ok());
  // Raising limits is not needed.
  EXPECT_THAT(check_privileges(0, kAll & ~(1ULL << CAP_SYS_RESOURCE)), is_ok());
  EXPECT_THAT(check_privileges(1000, 0), is_missing("sudo firebreak doctor"));
  const Check no_ptrace = check_privileges(0, kAll & ~(1ULL << CAP_SYS_PTRACE));
  EXPECT_THAT(no_ptrace, is_missing("--cap-add=SYS_PTRACE"));
  EXPECT_THAT(no_ptrace.text, HasSubstr("sys_ptrace"));
  const Check no_net = check_privileges(0, kAll & ~(1ULL << CAP_NET_ADMIN));
  EXPECT_THAT(no_net, is_degraded("--cap-add=NET_ADMIN"));
  EXPECT_THAT(no_net.text, HasSubstr("egress"));
}

TEST(HostChecks, Qemu) {
  EXPECT_THAT(check_qemu("7.2.22 (Debian 1:7.2)", {}), is_ok());
  EXPECT_THAT(check_qemu("10.0.2", {}), is_ok());
  EXPECT_THAT(check_qemu("", {}), is_missing("apt-get install -y qemu-system-x86"));
  EXPECT_THAT(check_qemu("6.1.0", {}), is_missing("apt-get"));
  EXPECT_THAT(check_qemu("7.2.22", {"bios-microvm.bin"}), is_missing("qemu-system-data"));
}

TEST(HostChecks, Cgroups) {
  CgroupSupport support;
  support.missing = {"cpu", "memory", "pids"};
  EXPECT_THAT(check_cgroups(support, fail(Code::unavailable, "none")), is_missing("mount -t"));

  support = {};
  support.version = CgroupVersion::v2;
  support.v2_mount = "/sys/fs/cgroup";
  support.controllers = {"cpu", "memory", "pids"};
  EXPECT_THAT(check_cgroups(support, {}), is_ok());
  EXPECT_THAT(check_cgroups(support, fail(Code::denied, "Permission denied")),
              is_missing("as root"));
  EXPECT_THAT(check_cgroups(support, fail_errno("mkdir", EROFS)),
              is_missing("mount -o remount,rw /sys/fs/cgroup"));
  support.controllers = {"cpu", "pids"};
  support.missing = {"memory"};
  EXPECT_THAT(check_cgroups(support, {}), is_degraded("cgroup_enable=memory"));

  support.version = CgroupVersion::v1;
  support.missing = {"pids"};
  EXPECT_THAT(check_cgroups(support, {}), is_missing("mount -t cgroup -o pids"));
}

TEST(HostChecks, Namespaces) {
  EXPECT_THAT(check_namespaces({{"mount", 0}, {"pid", 0}}), is_ok());
  EXPECT_THAT(check_namespaces({{"mount", EPERM}, {"pid", 0}}), is_missing("as root"));
  EXPECT_THAT(check_namespaces({{"mount", ENOSPC}}), is_missing("user.max_mnt_namespaces"));
  EXPECT_THAT(check_namespaces({{"cgroup", EINVAL}}), is_missing("linux-image"));
}

TEST(HostChecks, Nftables) {
  EXPECT_THAT(check_nftables("nftables v1.0.6", false), is_ok());
  EXPECT_THAT(check_nftables("", true), is_ok());
  EXPECT_THAT(check_nftables("", false), is_degraded("apt-get install -y nftables"));
}

TEST(HostChecks, NetworksAreNotNeeded) {
  EXPECT_THAT(check_tun(0), is_ok());
  EXPECT_THAT(check_tun(ENOENT), is_degraded("modprobe tun"));
  EXPECT_THAT(check_tun(EPERM), is_degraded("--cap-add=NET_ADMIN"));
  EXPECT_THAT(check_forwarding({.on = true, .writable = false}), is_ok());
  EXPECT_THAT(check_forwarding({.on = false, .writable = true}), is_ok());
  EXPECT_THAT(check_forwarding({.on = false, .writable = false}), is_degraded("ip_forward=1"));
}

TEST(HostChecks, Disk) {
  DiskFacts facts{
      .path = "/data", .free_bytes = 10 * kGib, .file_system = "ext4", .writable = true};
  EXPECT_THAT(check_disk(facts), is_ok());
  EXPECT_EQ(check_disk(facts).text, "10.0 GiB free under /data (ext4, no reflink)");
  facts.reflink = true;
  EXPECT_THAT(check_disk(facts).text, Not(HasSubstr("no reflink")));
  facts.free_bytes = 10 * kGib - 1;
  EXPECT_THAT(check_disk(facts), is_degraded("--data-dir"));
  facts.free_bytes = 2 * kGib;
  EXPECT_THAT(check_disk(facts), is_degraded("--data-dir"));
  facts.free_bytes = 2 * kGib - 1;
  EXPECT_THAT(check_disk(facts), is_missing("--data-dir"));
  facts.writable = false;
  EXPECT_THAT(check_disk(facts), is_missing("mkdir -p /data"));
}

TEST(HostChecks, Memory) {
  EXPECT_THAT(check_memory({.total_kib = 4 << 20, .available_kib = 1 << 20}), is_ok());
  EXPECT_THAT(check_memory({.total_kib = 4 << 20, .available_kib = 1 << 19}), is_degraded("ps "));
  EXPECT_THAT(check_memory({.total_kib = 4 << 20, .available_kib = 1 << 18}), is_missing("ps "));
}

TEST(HostChecks, Kernel) {
  EXPECT_THAT(check_kernel("6.18.44-fc", true), is_ok());
  const Check without = check_kernel("6.1.0-30-amd64", false);
  EXPECT_THAT(without, is_degraded("bookworm-backports"));
  EXPECT_THAT(without.text, HasSubstr("kernel 6.7 or newer"));
  EXPECT_THAT(check_kernel("4.19.0", false), is_missing("linux-image"));
  EXPECT_THAT(check_memfd(true), is_ok());
  EXPECT_THAT(check_memfd(false), is_missing("linux-image"));
}

TEST(HostChecks, GuestAndHolder) {
  EXPECT_THAT(check_guest("/g", {}), is_ok());
  const Check check = check_guest("/g", {"vmlinux"});
  EXPECT_THAT(check, is_missing("./dev build"));
  EXPECT_THAT(check.text, HasSubstr("/g lacks vmlinux"));
  EXPECT_THAT(check_holder("/x", true), is_ok());
  EXPECT_THAT(check_holder("/x", false), is_missing("./dev build"));
}

TEST(HostChecks, Packages) {
  std::map<std::string, std::string> installed;
  for (const std::string& name : runtime_packages()) installed[name] = "1.0";
  EXPECT_THAT(check_packages(installed), is_ok());
  installed.erase("mmdebstrap");
  EXPECT_THAT(check_packages(installed), is_degraded("apt-get install -y mmdebstrap"));
  EXPECT_THAT(check_packages(std::nullopt), is_degraded("Debian"));
}

TEST(HostChecks, OnlyMissingCounts) {
  EXPECT_FALSE(any_missing({{.name = "a"}, {.name = "b", .status = CheckStatus::degraded}}));
  EXPECT_TRUE(any_missing({{.name = "a"}, {.name = "b", .status = CheckStatus::missing}}));
}

TEST(AcceleratorVerdict, IsRememberedForExactlyItsKey) {
  const Verdict verdict{.key = {.kernel = "6.18", .qemu = "7.2", .cpu = "X \"y\"", .guest = "1@2"},
                        .accelerator = Accelerator::kvm,
                        .reason = "a guest booted"};
  const std::string text = to_json_text(verdict);
  EXPECT_EQ(remembered_verdict(text, verdict.key), verdict);
  for (std::string VerdictKey::* member :
       {&VerdictKey::kernel, &VerdictKey::qemu, &VerdictKey::cpu, &VerdictKey::guest}) {
    VerdictKey other = verdict.key;
    other.*member += "x";
    EXPECT_EQ(remembered_verdict(text, other), std::nullopt);
  }
}

TEST(AcceleratorVerdict, DamagedIsForgotten) {
  const Verdict verdict{.key = {"a", "b", "c", "d"}, .reason = "r"};
  const std::string text = to_json_text(verdict);
  EXPECT_TRUE(remembered_verdict(text, verdict.key));
  for (std::size_t length = 0; length + 1 < text.size(); ++length)
    EXPECT_FALSE(remembered_verdict(text.substr(0, length), verdict.key)) << length;
  EXPECT_FALSE(remembered_verdict("[]", verdict.key));
  EXPECT_FALSE(remembered_verdict(
      R"({"key":{"kernel":"a","qemu":"b","cpu":"c","guest":"d"},"accelerator":"xen","reason":"r"})",
      verdict.key));
}

TEST(AcceleratorVerdict, TcgIsDegradedAndSaysWhy) {
  EXPECT_THAT(check_accelerator({.accelerator = Accelerator::kvm, .reason = "booted"}), is_ok());
  const Check check = check_accelerator({.reason = "no device", .repair = "modprobe kvm_amd"});
  EXPECT_THAT(check, is_degraded("modprobe kvm_amd"));
  EXPECT_THAT(check.text, HasSubstr("no device"));
}

}  // namespace
}  // namespace firebreak::machine
