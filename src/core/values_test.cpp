#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/hooks.h"
#include "core/ids.h"
#include "core/limits.h"
#include "core/model.h"
#include "core/size.h"

namespace firebreak::core {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;

TEST(Ids, HaveTheirForm) {
  const char* uuid = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}";
  EXPECT_THAT(new_uuid(), MatchesRegex(uuid));
  EXPECT_THAT(new_microvm_id().str(), MatchesRegex("microvm-" + std::string(uuid)));
  EXPECT_THAT(new_image_id().str(), MatchesRegex("image-" + std::string(uuid)));
  for (int i = 0; i < 1000; ++i) {
    const TenantId id = new_tenant_id();
    EXPECT_THAT(id.str(), MatchesRegex("[1-9][0-9]{11}"));
    EXPECT_TRUE(parse_tenant_id(id.str()));
  }
}

TEST(Ids, AreNeverTheSame) {
  std::set<std::string> seen;
  for (int i = 0; i < 2000; ++i) EXPECT_TRUE(seen.insert(new_uuid()).second);
}

TEST(Ids, TenantsAreTwelveDigits) {
  EXPECT_EQ(parse_tenant_id("000000000000").value(), kSystemTenant);
  for (const char* bad : {"", "1", "12345678901", "1234567890123", "12345678901a", "-23456789012"})
    EXPECT_EQ(parse_tenant_id(bad).error().code, Code::invalid) << bad;
}

TEST(Ids, ImageNames) {
  for (const std::string& good : {std::string("a"), std::string("A-z_0"), std::string(64, 'x')})
    EXPECT_TRUE(check_image_name(good)) << good;
  for (const std::string& bad : {std::string(), std::string(65, 'x'), std::string("a b"),
                                 std::string("a/b"), std::string("ü"), std::string("a\0b", 3)})
    EXPECT_FALSE(check_image_name(bad)) << bad;
}

TEST(Ids, MicrovmNames) {
  for (const std::string& good : {std::string("a"), std::string("7"), std::string("a-z_0.x"),
                                  std::string("cafe"), std::string(63, 'x')})
    EXPECT_TRUE(check_microvm_name(good)) << good;
  for (const std::string& bad :
       {std::string(), std::string(64, 'x'), std::string("A"), std::string("-a"), std::string(".a"),
        std::string("_a"), std::string("a b"), std::string("a/b"), std::string("a:b"),
        std::string("ü"), std::string("a\0b", 3), std::string("microvm-a")})
    EXPECT_FALSE(check_microvm_name(bad)) << bad;
}

TEST(Ids, BeginningsOfMicrovmIds) {
  const std::string whole = new_microvm_id().str();
  EXPECT_TRUE(is_microvm_id(whole));
  EXPECT_EQ(microvm_id_prefix(whole), whole);
  EXPECT_EQ(microvm_id_prefix(whole.substr(8)), whole);
  EXPECT_EQ(microvm_id_prefix(whole.substr(8, 4)), whole.substr(0, 12));
  EXPECT_EQ(microvm_id_prefix(whole.substr(0, 12)), whole.substr(0, 12));
  EXPECT_FALSE(is_microvm_id(whole.substr(0, 43)));
  EXPECT_FALSE(is_microvm_id(whole.substr(8)));
  EXPECT_FALSE(is_microvm_id(whole + "0"));
  for (const char* bad : {"", "microvm-", "abc", "microvm-abc", "wxyz", "ABCD", "abc%"})
    EXPECT_EQ(microvm_id_prefix(bad), std::nullopt) << bad;
}

TEST(Model, EnvironmentsAreBounded) {
  EXPECT_TRUE(check_environment({}));
  EXPECT_TRUE(check_environment({{"A", ""}, {"lower.dot-dash", "=\n"}}));
  for (const Environment& bad :
       {Environment{{"", "x"}}, Environment{{"A=B", "x"}},
        Environment{{std::string("A\0", 2), "x"}}, Environment{{"A", std::string("\0", 1)}}})
    EXPECT_FALSE(check_environment(bad)) << bad.begin()->first;
  Environment many;
  for (int i = 0; i < 64; ++i) many[std::to_string(i)] = "x";
  EXPECT_TRUE(check_environment(many));
  many["one more"] = "x";
  EXPECT_FALSE(check_environment(many));
  EXPECT_TRUE(check_environment({{"A", std::string(32UL * 1024 - 1, 'x')}}));
  EXPECT_FALSE(check_environment({{"A", std::string(32UL * 1024, 'x')}}));
}

TEST(Model, StatesAndVersionsReadBack) {
  for (auto state : {ImageState::creating, ImageState::created, ImageState::create_failed,
                     ImageState::updating, ImageState::updated, ImageState::update_failed,
                     ImageState::deleting, ImageState::delete_failed})
    EXPECT_EQ(parse_image_state(to_string(state)), state);
  for (auto state : {VersionState::pending, VersionState::in_progress, VersionState::successful,
                     VersionState::failed, VersionState::deleting, VersionState::delete_failed})
    EXPECT_EQ(parse_version_state(to_string(state)), state);
  for (auto state :
       {BuildState::pending, BuildState::in_progress, BuildState::successful, BuildState::failed})
    EXPECT_EQ(parse_build_state(to_string(state)), state);
  EXPECT_EQ(parse_version(version_text(7)), 7U);
  EXPECT_EQ(parse_version("3"), 3U);
  for (const char* bad : {"", "0", "0.0", ".0", "1.1", "-1", "1000001", "1.0.0"})
    EXPECT_EQ(parse_version(bad), std::nullopt) << bad;
}

TEST(Model, OnlyActiveSuccessfulVersionsRun) {
  EXPECT_TRUE(runnable({.state = VersionState::successful, .active = true}));
  EXPECT_FALSE(runnable({.state = VersionState::successful, .active = false}));
  EXPECT_FALSE(runnable({.state = VersionState::failed, .active = true}));
}

TEST(Sizes, PeakIsFourTimesTheBaseline) {
  for (const SizeClass& size : kSizes) {
    EXPECT_EQ(size.peak_memory_mib, 4 * size.memory_mib);
    EXPECT_EQ(size.peak_vcpus * 1000, 4 * size.baseline_millicpu);
    EXPECT_EQ(size_for(size.memory_mib).value(), size);
  }
  auto odd = size_for(1000);
  EXPECT_EQ(odd.error().code, Code::invalid);
  EXPECT_THAT(odd.error().message, HasSubstr("512, 1024, 2048, 4096, 8192"));
}

TEST(HookSettings, ReadBackAsTheyWere) {
  Hooks hooks;
  EXPECT_EQ(hooks_from_json(to_json(hooks)).value(), hooks);
  hooks.port = 9000;
  hooks[Hook::run] = {.enabled = true, .timeout = Seconds(60)};
  hooks[Hook::ready] = {.enabled = true};
  hooks[Hook::terminate] = {.enabled = false, .timeout = Seconds(3)};
  EXPECT_EQ(hooks_from_json(to_json(hooks)).value(), hooks);
}

TEST(HookSettings, HaveBounds) {
  Hooks hooks;
  hooks[Hook::run].enabled = true;
  EXPECT_EQ(check(hooks).error().code, Code::invalid);
  hooks.port = 80;
  EXPECT_TRUE(check(hooks));
  hooks[Hook::run].timeout = Seconds(61);
  EXPECT_THAT(check(hooks).error().message, HasSubstr("run hook"));
  hooks[Hook::run].timeout = Seconds(-1);
  EXPECT_FALSE(check(hooks));
  hooks[Hook::run].timeout = Seconds(60);
  hooks[Hook::ready].timeout = Seconds(3600);
  EXPECT_TRUE(check(hooks));
  hooks[Hook::ready].timeout = Seconds(3601);
  EXPECT_FALSE(check(hooks));
  for (const char* bad : {"", "[]", R"({"port":65536})", R"({"run":{"enabled":true}})",
                          R"({"port":1,"run":{"timeout":99999}})", R"({"run":7})"})
    EXPECT_FALSE(hooks_from_json(bad)) << bad;
}

TEST(HookSettings, DefaultTimeouts) {
  Hooks hooks;
  EXPECT_EQ(hooks.timeout(Hook::ready), Seconds(30));
  EXPECT_EQ(hooks.timeout(Hook::resume), Seconds(1));
  hooks[Hook::resume].timeout = Seconds(9);
  EXPECT_EQ(hooks.timeout(Hook::resume), Seconds(9));
  EXPECT_FALSE(hooks.any());
}

TEST(HookTexts, AreThoseOfLambda) {
  EXPECT_EQ(hook_path(Hook::run), "/aws/lambda-microvms/runtime/v1/run");
  EXPECT_EQ(hook_status_reason(Hook::run, 500), "Run lifecycle hook returned HTTP status 500.");
  EXPECT_EQ(hook_timeout_reason(Hook::run, Seconds(1)),
            "Run lifecycle hook invocation timed out after PT1S.");
  EXPECT_THAT(hook_timeout_reason(Hook::ready, Seconds(3661)), HasSubstr("PT1H1M1S"));
  EXPECT_THAT(hook_timeout_reason(Hook::ready, Seconds(3600)), HasSubstr("PT1H."));
  EXPECT_EQ(hook_failure_reason(Hook::suspend, "refused"),
            "Suspend lifecycle hook could not be called: refused.");
  EXPECT_EQ(run_hook_body("microvm-1", ""), R"({"microvmId":"microvm-1"})");
  EXPECT_EQ(run_hook_body("m", "a\"b"), R"({"microvmId":"m","runHookPayload":"a\"b"})");
}

TEST(Limits, ReadBackAndHaveDefaults) {
  const TenantLimits limits{.microvms = 1,
                            .memory_mib = UINT64_MAX,
                            .images = 3,
                            .versions_per_image = 4,
                            .launches_per_second = 5};
  EXPECT_EQ(limits_from_json(to_json(limits)).value(), limits);
  EXPECT_EQ(limits_from_json("{}").value(), TenantLimits{});
  for (const char* bad : {"", R"({"microvms":1000001})", R"({"images":-1})", R"({"images":"x"})"})
    EXPECT_FALSE(limits_from_json(bad)) << bad;
}

TEST(Limits, TheLastOneFitsAndTheNextDoesNot) {
  const TenantLimits limits{.microvms = 3, .memory_mib = 4096};
  EXPECT_EQ(check_launch(limits, {.microvms = 2, .memory_mib = 2048}, 2048), std::nullopt);
  auto count = check_launch(limits, {.microvms = 3, .memory_mib = 0}, 512);
  ASSERT_TRUE(count);
  EXPECT_EQ(count->limit, "microvms");
  EXPECT_EQ(count->error().reason, "limit_reached");
  EXPECT_EQ(count->error().data.front(), std::pair(std::string("limit"), std::string("microvms")));
  EXPECT_EQ(count->error().message,
            "limit microvms reached: 3 of 3 used; terminate microVMs you do not need, or ask for a "
            "higher limit");
  auto memory = check_launch(limits, {.microvms = 1, .memory_mib = 2048}, 4096);
  ASSERT_TRUE(memory);
  EXPECT_EQ(memory->limit, "memory_mib");
  EXPECT_TRUE(check_launch({.microvms = 0}, {}, 512));
}

TEST(TokenBucket, GivesABurstThenTheRate) {
  TokenBucket bucket(5);
  Time now = from_unix_ms(1'000'000);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(bucket.take(now), std::nullopt);
  int taken = 0;
  for (int ms = 0; ms < 10'000; ++ms) taken += bucket.take(now += Millis(1)) ? 0 : 1;
  EXPECT_NEAR(taken, 50, 1);
}

TEST(TokenBucket, IsThereWhenItSaidItWouldBe) {
  for (std::uint32_t rate : {1U, 3U, 7U, 100U, 333U, 1000U, 5000U}) {
    TokenBucket bucket(rate);
    Time now = from_unix_ms(5);
    for (int i = 0; i < 2000; ++i) {
      auto later = bucket.take(now);
      if (!later) continue;
      ASSERT_GT(*later, now) << rate;
      now = *later;
      ASSERT_EQ(bucket.take(now), std::nullopt) << rate << " at " << i;
    }
  }
}

TEST(TokenBucket, SurvivesAClockSetBackAndARateOfNone) {
  TokenBucket bucket(1);
  const Time now = from_unix_ms(1'000'000'000);
  EXPECT_EQ(bucket.take(now), std::nullopt);
  EXPECT_TRUE(bucket.take(now - std::chrono::hours(5)));
  EXPECT_EQ(bucket.take(now - std::chrono::hours(5) + Seconds(1)), std::nullopt);
  TokenBucket none(0);
  EXPECT_GT(none.take(now).value(), now);
}

}  // namespace
}  // namespace firebreak::core
