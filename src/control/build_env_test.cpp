#include "control/build_env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace firebreak::control {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;

Result<BuildEnv> parse(const std::vector<std::string>& given) {
  return parse_build_env(given, [](const std::string& name) -> std::optional<std::string> {
    if (name == "HTTP_PROXY") return "http://of-the-server";
    return name == "EMPTY" ? std::optional<std::string>("") : std::nullopt;
  });
}

TEST(BuildEnv, ValuesAreGivenOrTheServers) {
  const auto env = parse({"A=b=c, d", "HTTP_PROXY", "EMPTY", "NO_PROXY", "X="});
  ASSERT_TRUE(env) << env.error().text();
  EXPECT_THAT(env->variables,
              ElementsAre(Pair("A", "b=c, d"), Pair("HTTP_PROXY", "http://of-the-server"),
                          Pair("EMPTY", ""), Pair("X", "")));
  EXPECT_THAT(env->unset, ElementsAre("NO_PROXY"));
}

TEST(BuildEnv, NothingIsTakenThatWasNotNamed) {
  const auto env = parse({});
  ASSERT_TRUE(env);
  EXPECT_THAT(env->variables, IsEmpty());
}

TEST(BuildEnv, OneALineAndTheLastCounts) {
  const auto env = parse({"A=1\nNO_PROXY\n", "A=2", "NO_PROXY=x"});
  ASSERT_TRUE(env);
  EXPECT_THAT(env->variables, ElementsAre(Pair("A", "2"), Pair("NO_PROXY", "x")));
  EXPECT_THAT(env->unset, IsEmpty());
}

TEST(BuildEnv, ARefusalNamesNoValue) {
  for (const char* bad : {"=secret", "a b=secret", "9=secret", "http://me:secret@proxy"}) {
    const auto env = parse({"GOOD=1", bad});
    ASSERT_FALSE(env) << bad;
    EXPECT_THAT(env.error().message,
                AllOf(HasSubstr("--build-env: number 2"), Not(HasSubstr("secret"))));
  }
  EXPECT_FALSE(parse({"A=" + std::string(40000, 'x')}));
}

}  // namespace
}  // namespace firebreak::control
