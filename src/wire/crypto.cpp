#include "wire/crypto.h"

#include <memory>
#include <optional>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/sys.h"
#include "base/text.h"

namespace firebreak::wire {
namespace {

constexpr std::size_t kNonce = 12;
constexpr std::size_t kTag = 16;

using CipherContext = std::unique_ptr<EVP_CIPHER_CTX, decltype(&EVP_CIPHER_CTX_free)>;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

unsigned char* bytes_of(std::string& text) {
  return reinterpret_cast<unsigned char*>(text.data());
}

std::string random_string(std::size_t bytes) {
  std::string out(bytes, '\0');
  sys::random_bytes(std::as_writable_bytes(std::span(out)));
  return out;
}

}  // namespace

std::string sha256(std::string_view data) {
  std::string out(32, '\0');
  EVP_Digest(data.data(), data.size(), bytes_of(out), nullptr, EVP_sha256(), nullptr);
  return out;
}

std::string sha256_hex(std::string_view data) {
  const std::string digest = sha256(data);
  return to_hex(std::as_bytes(std::span(digest)));
}

std::string hmac_sha256(std::string_view key, std::string_view data) {
  std::string out(32, '\0');
  unsigned int size = 32;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), bytes_of(data), data.size(),
       bytes_of(out), &size);
  return out;
}

bool equal_secrets(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string base64(std::string_view data) {
  std::string out(4 * ((data.size() + 2) / 3), '\0');
  // Writes a NUL behind the text, where std::string has one.
  EVP_EncodeBlock(bytes_of(out), bytes_of(data), static_cast<int>(data.size()));
  return out;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::size_t padding = 0;
  if (text.ends_with("=="))
    padding = 2;
  else if (text.ends_with("="))
    padding = 1;
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.substr(0, text.size() - padding).find_first_not_of(kAlphabet) != std::string_view::npos)
    return std::nullopt;
  std::string out(text.size() / 4 * 3, '\0');
  if (EVP_DecodeBlock(bytes_of(out), bytes_of(text), static_cast<int>(text.size())) < 0)
    return std::nullopt;
  out.resize(out.size() - padding);
  return out;
}

std::string base64url(std::string_view data) {
  std::string out = base64(data);
  while (out.ends_with('=')) out.pop_back();
  for (char& c : out) {
    if (c == '+') c = '-';
    if (c == '/') c = '_';
  }
  return out;
}

std::string random_base64url(std::size_t bytes) {
  return base64url(random_string(bytes));
}

std::string random_base32(std::size_t characters) {
  constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
  std::string out = random_string(characters);
  for (char& c : out) c = kAlphabet[static_cast<unsigned char>(c) % kAlphabet.size()];
  return out;
}

Result<std::string> seal(const SealingKey& key, std::string_view plain, std::string_view context) {
  const CipherContext cipher(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
  std::string out = random_string(kNonce);
  out.resize(kNonce + plain.size() + kTag);
  int size = 0;
  const bool done =
      cipher &&
      EVP_EncryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr,
                         reinterpret_cast<const unsigned char*>(key.data()), bytes_of(out)) == 1 &&
      EVP_EncryptUpdate(cipher.get(), nullptr, &size, bytes_of(context),
                        static_cast<int>(context.size())) == 1 &&
      EVP_EncryptUpdate(cipher.get(), bytes_of(out) + kNonce, &size, bytes_of(plain),
                        static_cast<int>(plain.size())) == 1 &&
      EVP_EncryptFinal_ex(cipher.get(), bytes_of(out) + kNonce + plain.size(), &size) == 1 &&
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, kTag,
                          bytes_of(out) + kNonce + plain.size()) == 1;
  if (!done) return fail(Code::internal, "a value could not be encrypted");
  return out;
}

Result<std::string> unseal(const SealingKey& key, std::string_view sealed,
                           std::string_view context) {
  const auto bad = [] {
    return fail(Code::corrupt, "an encrypted value does not fit the key file");
  };
  if (sealed.size() < kNonce + kTag) return bad();
  const std::string_view body = sealed.substr(kNonce, sealed.size() - kNonce - kTag);
  std::string tag(sealed.substr(sealed.size() - kTag));
  const CipherContext cipher(EVP_CIPHER_CTX_new(), EVP_CIPHER_CTX_free);
  std::string out(body.size(), '\0');
  int size = 0;
  const bool done =
      cipher &&
      EVP_DecryptInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr,
                         reinterpret_cast<const unsigned char*>(key.data()),
                         bytes_of(sealed)) == 1 &&
      EVP_DecryptUpdate(cipher.get(), nullptr, &size, bytes_of(context),
                        static_cast<int>(context.size())) == 1 &&
      EVP_DecryptUpdate(cipher.get(), bytes_of(out), &size, bytes_of(body),
                        static_cast<int>(body.size())) == 1 &&
      EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, kTag, bytes_of(tag)) == 1 &&
      EVP_DecryptFinal_ex(cipher.get(), bytes_of(out) + body.size(), &size) == 1;
  if (!done) return bad();
  return out;
}

}  // namespace firebreak::wire
