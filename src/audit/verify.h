// Proves an exported stream, line by line, with the public key alone: every record follows from the
// one before, nothing is missing at either end, checkpoints and manifest are the server's. Memory
// does not grow with the stream. One owner.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "audit/record.h"
#include "audit/stream.h"
#include "base/result.h"

namespace firebreak::audit {

struct Verdict {
  Manifest manifest;
  std::uint64_t records = 0;
  std::uint64_t checkpoints = 0;
  // A checkpoint that was kept elsewhere agrees, or the server says that one has left the host.
  bool anchored = false;
};

class Verifier {
 public:
  explicit Verifier(std::string public_key) : public_key_(std::move(public_key)) {}

  // A checkpoint that was kept elsewhere, before the first line. Those of other tenants are left
  // out. An error: it is not the server's.
  Result<> expect(std::string_view checkpoint_line);
  // The next line, without its end. The error is the verdict: it names the first wrong record.
  Result<> line(std::string_view line);
  // After the last line.
  Result<Verdict> finish();

 private:
  Result<> record(std::string_view line);
  Result<> checkpoint(std::string_view line);
  Result<> manifest(std::string_view line);
  Result<> compare_kept();

  std::string public_key_;
  std::map<std::pair<core::TenantId, std::uint64_t>, Checkpoint> kept_;  // elsewhere
  core::TenantId tenant_;
  std::uint64_t n_ = 0;  // of the last record
  std::string hash_;
  core::Time at_{};
  // What is in front of the first record is only told by the manifest.
  std::uint64_t first_ = 0;
  std::string first_canonical_;
  std::string first_hash_;
  std::string again_;  // a line, written again
  std::uint64_t records_ = 0;
  std::uint64_t checkpoints_ = 0;
  bool kept_agrees_ = false;
  std::optional<Manifest> manifest_;
  std::string manifest_line_;
  bool signed_ = false;
};

}  // namespace firebreak::audit
