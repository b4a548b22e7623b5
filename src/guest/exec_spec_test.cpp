#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "guest/exec.h"
#include "guest/tenant.h"

namespace firebreak::guest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<ExecSpec> parse(std::string_view text) {
  return parse_exec_spec(*parse_json_object(text));
}

TEST(ExecSpec, DefaultsAndShell) {
  const auto spec = parse(R"({"shell":"echo hi | wc"})");
  ASSERT_TRUE(spec);
  EXPECT_THAT(spec->argv, ElementsAre("/bin/sh", "-c", "echo hi | wc"));
  EXPECT_FALSE(spec->with_stdin);
  EXPECT_FALSE(spec->terminal);
  EXPECT_FALSE(spec->timeout);
  EXPECT_EQ(spec->overflow, Overflow::block);
  EXPECT_EQ(spec->ring_bytes, 1U << 20);
}

TEST(ExecSpec, RingIsCapped) {
  EXPECT_EQ(parse(R"({"argv":["a"],"ring_bytes":99999999})")->ring_bytes, 8U << 20);
}

TEST(ExecSpec, RefusesWhatCannotBeAProcess) {
  for (const char* bad :
       {R"({})", R"({"argv":[]})", R"({"argv":[""]})", R"({"argv":["a"],"shell":"b"})",
        R"({"argv":["a\u0000b"]})", R"({"argv":["a"],"env":{"A=B":"c"}})",
        R"({"argv":["a"],"env":{"":"c"}})", R"({"argv":["a"],"id":"../x"})",
        R"({"argv":["a"],"overflow":"spill"})", R"({"argv":["a"],"pty":{"cols":70000}})",
        R"({"argv":["a"],"timeout_ms":-1})", R"({"argv":"ls"})"})
    EXPECT_FALSE(parse(bad)) << bad;
}

TEST(Environment, ExecWinsOverTenantOverDefaults) {
  ExecSpec spec;
  spec.env = {{"A", "exec"}, {"PATH", "/exec"}};
  const auto env =
      build_environment({{"A", "tenant"}, {"B", "tenant"}, {"HOME", "/t"}}, spec, "/root");
  EXPECT_THAT(env, ElementsAre("A=exec", "B=tenant", "HOME=/t", "PATH=/exec"));
  spec.terminal = TerminalSize{};
  EXPECT_THAT(build_environment({}, spec, "/root"), testing::Contains("TERM=xterm-256color"));
}

TEST(ProgramCandidates, FollowThePathOfTheChild) {
  const std::vector<std::string> env{"X=1", "PATH=/a::/b"};
  EXPECT_THAT(program_candidates("ls", env), ElementsAre("/a/ls", "./ls", "/b/ls"));
  EXPECT_THAT(program_candidates("./ls", env), ElementsAre("./ls"));
  EXPECT_THAT(program_candidates("", env), ElementsAre());
}

TEST(TenantSpec, AnApplicationAsPidOneMustBeNamed) {
  const auto bare =
      parse_tenant_spec(*parse_json_object(R"({"root":{"device":"/dev/vda"},"pid1":"app"})"));
  ASSERT_FALSE(bare);
  EXPECT_THAT(bare.error().message, HasSubstr("app"));
  const auto full = parse_tenant_spec(*parse_json_object(
      R"({"root":{"device":"/dev/vda"},"pid1":"app","app":{"argv":["/bin/server"],"overflow":"block"}})"));
  ASSERT_TRUE(full);
  EXPECT_EQ(full->app->overflow, Overflow::drop) << "nobody may read the log";
}

}  // namespace
}  // namespace firebreak::guest
