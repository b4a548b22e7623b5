#include "audit/signing.h"

#include <array>
#include <memory>

#include <openssl/evp.h>

#include "wire/crypto.h"

namespace firebreak::audit {
namespace {

constexpr std::string_view kKeyPrefix = "ed25519:";
constexpr std::size_t kSignatureBytes = 64;

using PKey = std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)>;
using Digest = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;

const unsigned char* raw(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

PKey private_of(std::string_view key) {
  return {EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, raw(key), key.size()),
          &EVP_PKEY_free};
}

}  // namespace

Result<std::string> public_key(std::string_view private_key) {
  const PKey key = private_of(private_key);
  std::string out(kKeyBytes, '\0');
  std::size_t size = out.size();
  if (!key || EVP_PKEY_get_raw_public_key(key.get(), reinterpret_cast<unsigned char*>(out.data()),
                                          &size) != 1)
    return fail(Code::corrupt, "the key that signs evidence is damaged");
  return out;
}

Result<std::string> sign(std::string_view private_key, std::string_view text) {
  const PKey key = private_of(private_key);
  const Digest digest(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  std::string out(kSignatureBytes, '\0');
  std::size_t size = out.size();
  if (!key || !digest ||
      EVP_DigestSignInit(digest.get(), nullptr, nullptr, nullptr, key.get()) != 1 ||
      EVP_DigestSign(digest.get(), reinterpret_cast<unsigned char*>(out.data()), &size, raw(text),
                     text.size()) != 1)
    return fail(Code::internal, "evidence could not be signed");
  return out;
}

bool signed_by(std::string_view public_key, std::string_view text, std::string_view signature) {
  if (public_key.size() != kKeyBytes || signature.size() != kSignatureBytes) return false;
  const PKey key(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, raw(public_key), public_key.size()),
      &EVP_PKEY_free);
  const Digest digest(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  return key && digest &&
         EVP_DigestVerifyInit(digest.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
         EVP_DigestVerify(digest.get(), raw(signature), signature.size(), raw(text), text.size()) ==
             1;
}

std::string key_text(std::string_view public_key) {
  return std::string(kKeyPrefix) + wire::base64(public_key);
}

Result<std::string> parse_key_text(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  if (text.starts_with(kKeyPrefix)) {
    const auto bytes = wire::from_base64(text.substr(kKeyPrefix.size()));
    if (bytes && bytes->size() == kKeyBytes) return *bytes;
  }
  return fail(Code::invalid, "a public key is ed25519: and 44 characters of base64",
              Repair{"take the one that firebreak audit key prints"});
}

}  // namespace firebreak::audit
