#include "egress/rule_maps.h"

#include <algorithm>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "egress/policy_test_support.h"

namespace firebreak::egress {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

core::EgressPolicy rules(const std::string& list) {
  auto read = core::egress_policy_from_json(R"({"name":"p","rules":[)" + list + "]}");
  EXPECT_TRUE(read) << read.error().text();
  return read.value_or(core::no_egress());
}

template <class Element>
std::vector<std::string> texts(const std::vector<Element>& elements) {
  std::vector<std::string> out;
  for (const Element& element : elements) out.push_back(to_nft(element));
  return out;
}

TEST(RuleMaps, BlocksThatNestAreLevels) {
  const auto policy = rules(R"({"action":"allow","cidr":"203.0.113.0/24","ports":[80]},
      {"action":"allow","cidr":"203.0.112.0/22","ports":[81]},
      {"action":"allow","cidr":"203.0.113.7","ports":[82]},
      {"action":"allow","cidr":"198.51.100.0/24","ports":[83]},
      {"action":"allow","cidr":"10.0.0.0/8","ports":[84]},
      {"action":"allow","any":true,"protocol":"udp"})");
  const auto levels = allow_levels(policy, core::AddressKind::global, false);
  ASSERT_THAT(levels, SizeIs(4));
  EXPECT_THAT(texts(levels[0].protocols), ElementsAre("0.0.0.0/0 . 17 : 6"));
  EXPECT_THAT(texts(levels[1].ports),
              ElementsAre("198.51.100.0/24 . 6 . 83 : 4", "198.51.100.0/24 . 17 . 83 : 4",
                          "203.0.112.0/22 . 6 . 81 : 2", "203.0.112.0/22 . 17 . 81 : 2"));
  EXPECT_THAT(levels[2].ports, SizeIs(2));
  EXPECT_THAT(levels[3].ports, SizeIs(2));
  EXPECT_THAT(allow_levels(policy, core::AddressKind::local, false), SizeIs(1));
  EXPECT_THAT(allow_levels(policy, core::AddressKind::metadata, false), IsEmpty());
  EXPECT_THAT(allow_levels(policy, core::AddressKind::global, true), SizeIs(1));
  EXPECT_THAT(deny_levels(policy, false), IsEmpty());
}

TEST(RuleMaps, RulesForOneBlockShareItsPorts) {
  const auto policy = rules(R"({"action":"deny","cidr":"1.0.0.0/8","protocol":"tcp",
       "ports":["100-200"]},
      {"action":"deny","cidr":"1.0.0.0/8","protocol":"tcp","ports":["50-300","250-400"]},
      {"action":"deny","cidr":"1.0.0.0/8","protocol":"icmp"},
      {"action":"deny","cidr":"1.0.0.0/8"})");
  const auto levels = deny_levels(policy, false);
  ASSERT_THAT(levels, SizeIs(1));
  EXPECT_THAT(texts(levels[0].ports),
              ElementsAre("1.0.0.0/8 . 6 . 50-99 : 2", "1.0.0.0/8 . 6 . 100-200 : 1",
                          "1.0.0.0/8 . 6 . 201-300 : 2", "1.0.0.0/8 . 6 . 301-400 : 2"));
  EXPECT_THAT(texts(levels[0].protocols),
              ElementsAre("1.0.0.0/8 . 0 : 4", "1.0.0.0/8 . 1 : 3", "1.0.0.0/8 . 2-255 : 4"));
}

TEST(RuleMaps, ServicesOfNamesNeedTheirPortListed) {
  const auto policy = rules(R"({"action":"allow","domain":"a.b"},
      {"action":"allow","cidr":"2001:db8::/32"},
      {"action":"allow","cidr":"2001:db8::/32","protocol":"udp","ports":[53]})");
  const auto levels = allow_levels(policy, core::AddressKind::global, true);
  ASSERT_THAT(levels, SizeIs(1));
  EXPECT_THAT(
      texts(levels[0].ports),
      ElementsAre("2001:db8::/32 . 6 . 0-52 : 2", "2001:db8::/32 . 6 . 54-852 : 2",
                  "2001:db8::/32 . 6 . 854-65535 : 2", "2001:db8::/32 . 17 . 0-52 : 2",
                  "2001:db8::/32 . 17 . 53 : 3", "2001:db8::/32 . 17 . 54-442 : 2",
                  "2001:db8::/32 . 17 . 444-852 : 2", "2001:db8::/32 . 17 . 854-65535 : 2"));
  EXPECT_THAT(texts(levels[0].protocols),
              ElementsAre("2001:db8::/32 . 0-5 : 2", "2001:db8::/32 . 7-16 : 2",
                          "2001:db8::/32 . 18-255 : 2"));
}

bool overlap(const PortElement& a, const PortElement& b) {
  return (a.block.contains(b.block) || b.block.contains(a.block)) && a.protocol == b.protocol &&
         a.ports.first <= b.ports.last && b.ports.first <= a.ports.last;
}
bool overlap(const ProtocolElement& a, const ProtocolElement& b) {
  return (a.block.contains(b.block) || b.block.contains(a.block)) && a.first <= b.last &&
         b.first <= a.last;
}

template <class Element>
bool apart(const std::vector<Element>& elements) {
  for (std::size_t i = 0; i < elements.size(); i++) {
    for (std::size_t j = 0; j < i; j++) {
      if (overlap(elements[i], elements[j])) return false;
    }
  }
  return true;
}

TEST(RuleMaps, ElementsOfALevelNeverOverlap) {
  for (std::uint64_t seed = 0; seed < 300; seed++) {
    Draw draw(seed);
    const core::EgressPolicy policy = draw.stack().policy;
    for (const bool v6 : {false, true}) {
      std::vector<MapLevel> levels = deny_levels(policy, v6);
      for (const core::AddressKind kind :
           {core::AddressKind::global, core::AddressKind::local, core::AddressKind::metadata}) {
        std::ranges::move(allow_levels(policy, kind, v6), std::back_inserter(levels));
      }
      for (const MapLevel& level : levels) {
        EXPECT_TRUE(apart(level.ports) && apart(level.protocols)) << to_json(policy);
      }
    }
  }
}

}  // namespace
}  // namespace firebreak::egress
