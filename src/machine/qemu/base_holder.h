// A tiny process that keeps a snapshot's RAM alive while daemons come and go: no capabilities, no
// input, nothing but the descriptor. The RAM is never taken back from a QEMU (an escaped guest
// could offer its own). Blocking functions; any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/deadline.h"
#include "machine/qemu/ram_image.h"

namespace firebreak::machine {

// A process that keeps a snapshot's memory.
struct FoundHolder {
  pid_t pid = 0;
  std::string directory;  // of the snapshot
  bool noted = false;     // the snapshot names it
};

// Starts the holder and notes it in `directory`/holder.json.
Result<> start_holder(const std::string& program, const std::string& directory,
                      const RamImage& ram);
// The RAM kept by the holder noted there; nullopt when there is none that can be verified (pid
// start time, inode, seals, size).
std::optional<RamImage> adopt_from_holder(const std::string& directory, std::uint64_t size);
// Every holder of a snapshot below that directory, found by looking at processes.
std::vector<FoundHolder> holders_below(const std::string& directory);
// Ends it, if it is there.
void stop_holder(const std::string& directory, Deadline deadline);

}  // namespace firebreak::machine
