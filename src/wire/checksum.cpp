#include "wire/checksum.h"

#include <array>

#include <openssl/evp.h>
#include <zlib.h>

#include "base/text.h"
#include "wire/http1.h"

namespace firebreak::wire {
namespace {

using Kind = Checksum::Kind;

// Reflected polynomials.
constexpr std::uint64_t kCrc32c = 0x82F63B78;
constexpr std::uint64_t kCrc64Nvme = 0x9A6C9329AC4BC9B5;

constexpr std::array<std::uint64_t, 256> crc_table(std::uint64_t polynomial) {
  std::array<std::uint64_t, 256> table{};
  for (std::uint64_t byte = 0; byte < 256; ++byte) {
    std::uint64_t value = byte;
    for (int bit = 0; bit < 8; ++bit)
      value = (value & 1) != 0 ? (value >> 1) ^ polynomial : value >> 1;
    table[byte] = value;
  }
  return table;
}

constexpr auto kCrc32cTable = crc_table(kCrc32c);
constexpr auto kCrc64Table = crc_table(kCrc64Nvme);

std::uint64_t run_crc(const std::array<std::uint64_t, 256>& table, std::uint64_t ones,
                      std::uint64_t crc, std::string_view bytes) {
  crc ^= ones;
  for (char c : bytes) crc = table[(crc ^ static_cast<unsigned char>(c)) & 0xFF] ^ (crc >> 8);
  return crc ^ ones;
}

const EVP_MD* digest_of(Kind kind) {
  if (kind == Kind::sha1) return EVP_sha1();
  if (kind == Kind::sha256) return EVP_sha256();
  return kind == Kind::md5 ? EVP_md5() : nullptr;
}

}  // namespace

struct Checksum::State {
  State() : context(EVP_MD_CTX_new()) {}
  ~State() { EVP_MD_CTX_free(context); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  EVP_MD_CTX* context;
};

Checksum::Checksum(Kind kind) : kind_(kind) {
  if (const EVP_MD* digest = digest_of(kind)) {
    state_ = std::make_unique<State>();
    EVP_DigestInit_ex(state_->context, digest, nullptr);
  }
}

Checksum::~Checksum() = default;
Checksum::Checksum(Checksum&&) noexcept = default;
Checksum& Checksum::operator=(Checksum&&) noexcept = default;

void Checksum::update(std::string_view bytes) {
  switch (kind_) {
    case Kind::crc32:
      crc_ = crc32_z(crc_, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
      break;
    case Kind::crc32c:
      crc_ = run_crc(kCrc32cTable, 0xFFFFFFFF, crc_, bytes);
      break;
    case Kind::crc64nvme:
      crc_ = run_crc(kCrc64Table, ~0UL, crc_, bytes);
      break;
    case Kind::sha1:
    case Kind::sha256:
    case Kind::md5:
      EVP_DigestUpdate(state_->context, bytes.data(), bytes.size());
  }
}

std::string Checksum::finish() {
  std::string out;
  if (kind_ == Kind::crc64nvme) {
    put_u64(out, crc_);
  } else if (!state_) {
    put_u32(out, static_cast<std::uint32_t>(crc_));
  } else {
    out.resize(EVP_MAX_MD_SIZE);
    unsigned int size = 0;
    EVP_DigestFinal_ex(state_->context, reinterpret_cast<unsigned char*>(out.data()), &size);
    out.resize(size);
  }
  return out;
}

std::optional<Kind> parse_checksum(std::string_view name) {
  const std::string lower = to_lower(name);
  for (const Kind kind : {Kind::crc32, Kind::crc32c, Kind::crc64nvme, Kind::sha1, Kind::sha256}) {
    if (lower == to_string(kind)) return kind;
  }
  return std::nullopt;
}

std::string_view to_string(Kind kind) {
  switch (kind) {
    case Kind::crc32:
      return "crc32";
    case Kind::crc32c:
      return "crc32c";
    case Kind::crc64nvme:
      return "crc64nvme";
    case Kind::sha1:
      return "sha1";
    case Kind::sha256:
      return "sha256";
    case Kind::md5:
      return "md5";
  }
  return "";
}

}  // namespace firebreak::wire
