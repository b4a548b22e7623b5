#include "arguments.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace firebreak::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A small command line with everything that a description can have.
struct Sample {
  Sample() {
    root.option("--home", home, "DIR", "Where it lives").environment("ARGUMENTS_TEST_HOME");
    Command& run = root.add("run", "Run it").also({"start"}).run([] { return 0; });
    run.word("IMAGE", image, "What").required("write 'sample run IMAGE'").kind(ValueKind::image);
    run.rest("COMMAND", command, "Then");
    run.flag("-i,--interactive", interactive, "With input");
    run.flag("-t,--tty", tty, "With a terminal").excludes("--limit", "leave one out");
    run.option("-e,--env", env, "NAME=VALUE", "Variables").pair();
    run.option("--limit", limit, "N", "How many").range(1, 9, "leave it out");
    run.option("--idle", idle, "SECONDS", "Sleep").range(1, 100);
    run.option("--rule", rule, "RULE", "How").one_of({"work", "traffic"}).needs("--idle");
    run.option("--wait", wait, "SECONDS", "Fractions").range(0.5, 10);
    run.option("--fast", fast, "BOOL", "A switch with a value");
    run.example("sample run web", "like this");
    Command& image_command = root.add("image", "Images");
    Command& log = root.add("log", "What one did").run([] { return 0; });
    log.word("ID", one, "Which").required();
    log.flag("--long", quiet, "All of it");
    log.add("rm", "Forget").run([] { return 0; });
    Command& ls = image_command.add("ls", "List").also({"list"}).run([] { return 0; });
    ls.flag("-q,--quiet", quiet, "Names only");
    image_command.add("rm", "Remove").run([] { return 0; }).word("NAME", names, "Which").required();
    root.add("secret", "Not shown").hide().run([] { return 0; });
  }

  // What the parser says of these words; nothing when they are good.
  std::string parse(const std::vector<std::string>& words) {
    auto parsed = parse_words(root, words);
    chosen = parsed ? parsed->command->path() : "";
    help = parsed && parsed->help;
    return parsed ? "" : parsed.error().message;
  }
  std::vector<std::string> complete(const std::vector<std::string>& words) {
    completion = complete_words(root, words);
    std::vector<std::string> texts;
    for (const Candidate& candidate : completion.words) texts.push_back(candidate.text);
    return texts;
  }

  Command root{"sample", "A sample"};
  std::string home = "/home";
  std::string image;
  std::string one;
  std::vector<std::string> command;
  std::vector<std::string> env;
  std::vector<std::string> names;
  bool interactive = false;
  bool tty = false;
  bool quiet = false;
  bool fast = true;
  std::uint32_t limit = 3;
  std::optional<std::uint64_t> idle;
  std::optional<std::string> rule;
  std::optional<double> wait;
  std::string chosen;
  bool help = false;
  Completion completion;
};

TEST(Arguments, OptionsMayStandAnywhereBeforeTheRemoteCommand) {
  Sample sample;
  EXPECT_EQ(sample.parse({"run", "-it", "web", "-e", "A=b", "--env=C=", "-eD=x y", "--limit", "9",
                          "sh", "-c", "--limit", "--", "-e"}),
            "--tty and --limit exclude each other; leave one out");
  Sample good;
  EXPECT_EQ(good.parse({"run", "-i", "web", "-e", "A=b", "--env=C=", "-eD=x y", "--limit", "9",
                        "sh", "-c", "--limit", "--", "-e"}),
            "");
  EXPECT_EQ(good.chosen, "sample run");
  EXPECT_EQ(good.image, "web");
  EXPECT_TRUE(good.interactive);
  EXPECT_EQ(good.limit, 9U);
  EXPECT_THAT(good.env, ElementsAre("A=b", "C=", "D=x y"));
  EXPECT_THAT(good.command, ElementsAre("sh", "-c", "--limit", "--", "-e"));
}

TEST(Arguments, AfterTwoDashesEverythingIsAWord) {
  Sample sample;
  EXPECT_EQ(sample.parse({"run", "web", "-i", "--", "-t", "--help"}), "");
  EXPECT_FALSE(sample.tty);
  EXPECT_FALSE(sample.help);
  EXPECT_THAT(sample.command, ElementsAre("-t", "--help"));
  Sample first;
  EXPECT_EQ(first.parse({"run", "--", "-odd-image", "--", "x"}), "");
  EXPECT_EQ(first.image, "-odd-image");
  EXPECT_THAT(first.command, ElementsAre("--", "x"));
}

TEST(Arguments, WrongWordsAreNamedWithTheirRepair) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"rnu"}, "unknown command 'rnu'; did you mean 'run'?"},
      {{"start"}, "unknown command 'start'; did you mean 'run'?"},
      {{"frobnicate"}, "unknown command 'frobnicate'; see 'firebreak help'"},
      {{"image"}, "'sample image' needs a command: ls or rm; see 'sample image --help'"},
      {{"image", "list"}, "unknown command 'image list'; did you mean 'image ls'?"},
      {{"image", "sl"}, "unknown command 'image sl'; did you mean 'image ls'?"},
      {{"image", "ls", "x"},
       "'x' is one word too many for 'sample image ls'; see 'sample image ls --help'"},
      {{"image", "rm"}, "NAME is missing after 'sample image rm'; see 'sample image rm --help'"},
      {{"run"}, "IMAGE is missing after 'sample run'; write 'sample run IMAGE'"},
      {{"run", "web", "--idel", "5"},
       "unknown option '--idel' of 'sample run'; did you mean '--idle'?"},
      {{"run", "web", "--inter"},
       "unknown option '--inter' of 'sample run'; did you mean '--interactive'?"},
      {{"run", "-x", "web"}, "unknown option '-x' of 'sample run'; see 'sample run --help'"},
      {{"run", "web", "--limit"}, "--limit needs a value; write --limit N"},
      {{"run", "web", "--limit", "0"},
       "--limit must be a whole number from 1 to 9, not 0; leave it out"},
      {{"run", "web", "--limit", "-5"},
       "--limit must be a whole number from 1 to 9, not '-5'; leave it out"},
      {{"run", "web", "--limit", "4x"},
       "--limit must be a whole number from 1 to 9, not '4x'; leave it out"},
      {{"run", "web", "--wait", "nan"}, "--wait must be a number from 0.5 to 10, not nan"},
      {{"run", "web", "--wait", "0.1"}, "--wait must be a number from 0.5 to 10, not 0.1"},
      {{"run", "web", "--idle", "99999999999999999999"},
       "--idle must be a whole number from 1 to 100, not '99999999999999999999'"},
      {{"run", "web", "--rule", "work"},
       "--rule means nothing without --idle; add --idle, or leave --rule out"},
      {{"run", "web", "--idle", "5", "--rule", "wrok"},
       "--rule must be work or traffic, not 'wrok'; did you mean 'work'?"},
      {{"run", "web", "-e", "A"}, "--env must be NAME=VALUE, not 'A'"},
      {{"run", "web", "-e", "=b"}, "--env must be NAME=VALUE, not '=b'"},
      {{"run", "web", "--idle", "5", "--idle", "6"}, "--idle was given twice; give it once"},
      {{"run", "web", "--tty=1"}, "--tty takes no value; write it alone"},
      {{"run", "web", "--fast", "maybe"}, "--fast must be true or false, not 'maybe'"},
  };
  for (const auto& [words, message] : cases) {
    Sample sample;
    EXPECT_EQ(sample.parse(words), message);
  }
}

TEST(Arguments, OptionsOfTheProgramMayFollowTheCommand) {
  Sample sample;
  EXPECT_EQ(sample.parse({"image", "ls", "--home", "/x", "-q"}), "");
  EXPECT_EQ(sample.home, "/x");
  EXPECT_TRUE(sample.quiet);
  Sample before;
  EXPECT_EQ(before.parse({"--home=/y", "image", "ls"}), "");
  EXPECT_EQ(before.home, "/y");
}

TEST(Arguments, ACommandMayHaveWordsAndCommands) {
  Sample sample;
  EXPECT_EQ(sample.parse({"log", "rm"}), "");
  EXPECT_EQ(sample.chosen, "sample log rm");
  EXPECT_EQ(sample.parse({"log", "--long", "box"}), "");
  EXPECT_EQ(sample.chosen, "sample log");
  EXPECT_EQ(sample.one, "box");
  EXPECT_THAT(sample.parse({"log", "rm", "--long"}), HasSubstr("unknown option '--long'"));
  Sample none;
  EXPECT_THAT(none.parse({"log"}), HasSubstr("ID is missing"));
}

TEST(Arguments, TheEnvironmentIsUsedWhenTheOptionIsNotGiven) {
  ::setenv("ARGUMENTS_TEST_HOME", "/from-environment", 1);
  Sample sample;
  EXPECT_EQ(sample.parse({"image", "ls"}), "");
  EXPECT_EQ(sample.home, "/from-environment");
  Sample given;
  EXPECT_EQ(given.parse({"image", "ls", "--home", "/x"}), "");
  EXPECT_EQ(given.home, "/x");
  ::unsetenv("ARGUMENTS_TEST_HOME");
}

TEST(Arguments, HelpIsAskedForAnywhereBeforeTheRemoteCommand) {
  Sample sample;
  EXPECT_EQ(sample.parse({"run", "--limit", "3", "-h"}), "");
  EXPECT_TRUE(sample.help);
  EXPECT_EQ(sample.chosen, "sample run");
  EXPECT_EQ(sample.parse({"--help"}), "");
  EXPECT_TRUE(sample.help);
  EXPECT_EQ(sample.chosen, "sample");
}

TEST(Arguments, HelpTellsUsageDefaultsAndRanges) {
  Sample sample;
  const std::string run = help_text(*sample.root.find("run"));
  EXPECT_THAT(run, HasSubstr("Usage: sample run [OPTIONS] IMAGE [-- COMMAND...]\n"));
  EXPECT_THAT(run, HasSubstr("How many; 1 to 9; default: 3\n"));
  EXPECT_THAT(run, HasSubstr("How; one of: work, traffic; with --idle\n"));
  EXPECT_THAT(run, HasSubstr("-e, --env NAME=VALUE"));
  EXPECT_THAT(run, HasSubstr("sample run web  # like this\n"));
  const std::string all = help_text(sample.root);
  EXPECT_THAT(all, HasSubstr("  image "));
  EXPECT_EQ(all.find("secret"), std::string::npos);
}

TEST(Arguments, ShellsGetWhatMayFollow) {
  Sample sample;
  EXPECT_THAT(sample.complete({""}), ElementsAre("run", "image", "log"));
  EXPECT_THAT(sample.complete({"im"}), ElementsAre("image"));
  EXPECT_THAT(sample.complete({"image", ""}), ElementsAre("ls", "rm"));
  EXPECT_THAT(sample.complete({"run", "--i"}), ElementsAre("--interactive", "--idle"));
  EXPECT_THAT(sample.complete({"run", "--rule", ""}), ElementsAre("work", "traffic"));
  EXPECT_THAT(sample.complete({"run", "--rule=t"}), ElementsAre("--rule=traffic"));
  EXPECT_THAT(sample.complete({"run", "-i", "w"}), IsEmpty());
  EXPECT_EQ(sample.completion.kind, ValueKind::image);
  EXPECT_THAT(sample.complete({"run", "web", "--limit", "nonsense", "--wa"}),
              ElementsAre("--wait"));
  EXPECT_THAT(sample.complete({"run", "web", "--", "--li"}), IsEmpty());
  EXPECT_EQ(sample.completion.kind, ValueKind::command);
}

TEST(Arguments, NearWordsAreFound) {
  const std::vector<std::string> known{"exec", "endpoint", "egress", "ps", "suspend"};
  EXPECT_EQ(did_you_mean("exce", known), "did you mean 'exec'?");
  EXPECT_EQ(did_you_mean("exek", known), "did you mean 'exec'?");
  EXPECT_EQ(did_you_mean("susp", known), "did you mean 'suspend'?");
  EXPECT_EQ(did_you_mean("pss", known), "did you mean 'ps'?");
  EXPECT_EQ(did_you_mean("tar", known), "");
  EXPECT_EQ(did_you_mean("", known), "");
}

}  // namespace
}  // namespace firebreak::cli
