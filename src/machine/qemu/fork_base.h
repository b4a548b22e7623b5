// What many children of one fork share: a snapshot of their own with their parent's changes in it,
// which without it would be in the memory of each. Beside the images' snapshots; it belongs to the
// machines whose records name it and goes with the last of them. Blocking functions; any thread.
#pragma once

#include <string>

#include "machine/qemu/machine_host.h"
#include "machine/qemu/snapshot.h"

namespace firebreak::machine {

// Whether so many copies of what the parent has changed cost more than one more base.
bool worth_a_base(std::size_t children, std::uint64_t changed_bytes, std::uint64_t base_bytes);

std::string fork_base_path(const MachineHost& host, const std::string& first_child);
// Of a snapshot's directory, or its last part.
bool is_fork_base(const std::string& directory);

// Makes it from what was saved of a machine on `base`. The file `saved_path` then is the same
// moment on the new one: no changes, and the device state.
Result<> make_fork_base(const MachineHost& host, const std::string& directory,
                        const QemuSnapshot& base, int saved_fd, const std::string& saved_path);

// Whether a machine's record names it.
Result<bool> fork_base_is_used(const MachineHost& host, const std::string& directory);
// Nothing happens to other snapshots, or while it is used.
Result<> remove_unused_fork_base(const MachineHost& host, const std::string& directory);
// What a daemon that was killed in a fork, or after the last machine, has left.
Result<> remove_unused_fork_bases(const MachineHost& host);

}  // namespace firebreak::machine
