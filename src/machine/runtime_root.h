// The root file system of a jail: copies of QEMU, its libraries, the module and the firmware it
// needs, and nothing else. Kept per content under <data>/runtime/<hash>, so suspended machines find
// their QEMU after a package upgrade. Values; blocks, any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace firebreak::machine {

struct RuntimeRoot {
  std::string path;          // <data>/runtime/<hash>/root
  std::string hash;          // over paths and contents
  std::string qemu_version;  // "7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)"
  std::string qemu_path;     // inside
};

struct RuntimeFile {
  std::string path;  // inside
  std::uint64_t size = 0;
  std::string sha256;
};

// The root for the host's present QEMU: made when it is new, found by file times alone when nothing
// changed.
Result<RuntimeRoot> prepare_runtime_root(const std::string& data_dir);
// One that was prepared earlier. Code::not_found when it does not exist, Code::corrupt when files
// lack or have another size.
Result<RuntimeRoot> open_runtime_root(const std::string& data_dir, const std::string& hash);

// All files of a root, sorted by path.
Result<std::vector<RuntimeFile>> read_manifest(const RuntimeRoot& root);
// Reads and hashes every file; Code::corrupt names the first that differs.
Result<> verify_runtime_root(const RuntimeRoot& root);

}  // namespace firebreak::machine
