#include "machine/qemu/records.h"

#include <algorithm>
#include <array>
#include <limits>
#include <tuple>

#include "base/json.h"

namespace firebreak::machine {
namespace {

constexpr std::array kPhases{MachinePhase::starting, MachinePhase::running, MachinePhase::parked};

std::uint32_t read_u32(JsonReader& reader, std::string_view name) {
  const std::uint64_t value = reader.u64(name);
  if (value > std::numeric_limits<std::uint32_t>::max()) reader.reject(name, "is too large");
  return static_cast<std::uint32_t>(value);
}

json::array to_json(const std::vector<DiskLayer>& disks) {
  json::array out;
  for (const DiskLayer& disk : disks)
    out.push_back({{"path", disk.path},
                   {"format", disk.format == DiskFormat::raw ? "raw" : "qcow2"},
                   {"bytes", disk.bytes}});
  return out;
}

std::vector<DiskLayer> read_disks(JsonReader& reader) {
  std::vector<DiskLayer> disks;
  const json::array* items = reader.array("disks", true);
  if (items == nullptr) return disks;
  for (const json::value& item : *items) {
    if (!item.is_object()) {
      reader.reject("disks", "must hold objects");
      return {};
    }
    JsonReader disk(item.as_object(), "disks.");
    DiskLayer layer;
    layer.path = disk.string("path");
    const std::string format = disk.string("format");
    if (format != "raw" && format != "qcow2") disk.reject("format", "must be raw or qcow2");
    layer.format = format == "raw" ? DiskFormat::raw : DiskFormat::qcow2;
    layer.bytes = disk.u64("bytes");
    if (auto ok = disk.result(); !ok) reader.reject("disks", ok.error().message);
    disks.push_back(std::move(layer));
  }
  return disks;
}

json::object to_json(const Size& size) {
  return {{"vcpus", size.vcpus}, {"memory_mib", size.memory_mib}};
}

Size read_size(JsonReader& reader) {
  Size size;
  if (const json::object* object = reader.object("size", true)) {
    JsonReader members(*object, "size.");
    size.vcpus = read_u32(members, "vcpus");
    size.memory_mib = read_u32(members, "memory_mib");
    if (auto ok = members.result(); !ok) reader.reject("size", ok.error().message);
  }
  return size;
}

Accelerator read_accelerator(JsonReader& reader) {
  const std::string name = reader.string("accelerator");
  if (name != "kvm" && name != "tcg") reader.reject("accelerator", "must be kvm or tcg");
  return name == "kvm" ? Accelerator::kvm : Accelerator::tcg;
}

SnapshotKey read_key(JsonReader& reader) {
  SnapshotKey key;
  if (const json::object* object = reader.object("key", true)) {
    JsonReader members(*object, "key.");
    key.format = members.u64("format");
    key.runtime = members.string("runtime");
    key.qemu_version = members.string("qemu_version");
    key.accelerator = read_accelerator(members);
    key.cpu_model = members.string("cpu_model");
    key.device_graph = members.string("device_graph");
    key.tsc_khz = members.u64("tsc_khz");
    key.agent_protocol = members.u64("agent_protocol");
    if (auto ok = members.result(); !ok) reader.reject("key", ok.error().message);
  }
  return key;
}

std::unexpected<Error> damaged(std::string_view what, const Error& error) {
  return fail(Code::corrupt, std::string(what) + " is damaged", error.message);
}

}  // namespace

std::string_view to_string(MachinePhase phase) {
  switch (phase) {
    case MachinePhase::starting:
      return "starting";
    case MachinePhase::running:
      return "running";
    case MachinePhase::parked:
      return "parked";
  }
  return "starting";
}

// Measured rates differ by parts per million from one measurement to the next.
bool same_tsc_rate(std::uint64_t a, std::uint64_t b) {
  return (a > b ? a - b : b - a) <= std::max(a, b) / 1000;
}

bool loads_here(const SnapshotKey& there, const SnapshotKey& here) {
  SnapshotKey normal = there;
  if (same_tsc_rate(there.tsc_khz, here.tsc_khz)) normal.tsc_khz = here.tsc_khz;
  return normal == here;
}

std::string describe_difference(const SnapshotKey& there, const SnapshotKey& here) {
  const auto number = [](std::uint64_t n) { return std::to_string(n); };
  const std::array<std::tuple<std::string, std::string, std::string>, 8> members{{
      {"format", number(there.format), number(here.format)},
      {"QEMU version", there.qemu_version, here.qemu_version},
      {"QEMU files", there.runtime, here.runtime},
      {"accelerator", std::string(to_string(there.accelerator)),
       std::string(to_string(here.accelerator))},
      {"CPU model", there.cpu_model, here.cpu_model},
      {"device graph", there.device_graph, here.device_graph},
      {"TSC rate (kHz)",
       number(same_tsc_rate(there.tsc_khz, here.tsc_khz) ? here.tsc_khz : there.tsc_khz),
       number(here.tsc_khz)},
      {"agent protocol", number(there.agent_protocol), number(here.agent_protocol)},
  }};
  for (const auto& [name, a, b] : members)
    if (a != b) return name + ": " + a + " there, " + b + " here";
  return "nothing";
}

std::string to_json_text(const SnapshotRecord& record) {
  const json::object key{{"format", record.key.format},
                         {"runtime", record.key.runtime},
                         {"qemu_version", record.key.qemu_version},
                         {"accelerator", std::string(to_string(record.key.accelerator))},
                         {"cpu_model", record.key.cpu_model},
                         {"device_graph", record.key.device_graph},
                         {"tsc_khz", record.key.tsc_khz},
                         {"agent_protocol", record.key.agent_protocol}};
  json::array disk_hashes;
  for (const std::string& hash : record.disk_sha256) disk_hashes.emplace_back(hash);
  return json::serialize(
             json::object{{"engine", record.engine},
                          {"isolation", to_string(isolation_of(record.key.accelerator))},
                          {"key", key},
                          {"size", to_json(record.size)},
                          {"ram_sha256", record.ram_sha256},
                          {"state_sha256", record.state_sha256},
                          {"disks", to_json(record.disks)},
                          {"disk_sha256", std::move(disk_hashes)},
                          {"disk_bytes", record.disk_bytes}}) +
         "\n";
}

Result<SnapshotRecord> parse_snapshot_record(std::string_view text) {
  auto object = parse_json_object(text);
  if (!object) return damaged("the snapshot's record", object.error());
  JsonReader reader(*object);
  SnapshotRecord record;
  // Older ones say neither.
  record.engine = reader.string_or("engine", kQemuEngine);
  record.key = read_key(reader);
  const std::string isolation(to_string(isolation_of(record.key.accelerator)));
  if (reader.string_or("isolation", isolation) != isolation)
    reader.reject("isolation", "must be " + isolation);
  record.size = read_size(reader);
  record.ram_sha256 = reader.string("ram_sha256");
  record.state_sha256 = reader.string("state_sha256");
  record.disks = read_disks(reader);
  record.disk_sha256 = reader.strings_or_empty("disk_sha256");
  record.disk_bytes = reader.u64("disk_bytes");
  if (record.disks.empty()) reader.reject("disks", "must not be empty");
  if (auto ok = reader.result(); !ok) return damaged("the snapshot's record", ok.error());
  return record;
}

std::string to_json_text(const MachineRecord& record) {
  const json::object limits{{"memory_bytes", record.limits.memory_bytes},
                            {"cpu_weight", record.limits.cpu_weight},
                            {"cpu_percent", record.limits.cpu_percent}};
  return json::serialize(json::object{{"id", record.id},
                                      {"phase", std::string(to_string(record.phase))},
                                      {"snapshot", record.snapshot},
                                      {"runtime", record.runtime},
                                      {"size", to_json(record.size)},
                                      {"limits", limits},
                                      {"disks", to_json(record.disks)},
                                      {"uid", record.uid},
                                      {"pid", record.pid},
                                      {"start_time", record.start_time},
                                      {"boot_id", record.boot_id},
                                      {"network", record.network},
                                      {"forked", record.forked},
                                      {"switching", record.switching}}) +
         "\n";
}

Result<MachineRecord> parse_machine_record(std::string_view text) {
  auto object = parse_json_object(text);
  if (!object) return damaged("the machine's record", object.error());
  JsonReader reader(*object);
  MachineRecord record;
  record.id = reader.string("id");
  const std::string phase = reader.string("phase");
  bool known = false;
  for (MachinePhase candidate : kPhases) {
    if (to_string(candidate) != phase) continue;
    record.phase = candidate;
    known = true;
  }
  if (!known) reader.reject("phase", "is unknown");
  record.snapshot = reader.string("snapshot");
  record.runtime = reader.string("runtime");
  record.size = read_size(reader);
  if (const json::object* members = reader.object("limits", true)) {
    JsonReader limits(*members, "limits.");
    record.limits.memory_bytes = limits.u64("memory_bytes");
    record.limits.cpu_weight = read_u32(limits, "cpu_weight");
    record.limits.cpu_percent = read_u32(limits, "cpu_percent");
    if (auto ok = limits.result(); !ok) reader.reject("limits", ok.error().message);
  }
  record.disks = read_disks(reader);
  record.uid = read_u32(reader, "uid");
  record.pid = reader.i64("pid");
  record.start_time = reader.u64("start_time");
  record.boot_id = reader.string_or("boot_id", "");
  record.network = reader.boolean_or("network", false);
  record.forked = reader.boolean_or("forked", false);
  record.switching = reader.u64_or("switching", 0);
  if (auto ok = reader.result(); !ok) return damaged("the machine's record", ok.error());
  return record;
}

}  // namespace firebreak::machine
