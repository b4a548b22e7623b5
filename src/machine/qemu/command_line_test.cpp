#include "machine/qemu/command_line.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace firebreak::machine {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

CommandLine clone_line() {
  CommandLine line;
  line.qemu = "/usr/bin/qemu-system-x86_64";
  line.size = {.vcpus = 2, .memory_mib = 512};
  line.disks = {DiskFormat::raw, DiskFormat::qcow2, DiskFormat::qcow2};
  line.tsc_khz = 2'500'000;
  return line;
}

CommandLine boot_line() {
  CommandLine line = clone_line();
  line.boot = true;
  line.shared_ram = true;
  line.disks = {DiskFormat::raw, DiskFormat::qcow2};
  return line;
}

std::vector<std::string> values_of(const std::vector<std::string>& args, std::string_view option) {
  std::vector<std::string> values;
  for (std::size_t i = 0; i + 1 < args.size(); ++i)
    if (args[i] == option) values.push_back(args[i + 1]);
  return values;
}

bool has(const std::vector<std::string>& args, const std::string& arg) {
  return std::find(args.begin(), args.end(), arg) != args.end();
}

TEST(CommandLine, EveryBlockNodeNamesItsDriverAndWhatIsBelowIt) {
  const auto args = build_arguments(clone_line());
  EXPECT_THAT(values_of(args, "-add-fd"), ElementsAre("fd=20,set=1", "fd=21,set=2", "fd=22,set=3"));
  const std::string cache = ",cache.direct=off,cache.no-flush=on";
  EXPECT_THAT(
      values_of(args, "-blockdev"),
      ElementsAre(
          "driver=file,node-name=file0,filename=/dev/fdset/1" + cache + ",read-only=on",
          "driver=raw,node-name=disk0,file=file0" + cache + ",read-only=on",
          "driver=file,node-name=file1,filename=/dev/fdset/2" + cache + ",read-only=on",
          "driver=qcow2,node-name=disk1,file=file1" + cache + ",read-only=on,backing=disk0",
          "driver=file,node-name=file2,filename=/dev/fdset/3" + cache,
          "driver=qcow2,node-name=disk2,file=file2" + cache + ",backing=disk1,discard=unmap"));
  EXPECT_TRUE(has(args, "virtio-blk-device,drive=disk2"));
  for (const char* implicit : {"-drive", "-hda", "-cdrom"}) EXPECT_FALSE(has(args, implicit));
}

// The jail shows QEMU its own files only; everything of ours comes by descriptor.
TEST(CommandLine, NothingIsOpenedByPath) {
  for (const CommandLine& line : {clone_line(), boot_line()}) {
    const auto args = build_arguments(line);
    EXPECT_EQ(args.front(), line.qemu);
    for (std::size_t i = 1; i < args.size(); ++i) {
      for (auto at = args[i].find('/'); at != std::string::npos; at = args[i].find('/', at + 1)) {
        const std::string_view rest = std::string_view(args[i]).substr(at);
        const bool inside = args[i].find("/proc/self/fd/") < at || args[i].find("/dev/fdset/") < at;
        EXPECT_TRUE(inside || rest.starts_with("/proc/self/fd/") || rest.starts_with("/dev/fdset/"))
            << args[i];
      }
    }
  }
}

TEST(CommandLine, SandboxIsOnAndDefaultsAreOff) {
  const auto args = build_arguments(clone_line());
  EXPECT_THAT(
      values_of(args, "-sandbox"),
      ElementsAre("on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"));
  // -no-reboot: a guest that resets ends its process, so its owner hears of it.
  for (const char* flag : {"-nodefaults", "-no-user-config", "-no-reboot"})
    EXPECT_TRUE(has(args, flag)) << flag;
  EXPECT_THAT(values_of(args, "-display"), ElementsAre("none"));
}

TEST(CommandLine, CloneCopiesOnWriteAndOnlyTheImageBeingBuiltSharesItsRam) {
  const auto ram = [](const CommandLine& line) {
    return values_of(build_arguments(line), "-object").front();
  };
  EXPECT_EQ(
      ram(clone_line()),
      "memory-backend-file,id=ram0,size=512M,mem-path=/proc/self/fd/10,share=off,reserve=off");
  EXPECT_THAT(ram(boot_line()), HasSubstr("share=on"));
}

TEST(CommandLine, LoadsByDescriptorOrWaits) {
  CommandLine line = clone_line();
  EXPECT_THAT(values_of(build_arguments(line), "-incoming"), ElementsAre("fd:14"));
  line.defer_load = true;
  EXPECT_THAT(values_of(build_arguments(line), "-incoming"), ElementsAre("defer"));
  const auto boot = build_arguments(boot_line());
  EXPECT_THAT(values_of(boot, "-incoming"), ElementsAre());
  EXPECT_THAT(values_of(boot, "-kernel"), ElementsAre("/proc/self/fd/15"));
  EXPECT_THAT(values_of(boot, "-initrd"), ElementsAre("/proc/self/fd/16"));
}

TEST(CommandLine, AGuestThatComesBackAnnouncesNothing) {
  EXPECT_THAT(values_of(build_arguments(clone_line()), "-global"),
              Contains("migration.announce-rounds=0"));
}

// Without the rate most emulated boots hang; with KVM the guest measures its own.
TEST(CommandLine, EmulatedGuestIsToldTheClockRate) {
  CommandLine line = boot_line();
  EXPECT_THAT(values_of(build_arguments(line), "-append").front(),
              HasSubstr("tsc_early_khz=2500000"));
  line.accelerator = Accelerator::kvm;
  const auto args = build_arguments(line);
  EXPECT_THAT(values_of(args, "-append").front(), Not(HasSubstr("tsc_early_khz")));
  EXPECT_THAT(values_of(args, "-accel"), ElementsAre("kvm"));
}

TEST(CommandLine, OnKvmTheCpuOffersNoMoreThanNeeded) {
  CommandLine line = boot_line();
  line.accelerator = Accelerator::kvm;
  EXPECT_THAT(values_of(build_arguments(line), "-cpu"),
              ElementsAre("host,vmx=off,svm=off,pmu=off"));
}

// Snapshots that servers of the first release made name this graph: it must never change.
TEST(CommandLine, TheFirstGraphStaysWhatItWas) {
  CommandLine line = clone_line();
  line.accelerator = Accelerator::tcg;
  line.size = {.vcpus = 1, .memory_mib = 256};
  line.graph = DeviceGraph::first;
  const std::string first = "bb95b4e443a29547f3540974650d3bab668083eec9c86a86f37aadcc6b213114";
  const std::string device = "virtio-balloon-device,free-page-reporting=on";
  EXPECT_EQ(device_graph_hash(line), first);
  EXPECT_THAT(build_arguments(line), testing::Not(testing::Contains(device)));
  line.graph = kLatestGraph;
  EXPECT_NE(device_graph_hash(line), first);
  EXPECT_THAT(build_arguments(line), testing::Contains(device));
}

TEST(CommandLine, GraphHashFollowsWhatTheGuestSees) {
  const std::string hash = device_graph_hash(clone_line());
  CommandLine line = clone_line();
  line.size.vcpus = 4;
  EXPECT_NE(device_graph_hash(line), hash);
  line = clone_line();
  line.size.memory_mib = 1024;
  EXPECT_NE(device_graph_hash(line), hash);
  line = clone_line();
  line.accelerator = Accelerator::kvm;
  EXPECT_NE(device_graph_hash(line), hash);
}

TEST(CommandLine, GraphHashIgnoresHowTheMachineIsStarted) {
  const std::string hash = device_graph_hash(clone_line());
  CommandLine line = clone_line();
  for (int i = 0; i < 5; ++i) line.disks.push_back(DiskFormat::qcow2);
  EXPECT_EQ(device_graph_hash(line), hash);
  line.disks.resize(2);
  EXPECT_EQ(device_graph_hash(line), hash);
  line.boot = true;
  line.shared_ram = true;
  line.tsc_khz = 1;
  EXPECT_EQ(device_graph_hash(line), hash);
}

}  // namespace
}  // namespace firebreak::machine
