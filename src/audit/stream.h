// What stands behind the records of an exported stream: checkpoints, the manifest, the signature.
// Each is a line of JSON with one text only. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "core/clock.h"
#include "core/ids.h"

namespace firebreak::audit {

// A chain had this hash at this record. Signed, and kept where the database is not.
struct Checkpoint {
  core::TenantId tenant;
  std::uint64_t n = 0;
  std::string hash;
  core::Time at{};
  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

// What a stream holds: records first..last of a chain.
struct Manifest {
  core::TenantId tenant;
  std::uint64_t first = 1;
  std::uint64_t last = 0;      // below `first`: none
  std::string previous;        // hash in front of the first
  std::string hash;            // of the last
  std::uint64_t anchored = 0;  // a checkpoint of this record has left the host; 0: none has
  core::Time at{};
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// Lines, without their ends.
Result<std::string> checkpoint_line(const Checkpoint& checkpoint, std::string_view private_key);
Result<std::string> manifest_lines(const Manifest& manifest, std::string_view private_key);

struct SignedCheckpoint {
  Checkpoint checkpoint;
  bool genuine = false;  // signed with the key
};
// nullopt: the line is none.
std::optional<SignedCheckpoint> read_checkpoint(std::string_view line, std::string_view public_key);
std::optional<Manifest> read_manifest(std::string_view line);
// The line behind the manifest.
bool manifest_is_signed(std::string_view manifest, std::string_view signature_line,
                        std::string_view public_key);

}  // namespace firebreak::audit
