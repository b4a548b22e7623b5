// What a Dockerfile asks for, given arguments and bases.
#include "image/build_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "image/file_mode.h"

namespace firebreak::image {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using Kind = FileSource::Kind;

BaseImages bases() {
  ImageConfig debian{.env = {{"PATH", "/bin"}, {"LANG", "C"}}, .cmd = {"bash"}};
  return {{"debian", {.key = "d", .config = std::move(debian)}},
          {"other", {.key = "o", .config = {}}}};
}

Result<BuildPlan> plan(std::string_view text, const PlanOptions& options = {},
                       const BaseImages& images = bases()) {
  FB_TRY_ASSIGN(const wire::Dockerfile file, wire::parse_dockerfile(text));
  return plan_build(file, options, images);
}

std::string error_of(std::string_view text, const PlanOptions& options = {}) {
  const auto result = plan(text, options);
  return result ? "planned" : result.error().message;
}

ImageConfig config(std::string_view text, const PlanOptions& options = {}) {
  const auto result = plan(text, options);
  EXPECT_TRUE(result) << result.error().message;
  return result ? result->stages.back().config : ImageConfig{};
}

// The n-th step of the last stage that is an Action.
template <class Action>
Action step(const Result<BuildPlan>& result, std::size_t n = 0) {
  EXPECT_TRUE(result) << result.error().message;
  if (!result) return {};
  for (const BuildStep& each : result->stages.back().steps)
    if (const auto* action = std::get_if<Action>(&each.action))
      if (n-- == 0) return *action;
  ADD_FAILURE() << "no such step";
  return {};
}

std::vector<std::string> stage_names(const Result<BuildPlan>& result) {
  std::vector<std::string> names;
  if (!result) return {result.error().message};
  for (const PlannedStage& stage : result->stages) names.push_back(stage.name);
  return names;
}

TEST(BuildPlan, NeedsOnlyWhatTheTargetUses) {
  const char* text =
      "FROM debian AS a\nFROM debian AS unused\nFROM other AS b\nCOPY --from=a /x /x\n"
      "FROM b AS c\nRUN --mount=type=bind,from=d,target=/d x\nFROM debian\nCOPY --from=0 / /";
  EXPECT_THAT(stage_names(plan(text)), ElementsAre("a", "stage-4"));
  const std::string with_d = std::string("FROM debian AS d\n") + text;
  EXPECT_THAT(stage_names(plan(with_d, {.target = "C"})), ElementsAre("d", "a", "b", "c"));
  EXPECT_THAT(stage_names(plan(text, {.target = "b"})), ElementsAre("a", "b"));
  EXPECT_THAT(stage_names(plan(text, {.target = "1"})), ElementsAre("unused"));
  EXPECT_THAT(error_of(text, {.target = "z"}),
              HasSubstr("no stage 'z'; there are a, unused, b, c"));
  const auto result = plan(with_d, {.target = "c"});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->stages[3].base, (FileSource{.kind = Kind::stage, .stage = 2}));
  EXPECT_EQ(result->stages[2].base, (FileSource{.kind = Kind::image, .image = "other"}));
  EXPECT_EQ(step<RunStep>(result).mounts[0].source, (FileSource{.kind = Kind::stage, .stage = 0}));
}

TEST(BuildPlan, SourcesMustComeBefore) {
  EXPECT_THAT(
      error_of("FROM debian AS a\nCOPY --from=b / /\nFROM debian AS b\nFROM a"),
      HasSubstr("Dockerfile:2:1: --from=b: a stage can only take files from one before it"));
  EXPECT_THAT(error_of("FROM debian AS a\nCOPY --from=a / /"), HasSubstr("one before it"));
  EXPECT_THAT(error_of("FROM debian\nCOPY --from=0 / /"), HasSubstr("up to none"));
  EXPECT_THAT(error_of("FROM debian\nFROM debian\nCOPY --from=1 / /"), HasSubstr("up to 0"));
  EXPECT_THAT(error_of("FROM debian\nCOPY --from=scratch / /"), HasSubstr("nothing in it"));
  // A stage may use the name of the image that it stands on.
  EXPECT_THAT(stage_names(plan("FROM debian AS debian\nFROM debian")),
              ElementsAre("debian", "stage-1"));
  EXPECT_EQ(plan("FROM debian AS debian")->stages[0].base.kind, Kind::image);
}

TEST(BuildPlan, TellsWhichImagesAreMissing) {
  const auto result =
      plan("FROM a AS x\nFROM b\nCOPY --from=c / /\nFROM x\nCOPY --from=1 / /", {}, {});
  ASSERT_TRUE(result);
  EXPECT_THAT(result->missing, ElementsAre("a", "b", "c"));
  EXPECT_THAT(plan("FROM unknown AS u\nFROM scratch")->missing, IsEmpty());
  EXPECT_EQ(plan("FROM scratch")->stages[0].base.kind, Kind::nothing);
}

TEST(BuildPlan, ArgsInFrom) {
  const char* text = "ARG IMAGE=debian\nARG TAG=${IMAGE}x\nFROM ${IMAGE}";
  EXPECT_EQ(plan(text)->stages[0].base.image, "debian");
  EXPECT_EQ(plan(text, {.args = {{"IMAGE", "other"}}})->stages[0].base.image, "other");
  EXPECT_EQ(plan("ARG V\nFROM debian:${V:-12}", {}, {})->stages[0].base.image, "debian:12");
  EXPECT_EQ(plan("FROM --platform=$TARGETPLATFORM debian")->stages[0].base.image, "debian");
  EXPECT_THAT(error_of("FROM --platform=linux/arm64 debian"), HasSubstr("only linux/amd64"));
  EXPECT_THAT(error_of("ARG V\nFROM $V"), HasSubstr("Dockerfile:2:1: FROM $V: nothing is left"));
  EXPECT_THAT(error_of("ARG V\nFROM debian:${V:?needed}"), HasSubstr("V: needed"));
}

TEST(BuildPlan, ArgScopes) {
  const auto env_of_run = [](std::string_view text, const PlanOptions& options = {}) {
    EnvList env = *step<RunStep>(plan(text, options)).env;
    std::erase_if(env, [](const auto& v) { return v.first == "PATH" || v.first == "LANG"; });
    return env;
  };
  EXPECT_THAT(env_of_run("ARG G=1\nFROM debian\nRUN x"), IsEmpty());
  EXPECT_THAT(env_of_run("ARG G=1\nFROM debian\nARG G\nRUN x"), ElementsAre(Pair("G", "1")));
  EXPECT_THAT(env_of_run("ARG G=1\nFROM debian\nARG G=2\nRUN x"), ElementsAre(Pair("G", "2")));
  EXPECT_THAT(env_of_run("FROM debian\nARG A\nRUN x"), IsEmpty());
  EXPECT_THAT(env_of_run("FROM debian\nARG A=\nRUN x"), ElementsAre(Pair("A", "")));
  EXPECT_THAT(env_of_run("FROM debian\nARG A=1 B=${A}2\nRUN x"),
              ElementsAre(Pair("A", "1"), Pair("B", "12")));
  EXPECT_THAT(env_of_run("FROM debian\nARG A=1\nRUN x", {.args = {{"A", "2"}}}),
              ElementsAre(Pair("A", "2")));
  EXPECT_THAT(env_of_run("FROM debian\nRUN x\nARG A=1"), IsEmpty());
  EXPECT_THAT(env_of_run("FROM debian AS a\nARG A=1\nFROM debian\nRUN x"), IsEmpty());
  EXPECT_THAT(env_of_run("FROM debian AS a\nARG A=1\nFROM a\nRUN x"), ElementsAre(Pair("A", "1")));
  EXPECT_THAT(env_of_run("FROM debian\nARG TARGETARCH\nRUN x"),
              ElementsAre(Pair("TARGETARCH", "amd64")));
  // ENV hides ARG, wherever it stands.
  EXPECT_THAT(env_of_run("FROM debian\nARG A=1\nENV A=2\nRUN x"), ElementsAre(Pair("A", "2")));
  EXPECT_THAT(env_of_run("FROM debian\nENV A=2\nARG A=1\nRUN x"), ElementsAre(Pair("A", "2")));
  // An ARG is nothing that the image keeps.
  EXPECT_THAT(config("FROM debian\nARG A=1\nENV B=$A").env,
              ElementsAre(Pair("PATH", "/bin"), Pair("LANG", "C"), Pair("B", "1")));
}

TEST(BuildPlan, ProxyArgs) {
  const PlanOptions options{.args = {{"HTTP_PROXY", "p"}, {"no_proxy", "n"}, {"X", "y"}}};
  const auto result = plan("FROM debian\nRUN x", options);
  const auto run = step<RunStep>(result);
  EXPECT_THAT(*run.proxies, ElementsAre(Pair("HTTP_PROXY", "p"), Pair("no_proxy", "n")));
  EXPECT_EQ(run.env->size(), 2);
  EXPECT_THAT(result->notes, ElementsAre(HasSubstr("the build argument X is not used")));
  const auto plain = plan("FROM debian\nRUN x");
  EXPECT_EQ(step_inputs(result->stages[0].steps[0]), step_inputs(plain->stages[0].steps[0]));
  const auto declared = step<RunStep>(plan("FROM debian\nARG HTTP_PROXY\nRUN x", options));
  EXPECT_THAT(*declared.proxies, ElementsAre(Pair("no_proxy", "n")));
  EXPECT_THAT(declared.env->back(), Pair("HTTP_PROXY", "p"));
}

TEST(BuildPlan, CertificatesAreInTheImageOrLent) {
  using Trust = RunStep::Trust;
  BaseImages images = bases();
  images["ours"] = {.key = "b", .config = {}, .ca = {.sha256 = "aa", .certificates = 3}};
  images["layers"] = {.key = "l", .config = {}, .ca = {}, .layers = std::vector<OciLayer>()};
  const auto planned = [&](std::string_view text, const std::string& present) {
    return plan(text, {.guest_ca = present}, images);
  };
  const auto trust = [&](std::string_view text, const std::string& present) {
    return step<RunStep>(planned(text, present)).trust;
  };
  EXPECT_EQ(trust("FROM ours\nRUN x", "aa"), Trust::in_image);
  EXPECT_EQ(trust("FROM ours AS a\nFROM a\nRUN x", "aa"), Trust::in_image);
  EXPECT_EQ(trust("FROM ours\nRUN x", "bb"), Trust::lent);
  EXPECT_EQ(trust("FROM layers\nRUN x", "aa"), Trust::lent);
  EXPECT_EQ(trust("FROM scratch\nRUN x", "aa"), Trust::lent);
  EXPECT_EQ(trust("FROM ours\nRUN x", ""), Trust::in_image);
  EXPECT_EQ(trust("FROM layers\nRUN x", ""), Trust::own);
  const CaMark mark{.sha256 = "aa", .certificates = 3};
  EXPECT_EQ(planned("FROM ours AS a\nFROM a", "bb")->stages.back().ca, mark);
  EXPECT_EQ(planned("FROM scratch", "aa")->stages.back().ca, CaMark());
  EXPECT_THAT(planned("FROM ours\nRUN x", "bb")->notes,
              ElementsAre(HasSubstr("ours has other certificates in it (sha256 aa)")));
  EXPECT_THAT(planned("FROM ours\nRUN x", "aa")->notes, IsEmpty());
}

TEST(BuildPlan, OtherCertificatesMakeOtherLayersOfRunAlone) {
  const auto inputs = [](const char* instruction, const std::string& present) {
    const auto result = plan(std::string("FROM debian\n") + instruction, {.guest_ca = present});
    return step_inputs(result->stages.back().steps.back());
  };
  EXPECT_NE(inputs("RUN x", "aa"), inputs("RUN x", "bb"));
  EXPECT_NE(inputs("RUN x", "aa"), inputs("RUN x", ""));
  EXPECT_EQ(inputs("RUN x", "aa"), inputs("RUN x", "aa"));
  for (const char* other : {"COPY a b", "WORKDIR /x"})
    EXPECT_EQ(inputs(other, "aa"), inputs(other, "bb"));
  // No variable of the image comes from them.
  EXPECT_EQ(step<RunStep>(plan("FROM debian\nRUN x", {.guest_ca = "aa"})).env->size(), 2U);
}

TEST(BuildPlan, Env) {
  EXPECT_THAT(config("FROM scratch").env, ElementsAre(Pair("PATH", HasSubstr("/usr/bin"))));
  EXPECT_THAT(
      config("FROM debian\nENV PATH=/x:$PATH\nENV abc=hello\nENV abc=bye def=$abc\nENV ghi=$abc")
          .env,
      ElementsAre(Pair("PATH", "/x:/bin"), Pair("LANG", "C"), Pair("abc", "bye"),
                  Pair("def", "hello"), Pair("ghi", "bye")));
  EXPECT_THAT(
      config("FROM debian\nENV N=X\nENV $N=\"a b\" 'Q'=\\$N").env,
      ElementsAre(testing::_, testing::_, Pair("N", "X"), Pair("X", "a b"), Pair("Q", "$N")));
  EXPECT_THAT(error_of("FROM debian\nENV ${X}=a"), HasSubstr("cannot be the name"));
  EXPECT_THAT(error_of("FROM debian\nENV A=\"${X:?no X}\""), HasSubstr("Dockerfile:2:1: X: no X"));
}

TEST(BuildPlan, CmdAndEntrypoint) {
  EXPECT_THAT(config("FROM debian").cmd, ElementsAre("bash"));
  EXPECT_THAT(config("FROM debian\nENTRYPOINT [\"a\"]").cmd, IsEmpty());
  EXPECT_THAT(config("FROM debian\nCMD [\"b\"]\nENTRYPOINT [\"a\"]").cmd, ElementsAre("b"));
  EXPECT_THAT(config("FROM debian\nENTRYPOINT [\"a\"]\nCMD [\"b\"]").cmd, ElementsAre("b"));
  EXPECT_THAT(config("FROM debian\nENTRYPOINT a $B").entrypoint,
              ElementsAre("/bin/sh", "-c", "a $B"));
  EXPECT_THAT(config("FROM debian\nSHELL [\"bash\", \"-ec\"]\nCMD a").cmd,
              ElementsAre("bash", "-ec", "a"));
  EXPECT_THAT(config("FROM debian\nCMD a\nCMD [\"b\"]").cmd, ElementsAre("b"));
  EXPECT_THAT(config("FROM debian\nCMD []").cmd, IsEmpty());
  EXPECT_THAT(
      config("FROM debian AS a\nCMD [\"x\"]\nENTRYPOINT [\"y\"]\nFROM a\nENTRYPOINT []").cmd,
      IsEmpty());
}

TEST(BuildPlan, SmallConfiguration) {
  const ImageConfig c = config(
      "FROM debian\nARG P=8080\nUSER a:b\nWORKDIR /w\nWORKDIR x/../y\nEXPOSE $P 53/UDP 90-91\n"
      "EXPOSE 8080/tcp 127.0.0.1:80:81\nLABEL a=b \"c d\"='e f'\nVOLUME /v $P\nSTOPSIGNAL SIGINT\n"
      "HEALTHCHECK --retries=2 CMD curl x\nMAINTAINER me\nONBUILD RUN x");
  EXPECT_EQ(c.user, "a:b");
  EXPECT_EQ(c.workdir, "/w/y");
  EXPECT_THAT(c.exposed_ports, ElementsAre("8080/tcp", "53/udp", "90/tcp", "91/tcp", "81/tcp"));
  EXPECT_THAT(c.labels, ElementsAre(Pair("a", "b"), Pair("c d", "e f")));
  EXPECT_THAT(c.volumes, ElementsAre("/v", "8080"));
  EXPECT_EQ(c.stop_signal, "SIGINT");
  EXPECT_THAT(c.healthcheck->test, ElementsAre("CMD-SHELL", "curl x"));
  EXPECT_EQ(c.healthcheck->retries, 2);
  EXPECT_EQ(c.author, "me");
  EXPECT_THAT(c.onbuild, ElementsAre("RUN x"));
  EXPECT_THAT(config("FROM debian\nHEALTHCHECK NONE").healthcheck->test, ElementsAre("NONE"));
  EXPECT_EQ(config("FROM debian\nWORKDIR a").workdir, "/a");
  for (const char* good : {"9", "64", "TERM", "sigusr1", "SIGRTMIN+3", "RTMAX-1", "RTMIN"})
    EXPECT_EQ(error_of(std::string("FROM debian\nSTOPSIGNAL ") + good), "planned") << good;
  for (const char* bad : {"0", "65", "SIGNOT", "RTMIN-1", "RTMIN+x", "SIG"})
    EXPECT_THAT(error_of(std::string("FROM debian\nSTOPSIGNAL ") + bad), HasSubstr("not a signal"))
        << bad;
  for (const char* bad : {"x", "0", "70000", "5-4", "80/http", "1-", "80:"})
    EXPECT_THAT(error_of(std::string("FROM debian\nEXPOSE ") + bad), HasSubstr("not a port"))
        << bad;
  EXPECT_THAT(error_of("FROM debian\nUSER $NOT"), HasSubstr("USER is empty"));
  EXPECT_THAT(error_of("FROM debian\nWORKDIR $NOT"), HasSubstr("WORKDIR is empty"));
  EXPECT_THAT(error_of("FROM debian\nVOLUME $NOT"), HasSubstr("VOLUME is empty"));
}

TEST(BuildPlan, Run) {
  const auto shell = step<RunStep>(plan("FROM debian\nUSER u\nWORKDIR /w\nRUN echo $A"));
  EXPECT_THAT(shell.argv, ElementsAre("/bin/sh", "-c", "echo $A"));
  EXPECT_EQ(shell.user, "u");
  EXPECT_EQ(shell.workdir, "/w");
  EXPECT_EQ(step<RunStep>(plan("FROM debian\nRUN x")).workdir, "/");
  EXPECT_THAT(step<RunStep>(plan("FROM debian\nRUN [\"a\", \"$B\"]")).argv, ElementsAre("a", "$B"));
  EXPECT_THAT(step<RunStep>(plan("FROM debian\nSHELL [\"bash\", \"-c\"]\nRUN x")).argv,
              ElementsAre("bash", "-c", "x"));
  const auto heredoc = step<RunStep>(plan("FROM debian\nRUN <<-EOF\n\ta\n\t\tb\n\tEOF"));
  EXPECT_THAT(heredoc.argv, ElementsAre("/bin/sh", "-c", "a\nb\n"));
  const auto script = step<RunStep>(plan("FROM debian\nRUN <<EOF\n#!/usr/bin/python3\nx\nEOF"));
  EXPECT_THAT(script.argv, IsEmpty());
  EXPECT_EQ(script.script, "#!/usr/bin/python3\nx\n");
  const auto complex = step<RunStep>(plan("FROM debian\nRUN cat <<A - <<-B\n1\nA\n\t2\nB"));
  EXPECT_THAT(complex.argv, ElementsAre("/bin/sh", "-c", "cat <<A - <<-B\n1\nA\n\t2\nB"));
  EXPECT_THAT(error_of("FROM debian\nRUN " + std::string(140'000, 'x')),
              HasSubstr("put it into a file"));
}

TEST(BuildPlan, Mounts) {
  const auto run = step<RunStep>(plan(
      "FROM debian AS s\nFROM debian\nARG D=/data U=5\nWORKDIR /w\n"
      "RUN --mount=target=src,source=../a/ --mount=type=cache,target=$D,uid=$U,from=s,source=/c "
      "--mount=type=secret,id=k --mount=type=tmpfs,target=/t x"));
  ASSERT_EQ(run.mounts.size(), 4);
  EXPECT_EQ(run.mounts[0].mount.target, "/w/src");
  EXPECT_EQ(run.mounts[0].mount.source, "a");
  EXPECT_EQ(run.mounts[0].source.kind, Kind::context);
  EXPECT_EQ(run.mounts[1].mount.target, "/data");
  EXPECT_EQ(run.mounts[1].mount.uid, 5);
  EXPECT_EQ(run.mounts[1].source, (FileSource{.kind = Kind::stage, .stage = 0}));
  EXPECT_EQ(run.mounts[2].source.kind, Kind::nothing);
  EXPECT_EQ(run.mounts[2].mount.target, "/run/secrets/k");
  EXPECT_THAT(error_of("FROM debian\nRUN --mount=target=/ x"), HasSubstr("cannot be /"));
  EXPECT_THAT(error_of("FROM debian\nRUN --mount=target=$NOT x"), HasSubstr("target=/path"));
  EXPECT_THAT(error_of("FROM debian\nRUN --mount=type=$T,target=/x x"),
              HasSubstr("unknown type ''"));
}

TEST(BuildPlan, Copy) {
  const auto copy =
      step<CopyStep>(plan("FROM debian\nARG D=dir U=me\nWORKDIR /w\nCOPY --chown=$U:g --chmod=755 "
                          "--exclude=*.x --link a $D/b $D/"));
  EXPECT_EQ(copy.from.kind, Kind::context);
  EXPECT_THAT(copy.sources, ElementsAre("a", "dir/b"));
  EXPECT_EQ(copy.destination, "/w/dir");
  EXPECT_TRUE(copy.into_directory);
  EXPECT_EQ(copy.chown, "me:g");
  EXPECT_EQ(copy.chmod, "755");
  EXPECT_THAT(copy.excludes, ElementsAre("*.x"));
  EXPECT_TRUE(copy.link);
  EXPECT_FALSE(copy.unpack);
  const auto into = [](const std::string& words) {
    const auto copied = step<CopyStep>(plan("FROM debian\nWORKDIR /w\nCOPY " + words));
    return copied.destination + (copied.into_directory ? "/" : "");
  };
  EXPECT_EQ(into("a b"), "/w/b");
  EXPECT_EQ(into("a ."), "/w/");
  EXPECT_EQ(into("a ./"), "/w/");
  EXPECT_EQ(into("a x/.."), "/w/");
  EXPECT_EQ(into("a /x/"), "/x/");
  EXPECT_EQ(into("a /x"), "/x");
  EXPECT_EQ(into("a b /x"), "/x/");
  EXPECT_EQ(into("a ../../../x"), "/x");
  EXPECT_EQ(into("[\"a b\", \"c d\"]"), "/w/c d");
  EXPECT_TRUE(step<CopyStep>(plan("FROM debian\nADD a.tar /")).unpack);
  EXPECT_FALSE(step<CopyStep>(plan("FROM debian\nADD --unpack=false a.tar /")).unpack);
  EXPECT_EQ(step<CopyStep>(plan("FROM debian\nCOPY --from=other / /")).from.image, "other");
  EXPECT_THAT(error_of("FROM debian\nCOPY --chmod=9 a b"), HasSubstr("octal"));
  EXPECT_THAT(error_of("FROM debian\nCOPY https://example.org/a b"), HasSubstr("takes no URLs"));
  EXPECT_THAT(error_of("FROM debian\nARG U=https://example.org/a\nADD $U b"),
              HasSubstr("not supported"));
  EXPECT_THAT(error_of("FROM debian\nADD git@example.org:a.git b"), HasSubstr("not supported"));
  EXPECT_THAT(error_of("FROM debian\nADD --checksum=sha256:0 a b"), HasSubstr("for URLs"));
}

TEST(BuildPlan, InlineFiles) {
  const auto copy = step<CopyStep>(
      plan("FROM debian\nARG A=1\nCOPY <<a <<'b' <<-c /x/\n$A \\$A \"q\"\na\n$A\nb\n\t$A\n\tc"));
  ASSERT_EQ(copy.files.size(), 3);
  EXPECT_EQ(copy.files[0].name, "a");
  EXPECT_EQ(copy.files[0].content, "1 $A \"q\"\n");
  EXPECT_EQ(copy.files[1].content, "$A\n");
  EXPECT_EQ(copy.files[2].content, "1\n");
}

TEST(BuildPlan, TriggersOfTheBase) {
  BaseImages images = bases();
  images["debian"].config.onbuild = {"ENV A=1", "COPY --from=tools /t /t", "RUN echo $A"};
  images["tools"] = {};
  const auto result = plan("FROM debian\nRUN last", {}, images);
  ASSERT_TRUE(result) << result.error().message;
  const auto& steps = result->stages[0].steps;
  ASSERT_EQ(steps.size(), 4);
  EXPECT_TRUE(steps[0].trigger);
  EXPECT_EQ(steps[2].text, "ONBUILD RUN echo $A");
  EXPECT_EQ(steps[2].at, (wire::SourcePosition{1, 1}));
  EXPECT_FALSE(steps[3].trigger);
  EXPECT_THAT(result->stages[0].config.onbuild, IsEmpty());
  images.erase("tools");
  EXPECT_THAT(plan("FROM debian", {}, images)->missing, ElementsAre("tools"));
  images["debian"].config.onbuild = {"NOT an instruction"};
  EXPECT_THAT(plan("FROM debian", {}, images).error().message, HasSubstr("a trigger of the base"));
}

TEST(BuildPlan, TriggersOfAStage) {
  const auto result = plan(
      "FROM other AS tools\nFROM debian AS a\nONBUILD COPY --from=tools /t /t\nRUN x\nFROM a AS "
      "b\nFROM b");
  ASSERT_TRUE(result) << result.error().message;
  ASSERT_EQ(result->stages.size(), 4);
  EXPECT_EQ(result->stages[1].steps.size(), 2);  // ONBUILD itself, and RUN
  ASSERT_EQ(result->stages[2].steps.size(), 1);
  EXPECT_EQ(std::get<CopyStep>(result->stages[2].steps[0].action).from.stage, 0);
  EXPECT_THAT(result->stages[3].steps, IsEmpty());  // once, not for grandchildren
}

TEST(BuildPlan, InputsOfSteps) {
  const auto inputs = [](std::string_view text, const PlanOptions& options = {}) {
    const auto result = plan(text, options);
    EXPECT_TRUE(result) << result.error().message;
    return step_inputs(result->stages.back().steps.back());
  };
  const std::string run = inputs("FROM debian\nRUN x");
  EXPECT_EQ(inputs("# other place\n\nFROM debian\n\nRUN   x"), run);
  EXPECT_EQ(inputs("FROM debian\nLABEL a=b\nEXPOSE 80\nCMD y\nRUN x"), run);
  EXPECT_NE(inputs("FROM debian\nRUN y"), run);
  EXPECT_NE(inputs("FROM debian\nRUN [\"x\"]"), run);
  EXPECT_NE(inputs("FROM debian\nENV A=1\nRUN x"), run);
  EXPECT_NE(inputs("FROM debian\nARG A=1\nRUN x"), run);
  EXPECT_NE(inputs("FROM debian\nUSER u\nRUN x"), run);
  EXPECT_NE(inputs("FROM debian\nWORKDIR /w\nRUN x"), run);
  EXPECT_NE(inputs("FROM debian\nSHELL [\"bash\", \"-c\"]\nRUN x"), run);
  EXPECT_NE(inputs("FROM debian\nRUN --mount=type=tmpfs,target=/t x"), run);
  EXPECT_NE(inputs("FROM debian\nRUN --mount=type=secret,id=a x"),
            inputs("FROM debian\nRUN --mount=type=secret,id=b x"));
  EXPECT_NE(inputs("FROM debian\nARG A=1\nRUN x"),
            inputs("FROM debian\nARG A=1\nRUN x", {.args = {{"A", "2"}}}));
  const std::string copy = inputs("FROM debian\nCOPY a b");
  EXPECT_EQ(inputs("FROM debian\nENV A=1\nCOPY a b"), copy);
  EXPECT_NE(inputs("FROM debian\nCOPY a b/"), copy);
  EXPECT_NE(inputs("FROM debian\nADD a b"), copy);
  EXPECT_NE(inputs("FROM debian\nCOPY --chown=1 a b"), copy);
  EXPECT_NE(inputs("FROM debian\nWORKDIR /w\nCOPY a b"), copy);
  EXPECT_NE(inputs("FROM debian\nCOPY <<a /b\nx\na"), inputs("FROM debian\nCOPY <<a /b\ny\na"));
  EXPECT_EQ(inputs("FROM debian\nENV A=1"), "");
  EXPECT_NE(layer_key("p", "i", "c"), layer_key("p", "ic", ""));
  EXPECT_NE(layer_key("p", "i", "c"), layer_key("q", "i", "c"));
  EXPECT_EQ(layer_key("p", "i", "c").size(), 64);
}

TEST(BuildPlan, IsBounded) {
  const auto code = [](const std::string& text) {
    const auto result = plan(text);
    return result ? std::string("planned") : std::string(to_string(result.error().code));
  };
  std::string doubling = "FROM debian\nENV A=xxxxxxxx\n";
  for (int i = 0; i < 14; ++i) doubling += "ENV A=$A$A\n";
  EXPECT_EQ(code(doubling), "exhausted");
  std::string labels = "FROM debian\nARG A=" + std::string(30'000, 'x') + "\nLABEL";
  for (int i = 0; i < 20; ++i) labels += " l" + std::to_string(i) + "=$A";
  EXPECT_EQ(code(labels), "exhausted");
  EXPECT_EQ(code("FROM debian\nEXPOSE 1-65535"), "exhausted");
  std::string copies = "FROM debian\nARG A=" + std::string(30'000, 'x') + "\n";
  for (int i = 0; i < 600; ++i) copies += "COPY $A b\n";
  EXPECT_EQ(code(copies), "exhausted");
}

TEST(BuildPlan, AnImageOfLayersIsAStageOfItsOwn) {
  BaseImages images = bases();
  const OciLayer one{.digest = "b1", .diff_id = "d1", .size = 1};
  const OciLayer two{.digest = "b2", .diff_id = "d2", .size = 2};
  images["oci:x"] = {.key = "k",
                     .config = {.env = {{"FROM_X", "1"}}, .onbuild = {"RUN triggered"}},
                     .layers = std::vector<OciLayer>{one, two}};
  const auto result = plan(
      "FROM debian AS first\nCOPY --from=oci:x /a /b\n"
      "FROM oci:x\nCOPY --from=first /b /c\nRUN --mount=from=oci:x,target=/m true\n",
      {}, images);
  EXPECT_THAT(stage_names(result), ElementsAre("oci:x", "first", "stage-1"));
  const PlannedStage& layers = result->stages[0];
  EXPECT_EQ(layers.base, FileSource());
  ASSERT_EQ(layers.steps.size(), 2U);
  EXPECT_EQ(std::get<LayerStep>(layers.steps[1].action).layer, two);
  const FileSource stage{.kind = Kind::stage, .stage = 0, .image = {}};
  EXPECT_EQ(std::get<CopyStep>(result->stages[1].steps[0].action).from, stage);
  EXPECT_EQ(result->stages[2].base, stage);
  EXPECT_EQ(step<RunStep>(result, 0).argv.back(), "triggered");
  EXPECT_EQ(step<RunStep>(result, 1).mounts.at(0).source, stage);
  EXPECT_EQ(result->stages[2].config.env.front().first, "FROM_X");
  EXPECT_THAT(result->stages[2].config.onbuild, IsEmpty());

  // How a layer is packed is no part of its key; what is in it is.
  const auto key = [](const OciLayer& layer) {
    return step_inputs({.text = "", .action = LayerStep{.image = "i", .layer = layer}});
  };
  EXPECT_EQ(
      key(one),
      key({.digest = "other", .diff_id = "d1", .size = 9, .compression = wire::Compression::gzip}));
  EXPECT_NE(key(one), key(two));
}

TEST(FileMode, OctalAndSymbolic) {
  const auto apply = [](std::string_view text, std::uint32_t mode, bool is_dir = false) {
    const auto parsed = FileMode::parse(text);
    EXPECT_TRUE(parsed) << text;
    return parsed ? parsed->apply(mode, is_dir) : 0;
  };
  EXPECT_EQ(apply("755", 0), 0755);
  EXPECT_EQ(apply("04711", 0644), 04711);
  EXPECT_EQ(apply("+x", 0644), 0755);
  EXPECT_EQ(apply("a-w", 0666), 0444);
  EXPECT_EQ(apply("u=rwX,go=rX", 0600), 0644);
  EXPECT_EQ(apply("u=rwX,go=rX", 0700), 0755);
  EXPECT_EQ(apply("u=rwX,go=rX", 0700, true), 0755);
  EXPECT_EQ(apply("u=rwX,go=rX", 0600, true), 0755);
  EXPECT_EQ(apply("g=u", 0750), 0770);
  EXPECT_EQ(apply("go=", 0777), 0700);
  EXPECT_EQ(apply("u+s,g+s,+t", 0755), 07755);
  EXPECT_EQ(apply("=rw", 04755), 0666);
  EXPECT_EQ(apply("u+x-w", 0644), 0544);
  EXPECT_EQ(apply("g=rx", 02755, true), 02755);
  for (const char* bad : {"", "8", "99", "077777", "x", "u", "u=q", "rwx", "u+x,", "0x1", "755 "})
    EXPECT_FALSE(FileMode::parse(bad)) << bad;
}

}  // namespace
}  // namespace firebreak::image
