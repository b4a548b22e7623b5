#include "wire/crypto.h"

#include <gtest/gtest.h>

namespace firebreak::wire {
namespace {

TEST(Crypto, KnownDigests) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(base64(hmac_sha256("key", "The quick brown fox jumps over the lazy dog")),
            "97yD9DBThCSxMpjmqm+xQ+9NWaFJRhdZl0edvC0aPNg=");
}

TEST(Crypto, Base64RoundTrip) {
  for (std::string text : {"", "f", "fo", "foo", "\xff\xfe\x00z"}) {
    auto back = from_base64(base64(text));
    ASSERT_TRUE(back);
    EXPECT_EQ(*back, text);
  }
  for (const char* bad : {"a", "ab=c", "a===", "====", "ab c", "YQ=", "YWJj\n"})
    EXPECT_FALSE(from_base64(bad)) << bad;
  EXPECT_EQ(base64url("\xfb\xff"), "-_8");
}

TEST(Crypto, SealedValuesOpenOnlyWithKeyAndContext) {
  SealingKey key{};
  key[0] = std::byte{1};
  auto sealed = seal(key, "secret", "AKIA1");
  ASSERT_TRUE(sealed);
  EXPECT_EQ(sealed->find("secret"), std::string::npos);
  EXPECT_EQ(*unseal(key, *sealed, "AKIA1"), "secret");
  EXPECT_FALSE(unseal(key, *sealed, "AKIA2"));
  EXPECT_NE(*seal(key, "secret", "AKIA1"), *sealed);
  for (std::size_t i = 0; i < sealed->size(); ++i) {
    std::string changed = *sealed;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_FALSE(unseal(key, changed, "AKIA1"));
  }
  key[0] = std::byte{2};
  EXPECT_FALSE(unseal(key, *sealed, "AKIA1"));
  EXPECT_FALSE(unseal(key, "short", "AKIA1"));
}

TEST(Crypto, SecretsAreDistinctAndWellFormed) {
  EXPECT_NE(random_base64url(32), random_base64url(32));
  EXPECT_EQ(random_base64url(32).size(), 43U);
  EXPECT_EQ(random_base32(16).find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
            std::string::npos);
  EXPECT_TRUE(equal_secrets("a", "a"));
  EXPECT_FALSE(equal_secrets("a", "b"));
  EXPECT_FALSE(equal_secrets("a", "ab"));
}

}  // namespace
}  // namespace firebreak::wire
