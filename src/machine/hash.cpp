#include "machine/hash.h"

#include <array>
#include <vector>

#include <openssl/evp.h>

#include "base/sys.h"
#include "base/text.h"

namespace firebreak::machine {

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  EVP_DigestInit_ex(context_, EVP_sha256(), nullptr);
}

Sha256::~Sha256() {
  EVP_MD_CTX_free(context_);
}

void Sha256::update(std::span<const std::byte> data) {
  EVP_DigestUpdate(context_, data.data(), data.size());
}

void Sha256::update(std::string_view text) {
  update(std::as_bytes(std::span(text)));
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  EVP_DigestFinal_ex(context_, digest.data(), nullptr);
  return to_hex(std::as_bytes(std::span(digest)));
}

Result<std::string> sha256_file(const std::string& path) {
  FB_TRY_ASSIGN(UniqueFd fd, sys::open(path, O_RDONLY));
  Sha256 hash;
  std::vector<std::byte> buffer(1 << 20);
  for (;;) {
    const ssize_t n = ::read(fd.get(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return fail_errno("read " + path);
    if (n == 0) return hash.hex();
    hash.update(std::span(buffer).first(static_cast<std::size_t>(n)));
  }
}

}  // namespace firebreak::machine
