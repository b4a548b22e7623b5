// What the program says about its own use, without a server: wrong words and their repair, help of
// every command, completion, contexts.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/text.h"
#include "cli/program.h"

namespace firebreak::testing_support {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string line_of(const std::vector<std::string>& words) {
  std::string line = "firebreak";
  for (const std::string& word : words) line += " " + word;
  return line;
}

struct Wrong {
  std::vector<std::string> words;
  std::string says;
};

TEST(Usage, WrongWordsEndWithStatusTwoAndTheRepair) {
  const std::vector<Wrong> cases{
      {{"exce"}, "unknown command 'exce'; did you mean 'exec'?"},
      {{"stop"}, "did you mean 'kill'?"},
      {{"image", "lst"}, "unknown command 'image lst'; did you mean 'image ls'?"},
      {{"image"}, "'firebreak image' needs a command: build, ls,"},
      {{"ps", "x"}, "'x' is one word too many"},
      {{"run"}, "IMAGE is missing"},
      {{"run", "web", "--idel", "5"}, "did you mean '--idle'?"},
      {{"run", "web", "--max", "0"}, "leave it out for no limit"},
      {{"run", "web", "--idle", "0"}, "leave it out for a microVM that is never suspended"},
      {{"run", "web", "--suspended", "9"}, "--suspended means nothing without --idle"},
      {{"run", "web", "--idle-rule", "work"}, "--idle-rule means nothing without --idle"},
      {{"run", "web", "--no-auto-resume"}, "--no-auto-resume means nothing without --idle"},
      {{"run", "web", "--idle", "5", "--idle-rule", "wrok"}, "did you mean 'work'?"},
      {{"run", "web", "--tag", "a"}, "--tag must be KEY=VALUE, not 'a'"},
      {{"run", "web", "--name", "Big"}, "--name must be 1 to 63 of a-z"},
      {{"run", "web", "--memory", "513"}, "--memory must be 512, 1024, 2048, 4096 or 8192"},
      {{"run", "web:1.0", "--version", "2.0"}, "leave one of them out"},
      {{"run", "web:1"}, "versions are 1.0, 2.0 and so on"},
      {{"run", "--rm", "web"}, "write 'firebreak run --rm IMAGE -- COMMAND', or -it for a shell"},
      {{"run", "-i", "web"}, "there is no COMMAND to pass input to"},
      {{"run", "-e", "A=b", "web"}, "the application of the image runs already in its snapshot"},
      {{"run", "-e", "A", "web", "env"}, "--env must be NAME=VALUE"},
      {{"run", "--json", "web", "--", "x"}, "--json and COMMAND exclude each other"},
      {{"run", "-it", "web", "--", "sh"}, "-t with -i needs a terminal"},
      {{"exec"}, "ID is missing"},
      {{"exec", "box"}, "write 'firebreak exec ID -- COMMAND'"},
      {{"exec", "box", "--timeout", "-5", "--", "x"}, "leave it out for no time limit"},
      {{"exec", "box", "--timeout", "0", "x"}, "leave it out for no time limit"},
      {{"exec", "-t", "--timeout", "5", "box", "x"}, "--tty and --timeout exclude each other"},
      {{"exec", "-it", "box", "sh"}, "standard input is none; leave -t out"},
      {{"exec", "-e", "A", "box", "x"}, "--env must be NAME=VALUE, not 'A'"},
      {{"code", "box", "file.py", "-c", "1"}, "--code and FILE exclude each other"},
      {{"code", "box", "--timeout", "0"}, "leave it out for no time limit"},
      {{"code", "box", "-l", "pyhton"}, "did you mean 'python'?"},
      {{"cp", "a", "b"}, "write one of them as ID:PATH"},
      {{"cp", "box:/x"}, "TARGET is missing"},
      {{"fork", "box", "-n", "65"}, "--count must be a whole number from 1 to 64"},
      {{"kill"}, "--all ends all of yours"},
      {{"kill", "--all", "box"}, "name microVMs, or give --all"},
      {{"set", "box"}, "nothing to change"},
      {{"set", "box", "--idle", "5", "--no-idle"}, "--no-idle and --idle exclude each other"},
      {{"ps", "--filter", "color=red"}, "use state=STATE, image=NAME, name=NAME or tag=KEY=VALUE"},
      {{"ps", "--filter", "state=asleep"}, "use pending, running"},
      {{"ps", "--filter", "tag=x"}, "tag=KEY=VALUE"},
      {{"ps", "-q", "--json"}, "--quiet and --json exclude each other"},
      {{"logs", "box", "--tail", "-1"}, "--tail must be a whole number"},
      {{"port-forward", "box", "99999"}, "9000:8080"},
      {{"token", "box"}, "give --port N, --port '*' or --shell"},
      {{"token", "box", "--port", "1", "--shell"}, "--port and --shell exclude each other"},
      {{"token", "box", "--port", "1", "--expires", "0"}, "tokens live for seven days at most"},
      {{"egress"}, "name a microVM, or one of the commands"},
      {{"egress", "tenant", "1"}, "give --default NAME, --maximum NAME, or both"},
      {{"image", "build"}, "NAME and DIR are missing"},
      {{"image", "build", "web"}, "DIR is missing"},
      {{"image", "build", "-t", "web", "a", "b"}, "with -t, give DIR alone"},
      {{"image", "build", "web", ".", "--memory", "100"}, "--memory must be 512"},
      {{"image", "build", "web", ".", "--build-arg", "A"}, "--build-arg must be NAME=VALUE"},
      {{"quota", "set", "1", "microvms"}, "'microvms' is not LIMIT=N"},
      {{"quota", "set", "1", "microvms=x"}, "write microvms=10"},
      {{"completion", "ksh"}, "SHELL must be bash, zsh or fish"},
      {{"help", "exce"}, "did you mean 'exec'?"},
      {{"serve", "--lisen", "x"}, "did you mean '--listen'?"},
      {{"serve", "--log-level", "shout"}, "shout"},
      {{"--context", "a", "--data-dir", "/b", "ps"}, "--context and --data-dir exclude each other"},
  };
  const Program firebreak;
  for (const auto& [words, says] : cases) {
    const Printed printed = firebreak(words);
    EXPECT_EQ(printed.status, 2) << line_of(words);
    EXPECT_EQ(printed.out, "") << line_of(words);
    EXPECT_THAT(printed.err, AllOf(StartsWith("firebreak: "), HasSubstr(says))) << line_of(words);
    EXPECT_EQ(printed.err.find('\n'), printed.err.size() - 1) << "one line: " << line_of(words);
  }
}

TEST(Usage, TheConfigurationFileIsChecked) {
  const Program firebreak;
  const std::string file = firebreak.home() + "/firebreak.toml";
  const std::vector<std::pair<std::string, std::string>> cases{
      {"lisen = \"127.0.0.1:1\"\n",
       file + ": 'lisen' is not an option of serve; did you mean 'listen'?"},
      {"log-level = \"shout\"\n", file + ": --log-level must be debug, info, warn or error"},
      {"overcommit = 65\n", file + ": --overcommit must be a whole number from 1 to 64"},
      {"[table]\nlisten = \"x\"\n", file + ": 'table.listen' is not an option of serve"},
      {"listen = [\"a\", \"b\"]\n", file + ": 'listen' is not an option of serve"},
      // Several of this one are fine; what is wrong comes after it.
      {"build-env = [\"A=1\", \"B=2\"]\nlog-level = \"shout\"\n", "--log-level must be"},
  };
  for (const auto& [text, says] : cases) {
    std::ofstream(file) << text;
    const Printed printed = firebreak({"serve", "--config", file});
    EXPECT_EQ(printed.status, 2) << text;
    EXPECT_THAT(printed.err, HasSubstr(says)) << text;
  }
  EXPECT_THAT(firebreak({"serve", "--config", "/nosuch.toml"}).err,
              HasSubstr("cannot read the configuration /nosuch.toml"));
  // A word comes before the file.
  std::ofstream(file) << "log-level = \"shout\"\noverlap = 1\n";
  EXPECT_THAT(firebreak({"serve", "--config", file, "--log-level", "info"}).err,
              HasSubstr("'overlap' is not an option"));
  EXPECT_THAT(
      firebreak({"serve", "--build-env", "A=1", "--build-env=B=2", "--log-level", "shout"}).err,
      HasSubstr("--log-level must be"));
}

// Commands that the help of a command lists, as words.
std::vector<std::string> listed(const std::string& help) {
  std::vector<std::string> names;
  bool within = false;
  for (const std::string_view line : split(help, '\n')) {
    const bool heading = line.ends_with(':') && !line.starts_with(' ');
    if (heading) within = line != "Options:" && line != "Examples:" && line != "Arguments:";
    if (within && line.starts_with("  ") && !line.starts_with("   "))
      names.emplace_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return names;
}

void check_help(const Program& firebreak, std::vector<std::string> words) {
  const std::string line = line_of(words);
  std::vector<std::string> asked = words;
  asked.emplace_back("--help");
  const Printed help = firebreak(asked);
  EXPECT_EQ(help.status, 0) << line;
  EXPECT_EQ(help.err, "") << line;
  EXPECT_THAT(help.out, HasSubstr("\n\nUsage: " + line)) << line;
  const auto examples = help.out.find("\nExamples:\n");
  ASSERT_NE(examples, std::string::npos) << line;
  const std::string rest = help.out.substr(examples + 11);
  EXPECT_GE(std::ranges::count(rest, '\n'), 2) << "two examples: " << line;
  for (const std::string_view text : split(help.out, '\n'))
    EXPECT_LE(text.size(), 110U) << line << ": " << text;
  words.insert(words.begin(), "help");
  EXPECT_EQ(firebreak(words).out, help.out) << line;
  words.erase(words.begin());
  for (const std::string& name : listed(help.out)) {
    words.push_back(name);
    check_help(firebreak, words);
    words.pop_back();
  }
}

TEST(Usage, EveryCommandHasHelpWithUsageAndTwoExamples) {
  const Program firebreak;
  const Printed all = firebreak({"help"});
  EXPECT_EQ(all.status, 0);
  EXPECT_THAT(listed(all.out), ::testing::IsSupersetOf({"run", "exec", "image", "serve", "login"}));
  check_help(firebreak, {});
}

TEST(Usage, TheVersionIsPrinted) {
  const Program firebreak;
  EXPECT_THAT(firebreak({"version"}).out, StartsWith("firebreak "));
  EXPECT_EQ(firebreak({"--version"}).out, firebreak({"version"}).out);
  const Printed nothing = firebreak({});
  EXPECT_EQ(nothing.status, 2);
  EXPECT_THAT(nothing.err, HasSubstr("Usage: firebreak"));
}

TEST(Usage, ShellsAreToldWhatMayFollow) {
  const Program firebreak;
  const auto offered = [&firebreak](std::vector<std::string> words) {
    words.insert(words.begin(), {"complete-words", "--"});
    std::string all;
    for (const std::string_view line : split(firebreak(words).out, '\n'))
      all += std::string(line.substr(0, line.find('\t'))) + " ";
    return all;
  };
  EXPECT_EQ(offered({"sus"}), "suspend  ");
  EXPECT_EQ(offered({"run", "--idle-rule", ""}), "work traffic  ");
  EXPECT_THAT(offered({"serve", "--end"}), HasSubstr("--endpoint-listen"));
  EXPECT_EQ(offered({"code", "box", "x"}), ":file  ");
  EXPECT_EQ(offered({"exec", ""}), " ");  // no server, no names, no error
  for (const char* shell : {"bash", "zsh", "fish"})
    EXPECT_THAT(firebreak({"completion", shell}).out, HasSubstr("complete-words --"));
}

TEST(Usage, BashCompletesThroughItsScript) {
  const Program firebreak;
  const std::string script = firebreak.home() + "/completion";
  std::ofstream(script) << firebreak({"completion", "bash"}).out;
  const std::string program = environment_or_die("FIREBREAK_BUILD_DIR") + "/firebreak";
  const std::string output = firebreak.home() + "/output";
  const std::string ask =
      "source " + script +
      "; ask() { COMP_LINE=$1 COMP_POINT=${#1}; _firebreak; echo \"${COMPREPLY[*]}\"; "
      "}; { ask '" +
      program + " run --idle-rule='; ask '" + program + " image bu'; ask '" + program + " cp " +
      firebreak.home() + "/compl'; } >" + output;
  ASSERT_EQ(std::system(("bash -c \"$(cat <<'END'\n" + ask + "\nEND\n)\"").c_str()), 0);
  EXPECT_EQ(sys::read_file(output).value_or(""),
            "work traffic\nbuild\n" + firebreak.home() + "/completion\n");
}

TEST(Usage, FishCompletesThroughItsScript) {
  const Program firebreak;
  const std::string output = firebreak.home() + "/output";
  const std::string ask = "fish --no-config -c 'set PATH " +
                          environment_or_die("FIREBREAK_BUILD_DIR") +
                          " $PATH; firebreak completion fish | source; complete -C \"firebreak "
                          "image bu\"; complete -C \"firebreak run --idle-rule \"' >" +
                          output;
  ASSERT_EQ(std::system(ask.c_str()), 0);
  EXPECT_THAT(sys::read_file(output).value_or(""),
              AllOf(StartsWith("build\t"), HasSubstr("\ntraffic\nwork\n")));
}

// A person at a terminal: zsh completes only there.
TEST(Usage, ZshCompletesThroughItsScript) {
  const Program firebreak;
  const std::string script = firebreak.home() + "/person";
  std::ofstream(script) << R"sh(zmodload zsh/zpty
zpty shell 'TERM=dumb zsh -f -i'
zpty -w shell "PATH=$1:\$PATH; autoload -U compinit; compinit -u -D; eval \"\$(firebreak completion zsh)\"; print re\"\"ady"
zpty -r -m shell out '*ready*'
zpty -w -n shell $'firebreak image bu\t'
zpty -r -m shell out '*image build*'
zpty -w -n shell $'\C-ufirebreak run --idle-rule tr\t'
zpty -r -m shell out '*idle-rule traffic*'
zpty -d shell
)sh";
  EXPECT_EQ(
      std::system(("timeout 120 zsh -f " + script + " " + environment_or_die("FIREBREAK_BUILD_DIR"))
                      .c_str()),
      0);
}

TEST(Usage, ServersThatAreNotThereAreNamedHonestly) {
  Program firebreak;
  const Printed none = firebreak({"ps"});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, AllOf(HasSubstr("no server is running on"), HasSubstr("firebreak login")));
  EXPECT_THAT(firebreak({"--context", "work", "ps"}).err,
              HasSubstr("there is no context 'work'; make one with 'firebreak login URL --context "
                        "work'"));
  EXPECT_THAT(firebreak({"login", "example.com"}, "key\n").err, HasSubstr("https://HOST:PORT"));
  EXPECT_THAT(firebreak({"login", "http://127.0.0.1:1"}).err, HasSubstr("no key was given"));
  EXPECT_THAT(firebreak({"login", "http://127.0.0.1:1"}, "key\n").err,
              HasSubstr("cannot reach the server at http://127.0.0.1:1"));
  EXPECT_THAT(firebreak({"context", "ls"}).out, StartsWith("CURRENT  NAME  URL\n"));
  firebreak.set("FIREBREAK_URL=http://127.0.0.1:1");
  EXPECT_THAT(firebreak({"ps"}).err, HasSubstr("credentials.json is not there"));
  firebreak.set("FIREBREAK_API_KEY=x");
  EXPECT_THAT(firebreak({"ps"}).err, HasSubstr("cannot reach the server at http://127.0.0.1:1"));
}

TEST(Usage, FilesOfRootAreNotTakenForAServerThatIsDown) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can make files that another user cannot read";
  const Program firebreak;
  const std::string data = firebreak.home() + "/none";
  std::filesystem::create_directories(data);
  std::ofstream(data + "/server.json") << R"({"url": "http://127.0.0.1:1"})";
  ::chmod((data + "/server.json").c_str(), 0600);
  ::chmod(firebreak.home().c_str(), 0755);
  const std::string program = environment_or_die("FIREBREAK_BUILD_DIR") + "/firebreak";
  const std::string output = firebreak.home() + "/output";
  const int status = std::system(("setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/ "
                                  "FIREBREAK_DATA_DIR=" +
                                  data + " " + program + " ps 2>" + output)
                                     .c_str());
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_THAT(sys::read_file(output).value_or(""),
              AllOf(HasSubstr("server.json can be read by root only"), HasSubstr("run as root"),
                    HasSubstr("FIREBREAK_API_KEY"), HasSubstr("firebreak login URL")));
}

}  // namespace
}  // namespace firebreak::testing_support
