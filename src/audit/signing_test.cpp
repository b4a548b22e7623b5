#include "audit/signing.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace firebreak::audit {
namespace {

std::string bytes_of(std::string_view hex) {
  const auto bytes = from_hex(hex);
  return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
}

// The first two vectors of RFC 8032.
TEST(AuditSigning, AgreesWithTheStandard) {
  const std::string first =
      bytes_of("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
  EXPECT_EQ(public_key(first).value(),
            bytes_of("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"));
  const std::string second =
      bytes_of("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb");
  EXPECT_EQ(sign(second, "\x72").value(),
            bytes_of("92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
                     "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"));
}

TEST(AuditSigning, RefusesAnotherKeyOrText) {
  const std::string key(kKeyBytes, 'k');
  const std::string signature = sign(key, "text").value();
  EXPECT_TRUE(signed_by(public_key(key).value(), "text", signature));
  EXPECT_FALSE(signed_by(public_key(key).value(), "texT", signature));
  EXPECT_FALSE(signed_by(public_key(std::string(kKeyBytes, 'l')).value(), "text", signature));
  EXPECT_FALSE(signed_by("short", "text", signature));
}

TEST(AuditSigning, KeyHasAText) {
  const std::string key = public_key(std::string(kKeyBytes, 'k')).value();
  EXPECT_EQ(parse_key_text(key_text(key) + "\n").value(), key);
  EXPECT_FALSE(parse_key_text("ed25519:AAAA"));
}

}  // namespace
}  // namespace firebreak::audit
