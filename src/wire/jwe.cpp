#include "wire/jwe.h"

#include <algorithm>
#include <array>

#include "base/json.h"
#include "base/text.h"

namespace firebreak::wire {
namespace {

constexpr std::size_t kNonce = 12;
constexpr std::size_t kTag = 16;
constexpr std::size_t kMaxHeader = 256;

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

constexpr std::array<std::int8_t, 256> make_values() {
  std::array<std::int8_t, 256> values{};
  values.fill(-1);
  for (std::size_t i = 0; i < kAlphabet.size(); ++i)
    values[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::int8_t>(i);
  return values;
}
constexpr std::array<std::int8_t, 256> kValues = make_values();

bool is_key_id(std::string_view text) {
  return !text.empty() && text.size() <= kMaxKeyId &&
         text.find_first_not_of(kAlphabet) == std::string_view::npos;
}

std::unexpected<Error> not_ours() {
  return fail(Code::invalid, "not a valid token");
}

// The key id of a protected header with exactly the members we write.
std::optional<std::string> read_header(std::string_view encoded) {
  if (encoded.size() > kMaxHeader) return std::nullopt;
  const auto text = from_base64url(encoded);
  if (!text) return std::nullopt;
  const auto object = parse_json_object(*text);
  if (!object || object->size() != 3) return std::nullopt;
  JsonReader reader(*object);
  const std::string algorithm = reader.string("alg");
  const std::string encryption = reader.string("enc");
  std::string key_id = reader.string("kid");
  if (!reader.result() || algorithm != "dir" || encryption != "A256GCM" || !is_key_id(key_id))
    return std::nullopt;
  return key_id;
}

}  // namespace

std::optional<std::string> from_base64url(std::string_view text) {
  if (text.size() % 4 == 1) return std::nullopt;
  std::string out;
  out.reserve(text.size() / 4 * 3 + 2);
  std::uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    const std::int8_t value = kValues[static_cast<unsigned char>(c)];
    if (value < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    held += 6;
    if (held < 8) continue;
    held -= 8;
    out.push_back(static_cast<char>(bits >> held & 0xff));
  }
  if ((bits & ((1U << held) - 1)) != 0) return std::nullopt;
  return out;
}

Result<std::string> jwe_encrypt(std::string_view key_id, const SealingKey& key,
                                std::string_view plain) {
  if (!is_key_id(key_id)) return fail(Code::internal, "not a key id for a token");
  const std::string header =
      base64url(R"({"alg":"dir","enc":"A256GCM","kid":")" + std::string(key_id) + R"("})");
  FB_TRY_ASSIGN(const std::string sealed, seal(key, plain, header));
  const std::string_view all(sealed);
  std::string token = header + ".." + base64url(all.substr(0, kNonce)) + "." +
                      base64url(all.substr(kNonce, plain.size())) + "." +
                      base64url(all.substr(kNonce + plain.size()));
  if (token.size() > kMaxJwe) return fail(Code::exhausted, "the token would be too long");
  return token;
}

Result<std::string> jwe_decrypt(std::string_view token, const JweKeyFinder& find_key) {
  if (token.size() > kMaxJwe) return not_ours();
  const auto parts = split(token, '.');
  if (parts.size() != 5 || !parts[1].empty()) return not_ours();
  const auto key_id = read_header(parts[0]);
  if (!key_id) return not_ours();
  const auto nonce = from_base64url(parts[2]);
  const auto body = from_base64url(parts[3]);
  const auto tag = from_base64url(parts[4]);
  if (!nonce || !body || !tag || nonce->size() != kNonce || tag->size() != kTag) return not_ours();
  const SealingKey* key = find_key(*key_id);
  if (key == nullptr) return not_ours();
  auto plain = unseal(*key, *nonce + *body + *tag, parts[0]);
  if (!plain) return not_ours();
  return plain;
}

}  // namespace firebreak::wire
