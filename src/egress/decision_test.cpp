#include "egress/decision.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/sys.h"
#include "egress/address_test_support.h"
#include "egress/decision_file.h"
#include "egress/decision_summary.h"

namespace firebreak::egress {
namespace {

using namespace std::chrono_literals;
using core::EgressLayer;
using core::EgressWord;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using Kind = Decision::Kind;

Decision connect(std::string_view address, std::uint16_t port, std::string name = {},
                 std::uint8_t protocol = core::kTcp) {
  return {.time = core::Time(1000ms),
          .kind = Kind::connect,
          .allowed = true,
          .rule = "policy:1",
          .protocol = protocol,
          .address = ip(address),
          .port = port,
          .name = std::move(name)};
}

Decision denied(std::string name) {
  return {.time = core::Time(2000ms),
          .kind = Kind::name,
          .rule = "policy:unmatched",
          .name = std::move(name),
          .reason = "policy web has no rule for it"};
}

TEST(Decision, LinesRoundTrip) {
  Decision all = connect("2001:db8::1", 443, "a.test", 47);
  all.number = 7;
  all.kind = Kind::end;
  all.addresses = {ip("192.0.2.1"), ip("2001:db8::1")};
  all.reason = "with \"quotes\" and\nlines";
  all.count = 3;
  all.bytes_out = 1ULL << 60;
  all.bytes_in = 5;
  EXPECT_FALSE(to_line(all).contains('\n'));
  EXPECT_EQ(from_line(to_line(all)), all);
  EXPECT_EQ(from_line(to_line(denied("x.test"))), denied("x.test"));
  EXPECT_EQ(to_line(denied("x.test")),
            R"({"time":2000,"event":"name","verdict":"deny","rule":"policy:unmatched",)"
            R"("name":"x.test","reason":"policy web has no rule for it"})");
  const std::string whole = to_line(all);
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(from_line(whole.substr(0, size))) << size;
}

TEST(Decision, ExplainsEachLabel) {
  using core::label;
  EXPECT_THAT(explain(label(EgressLayer::policy, EgressWord::unmatched)),
              HasSubstr("no rule of the policy allows it"));
  EXPECT_THAT(explain(label(EgressLayer::maximum, EgressWord::unmatched)),
              HasSubstr("the tenant's maximum"));
  EXPECT_THAT(explain(label(EgressLayer::always, EgressWord::link_local)), HasSubstr("link-local"));
  EXPECT_EQ(explain({EgressLayer::policy, 3}), "rule 3 of the policy denies it");
  for (auto code = static_cast<std::uint32_t>(EgressWord::unmatched);
       code <= static_cast<std::uint32_t>(EgressWord::bad_name); ++code)
    EXPECT_THAT(explain({EgressLayer::always, code}), testing::Not(HasSubstr("rule 4"))) << code;
}

TEST(DecisionSummary, AddsUpByDestination) {
  DecisionSummary summary;
  summary.add(connect("192.0.2.1", 443, "a.test"));
  Decision again = connect("192.0.2.2", 443, "a.test");
  again.time = core::Time(5000ms);
  summary.add(again);
  Decision end = connect("192.0.2.1", 443, "a.test");
  end.kind = Kind::end;
  end.bytes_out = 10;
  end.bytes_in = 20;
  summary.add(end);
  summary.add(connect("192.0.2.9", 22));
  Decision name{.kind = Kind::name, .allowed = true, .name = "unused.test"};
  summary.add(name);
  for (int i = 0; i < 3; ++i) summary.add(denied("evil.test"));
  EXPECT_EQ(summary.allowed(), 3U);
  EXPECT_EQ(summary.denied(), 3U);
  ASSERT_THAT(summary.reached(), SizeIs(2));
  const DestinationTotals& a = summary.reached().at({"a.test", core::kTcp, 443});
  EXPECT_EQ(a, (DestinationTotals{2, 10, 20, core::Time(1000ms), core::Time(5000ms)}));
  ASSERT_THAT(summary.denials(), SizeIs(1)) << "the same ones are one";
  EXPECT_EQ(summary.denials()[0].count, 3U);
  EXPECT_EQ(summary.refused().at({.host = "evil.test"}).count, 3U);
}

TEST(DecisionSummary, IsBoundedAndRoundTrips) {
  DecisionSummary summary;
  for (int i = 0; i < 3000; ++i) {
    summary.add(denied("n" + std::to_string(i) + ".test"));
    summary.add(connect("192.0.2.1", static_cast<std::uint16_t>(i + 1)));
  }
  summary.add_lost(4);
  summary.written(6000);
  EXPECT_THAT(summary.reached(), SizeIs(DecisionSummary::kMaxDestinations));
  EXPECT_THAT(summary.refused(), SizeIs(DecisionSummary::kMaxDestinations));
  EXPECT_THAT(summary.denials(), SizeIs(DecisionSummary::kMaxDenials));
  EXPECT_EQ(summary.denials().back().name, "n2999.test");
  EXPECT_EQ(summary.denied(), 3000U);
  const auto back = DecisionSummary::from_text(summary.to_text());
  ASSERT_TRUE(back) << back.error().text();
  EXPECT_EQ(back->to_text(), summary.to_text());
  EXPECT_EQ(back->last_number(), 6000U);
  EXPECT_TRUE(back->unlisted());
  const auto suggested = back->suggestion("incomplete");
  ASSERT_FALSE(suggested) << "it would not have sufficed";
  EXPECT_EQ(suggested.error().code, Code::exhausted);
  EXPECT_FALSE(DecisionSummary::from_text("{}"));
  EXPECT_FALSE(DecisionSummary::from_text(R"({"lastNumber":1,"allowed":0,"denied":0,"lost":0,)"
                                          R"("reached":[1],"refused":[],"denials":[]})"));
}

TEST(DecisionSummary, SuggestsTheSmallestPolicy) {
  DecisionSummary summary;
  summary.add(connect("192.0.2.1", 443, "a.test"));
  summary.add(connect("192.0.2.2", 443, "a.test"));
  summary.add(connect("192.0.2.1", 80, "a.test"));
  summary.add(connect("192.0.2.1", 81, "a.test"));
  summary.add(connect("198.51.100.1", 443));
  summary.add(connect("2001:db8::1", 0, "", core::kIcmp6));
  summary.add(connect("192.0.2.1", 443, "a.test", core::kUdp));
  summary.add(connect("192.0.2.53", 53, "dns.test", core::kUdp));
  summary.add(connect("192.0.2.47", 0, "gre.test", 47));
  summary.add(denied("evil.test"));
  Decision refused = connect("192.0.2.66", 25);
  refused.allowed = false;
  summary.add(refused);
  const auto policy = summary.suggestion("learned");
  ASSERT_TRUE(policy) << policy.error().text();
  EXPECT_EQ(core::to_json(*policy),
            core::to_json(*core::egress_policy_from_json(
                R"({"name":"learned","rules":[)"
                R"({"action":"allow","cidr":"192.0.2.47/32"},)"
                R"({"action":"allow","cidr":"192.0.2.53/32","protocol":"udp","ports":[53]},)"
                R"({"action":"allow","cidr":"198.51.100.1/32","protocol":"tcp","ports":[443]},)"
                R"({"action":"allow","cidr":"2001:db8::1/128","protocol":"icmp"},)"
                R"({"action":"allow","domain":"a.test","protocol":"tcp","ports":["80-81",443]},)"
                R"({"action":"allow","domain":"a.test","protocol":"udp","ports":[443]}]})")));
}

// What was let through is let through by the suggestion, and nothing else of the same guest is.
TEST(DecisionSummary, TheSuggestionSuffices) {
  DecisionSummary summary;
  summary.add(connect("192.0.2.1", 443, "a.test"));
  summary.add(connect("198.51.100.1", 22));
  const auto policy = summary.suggestion("learned");
  ASSERT_TRUE(policy);
  const core::EgressStack stack{.maximum = core::internet_egress(), .policy = *policy};
  EXPECT_TRUE(core::decide_name(stack, "a.test").allowed);
  EXPECT_FALSE(core::decide_name(stack, "b.test").allowed);
  core::EgressPins pins;
  const core::Time now(1000ms);
  for (const auto& pin :
       core::pins_for(core::decide_name(stack, "a.test"), {ip("192.0.2.1")}, now + 60s))
    pins.add(pin);
  const auto allowed = [&](std::string_view to, std::uint16_t port) {
    return core::decide_packet(stack, pins, {ip(to), core::kTcp, port}, now).allowed;
  };
  EXPECT_TRUE(allowed("192.0.2.1", 443));
  EXPECT_TRUE(allowed("198.51.100.1", 22));
  EXPECT_FALSE(allowed("192.0.2.1", 80));
  EXPECT_FALSE(allowed("192.0.2.2", 443));
}

class DecisionFileTest : public testing::Test {
 protected:
  void TearDown() override { (void)sys::remove_tree(directory_); }
  std::string line(std::uint64_t number) {
    Decision decision = connect("192.0.2.1", 443, std::string(200, 'n') + ".test");
    decision.number = number;
    decision.time = core::Time(std::chrono::milliseconds(number));
    return to_line(decision) + "\n";
  }
  static std::vector<std::uint64_t> numbers(const std::vector<Decision>& decisions) {
    std::vector<std::uint64_t> out;
    for (const Decision& decision : decisions) out.push_back(decision.number);
    return out;
  }
  std::string directory_ =
      std::filesystem::temp_directory_path() / ("fb-log-" + sys::random_hex(6));
};

TEST_F(DecisionFileTest, KeepsTheNewestWithinItsSize) {
  DecisionFile file(directory_);
  ASSERT_TRUE(file.open());
  int rotations = 0;
  std::uint64_t number = 0;
  while (rotations < 3) {
    const auto rotated = file.append(line(++number));
    ASSERT_TRUE(rotated) << rotated.error().text();
    rotations += *rotated ? 1 : 0;
  }
  std::uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(directory_))
    bytes += entry.file_size();
  EXPECT_LE(bytes, 2 * DecisionFile::kMaxBytes);
  const auto all = numbers(file.read());
  EXPECT_GT(all.size(), 2000U);
  EXPECT_EQ(all.back(), number);
  EXPECT_EQ(all.front(), number - all.size() + 1) << "nothing is missing between";
  EXPECT_THAT(numbers(recent_decisions(directory_, 2, {})), ElementsAre(number - 1, number));
  EXPECT_THAT(recent_decisions(directory_, 10, core::Time(std::chrono::milliseconds(number))),
              SizeIs(1));
  EXPECT_THAT(recent_decisions(directory_ + "/none", 10, {}), IsEmpty());
}

TEST_F(DecisionFileTest, RepairsAHalfLineAndGoesOn) {
  DecisionFile file(directory_);
  ASSERT_TRUE(file.open());
  ASSERT_TRUE(file.append(line(1) + line(2).substr(0, 30)));
  DecisionFile again(directory_);
  ASSERT_TRUE(again.open());
  ASSERT_TRUE(again.append(line(3)));
  EXPECT_THAT(numbers(again.read()), ElementsAre(1, 3));
}

TEST_F(DecisionFileTest, TheSummaryHasWhatCameAfterItWasKept) {
  DecisionFile file(directory_);
  ASSERT_TRUE(file.open());
  DecisionSummary summary;
  summary.add(connect("192.0.2.1", 443));
  ASSERT_TRUE(file.append(line(1) + line(2)));
  summary.written(2);
  ASSERT_TRUE(file.keep(summary));
  ASSERT_TRUE(file.append(line(3)));
  EXPECT_EQ(file.read_summary().allowed(), 2U) << "one as kept, one from the records";
  EXPECT_EQ(file.read_summary().last_number(), 3U);
  ASSERT_TRUE(sys::write_file(directory_ + "/summary.json", "damaged"));
  EXPECT_EQ(file.read_summary().allowed(), 3U) << "all that the records tell";
}

}  // namespace
}  // namespace firebreak::egress
