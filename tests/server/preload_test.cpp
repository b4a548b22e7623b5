// Modules that are part of an image's snapshot: loaded once, there in the first run of every clone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/build_fixture.h"

namespace firebreak::testing_support {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// What of these is loaded, as Python says it.
constexpr const char* kLoaded =
    "import sys; print(*(name for name in ('colorsys', 'fb_made') if name in sys.modules))";

constexpr const char* kDockerfile = R"file(FROM firebreak/python:3.11
RUN d=$(python3 -c "import sysconfig; print(sysconfig.get_paths()['purelib'])") && mkdir -p $d && \
    printf 'import os\ntoken = os.urandom(8).hex()\n' > $d/fb_made.py
)file";

TEST_F(Build, ModulesAreLoadedInTheFirstRunOfEveryClone) {
  const Context context(kDockerfile);
  const auto made = build("loaded", context, {"--preload", "python=colorsys,fb_made"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("starting the interpreter of python with colorsys, fb_made"));
  std::vector<std::string> tokens;
  for (int clone = 0; clone < 2; ++clone) {
    const std::string id = trimmed(server->cli({"run", "loaded"}).out);
    const Answer first = server->call("POST", "/v1/microvms/" + id + "/contexts/default/run",
                                      json::object{{"code", kLoaded}});
    EXPECT_EQ(first.text_of("stdout"), "colorsys fb_made\n") << first.text;
    EXPECT_EQ(first.text_of("state"), "fresh") << first.text;
    tokens.push_back(server->cli({"code", id, "-c", "import fb_made; fb_made.token"}).out);
    EXPECT_EQ(server->cli({"exec", id, "--", "python3", "-c", kLoaded}).out, "\n");
    server->cli({"kill", id});
  }
  EXPECT_EQ(tokens[0], tokens[1]) << "it was loaded once, before the snapshot";
  const json::value shown = json::parse(server->cli({"image", "show", "loaded:1.0"}).out);
  const json::value modules = json::parse(R"({"python":["colorsys","fb_made"]})");
  EXPECT_EQ(shown.at("preload"), modules);
  const json::value image = json::parse(server->cli({"image", "show", "loaded"}).out);
  EXPECT_EQ(image.at("versions").at(0).at("preload"), modules);

  const auto again = build("loaded", context, {"--preload", "python=colorsys,fb_made"});
  EXPECT_THAT(again.err, HasSubstr("nothing has changed since loaded:1.0"));
  const auto other =
      build("loaded", context, {"--preload", "python=fb_made", "--preload", "python=colorsys"});
  ASSERT_EQ(other.status, 0) << other.err;
  EXPECT_THAT(other.err,
              AllOf(HasSubstr("with fb_made, colorsys"), Not(HasSubstr("is the same: taken"))));
}

TEST_F(Build, AModuleThatCannotBeLoadedFailsTheBuildByName) {
  const Context context(kDockerfile);
  const auto made = build("unloaded", context, {"--preload", "python=fb_made,fb_nope"});
  EXPECT_EQ(made.status, 1);
  const json::value shown = json::parse(server->cli({"image", "show", "unloaded:1.0"}).out);
  EXPECT_EQ(shown.at("state"), "FAILED");
  EXPECT_THAT(std::string(shown.at("stateReason").as_string()),
              AllOf(HasSubstr("the interpreter of python cannot be part of the snapshot"),
                    HasSubstr("cannot import fb_nope: ModuleNotFoundError: No module named")));
  EXPECT_EQ(machines(), 0U);
  const auto node = build("unloaded", context, {"--preload", "node=lodash"});
  EXPECT_EQ(node.status, 1);
  EXPECT_THAT(node.err, HasSubstr("node is not installed"));
  for (const char* wrong : {"python", "python=a b", "ruby=x", "node=../x"}) {
    const auto refused = build("unloaded", context, {"--preload", wrong});
    EXPECT_NE(refused.status, 0) << wrong;
    EXPECT_THAT(refused.err, HasSubstr("preload")) << wrong;
    EXPECT_THAT(refused.err, Not(HasSubstr("booting"))) << wrong;
  }
}

TEST_F(Build, ModulesGoWithAnImageOfTheBaseToo) {
  const auto create = [](const std::string& preload) {
    return server->call("POST", "/v1/images",
                        json::object{{"name", "plain"}, {"preload", json::parse(preload)}});
  };
  const Answer made = create(R"({"python":["colorsys"]})");
  ASSERT_EQ(made.status, 201) << made.text;
  EXPECT_THAT(made.text, HasSubstr(R"("preload":{"python":["colorsys"]})"));
  const std::string id = trimmed(server->cli({"run", "plain"}).out);
  EXPECT_EQ(server->cli({"code", id, "-c", kLoaded}).out, "colorsys\n");
  server->cli({"kill", id});
  const Answer wrong = create(R"({"python":"colorsys"})");
  EXPECT_EQ(wrong.status, 400) << wrong.text;
}

}  // namespace
}  // namespace firebreak::testing_support
