// From an image's disk to its snapshot: a fresh machine boots, the application (if any) and a warm
// interpreter start, and once they are ready everything is frozen. One executor.
#pragma once

#include <functional>
#include <string>

#include "core/model.h"
#include "core/preload.h"
#include "image/build_machine.h"
#include "image/disk_chain.h"
#include "machine/engine.h"

namespace firebreak::image {

struct SnapshotSpec {
  DiskChain disk;
  std::string directory;  // of the snapshot to make
  std::string machine_id;
  machine::TenantSpec tenant;
  core::Hooks hooks;
  // Without a ready hook: ready when something listens here, or answers a GET of `ready_path` with
  // 200. 0: none.
  std::uint16_t port = 0;
  std::string ready_path;
  bool python_context = false;  // a warm interpreter, frozen with the snapshot
  core::Preload preload;        // what warm interpreters have loaded; each language has one
  BuildMachineSpec machine;
  BuildOutput log;
};

// Contexts that are warm: Python's, and that of any other language by its name.
inline constexpr const char* kWarmContext = "default";
// Without a ready hook and a port: an application that lives so long is ready.
inline constexpr std::chrono::seconds kSettle{2};
// How long a port, or a path, may take.
inline constexpr std::chrono::seconds kPortPatience{120};

// Code::guest when the application does not become ready, with what it printed last. Nothing is
// left of a build that failed.
net::Task<Result<>> make_snapshot(machine::Engine& engine, SnapshotSpec spec, Deadline deadline);

}  // namespace firebreak::image
