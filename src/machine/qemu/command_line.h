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

namespace firebreak::machine {

// Descriptors are passed into the jail under fixed numbers; nothing is opened by path but
// /proc/self/fd/N.
namespace fd_number {
inline constexpr int kRam = 10;
inline constexpr int kQmp = 11;
inline constexpr int kCtl = 12;
inline constexpr int kData = 13;
inline constexpr int kState = 14;
inline constexpr int kKernel = 15;
inline constexpr int kInitrd = 16;
inline constexpr int kTap = 17;
inline constexpr int kDisk = 20;  // bottom of the chain first
}  // namespace fd_number

enum class DiskFormat { raw, qcow2 };

struct CommandLine {
  std::string qemu;  // inside the jail
  Accelerator accelerator = Accelerator::tcg;
  Size size;
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
