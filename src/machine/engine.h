// How machines are run, seen from above: an Engine boots, restores and resumes machines; a Machine
// is one guest with its agent. What an engine keeps in files, and which devices a guest has, is the
// engine's business (`qemu/`). Owned by whoever wires the program; all calls of one machine on one
// executor.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/isolation.h"
#include "machine/agent_client.h"
#include "machine/inventory.h"
#include "net/task.h"

namespace firebreak::machine {

using core::Isolation;

// What not every engine can do, or not on every host. All else every engine does.
enum class Feature : std::uint8_t {
  cut_layers,  // Machine::cut_layer: builds in steps
  fork,        // Machine::fork
  network,     // machines with a network
  park,        // Machine::park and unpark: clones kept ready
  suspend,     // Machine::suspend and Engine::resume
};
using Features = std::set<Feature>;
std::string_view to_string(Feature feature);  // "cut_layers"

struct Size {
  std::uint32_t vcpus = 1;
  std::uint32_t memory_mib = 256;
  friend bool operator==(const Size&, const Size&) = default;
};

// Host-side limits of a machine's process; 0 = none.
struct HostLimits {
  std::uint64_t memory_bytes = 0;
  std::uint32_t cpu_weight = 100;  // share under contention
  friend bool operator==(const HostLimits&, const HostLimits&) = default;
  std::uint32_t cpu_percent = 0;  // ceiling: 100 = one CPU
};

// What is on a disk before a machine writes to it: a base, and layers that were cut from machines
// on it, bottom first. The values lead to immutable files whose form only the engine knows; layers
// above keep them, compare them and hand them back.
struct DiskContent {
  std::string base;
  std::vector<std::string> layers;
  friend bool operator==(const DiskContent&, const DiskContent&) = default;
};

struct BootSpec {
  std::string id;
  Size size;
  DiskContent disk;
  TenantSpec tenant;
  HostLimits limits;
  bool network = false;  // as in LaunchSpec
  // The machine never becomes a snapshot. The engine may start it from something that it prepared,
  // which is much quicker.
  bool throwaway = false;
};

struct LaunchSpec {
  std::string id;
  HostLimits limits;
  bool network = false;  // attached to a network; the engine needs Feature::network
};

// What a machine's process has used and holds, as the host counts it.
struct ProcessUsage {
  std::uint64_t cpu_usec = 0;  // since the process began
  std::uint64_t memory_bytes = 0;
};

// A snapshot whose memory is held, whether or not anybody uses it.
struct HeldSnapshot {
  std::string directory;
  std::uint64_t ram_bytes = 0;
  long users = 0;  // objects that share it: clones, and whoever loaded it
};

// What a snapshot occupies on the disk of the host.
struct SnapshotBytes {
  std::uint64_t disk = 0;
  std::uint64_t memory = 0;
};

// Who a clone is after waking: set before any tenant process runs.
struct Identity {
  std::string hostname;
  std::string machine_id;  // 32 hex digits
  std::uint64_t generation = 0;
  std::optional<bool> network;  // whether the tenant has a network; unset: as before
  json::object metadata;        // what the tenant reads about itself at 169.254.169.254
};
Identity fresh_identity(const std::string& machine_id, std::uint64_t generation);

// Where the time of an operation went, in order.
struct Phase {
  std::string name;
  std::chrono::microseconds took{};
};
using Phases = std::vector<Phase>;

class Machine {
 public:
  virtual ~Machine() = default;

  virtual const std::string& id() const = 0;
  virtual Isolation isolation() const = 0;
  virtual Size size() const = 0;
  virtual pid_t pid() const = 0;
  // Valid until suspend, snapshot or terminate.
  virtual AgentClient& agent() = 0;
  // Phases of the last operation.
  virtual const Phases& phases() const = 0;

  // Launch, resume and fork alike: clock, entropy, identity, then thaw. Until then no tenant
  // process has run.
  virtual net::Task<Result<>> wake(const Identity& identity, Deadline deadline) = 0;
  // Warms the whole wake path and an exec; the tenant stays frozen and sees nothing of it.
  virtual net::Task<Result<>> rehearse(Deadline deadline) = 0;
  // Stops the virtual CPUs of a machine that was not woken; it costs memory only.
  virtual net::Task<Result<>> park(Deadline deadline) = 0;
  virtual net::Task<Result<>> unpark(const Identity& identity, Deadline deadline) = 0;

  // Takes its network away; a resume can bring it back.
  virtual net::Task<Result<>> detach_network() = 0;

  // What a booted machine has written since its start, or since the last cut, becomes the immutable
  // file `path`, which is on the disk when this returns; the machine goes on in a new layer on top.
  virtual net::Task<Result<>> cut_layer(const std::string& path, Deadline deadline) = 0;
  // Freezes the tenant and turns this machine into a snapshot in `directory`; the machine is gone
  // afterwards. Layers above the base become one.
  virtual net::Task<Result<>> snapshot(const std::string& directory, Deadline deadline) = 0;
  // Freezes, writes what this clone changed, ends the process. Engine::resume brings it back.
  virtual net::Task<Result<>> suspend(Deadline deadline) = 0;
  // Makes suspended copies of the running machine under the given ids; the machine goes on.
  virtual net::Task<Result<>> fork(const std::vector<std::string>& ids, Deadline deadline) = 0;
  // Kills it and removes everything it had on the host. Safe in every state, also after a failure.
  virtual net::Task<Result<>> terminate(Deadline deadline) = 0;
  virtual Result<ProcessUsage> usage() const = 0;
  // New limits for the running process.
  virtual Result<> set_limits(const HostLimits& limits) = 0;
  // Completes when the process has ended, whatever the reason. false: the deadline passed first.
  virtual net::Task<bool> wait_exit(Deadline deadline) = 0;
  // Whether the host ended one of its processes because it reached its memory limit. Known until
  // terminate().
  virtual bool killed_for_memory() const = 0;
  // The guest stands still because the host's disk had no room for what it wrote. Nothing is lost.
  virtual bool out_of_disk() const = 0;
  // Writes it again and lets the guest go on; if there is still no room it stands still again.
  virtual Result<> retry_disk() = 0;
};

// A loaded snapshot: its RAM is held for clones to share. Clones keep it alive.
class Snapshot {
 public:
  virtual ~Snapshot() = default;
  virtual const std::string& directory() const = 0;
  virtual Size size() const = 0;
  virtual std::uint64_t ram_bytes() const = 0;  // really allocated
};

class Engine {
 public:
  virtual ~Engine() = default;

  // As records name it; never another for the same kind of machines.
  virtual const std::string& name() const = 0;
  // Of the machines that it starts on this host.
  virtual Isolation isolation() const = 0;
  virtual Features features() const = 0;

  virtual net::Task<Result<std::unique_ptr<Machine>>> boot(BootSpec spec, Deadline deadline) = 0;
  // Checks key and hashes; a foreign, truncated or corrupted snapshot is refused with
  // Code::corrupt.
  virtual net::Task<Result<std::shared_ptr<Snapshot>>> load(const std::string& directory,
                                                            Deadline deadline) = 0;
  // A clone, running, its tenant still frozen: wake() it, or rehearse() and park() it.
  virtual net::Task<Result<std::unique_ptr<Machine>>> restore(std::shared_ptr<Snapshot> snapshot,
                                                              LaunchSpec spec,
                                                              Deadline deadline) = 0;
  // A suspended machine or a fork's child, running, its tenant still frozen: wake() it. After a
  // failure it is suspended as before, or, when its CPUs had run already, gone.
  // `network`: as in LaunchSpec from now on; unset: as before.
  virtual net::Task<Result<std::unique_ptr<Machine>>> resume(
      const std::string& id, Deadline deadline, std::optional<bool> network = std::nullopt) = 0;
  // A machine that runs already, found by its directory (after a restart of the daemon).
  virtual net::Task<Result<std::unique_ptr<Machine>>> attach(const std::string& id,
                                                             Deadline deadline) = 0;
  // Removes what is left of a machine that is suspended, dead or half made.
  virtual net::Task<Result<>> discard(const std::string& id, Deadline deadline) = 0;
  // Gives a snapshot's memory back as soon as no clone lives on it; load() brings it back.
  virtual net::Task<Result<>> unload(const std::string& directory, Deadline deadline) = 0;
  // Those that were loaded, by whom and for what ever, and not unloaded.
  virtual std::vector<HeldSnapshot> held() const = 0;
  // What is on a snapshot's disk, loaded or not: machines can be booted from it.
  virtual Result<DiskContent> snapshot_disk(const std::string& directory) const = 0;
  virtual SnapshotBytes snapshot_bytes(const std::string& directory) const = 0;
  // Everything that a snapshot consists of has the content that its record says: memory, device
  // state and each disk layer. A file that was not written since the last look is not read again.
  // Code::corrupt names what differs. Blocking; any thread.
  virtual Result<> verify_snapshot(const std::string& directory) = 0;
  // Where a snapshot of that name is, or is to be made.
  virtual std::string snapshot_directory(const std::string& name) const = 0;
  // Names of those that are there, whole or not, without those that the engine makes and removes by
  // itself.
  virtual Result<std::vector<std::string>> snapshots() const = 0;
  // Removes a snapshot from memory and disk. No clone may be left.
  virtual net::Task<Result<>> remove_snapshot(const std::string& directory, Deadline deadline) = 0;
  // Every machine that has anything on the host, running or not.
  virtual Result<std::vector<FoundMachine>> list() const = 0;
  // Its saved state is whole and was not used yet.
  virtual bool is_suspended(const std::string& id) const = 0;
  // Bytes on disk that a machine has of its own: saved memory and disk layer.
  virtual std::uint64_t stored_bytes(const std::string& id) const = 0;

  // Machines that the engine makes for itself just now.
  virtual std::set<std::string> own_machines() const = 0;
  // Everything of the engine on the host, found by looking; blocking.
  virtual Result<Inventory> inventory() const = 0;
  // Removes one thing that the inventory showed and that nobody needs, after a look at whether it
  // still is the engine's.
  virtual net::Task<Result<>> repair(Leftover leftover, Deadline deadline) = 0;
};

// Code::unavailable when the engine cannot do it here: what, and what to do instead.
Result<> require(const Engine& engine, Feature feature);

}  // namespace firebreak::machine
