#include "core/sandbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/egress.h"
#include "core/key_kind.h"

namespace firebreak::core {
namespace {

using testing::HasSubstr;

TEST(Templates, ReadBackWhatTheyWrite) {
  SandboxTemplate value;
  value.name = "analysis";
  value.image = "pandas";
  value.environment = "internal-only";
  value.languages = {"python", "bash"};
  value.call_limit = Seconds(7);
  value.cpu_seconds_limit = 12;
  value.role = "reader";
  value.tags = {{"team", "a"}};
  EXPECT_EQ(template_from_json(to_json(value)).value(), value);
}

TEST(Templates, RefuseWhatTheyDoNotKnow) {
  const auto error = [](const char* text) {
    return template_from_json(parse_json_object(text).value()).error().message;
  };
  EXPECT_THAT(error(R"({"name":"a","imag":"x"})"), HasSubstr("'imag' is not known; use name"));
  EXPECT_THAT(error(R"({"name":"a","languages":["cobol"]})"), HasSubstr("cobol"));
  EXPECT_THAT(error(R"({"name":"a","languages":[]})"), HasSubstr("languages"));
  EXPECT_THAT(error(R"({"name":"a","callSeconds":0})"), HasSubstr("callSeconds"));
  EXPECT_THAT(error(R"({"name":"a/b"})"), HasSubstr("name"));
}

TEST(Templates, EnvironmentsAreEgressPolicies) {
  EXPECT_EQ(egress_of_environment("default-public"), kInternetEgress);
  EXPECT_EQ(egress_of_environment("internal-only"), kNoEgress);
  EXPECT_EQ(egress_of_environment("mirrors"), "mirrors");
}

TEST(Policies, ARegulatedTenantBeginsWithNothing) {
  const auto object = parse_json_object(R"({"tier":"regulated"})").value();
  const auto regulated = policy_from_json(object, {});
  ASSERT_TRUE(regulated);
  EXPECT_FALSE(regulated->enabled);
  EXPECT_FALSE(regulated->keep_output);
  EXPECT_LT(regulated->retention_days, 30U);
  EXPECT_EQ(usual_template(Tier::regulated).environment, kInternalOnly);
  // Said again it changes nothing of what an administrator has turned on since.
  SandboxPolicy on = *regulated;
  on.enabled = true;
  EXPECT_EQ(policy_from_json(object, on).value(), on);
}

// TW-28: the ceiling of retention.
TEST(Policies, TW28_RetentionHasACeiling) {
  const auto with = [](int days) { return policy_from_json({{"retentionDays", days}}, {}); };
  EXPECT_EQ(SandboxPolicy().retention_days, 30U);
  EXPECT_TRUE(with(180));
  EXPECT_FALSE(with(181));
  EXPECT_FALSE(with(0));
}

TEST(Sessions, EndByAgeOrByIdleness) {
  SandboxSession session;
  session.created = session.last_call = from_unix_ms(1'000'000);
  EXPECT_EQ(next_end(session)->at, session.created + Seconds(1800));
  session.last_call = session.created + Seconds(8 * 3600 - 60);
  EXPECT_EQ(next_end(session)->at, session.created + Seconds(8 * 3600));
  session.ended = session.last_call;
  EXPECT_FALSE(next_end(session));
}

TEST(Records, StatusesAndKindsHaveNames) {
  for (const char* name : {"ok", "error", "timeout", "oom", "cap_exceeded", "provisioning"})
    EXPECT_EQ(to_string(parse_exit_status(name).value()), name);
  EXPECT_FALSE(parse_exit_status("fine"));
  for (const char* name : {"owner", "agent", "approver", "auditor", "administrator"})
    EXPECT_EQ(to_string(parse_key_kind(name).value()), name);
  EXPECT_FALSE(parse_key_kind("root"));
}

TEST(Records, NamesOfAgentsAreShortAndPrintable) {
  EXPECT_TRUE(check_agent_name("agentId", "a:b/c@d"));
  for (const std::string& bad : {std::string(), std::string("a b"), std::string("a\n"),
                                 std::string("\xc3\xa4"), std::string(129, 'a')})
    EXPECT_THAT(check_agent_name("agentId", bad).error().message, HasSubstr("agentId"));
}

}  // namespace
}  // namespace firebreak::core
