// Running digests and checksums of bodies that do not fit into memory: what S3 clients send and
// compare. Owned by whoever reads the body; single thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace firebreak::wire {

class Checksum {
 public:
  enum class Kind { crc32, crc32c, crc64nvme, sha1, sha256, md5 };

  explicit Checksum(Kind kind);
  ~Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;

  Kind kind() const { return kind_; }
  void update(std::string_view bytes);
  // Raw bytes, big-endian for the CRCs. Once.
  std::string finish();

 private:
  struct State;
  Kind kind_;
  std::uint64_t crc_ = 0;
  std::unique_ptr<State> state_;
};

// "crc32", "crc32c", "crc64nvme", "sha1" or "sha256", in any case.
std::optional<Checksum::Kind> parse_checksum(std::string_view name);
std::string_view to_string(Checksum::Kind kind);

}  // namespace firebreak::wire
