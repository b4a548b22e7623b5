#include "wire/jwe.h"

#include <cjose/cjose.h>
#include <gtest/gtest.h>

#include "base/text.h"

namespace firebreak::wire {
namespace {

SealingKey key_of(int seed) {
  SealingKey key{};
  for (std::size_t i = 0; i < key.size(); ++i)
    key[i] = static_cast<std::byte>((static_cast<std::size_t>(seed) * 31 + i * 7) & 0xff);
  return key;
}

const SealingKey kKey = key_of(1);

const SealingKey* find(std::string_view id) {
  return id == "k1" ? &kKey : nullptr;
}

std::string make(std::string_view plain) {
  auto token = jwe_encrypt("k1", kKey, plain);
  EXPECT_TRUE(token) << token.error().text();
  return token.value_or("");
}

std::string with_header(const std::string& header, std::string_view plain) {
  const std::string encoded = base64url(header);
  const std::string sealed = seal(kKey, plain, encoded).value();
  const std::string_view all(sealed);
  return encoded + ".." + base64url(all.substr(0, 12)) + "." +
         base64url(all.substr(12, plain.size())) + "." + base64url(all.substr(12 + plain.size()));
}

cjose_jwk_t* cjose_key() {
  cjose_err error{};
  cjose_jwk_t* jwk = cjose_jwk_create_oct_spec(reinterpret_cast<const std::uint8_t*>(kKey.data()),
                                               kKey.size(), &error);
  EXPECT_NE(jwk, nullptr) << error.message;
  return jwk;
}

TEST(Jwe, Base64urlHasOneSpelling) {
  EXPECT_EQ(from_base64url(""), "");
  EXPECT_EQ(from_base64url("Zg"), "f");
  EXPECT_EQ(from_base64url("Zm8"), "fo");
  EXPECT_EQ(from_base64url("Zm9v"), "foo");
  EXPECT_EQ(from_base64url("-_-_"), "\xfb\xff\xbf");
  for (const char* bad : {"Z", "Zg==", "Zh", "Zm9", "Zm+v", "Zm/v", "Zm 8", "Zm8\n", "Zm9vZ"})
    EXPECT_EQ(from_base64url(bad), std::nullopt) << bad;
}

TEST(Jwe, ComesBackAsItWas) {
  for (const std::size_t size : {0UL, 1UL, 16UL, 4096UL}) {
    const std::string plain(size, 'p');
    const auto back = jwe_decrypt(make(plain), find);
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, plain);
  }
  EXPECT_NE(make("x"), make("x"));  // another nonce each time
}

TEST(Jwe, IsReadByCjose) {
  const std::string token = make("hello");
  cjose_err error{};
  cjose_jwe_t* jwe = cjose_jwe_import(token.data(), token.size(), &error);
  ASSERT_NE(jwe, nullptr) << error.message;
  cjose_jwk_t* jwk = cjose_key();
  std::size_t size = 0;
  std::uint8_t* plain = cjose_jwe_decrypt(jwe, jwk, &size, &error);
  ASSERT_NE(plain, nullptr) << error.message;
  EXPECT_EQ(std::string(reinterpret_cast<char*>(plain), size), "hello");
  std::free(plain);  // NOLINT: cjose allocates with malloc
  cjose_jwk_release(jwk);
  cjose_jwe_release(jwe);
}

TEST(Jwe, ReadsWhatCjoseMakes) {
  cjose_err error{};
  cjose_header_t* header = cjose_header_new(&error);
  ASSERT_NE(header, nullptr);
  ASSERT_TRUE(cjose_header_set(header, CJOSE_HDR_ALG, CJOSE_HDR_ALG_DIR, &error));
  ASSERT_TRUE(cjose_header_set(header, CJOSE_HDR_ENC, CJOSE_HDR_ENC_A256GCM, &error));
  ASSERT_TRUE(cjose_header_set(header, CJOSE_HDR_KID, "k1", &error));
  cjose_jwk_t* jwk = cjose_key();
  const std::string plain = "from cjose";
  cjose_jwe_t* jwe = cjose_jwe_encrypt(
      jwk, header, reinterpret_cast<const std::uint8_t*>(plain.data()), plain.size(), &error);
  ASSERT_NE(jwe, nullptr) << error.message;
  char* token = cjose_jwe_export(jwe, &error);
  ASSERT_NE(token, nullptr) << error.message;
  const auto back = jwe_decrypt(token, find);
  ASSERT_TRUE(back) << token;
  EXPECT_EQ(*back, plain);
  std::free(token);  // NOLINT: cjose allocates with malloc
  cjose_jwe_release(jwe);
  cjose_jwk_release(jwk);
  cjose_header_release(header);
}

TEST(Jwe, EveryChangedCharacterIsRefused) {
  const std::string token = make("some claims");
  for (std::size_t at = 0; at < token.size(); ++at) {
    for (const char c : {'A', '_', '.', '=', '\0'}) {
      if (token[at] == c) continue;
      std::string changed = token;
      changed[at] = c;
      EXPECT_FALSE(jwe_decrypt(changed, find)) << at << " " << c;
    }
    EXPECT_FALSE(jwe_decrypt(token.substr(0, at), find)) << at;
    EXPECT_FALSE(jwe_decrypt(token.substr(at + 1), find)) << at;
  }
  EXPECT_FALSE(jwe_decrypt(token + "A", find));
  EXPECT_FALSE(jwe_decrypt(token + ".", find));
}

TEST(Jwe, OtherAlgorithmsKeysAndMembersAreRefused) {
  EXPECT_TRUE(jwe_decrypt(with_header(R"({"kid":"k1","enc":"A256GCM","alg":"dir"})", "x"), find));
  for (const char* header : {
           R"({"alg":"none","enc":"A256GCM","kid":"k1"})",
           R"({"alg":"A256KW","enc":"A256GCM","kid":"k1"})",
           R"({"alg":"RSA-OAEP","enc":"A256GCM","kid":"k1"})",
           R"({"alg":"DIR","enc":"A256GCM","kid":"k1"})",
           R"({"alg":"dir","enc":"A128GCM","kid":"k1"})",
           R"({"alg":"dir","enc":"A256CBC-HS512","kid":"k1"})",
           R"({"alg":"dir","enc":"A256GCM"})",
           R"({"alg":"dir","enc":"A256GCM","kid":"k2"})",
           R"({"alg":"dir","enc":"A256GCM","kid":""})",
           R"({"alg":"dir","enc":"A256GCM","kid":1})",
           R"({"alg":"dir","enc":"A256GCM","kid":"../../etc/passwd"})",
           R"({"alg":"dir","enc":"A256GCM","kid":"k1","zip":"DEF"})",
           R"({"alg":"dir","enc":"A256GCM","kid":"k1","crit":["exp"]})",
           R"({"alg":"dir","enc":"A256GCM","kid":"k1","jwk":{}})",
           R"(["dir","A256GCM","k1"])",
           "null",
           "",
           "{",
       }) {
    EXPECT_FALSE(jwe_decrypt(with_header(header, "x"), find)) << header;
  }
  const SealingKey other = key_of(2);
  EXPECT_FALSE(jwe_decrypt(jwe_encrypt("k1", other, "x").value(), find));
  // A signed token is not an encrypted one, and an encrypted key has no place here.
  EXPECT_FALSE(jwe_decrypt("eyJhbGciOiJub25lIn0.e30.", find));
  std::string with_key = make("x");
  with_key.insert(with_key.find('.') + 1, "QUFB");
  EXPECT_FALSE(jwe_decrypt(with_key, find));
}

TEST(Jwe, SizesAreBounded) {
  EXPECT_FALSE(jwe_encrypt("k1", kKey, std::string(kMaxJwe, 'x')));
  EXPECT_FALSE(jwe_encrypt("", kKey, "x"));
  EXPECT_FALSE(jwe_encrypt("a b", kKey, "x"));
  EXPECT_FALSE(jwe_decrypt(std::string(10'000'000, 'A'), find));
  EXPECT_FALSE(jwe_decrypt(std::string(kMaxJwe, '.'), find));
  EXPECT_FALSE(jwe_decrypt("", find));
}

}  // namespace
}  // namespace firebreak::wire
