#include "egress/given_names.h"

#include <gtest/gtest.h>

#include "egress/address_test_support.h"

namespace firebreak::egress {
namespace {

using core::EgressLayer;
using core::Seconds;
using core::Time;

constexpr Time kNow{core::Millis(1'000'000)};

core::EgressStack stack(const std::string& rules) {
  auto read = core::egress_policy_from_json(R"({"name":"p","rules":[)" + rules + "]}");
  EXPECT_TRUE(read) << read.error().text();
  return {core::internet_egress(), read.value_or(core::no_egress()), {}};
}

TEST(GivenNames, AnswersAddUpAndEndEachByItself) {
  GivenNames names;
  names.add("A.Example.", {ip("192.0.2.1")}, kNow + Seconds(10));
  names.add("a.example", {ip("192.0.2.2"), ip("2001:db8::1")}, kNow + Seconds(60));
  names.add("b.example", {ip("192.0.2.2")}, kNow + Seconds(60));
  EXPECT_TRUE(names.given("a.example", ip("192.0.2.1"), kNow));
  EXPECT_TRUE(names.given("a.EXAMPLE", ip("2001:db8::1"), kNow));
  EXPECT_FALSE(names.given("a.example", ip("192.0.2.1"), kNow + Seconds(10)));
  EXPECT_FALSE(names.given("b.example", ip("192.0.2.1"), kNow)) << "another name's";
  EXPECT_FALSE(names.given("c.example", ip("192.0.2.1"), kNow));
  EXPECT_FALSE(names.given("", ip("192.0.2.1"), kNow));

  const core::EgressPins pins = names.pins(stack(R"({"action":"allow","domain":"b.example"},
                          {"action":"allow","domain":"a.example"})"),
                                           kNow + Seconds(10));
  EXPECT_EQ(pins.size(), 3U);
  EXPECT_TRUE(pins.pinned(EgressLayer::policy, 1, ip("192.0.2.2"), kNow));
  EXPECT_TRUE(pins.pinned(EgressLayer::policy, 2, ip("192.0.2.2"), kNow));
  EXPECT_TRUE(pins.pinned(EgressLayer::policy, 2, ip("2001:db8::1"), kNow));
  names.expire(kNow + Seconds(60));
  EXPECT_TRUE(names.empty());
}

TEST(GivenNames, AreBounded) {
  GivenNames names;
  for (std::uint32_t i = 0; i <= GivenNames::kMostNames; i++)
    names.add("n" + std::to_string(i) + ".example", {ip("192.0.2.1")}, kNow + Seconds(1 + i));
  EXPECT_FALSE(names.given("n0.example", ip("192.0.2.1"), kNow)) << "the one that ends first goes";
  EXPECT_TRUE(names.given("n1.example", ip("192.0.2.1"), kNow));
  core::IpAddress address = ip("192.0.0.0");
  for (std::uint32_t i = 0; i <= GivenNames::kMostAddresses; i++) {
    address.bytes[2] = static_cast<std::uint8_t>(i >> 8);
    address.bytes[3] = static_cast<std::uint8_t>(i & 0xff);
    names.add("n1.example", {address}, kNow + Seconds(10'000 + i));
  }
  EXPECT_FALSE(names.given("n1.example", ip("192.0.2.1"), kNow));
  EXPECT_FALSE(names.given("n1.example", ip("192.0.0.0"), kNow)) << "as many as fit";
  EXPECT_TRUE(names.given("n1.example", address, kNow));
}

// The kernel has one rule per address; which names it was given for is in the log.
TEST(GivenNames, AreRestoredFromTheLog) {
  using Kind = Decision::Kind;
  const auto told = [](const char* name, bool allowed, std::vector<core::IpAddress> addresses) {
    return Decision{
        .kind = Kind::name, .allowed = allowed, .name = name, .addresses = std::move(addresses)};
  };
  core::EgressPins open;
  open.add({EgressLayer::policy, 2, ip("192.0.2.1"), kNow + Seconds(30)});
  const GivenNames names = GivenNames::restored(
      {told("a.example", true, {ip("192.0.2.1"), ip("192.0.2.9")}),
       told("b.example", true, {ip("192.0.2.1")}), told("c.example", false, {ip("192.0.2.1")}),
       Decision{.kind = Kind::connect,
                .allowed = true,
                .address = ip("192.0.2.1"),
                .name = "d.example",
                .addresses = {}}},
      open);
  EXPECT_TRUE(names.given("a.example", ip("192.0.2.1"), kNow));
  EXPECT_TRUE(names.given("b.example", ip("192.0.2.1"), kNow));
  EXPECT_FALSE(names.given("a.example", ip("192.0.2.9"), kNow)) << "not open any more";
  EXPECT_FALSE(names.given("a.example", ip("192.0.2.1"), kNow + Seconds(30)));
  EXPECT_FALSE(names.given("c.example", ip("192.0.2.1"), kNow));
  EXPECT_FALSE(names.given("d.example", ip("192.0.2.1"), kNow));
}

}  // namespace
}  // namespace firebreak::egress
