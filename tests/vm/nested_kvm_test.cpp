// The engine on KVM, on a host that may have none: an emulated machine with an AMD CPU that
// virtualises, Debian's kernel with KVM, and the host's own root file system, shared read-only.
// Inside it run programs of this build (and cgroups are those of version 2).
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sys.h"
#include "base/text.h"
#include "machine/tool.h"
#include "support/environment.h"

namespace firebreak::testing_support {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::chrono::minutes kDownloadTime{10};
// A few minutes on an idle host.
constexpr std::chrono::minutes kRunTime{40};

// Where /proc, /sys, /dev and /run are the outer machine's own, and nothing else can be written.
constexpr const char* kScratch = "/run";

constexpr const char* kFilter =
    "CgroupTest.*:JailTest.*:HostCpu.*:Process.*:SavedMemoryTest.*:Kvm.*:*EngineConformance*";

class NestedKvm : public testing::Test {
 protected:
  NestedKvm()
      : directory_(std::filesystem::temp_directory_path() /
                   ("firebreak-nested-" + sys::random_hex(4))) {
    EXPECT_TRUE(sys::mkdir(directory_, 0700));
  }
  ~NestedKvm() override { EXPECT_TRUE(sys::remove_tree(directory_)); }

  static std::string tool(const std::string& name) { return FIREBREAK_TOOLS "/" + name; }

  // With our environment, and with its messages in what it returns.
  static Result<std::string> run(const std::vector<std::string>& command, Deadline deadline) {
    std::vector<std::string> full{"/usr/bin/env", std::string("PATH=") + std::getenv("PATH")};
    if (const char* cache = std::getenv("FIREBREAK_CACHE"))
      full.push_back(std::string("FIREBREAK_CACHE=") + cache);
    full.insert(full.end(), {"sh", "-c", "exec \"$@\" 2>&1", "sh"});
    full.insert(full.end(), command.begin(), command.end());
    return machine::run_tool(full, deadline);
  }

  // Directory of a kernel with KVM; downloaded once and kept in the cache.
  static Result<std::string> kernel() {
    constexpr std::string_view kIntro = "kernel ";
    FB_TRY_ASSIGN(const std::string out,
                  run({tool("guest-assets"), "--nested"}, Deadline::in(kDownloadTime)));
    for (const std::string_view line : split(out, '\n'))
      if (line.starts_with(kIntro)) return std::string(line.substr(kIntro.size()));
    return fail(Code::internal, "guest-assets names no kernel", out);
  }

  // What the machine's console shows while `programs` run in it, also when it does not end in time.
  std::string console_of(const std::vector<std::string>& programs, const std::string& kernel) {
    const std::string initramfs = directory_ + "/initramfs.cpio";
    const std::string console = directory_ + "/console";
    const auto packed = run({tool("make-initramfs"), FIREBREAK_NESTED_INIT, kernel, initramfs},
                            Deadline::in(std::chrono::minutes(1)));
    EXPECT_TRUE(packed) << packed.error().text();
    const auto ended = run(
        {"qemu-system-x86_64", "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
         // TCG virtualises AMD CPUs only.
         "-M", "q35", "-accel", "tcg,thread=multi,tb-size=512", "-cpu", "EPYC,+svm", "-smp", "2",
         "-m", "4096", "-serial", "file:" + console, "-fsdev",
         "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap", "-device",
         "virtio-9p-pci,fsdev=host,mount_tag=host", "-kernel", kernel + "/vmlinux", "-initrd",
         initramfs, "-append", command_line(programs)},
        Deadline::in(kRunTime));
    EXPECT_TRUE(ended) << ended.error().text();
    auto text = sys::read_file(console, 16 << 20);
    return text ? *std::move(text) : std::string();
  }

  // What the kernel does not know goes to PID 1: settings as its environment, words after "--" as
  // its arguments.
  static std::string command_line(const std::vector<std::string>& programs) {
    std::string text =
        "console=ttyS0 panic=-1 loglevel=4 mitigations=off nowatchdog no_timer_check";
    const std::pair<std::string, std::string> settings[] = {
        {"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"},
        {"TMPDIR", kScratch},
        {"FIREBREAK_BUILD_DIR", environment_or_die("FIREBREAK_BUILD_DIR")},
        {"FIREBREAK_GUEST_DIR", environment_or_die("FIREBREAK_GUEST_DIR")},
        {"FIREBREAK_TEST_ACCELERATOR", "kvm"},
        {"GTEST_COLOR", "no"},
        {"GTEST_FILTER", kFilter}};
    for (const auto& [name, value] : settings) text += " " + name + "=" + value;
    text += " --";
    for (const std::string& program : programs) text += " " + program;
    return text;
  }

  std::string directory_;
};

TEST_F(NestedKvm, MachinesLiveTheirWholeLifeOnIt) {
  const auto directory = kernel();
  ASSERT_TRUE(directory) << directory.error().text();
  const std::vector<std::string> programs{FIREBREAK_MACHINE_TEST, FIREBREAK_KVM_TEST};
  const std::string console = console_of(programs, *directory);
  // For the log: where the time went, and what failed.
  std::cout << console << std::flush;
  for (const std::string& program : programs)
    EXPECT_THAT(console, HasSubstr("nested: " + program + ": exit 0"));
  EXPECT_THAT(console, Not(HasSubstr("[  SKIPPED ]")));
  // Whatever the filter says: boot, snapshot and clone; suspend and resume; fork; and that it was
  // KVM.
  for (const std::string name :
       {"Kvm.TheTrialFindsItAndItIsRemembered",
        "Kvm.ACloneRunsOnItAndSeesNoMoreOfTheCpuThanItNeeds",
        "Kvm.TheClockStandsStillWhileSuspendedAndIsSetOnResume",
        "Kvm.TwoCpusGoOnAfterSnapshotSuspendAndFork",
        "Engine/EngineConformance.SuspendAndResumeKeepMemoryAndDisk/qemu",
        "Engine/EngineConformance.ForkedChildrenStartFromTheParentsMomentAndDiverge/qemu",
        "JailTest.KvmIsTheOnlyDevice", "CgroupTest.AGroupWithoutLimitsIsCountedAndGetsThemLater"})
    EXPECT_THAT(console, HasSubstr("[       OK ] " + name));
}

}  // namespace
}  // namespace firebreak::testing_support
