// QEMU's command line: the one place that knows it. The device graph is fixed from the first boot
// of an image on, because a snapshot loads only into the same graph; device_graph_hash() is part of
// the snapshot key. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "machine/engine.h"
#include "machine/qemu/accelerator.h"
#include "machine/qemu/fd_numbers.h"

namespace firebreak::machine {

enum class DiskFormat { raw, qcow2 };

// What the guest finds. New snapshots are made with the latest; older ones keep theirs.
enum class DeviceGraph {
  first,         // disk, network card, two ports, random numbers
  gives_memory,  // and a device to which the guest reports memory that it does not use
};
inline constexpr DeviceGraph kLatestGraph = DeviceGraph::gives_memory;

struct CommandLine {
  std::string qemu;  // inside the jail
  Accelerator accelerator = Accelerator::tcg;
  Size size;
  DeviceGraph graph = kLatestGraph;
  bool shared_ram =
      false;  // the image being built writes the memfd itself; a clone copies on write
  std::vector<DiskFormat> disks;  // bottom first; the last one is writable
  bool boot = false;              // kernel + initramfs; otherwise a device state is loaded
  bool defer_load = false;        // wait for migrate-incoming: a delta is applied first
  std::uint64_t tsc_khz = 0;      // of the host (TCG)
  bool tap = false;               // something is behind the network card
};

std::vector<std::string> build_arguments(const CommandLine& line);

// Over what a snapshot's device state depends on: machine, CPU model, devices and their order,
// sizes.
std::string device_graph_hash(const CommandLine& line);

// Name of what is behind the network card.
inline constexpr const char* kNetdev = "net0";

// The guest's disk among QEMU's objects: the first device of the graph.
inline constexpr const char* kDiskDevice = "/machine/peripheral-anon/device[0]";
// Names of the disk at this level of the chain, and the set that its descriptor is in.
std::string disk_node(std::uint64_t level);
std::string file_node(std::uint64_t level);
std::uint64_t disk_fdset(std::uint64_t level);
// The level that a node is named after.
std::optional<std::uint64_t> disk_node_level(std::string_view name);

std::string cpu_model(Accelerator accelerator);

}  // namespace firebreak::machine
