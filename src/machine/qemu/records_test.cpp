#include "machine/qemu/records.h"

#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"

namespace firebreak::machine {
namespace {

using testing::HasSubstr;

SnapshotKey key() {
  return {.format = 1,
          .runtime = "aa",
          .qemu_version = "7.2.21",
          .accelerator = Accelerator::tcg,
          .cpu_model = "Nehalem,+rdrand",
          .device_graph = "bb",
          .tsc_khz = 2'500'000,
          .agent_protocol = 1};
}

SnapshotRecord snapshot_record() {
  return {.key = key(),
          .size = {.vcpus = 2, .memory_mib = 512},
          .ram_sha256 = "cc",
          .state_sha256 = "dd",
          .disks = {{"/base.ext4", DiskFormat::raw, 5}, {"/s/disk.qcow2", DiskFormat::qcow2, 7}},
          .disk_bytes = 1ULL << 40};
}

MachineRecord machine_record() {
  return {
      .id = "vm-1",
      .phase = MachinePhase::parked,
      .snapshot = "/s",
      .runtime = "aa",
      .size = {.vcpus = 2, .memory_mib = 512},
      .limits = {.memory_bytes = 1ULL << 33, .cpu_weight = 50, .cpu_percent = 250},
      .disks = {{"/s/disk.qcow2", DiskFormat::qcow2, 7}, {"/m/disk.qcow2", DiskFormat::qcow2, 0}},
      .uid = 700'001,
      .pid = 4'194'303,
      .start_time = ~0ULL,
      .boot_id = "3f1c",
      .forked = true,
      .switching = 3};
}

TEST(Records, SnapshotRecordSurvivesItsText) {
  const SnapshotRecord before = snapshot_record();
  const auto after = parse_snapshot_record(to_json_text(before));
  ASSERT_TRUE(after) << after.error().text();
  EXPECT_EQ(after->key, before.key);
  EXPECT_EQ(after->size, before.size);
  EXPECT_EQ(after->ram_sha256, before.ram_sha256);
  EXPECT_EQ(after->state_sha256, before.state_sha256);
  EXPECT_EQ(after->disks, before.disks);
  EXPECT_EQ(after->disk_bytes, before.disk_bytes);
  EXPECT_EQ(after->engine, "qemu");
  const json::object written = *parse_json_object(to_json_text(before));
  EXPECT_EQ(written.at("engine").as_string(), "qemu");
  EXPECT_EQ(written.at("isolation").as_string(), "emulated");
}

TEST(Records, OlderSnapshotsAreOfTheFirstEngineAndNoneLiesAboutItsIsolation) {
  json::object record = *parse_json_object(to_json_text(snapshot_record()));
  record["isolation"] = "hardware";
  EXPECT_FALSE(parse_snapshot_record(json::serialize(record)));
  record.erase("isolation");
  record.erase("engine");
  const auto older = parse_snapshot_record(json::serialize(record));
  ASSERT_TRUE(older) << older.error().text();
  EXPECT_EQ(older->engine, "qemu");
}

TEST(Records, MachineRecordSurvivesItsText) {
  for (MachinePhase phase : {MachinePhase::starting, MachinePhase::running, MachinePhase::parked}) {
    MachineRecord before = machine_record();
    before.phase = phase;
    const auto after = parse_machine_record(to_json_text(before));
    ASSERT_TRUE(after) << after.error().text();
    EXPECT_EQ(*after, before);
    EXPECT_EQ(after->limits.cpu_percent, before.limits.cpu_percent);
  }
}

TEST(Records, TextCutAnywhereIsRefused) {
  for (const std::string& text :
       {to_json_text(snapshot_record()), to_json_text(machine_record())}) {
    for (std::size_t n = 0; n + 1 < text.size(); ++n) {
      const std::string cut = text.substr(0, n);
      const auto snapshot = parse_snapshot_record(cut);
      const auto machine = parse_machine_record(cut);
      ASSERT_FALSE(snapshot);
      ASSERT_FALSE(machine);
      EXPECT_EQ(snapshot.error().code, Code::corrupt);
      EXPECT_EQ(machine.error().code, Code::corrupt);
    }
  }
}

// Every member is needed and must have its type; the error says which one is wrong.
void expect_members_needed(const std::string& text,
                           const std::function<Result<>(std::string)>& parse) {
  const json::object whole = *parse_json_object(text);
  for (const auto& member : whole) {
    const std::string name(member.key());
    // False, or unknown, when absent: older records lack them.
    if (name == "forked" || name == "switching" || name == "network" || name == "boot_id" ||
        name == "engine" || name == "isolation" || name == "disk_sha256")
      continue;
    json::object without = whole;
    without.erase(name);
    auto parsed = parse(json::serialize(without));
    ASSERT_FALSE(parsed) << "without " << name;
    EXPECT_EQ(parsed.error().code, Code::corrupt);
    EXPECT_THAT(parsed.error().detail, HasSubstr(name));
    json::object wrong = whole;
    wrong[name] = nullptr;
    EXPECT_FALSE(parse(json::serialize(wrong))) << name << " is null";
  }
}

TEST(Records, EveryMemberIsNeeded) {
  expect_members_needed(to_json_text(snapshot_record()), [](const std::string& text) -> Result<> {
    FB_TRY(parse_snapshot_record(text));
    return {};
  });
  expect_members_needed(to_json_text(machine_record()), [](const std::string& text) -> Result<> {
    FB_TRY(parse_machine_record(text));
    return {};
  });
}

TEST(Records, UnknownValuesAreRefused) {
  const auto refused = [](std::string text, const std::string& from, const std::string& to) {
    const auto at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    return text;
  };
  const std::string machine = to_json_text(machine_record());
  EXPECT_FALSE(parse_machine_record(refused(machine, "\"parked\"", "\"dreaming\"")));
  EXPECT_FALSE(parse_machine_record(refused(machine, "\"qcow2\"", "\"vmdk\"")));
  EXPECT_FALSE(parse_machine_record(refused(machine, "\"vcpus\":2", "\"vcpus\":4294967298")));
  EXPECT_FALSE(parse_machine_record(refused(machine, "\"uid\":700001", "\"uid\":-1")));
  EXPECT_FALSE(parse_machine_record(refused(machine, "\"uid\":700001", "\"uid\":4294967296")));
  const std::string snapshot = to_json_text(snapshot_record());
  EXPECT_FALSE(parse_snapshot_record(refused(snapshot, "\"tcg\"", "\"hvf\"")));
  json::object empty = *parse_json_object(snapshot);
  empty["disks"] = json::array();
  EXPECT_FALSE(parse_snapshot_record(json::serialize(empty)));
  empty["disks"] = json::array{1};
  EXPECT_FALSE(parse_snapshot_record(json::serialize(empty)));
}

TEST(Records, DifferenceIsNamed) {
  const SnapshotKey here = key();
  const auto difference = [&here](const std::function<void(SnapshotKey&)>& change) {
    SnapshotKey there = here;
    change(there);
    EXPECT_FALSE(loads_here(there, here));
    return describe_difference(there, here);
  };
  EXPECT_TRUE(loads_here(here, here));
  EXPECT_EQ(describe_difference(here, here), "nothing");
  EXPECT_EQ(difference([](SnapshotKey& k) { k.format = 2; }), "format: 2 there, 1 here");
  EXPECT_EQ(difference([](SnapshotKey& k) { k.qemu_version = "7.2.22"; }),
            "QEMU version: 7.2.22 there, 7.2.21 here");
  EXPECT_EQ(difference([](SnapshotKey& k) { k.runtime = "ab"; }), "QEMU files: ab there, aa here");
  EXPECT_EQ(difference([](SnapshotKey& k) { k.accelerator = Accelerator::kvm; }),
            "accelerator: kvm there, tcg here");
  EXPECT_EQ(difference([](SnapshotKey& k) { k.cpu_model = "host"; }),
            "CPU model: host there, Nehalem,+rdrand here");
  EXPECT_EQ(difference([](SnapshotKey& k) { k.device_graph = "bc"; }),
            "device graph: bc there, bb here");
  EXPECT_EQ(difference([](SnapshotKey& k) { k.tsc_khz = 3'000'000; }),
            "TSC rate (kHz): 3000000 there, 2500000 here");
  EXPECT_EQ(difference([](SnapshotKey& k) { k.agent_protocol = 9; }),
            "agent protocol: 9 there, 1 here");
}

TEST(Records, DifferenceNamesWhatMattersNotTheNoiseOfAMeasurement) {
  const SnapshotKey here = key();
  SnapshotKey there = here;
  there.tsc_khz += 3;
  there.agent_protocol = 9;
  EXPECT_EQ(describe_difference(there, here), "agent protocol: 9 there, 1 here");
}

TEST(Records, MeasuredClockRatesMayDifferByAThousandth) {
  const SnapshotKey here = key();
  SnapshotKey there = here;
  there.tsc_khz = 2'502'500;
  EXPECT_TRUE(loads_here(there, here));
  EXPECT_TRUE(loads_here(here, there));
  there.tsc_khz = 2'503'000;
  EXPECT_FALSE(loads_here(there, here));
  EXPECT_FALSE(loads_here(here, there));
  there.tsc_khz = 0;  // made with KVM
  EXPECT_FALSE(loads_here(there, here));
}

}  // namespace
}  // namespace firebreak::machine
