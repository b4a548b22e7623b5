#include "core/access_token.h"

#include <gtest/gtest.h>

namespace firebreak::core {
namespace {

TEST(PortSet, ContainsWhatItNames) {
  const PortSet some = parse_ports("80,9000-9010").value();
  for (const std::uint16_t port : {80, 9000, 9005, 9010}) EXPECT_TRUE(some.contains(port)) << port;
  for (const std::uint16_t port : {1, 79, 81, 8999, 9011, 65535})
    EXPECT_FALSE(some.contains(port)) << port;
  EXPECT_TRUE(parse_ports("*")->contains(1));
  EXPECT_TRUE(parse_ports("1-65535")->contains(65535));
  EXPECT_FALSE(PortSet{}.contains(8080));
}

TEST(PortSet, TextComesBack) {
  for (const char* text : {"*", "1", "8080,9000-9010", "1-65535"})
    EXPECT_EQ(to_text(parse_ports(text).value()), text);
  EXPECT_EQ(to_text(parse_ports("7-7").value()), "7");
}

TEST(PortSet, NonsenseIsRefused) {
  for (const char* text : {"", ",", "80,", "0", "65536", "9-8", "0-5", "a", "-", "1-", "-1",
                           "1-2-3", "*,80", " 80", "80 ", "+80", "99999999999999999999"})
    EXPECT_FALSE(parse_ports(text)) << text;
  std::string many = "1";
  for (int i = 2; i <= 101; ++i) many += "," + std::to_string(i);
  EXPECT_FALSE(parse_ports(many));
  EXPECT_FALSE(check(PortSet{}));
  EXPECT_FALSE(check(PortSet{.all = false, .ranges = {{9, 8}}}));
}

TEST(TokenKind, Names) {
  for (const TokenKind kind : {TokenKind::endpoint, TokenKind::shell})
    EXPECT_EQ(parse_token_kind(to_string(kind)), kind);
  EXPECT_EQ(parse_token_kind("root"), std::nullopt);
}

}  // namespace
}  // namespace firebreak::core
