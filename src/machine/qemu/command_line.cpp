#include "machine/qemu/command_line.h"

#include "base/text.h"
#include "machine/hash.h"

namespace firebreak::machine {
namespace {

constexpr std::string_view kDiskNode = "disk";

std::string number(std::uint64_t n) {
  return std::to_string(n);
}

// What the guest sees. Part of the snapshot key: a change here makes older snapshots unloadable.
std::vector<std::string> device_graph(const CommandLine& line) {
  std::vector<std::string> graph{
      "-M",
      "microvm,acpi=on,x-option-roms=off,pit=off,pic=off,rtc=on,isa-serial=on,memory-backend=ram0",
      "-global",
      "virtio-mmio.force-legacy=off",
      "-m",
      number(line.size.memory_mib),
      "-smp",
      number(line.size.vcpus),
      "-cpu",
      cpu_model(line.accelerator),
      "-device",
      "virtio-blk-device,drive=" + disk_node(line.disks.size() - 1),
      "-device",
      std::string("virtio-net-device,mac=52:54:00:fb:00:02") +
          (line.tap ? std::string(",netdev=") + kNetdev : std::string()),
      "-device",
      "virtio-serial-device,id=ports,max_ports=3",
      "-device",
      "virtserialport,bus=ports.0,nr=1,chardev=ctl,name=firebreak.ctl",
      "-device",
      "virtserialport,bus=ports.0,nr=2,chardev=data,name=firebreak.data",
      "-device",
      "virtio-rng-device,rng=rng0",
      "-serial",
      line.boot ? "stdio" : "null",
  };
  if (line.graph == DeviceGraph::gives_memory)
    graph.insert(graph.end(), {"-device", "virtio-balloon-device,free-page-reporting=on"});
  return graph;
}

std::string listen_chardev(const std::string& id, int fd) {
  return "socket,id=" + id + ",fd=" + number(static_cast<std::uint64_t>(fd)) +
         ",server=on,wait=off";
}

// An explicit graph: every node names its driver and its backing node, so nothing written into an
// image file decides what is opened.
void append_disks(const CommandLine& line, std::vector<std::string>& args) {
  for (std::size_t level = 0; level < line.disks.size(); ++level) {
    const bool top = level + 1 == line.disks.size();
    const std::string set = number(disk_fdset(level));
    const std::string fd = number(static_cast<std::uint64_t>(fd_number::kDisk) + level);
    const std::string access = top ? "" : ",read-only=on";
    args.insert(args.end(), {"-add-fd", "fd=" + fd + ",set=" + set});
    // A running clone is lost with its host, so its flushes need not reach the disk; suspend syncs
    // the file itself.
    const std::string cache = ",cache.direct=off,cache.no-flush=on";
    args.insert(args.end(), {"-blockdev", "driver=file,node-name=" + file_node(level) +
                                              ",filename=/dev/fdset/" + set + cache + access});
    std::string node =
        "node-name=" + disk_node(level) + ",file=" + file_node(level) + cache + access;
    if (line.disks[level] == DiskFormat::raw) {
      node = "driver=raw," + node;
    } else {
      node = "driver=qcow2," + node + ",backing=" + disk_node(level - 1);
    }
    if (top) node += ",discard=unmap";
    args.insert(args.end(), {"-blockdev", node});
  }
}

std::string kernel_command_line(const CommandLine& line) {
  // No transparent huge pages: zeroing one would copy 2 MiB of the shared RAM. Expedited RCU:
  // freezing waits for it. No scheduling group for every session: execs are in cgroups. A bounded
  // table of TCP connections: looking for those to end walks all of it, and it grows with memory.
  std::string text =
      "quiet loglevel=3 console=ttyS0 panic=-1 reboot=t no_timer_check tsc=reliable "
      "random.trust_cpu=on "
      "lsm=landlock audit=0 nowatchdog cgroup_no_v1=all transparent_hugepage=madvise "
      "rcupdate.rcu_expedited=1 noautogroup thash_entries=4096";
  // Emulated, the clock rate cannot be measured reliably (boots hang), and the guest's own
  // mitigations cost address-space switches without a CPU of its own to protect.
  if (line.accelerator == Accelerator::tcg)
    text +=
        " mitigations=off norandmaps init_on_alloc=0 psi=0 tsc_early_khz=" + number(line.tsc_khz);
  return text;
}

}  // namespace

std::string disk_node(std::uint64_t level) {
  return std::string(kDiskNode) + number(level);
}

std::string file_node(std::uint64_t level) {
  return "file" + number(level);
}

std::uint64_t disk_fdset(std::uint64_t level) {
  return level + 1;  // QEMU has no set 0
}

std::optional<std::uint64_t> disk_node_level(std::string_view name) {
  if (!name.starts_with(kDiskNode)) return std::nullopt;
  return parse_u64(name.substr(kDiskNode.size()));
}

std::string cpu_model(Accelerator accelerator) {
  // On KVM without what a microVM does not need and the host's kernel would have to emulate:
  // guests of the guest, and performance counters. Emulated with ARAT: without it Linux takes the
  // local APIC timer for one that stops, and ticks 250 times a second for ever.
  return accelerator == Accelerator::kvm ? "host,vmx=off,svm=off,pmu=off"
                                         : "Nehalem-v1,+rdrand,+arat";
}

std::vector<std::string> build_arguments(const CommandLine& line) {
  std::vector<std::string> args{
      line.qemu,
      "-nodefaults",
      "-no-user-config",
      "-display",
      "none",
      "-no-reboot",
      "-sandbox",
      "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
      "-accel",
      line.accelerator == Accelerator::kvm ? "kvm" : "tcg,thread=multi,tb-size=64",
      "-object",
      "memory-backend-file,id=ram0,size=" + number(line.size.memory_mib) +
          "M,mem-path=/proc/self/fd/" + number(fd_number::kRam) +
          ",share=" + (line.shared_ram ? "on" : "off") + ",reserve=off",
      "-object",
      "rng-builtin,id=rng0",
      "-chardev",
      listen_chardev("ctl", fd_number::kCtl),
      "-chardev",
      listen_chardev("data", fd_number::kData),
      "-chardev",
      listen_chardev("qmp", fd_number::kQmp),
      "-mon",
      "chardev=qmp,mode=control",
      // Saved states carry neither configuration section nor run state: they are loaded into a
      // machine we describe ourselves.
      "-global",
      "migration.send-configuration=off",
      "-global",
      "migration.store-global-state=off",
      // A guest that comes back would first tell its neighbours where it is; on its own link there
      // is nobody to tell.
      "-global",
      "migration.announce-rounds=0",
  };
  append_disks(line, args);
  if (line.tap)
    args.insert(args.end(), {"-netdev", std::string("tap,vhost=off,id=") + kNetdev +
                                            ",fd=" + number(fd_number::kTap)});
  for (std::string& arg : device_graph(line)) args.push_back(std::move(arg));
  if (line.boot) {
    args.insert(args.end(), {"-kernel", "/proc/self/fd/" + number(fd_number::kKernel), "-initrd",
                             "/proc/self/fd/" + number(fd_number::kInitrd), "-append",
                             kernel_command_line(line)});
  } else {
    args.insert(args.end(),
                {"-incoming", line.defer_load ? "defer" : "fd:" + number(fd_number::kState)});
  }
  return args;
}

std::string device_graph_hash(const CommandLine& line) {
  CommandLine plain = line;
  plain.boot = false;
  plain.tap = false;                         // the guest sees the card, not what is behind it
  plain.disks.assign(2, DiskFormat::qcow2);  // the chain's length is not seen by the guest
  Sha256 hash;
  for (const std::string& arg : device_graph(plain)) hash.update(arg + "\n");
  return hash.hex();
}

}  // namespace firebreak::machine
