#include <filesystem>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/sys.h"
#include "ingress/endpoint_tokens.h"
#include "ingress/limits.h"
#include "ingress/token_claims.h"
#include "wire/jwe.h"

namespace firebreak::ingress {
namespace {

const core::Time kNow = core::from_unix_ms(1'800'000'000'000);

class Tokens : public testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() / ("fb-keys-" + sys::random_hex(4));
    ASSERT_TRUE(sys::mkdirs(dir_, 0700));
    path_ = dir_ + "/endpoint.keys";
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  static TokenClaims claims() {
    return {.id = core::TokenId("t1"),
            .microvm = core::MicrovmId("microvm-1"),
            .kind = core::TokenKind::shell,
            .ports = {.all = false, .ranges = {{80, 80}, {9000, 9010}}},
            .expires = kNow,
            .port = 9001};
  }

  std::string dir_;
  std::string path_;
};

TEST_F(Tokens, ClaimsComeBack) {
  const TokenKeys keys = TokenKeys::load(path_, kNow).value();
  const std::string token = seal_claims(keys, claims()).value();
  EXPECT_LT(token.size(), 1000U);
  const auto back = open_claims(keys, token);
  ASSERT_TRUE(back);
  EXPECT_EQ(*back, claims());
}

TEST_F(Tokens, ATokenOfAnEarlierServerNamesNoPort) {
  const TokenKeys keys = TokenKeys::load(path_, kNow).value();
  const std::string old =
      wire::jwe_encrypt(keys.newest().id, keys.newest().key,
                        R"({"jti":"t1","sub":"microvm-1","kind":"endpoint","ports":"*","exp":1})")
          .value();
  const auto back = open_claims(keys, old);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->port, 8080);
}

TEST_F(Tokens, WhereRequestsGoThatNameNoPort) {
  const auto port = [](const char* ports, std::uint16_t image) {
    return port_of_token(core::parse_ports(ports).value(), image);
  };
  EXPECT_EQ(port("9000", 0), 9000);
  EXPECT_EQ(port("9000", 8000), 9000);
  EXPECT_EQ(port("*", 0), 8080);
  EXPECT_EQ(port("*", 8000), 8000);
  EXPECT_EQ(port("7000-9000", 8000), 8000);
  EXPECT_EQ(port("80,81", 80), 80);
  EXPECT_EQ(port("80,81", 8000), 8080);
  EXPECT_EQ(port("80,81", 0), 8080);
}

TEST_F(Tokens, TheKeyFileIsKeptAndPrivate) {
  const std::string token = seal_claims(TokenKeys::load(path_, kNow).value(), claims()).value();
  EXPECT_TRUE(open_claims(TokenKeys::load(path_, kNow).value(), token));
  struct stat about{};
  ASSERT_EQ(::stat(path_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777U, 0600U);
  // Another installation's, or the same without its file.
  std::filesystem::remove(path_);
  EXPECT_FALSE(open_claims(TokenKeys::load(path_, kNow).value(), token));
}

TEST_F(Tokens, OldKeysOpenUntilTheirTokensAreDead) {
  const TokenKeys first = TokenKeys::load(path_, kNow).value();
  const std::string token = seal_claims(first, claims()).value();
  core::Time now = kNow + TokenKeys::kRenewAfter;
  EXPECT_TRUE(first.due(now));
  const TokenKeys second = TokenKeys::load(path_, now).value();
  EXPECT_NE(second.newest().id, first.newest().id);
  EXPECT_TRUE(open_claims(second, token));
  EXPECT_EQ(TokenKeys::load(path_, now).value().newest().id, second.newest().id);
  now += 2 * TokenKeys::kRenewAfter + kMaxTokenLife;
  EXPECT_FALSE(open_claims(TokenKeys::load(path_, now).value(), token));
}

TEST_F(Tokens, ADamagedKeyFileIsNotReplaced) {
  for (const char* text : {"", "{}", "{\"keys\":[]}",
                           "{\"keys\":[{\"id\":\"a\",\"key\":\"QQ\","
                           "\"created\":1}]}"}) {
    ASSERT_TRUE(sys::replace_file(path_, text));
    const auto keys = TokenKeys::load(path_, kNow);
    ASSERT_FALSE(keys) << text;
    EXPECT_EQ(keys.error().code, Code::corrupt);
    EXPECT_EQ(sys::read_file(path_).value(), text);
  }
}

TEST_F(Tokens, OnlyOurClaimsOpen) {
  const TokenKeys keys = TokenKeys::load(path_, kNow).value();
  for (const char* text :
       {"", "[]", "{}", R"({"jti":"a","sub":"b","kind":"root","ports":"*","exp":1})",
        R"({"jti":"a","sub":"b","kind":"shell","ports":"0","exp":1})",
        R"({"jti":"a","sub":"b","kind":"shell","ports":"*","exp":"1"})",
        R"({"sub":"b","kind":"shell","ports":"*","exp":1})"}) {
    const auto token = wire::jwe_encrypt(keys.newest().id, keys.newest().key, text);
    EXPECT_FALSE(open_claims(keys, *token)) << text;
  }
  EXPECT_FALSE(open_claims(keys, ""));
}

TEST(EndpointLimits, FollowTheSize) {
  EXPECT_EQ(EndpointLimits::of_size(512), (EndpointLimits{8, 10, 1'000'000}));
  EXPECT_EQ(EndpointLimits::of_size(2048), (EndpointLimits{32, 40, 4'000'000}));
  EXPECT_EQ(EndpointLimits::of_size(8192), (EndpointLimits{128, 160, 16'000'000}));
}

TEST(Rate, TakesASecondsWorthAtOnceAndThenWaits) {
  Rate rate;
  const auto now = Rate::Clock::now();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(rate.take(10, now)) << i;
  EXPECT_FALSE(rate.take(10, now));
  EXPECT_FALSE(rate.take(10, now + std::chrono::milliseconds(99)));
  EXPECT_TRUE(rate.take(10, now + std::chrono::milliseconds(101)));
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(rate.take(0, now));
}

TEST(Rate, PacesBytes) {
  Rate rate;
  const auto now = Rate::Clock::now();
  EXPECT_EQ(rate.pace(1000, 1000, now).count(), 0);
  EXPECT_EQ(rate.pace(500, 1000, now), std::chrono::milliseconds(500));
  EXPECT_EQ(rate.pace(1UL << 40, 0, now).count(), 0);
}

}  // namespace
}  // namespace firebreak::ingress
