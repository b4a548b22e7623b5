// A transcript of the command line: each command once, each error once, as words and what came of
// them. What needs no server is in tests/cli/usage_test.cpp.
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/sys.h"
#include "server/build_fixture.h"
#include "server/cli_fixture.h"

namespace firebreak::testing_support {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

struct Line {
  std::vector<std::string> words;  // "ID" is the microVM
  int status = 0;
  std::string out;  // patterns that must be found; "" is an empty output, ".*" any
  std::string err;
  std::string input = {};
};

std::string shown(const std::vector<std::string>& words) {
  std::string line = "firebreak";
  for (const std::string& word : words) line += " " + word;
  return line;
}

bool found(const std::string& pattern, const std::string& text) {
  if (pattern.empty()) return text.empty();
  return std::regex_search(text, std::regex(pattern));
}

void check(ServerProcess& server, const std::string& id, const std::vector<Line>& lines) {
  for (const Line& line : lines) {
    std::vector<std::string> words;
    for (const std::string& word : line.words)
      words.push_back(std::regex_replace(word, std::regex("^ID(?=$|:)"), id));
    const auto done = server.cli(words, line.input);
    EXPECT_EQ(done.status, line.status) << shown(words) << "\n" << done.err;
    EXPECT_TRUE(found(line.out, done.out)) << shown(words) << "\nprinted: " << done.out;
    EXPECT_TRUE(found(line.err, done.err)) << shown(words) << "\nsaid: " << done.err;
  }
}

constexpr const char* kId = "^microvm-[0-9a-f-]{36}\n$";
constexpr const char* kNoMicrovm = "^firebreak: (microvm-none: )?there is no microVM microvm-none";

TEST_F(Cli, TranscriptOfCommandsInAMicrovm) {
  check(*server, id,
        {
            {{"exec", "ID", "--", "sh", "-c", "echo out; echo err >&2; exit 7"},
             7,
             "^out\n$",
             "^err\n$"},
            {{"exec", "ID", "echo", "--json", "-i"}, 0, "^--json -i\n$", ""},
            {{"exec", "ID", "-e", "A=1", "-e", "B=2", "-w", "/tmp", "--", "sh", "-c",
              "echo $A$B; pwd"},
             0,
             "^12\n/tmp\n$",
             ""},
            {{"exec", "-u", "nobody", "ID", "id", "-un"}, 0, "^nobody\n$", ""},
            {{"exec", "-u", "nosuch", "ID", "id"}, 1, "", "user 'nosuch'"},
            {{"exec", "-i", "ID", "cat"}, 0, "^some input$", "", "some input"},
            {{"exec", "-t", "ID", "-e", "A=b", "--", "sh", "-c", "tty; echo $A; exit 4"},
             4,
             "^/dev/pts/[0-9]+\r\nb\r\n$",
             ""},
            {{"exec", "ID", "nosuch"}, 127, "", "^firebreak: no such program: nosuch"},
            {{"exec", "-i", "ID", "nosuch"}, 127, "", "^firebreak: no such program: nosuch"},
            {{"exec", "-t", "ID", "nosuch"}, 127, "", "^firebreak: no such program: nosuch"},
            {{"exec", "ID", "/etc/passwd"}, 126, "", "^firebreak: not executable: /etc/passwd"},
            {{"exec", "--timeout", "0.2", "ID", "sleep", "60"}, 124, "", "at its time limit"},
            {{"exec", "microvm-none", "true"}, 1, "", kNoMicrovm},
            {{"shell", "ID"}, 3, "^here\n$", "", "echo here; exit 3\n"},
            {{"shell", "ID", "-c", "cat; echo end"}, 0, "^in\nend\n$", "", "in\n"},
            {{"shell", "microvm-none"}, 1, "", kNoMicrovm},
            {{"code", "ID", "-c", "6*7"}, 0, "^42\n$", ""},
            {{"code", "ID"}, 0, "^84\n$", "", "print(42 * 2)"},
            {{"code", "ID", "-"}, 0, "^3\n$", "", "1 + 2"},
            {{"code", "ID", "-l", "bash", "-c", "echo $((6*7))"}, 0, "^42\n$", ""},
            {{"code", "ID", "-c", "1/0"}, 1, "", "ZeroDivisionError"},
            {{"code", "ID", "-c", "import time; time.sleep(60)", "--timeout", "0.3"},
             124,
             "",
             "timeout"},
            {{"code", "ID", "/nosuch.py"}, 1, "", "cannot read /nosuch.py"},
            {{"code", "microvm-none", "-c", "1"}, 1, "", kNoMicrovm},
            {{"logs", "ID"}, 0, ".*", ""},
            {{"logs", "microvm-none"}, 1, "", kNoMicrovm},
            {{"endpoint", "ID"}, 0, "^https://127.0.0.1:[0-9]+/vm/[0-9a-f-]+/\n$", ""},
            {{"endpoint", "ID", "--token", "8080"}, 0, "/\neyJ[^\n]+\n$", ""},
            {{"endpoint", "microvm-none"}, 1, "", kNoMicrovm},
            {{"token", "ID", "--port", "8080"}, 0, "^eyJ", ""},
            {{"token", "ID", "--list"}, 0, "^ID +KIND +PORTS", ""},
            {{"token", "ID", "--revoke", "nosuch"}, 1, "", "."},
            {{"port-forward", "microvm-none", "8080"}, 1, "", kNoMicrovm},
        });
}

TEST_F(Cli, TranscriptOfLives) {
  check(
      *server, id,
      {
          {{"ps"}, 0, "^ID +NAME +IMAGE +STATE +STARTED +REASON\n", ""},
          {{"ps", "-q"}, 0, id + "\n", ""},
          {{"ps", "-aq", "--filter", "state=running", "--filter", "image=python"}, 0, id, ""},
          {{"ps", "-q", "--filter", "state=suspended"}, 0, "", ""},
          {{"ps", "-q", "--filter", "image=python:9.0"}, 0, "", ""},
          {{"ps", "--json", "--filter", "tag=no=such"}, 0, R"(^\[\]\n$)", ""},
          {{"show", "ID"}, 0, R"("state":"RUNNING")", ""},
          {{"show", "microvm-none"}, 1, "", kNoMicrovm},
          {{"set", "ID", "--idle", "600", "--max", "86400"}, 0, kId, ""},
          {{"set", "ID", "--suspended", "60", "--idle-rule", "traffic"}, 0, kId, ""},
          {{"show", "ID"},
           0,
           R"("idle":\{"maxIdleSeconds":600,"suspendedSeconds":60,"autoResume":true,"rule":"traffic"\},"maxDurationSeconds":86400)",
           ""},
          {{"set", "ID", "--no-idle", "--no-max", "--json"}, 0, R"("idle":null)", ""},
          {{"set", "ID", "--suspended", "60"}, 1, "", "no idle policy .*; add --idle SECONDS"},
          {{"suspend", "ID", "microvm-none"}, 1, kId, kNoMicrovm},
          {{"ps", "-q", "--filter", "state=SUSPENDED"}, 0, id, ""},
          {{"resume", "ID"}, 0, kId, ""},
          {{"fork", "microvm-none"}, 1, "", kNoMicrovm},
          {{"kill", "microvm-none"}, 1, "", kNoMicrovm},
          {{"run", "nosuch"}, 1, "", "firebreak image ls"},
          {{"run", "python", "--egress", "nosuch"}, 1, "", "nosuch"},
          {{"run", "python", "--memory", "4096"}, 1, "", "fixed when an image is built"},
          {{"run", "python:7.0"}, 1, "", "7.0"},
          {{"run", "--rm", "python:latest", "--", "python3", "-c", "print(6*7)"}, 0, "^42\n$", ""},
          {{"run", "python:1.0", "--rm", "sh", "-c", "exit 9"}, 9, "", ""},
          {{"run", "--rm", "-i", "python", "--", "cat"}, 0, "^in$", "", "in"},
          {{"run", "--rm", "-t", "python", "--", "tty"}, 0, "^/dev/pts/", ""},
          {{"run", "--rm", "python", "nosuch"}, 127, "", "no such program"},
          {{"ps", "-q"}, 0, "^" + id + "\n$", ""},
          {{"usage"}, 0, "\ntotal ", ""},
          {{"check"}, 0, "^0 leaks\n$", ""},
      });
  const auto stays = server->cli({"run", "--tag", "job=demo", "python", "--", "echo", "done"});
  EXPECT_EQ(stays.out, "done\n");
  EXPECT_THAT(stays.err, HasSubstr(" runs on after the command"));
  const std::string other = trimmed(server->cli({"ps", "-q", "--filter", "tag=job=demo"}).out);
  EXPECT_THAT(stays.err, HasSubstr(other));
  EXPECT_EQ(trimmed(server->cli({"kill", other}).out), other);
}

TEST_F(Cli, TranscriptOfRulesAndKeys) {
  const std::string policy = R"({"rules": [{"action": "allow", "domain": "*.debian.org"}]})";
  const std::string role = R"({"Statement":{"Effect":"Allow","Action":"s3:Get*","Resource":"*"}})";
  check(*server, id,
        {
            {{"egress", "ls"}, 0, "^NAME +RULES\n(.*\n)*NO_EGRESS", ""},
            {{"egress", "set", "mine", "-"}, 0, "", "", policy},
            {{"egress", "set", "bad", "-"}, 1, "", ".", "{"},
            {{"egress", "set", "bad", "/nosuch.json"}, 1, "", "cannot read /nosuch.json"},
            {{"egress", "show", "mine"}, 0, "debian.org", ""},
            {{"egress", "show", "nosuch"}, 1, "", "nosuch"},
            {{"egress", "rm", "mine"}, 0, "", ""},
            {{"egress", "ID"}, 0, "^WHEN +EVENT", ""},
            {{"egress", "ID", "--limit", "5", "--json"}, 0, "decisions", ""},
            {{"egress", "microvm-none"}, 1, "", kNoMicrovm},
            {{"egress", "use", "microvm-none", "NO_EGRESS"}, 1, "", kNoMicrovm},
            {{"role", "set", "reader", "-"}, 0, "", "", role},
            {{"role", "ls"}, 0, "reader", ""},
            {{"role", "show", "reader"}, 0, "s3:Get", ""},
            {{"role", "rm", "reader"}, 0, "", ""},
            {{"role", "show", "reader"}, 1, "", "reader"},
            {{"tenant", "ls"}, 0, "^ACCOUNT +NAME +CREATED\n", ""},
            {{"tenant", "rm", "000000000000"}, 1, "", "."},
            {{"key", "ls"}, 0, "^ACCESS KEY +NAME +KIND", ""},
            {{"key", "rm", "nosuch"}, 1, "", "."},
            {{"secret", "set", "db", "/nonexistent"}, 1, "", "nonexistent"},
            {{"secret", "ls"}, 0, "^NAME +SET", ""},
            {{"secret", "rm", "nosuch"}, 1, "", "nosuch"},
            {{"quota", "show"}, 0, "launchesPerSecond", ""},
            {{"image", "ls"}, 0, "^NAME +STATE +OWNER", ""},
            {{"image", "ls", "-q"}, 0, "^python\n", ""},
            {{"image", "bases"}, 0, "firebreak/debian:12", ""},
            {{"image", "cache"}, 0, "^KEPT", ""},
            {{"image", "show", "python"}, 0, R"("versions")", ""},
            {{"image", "show", "nosuch"}, 1, "", "there is no image"},
            {{"image", "rm", "nosuch"}, 1, "", "there is no image"},
            {{"image", "history", "python"}, 1, "", "not built from a Dockerfile"},
            {{"image", "build", "x", "/nosuch"}, 1, "", "/nosuch"},
            {{"complete-words", "--", "exec", id.substr(0, 12)}, 0, "^" + id + "\n", ""},
            {{"complete-words", "--", "run", "pyt"}, 0, "^python\n", ""},
            {{"complete-words", "--", "egress", "show", "NO"}, 0, "^NO_EGRESS\n", ""},
        });
}

TEST_F(Cli, CopiesThroughPipesAndBetweenMicrovms) {
  const std::string other = trimmed(server->cli({"run", "python"}).out);
  check(*server, id,
        {
            {{"exec", "ID", "sh", "-c",
              "mkdir -p /srv/d/e; echo deep >/srv/d/e/f; chmod 640 /srv/d/e/f"},
             0,
             "",
             ""},
            {{"cp", "-", "ID:/srv/bytes"}, 0, "", "", "as they are"},
            {{"cp", "ID:/srv/bytes", "-"}, 0, "^as they are$", ""},
            {{"cp", "ID:/srv/bytes", other + ":/srv/"}, 0, "", ""},
            {{"cp", "ID:/srv/d", other + ":/srv/copy"}, 0, "", ""},
            {{"exec", other, "sh", "-c", "cat /srv/bytes /srv/copy/e/f; stat -c %a /srv/copy/e/f"},
             0,
             "^as they aredeep\n640\n$",
             ""},
            {{"cp", "ID:/nosuch", "-"}, 1, "", "/nosuch does not exist in the microVM"},
            {{"cp", "ID:/srv/bytes", "microvm-none:/x"}, 1, "", kNoMicrovm},
            {{"cp", "microvm-none:/x", "/tmp/x"}, 1, "", kNoMicrovm},
            {{"cp", "/nosuch-here", "ID:/x"}, 1, "", "/nosuch-here"},
        });
  const auto archive = server->cli({"cp", id + ":/srv/d", "-"});
  EXPECT_EQ(archive.status, 0) << archive.err;
  EXPECT_EQ(server->run({"/usr/bin/tar", "t"}, archive.out).out, "e/\ne/f\n");
  EXPECT_EQ(server->cli({"cp", "-", other + ":/srv/unpacked/"}, archive.out).status, 0);
  EXPECT_EQ(server->cli({"exec", other, "cat", "/srv/unpacked/e/f"}).out, "deep\n");
  EXPECT_EQ(server->cli({"kill", other}).status, 0);
}

TEST_F(Cli, RichResultsAreSaved) {
  const std::string saved = server->data_dir() + "/saved";
  const std::string code =
      "class P:\n  def _repr_html_(self): return '<b>hi</b>'\n"
      "  def _repr_png_(self): return b'\\x89PNG'\nP()";
  const auto done = server->cli({"code", id, "-c", code, "--save", saved});
  EXPECT_EQ(done.status, 0);
  EXPECT_THAT(done.err, HasSubstr("saved " + saved + "/result-1.png"));
  EXPECT_EQ(sys::read_file(saved + "/result-1.png").value_or(""), "\x89PNG");
  EXPECT_EQ(sys::read_file(saved + "/result-1.html").value_or(""), "<b>hi</b>");
  EXPECT_THAT(server->cli({"code", id, "-c", code}).out,
              HasSubstr("[png, 8 bytes; --save DIR writes it to a file]"));
}

TEST_F(Cli, InterruptedRunsLeaveNoMicrovm) {
  const std::string printed = server->data_dir() + "/interrupted-run";
  const auto done = server->run(
      {"/bin/bash", "-c",
       "set -m; " + ServerProcess::program() + " --data-dir " + server->data_dir() +
           " run --rm --tag job=interrupted python -- sh -c 'echo begun; sleep 1000' >" + printed +
           " & until grep -qs begun " + printed + "; do sleep 0.1; done; kill -INT $!; wait $!"});
  EXPECT_EQ(done.status, 130) << done.err;
  EXPECT_EQ(server->cli({"ps", "-q", "--filter", "tag=job=interrupted"}).out, "");
}

TEST_F(Cli, TheTerminalOfExecIsOurs) {
  Terminal terminal({ServerProcess::program(), "--data-dir", server->data_dir(), "exec", id, "-it",
                     "--", "sh", "-c", "stty size; read line; echo got-$line; exit 5"});
  EXPECT_TRUE(terminal.expect("30 100")) << terminal.seen();
  terminal.type("words\n");
  EXPECT_TRUE(terminal.expect("got-words")) << terminal.seen();
  EXPECT_EQ(terminal.wait(), 5);
}

// All that comes until the other side has ended, after we have sent and ended our side.
std::string talk(int port, const std::string& sent) {
  const UniqueFd connection(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(connection.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return "(cannot connect)";
  (void)sys::write_all(connection.get(), sent);
  ::shutdown(connection.get(), SHUT_WR);
  std::string all;
  char piece[4096];
  for (ssize_t count; (count = ::read(connection.get(), piece, sizeof piece)) > 0;)
    all.append(piece, static_cast<std::size_t>(count));
  return all;
}

TEST_F(Cli, PortsLeadIntoTheMicrovm) {
  // Answers only when its client has ended: a tunnel that ends both sides at once gives nothing.
  const std::string counts =
      "import socketserver, threading\n"
      "class H(socketserver.StreamRequestHandler):\n"
      "  def handle(self): self.wfile.write(b'%d bytes' % len(self.rfile.read()))\n"
      "s = socketserver.ThreadingTCPServer(('127.0.0.1', 4455), H)\n"
      "threading.Thread(target=s.serve_forever, daemon=True).start()\n";
  ASSERT_EQ(server->cli({"code", id, "-c", counts}).status, 0);
  Terminal forward(
      {ServerProcess::program(), "--data-dir", server->data_dir(), "port-forward", id, "0:4455"});
  ASSERT_TRUE(forward.expect("127.0.0.1:")) << forward.seen();
  const int port = std::atoi(forward.until(" leads to port 4455").c_str());
  ASSERT_GT(port, 0) << forward.seen();
  EXPECT_EQ(talk(port, std::string(300000, 'x')), "300000 bytes");
  EXPECT_EQ(talk(port, ""), "0 bytes");
  std::vector<std::thread> several;
  std::array<std::string, 5> answers;
  for (std::size_t i = 0; i < answers.size(); ++i)
    several.emplace_back([&answers, i, port] { answers[i] = talk(port, std::string(i, 'x')); });
  for (std::thread& one : several) one.join();
  for (std::size_t i = 0; i < answers.size(); ++i)
    EXPECT_EQ(answers[i], std::to_string(i) + " bytes");
  forward.type("\x03");
  EXPECT_EQ(forward.wait(), 0);
}

TEST_F(Cli, AllOfATenantAreKilledAtOnce) {
  auto tenant = parse_json_object(server->cli({"tenant", "add", "killers"}).out);
  ASSERT_TRUE(tenant);
  const std::string key(tenant->at("key").as_object().at("apiKey").as_string());
  const auto as_tenant = [&key](std::vector<std::string> words) {
    words.insert(words.begin(), {"/usr/bin/env", "FIREBREAK_API_KEY=" + key,
                                 ServerProcess::program(), "--data-dir", server->data_dir()});
    return server->run(words);
  };
  const std::string one = trimmed(as_tenant({"run", "python"}).out);
  const std::string two = trimmed(as_tenant({"run", "python"}).out);
  const auto killed = as_tenant({"kill", "--all"});
  EXPECT_EQ(killed.status, 0) << killed.err;
  EXPECT_THAT(killed.out, ::testing::AllOf(HasSubstr(one), HasSubstr(two)));
  EXPECT_EQ(as_tenant({"ps", "-q"}).out, "");
  EXPECT_EQ(as_tenant({"kill", "--all"}).out, "");
  EXPECT_THAT(server->cli({"ps", "-q"}).out, HasSubstr(id));
  EXPECT_EQ(server->cli({"tenant", "rm", std::string(tenant->at("accountId").as_string())}).status,
            0);
}

TEST_F(Cli, LoginKeepsServersForUsersWhoAreNotRoot) {
  const std::string home = server->data_dir() + "/home";
  std::filesystem::create_directories(home);
  const auto as_user = [&home](std::vector<std::string> words, const std::string& input = "") {
    words.insert(words.begin(), {"/usr/bin/env", "-u", "FIREBREAK_DATA_DIR", "HOME=" + home,
                                 ServerProcess::program()});
    return server->run(words, input);
  };
  const auto wrong = as_user({"login", server->url()}, "not-a-key\n");
  EXPECT_EQ(wrong.status, 1);
  EXPECT_THAT(wrong.err, HasSubstr("does not know this key"));
  const auto good =
      as_user({"login", server->url(), "--context", "here"}, server->api_key() + "\n");
  EXPECT_EQ(good.status, 0) << good.err;
  EXPECT_THAT(good.out, StartsWith("context here: tenant default ("));
  struct stat st{};
  ASSERT_EQ(::stat((home + "/.config/firebreak/config.json").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600U);
  EXPECT_THAT(as_user({"context", "ls"}).out, HasSubstr("*        here"));
  EXPECT_THAT(as_user({"ps", "-q"}).out, HasSubstr(id));
  EXPECT_THAT(as_user({"--context", "here", "ps", "-q"}).out, HasSubstr(id));
  EXPECT_THAT(as_user({"--context", "there", "ps"}).err, HasSubstr("known are: here"));
  EXPECT_EQ(as_user({"context", "use", "here"}).status, 0);
  EXPECT_EQ(as_user({"context", "rm", "here"}).status, 0);
  EXPECT_EQ(as_user({"context", "ls", "-q"}).out, "");
}

TEST_F(Cli, TranscriptOfImages) {
  const Context context(R"(FROM firebreak/debian:12
CMD ["sh", "-c", "for i in 1 2 3 4 5; do echo line $i; done; echo worse >&2; exec sleep 100000"]
)");
  const auto built = server->cli({"image", "build", "-t", "lines:v7", context.path()});
  ASSERT_EQ(built.status, 0) << built.err;
  EXPECT_EQ(built.out, "lines:1.0\n");
  EXPECT_THAT(built.err, HasSubstr("versions are numbered by the server; ':v7' is left out"));
  const std::string vm = trimmed(server->cli({"run", "lines"}).out);
  const auto last = [&](const std::string& count) {
    return server->cli({"logs", vm, "--tail", count});
  };
  // The log comes from the guest after the launch.
  for (int i = 0; i < 300 && !server->cli({"logs", vm}).err.contains("worse"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(server->cli({"logs", vm}).out, "line 1\nline 2\nline 3\nline 4\nline 5\n");
  EXPECT_EQ(last("3").out + last("3").err, "line 4\nline 5\nworse\n");
  EXPECT_EQ(last("0").out, "");
  Terminal followed({ServerProcess::program(), "--data-dir", server->data_dir(), "logs", "-f",
                     "--tail", "2", vm});
  EXPECT_TRUE(followed.expect("worse")) << followed.seen();
  EXPECT_EQ(server->cli({"kill", vm}).status, 0);
  EXPECT_EQ(followed.wait(), 0);
  check(*server, vm,
        {
            {{"image", "show", "lines:1.0"}, 0, R"("state":"SUCCESSFUL")", ""},
            {{"image", "history", "lines"}, 0, "^SECONDS +KIB +CACHED +STEP\n", ""},
            {{"image", "logs", "lines"}, 0, ".", ""},
            {{"image", "rm", "lines"}, 0, "", ""},
            {{"image", "ls", "-q"}, 0, "^python\n$", ""},
        });
}

// ---- What follows needs names, environments, listings by administrators and pruning in the
// server.

TEST_F(Cli, NamesAndPrefixesStandForIds) {
  const auto made = server->cli({"run", "python", "--name", "web-1"});
  ASSERT_EQ(made.status, 0) << made.err;
  const std::string vm = trimmed(made.out);
  check(*server, vm,
        {
            {{"exec", "web-1", "echo", "named"}, 0, "^named\n$", ""},
            {{"exec", vm.substr(0, 20), "echo", "begun"}, 0, "^begun\n$", ""},
            {{"exec", "-t", "web-1", "echo", "terminal"}, 0, "^terminal\r\n$", ""},
            {{"cp", "-", "web-1:/tmp/x"}, 0, "", "", "copied"},
            {{"cp", "web-1:/tmp/x", "-"}, 0, "^copied$", ""},
            {{"show", "web-1"}, 0, vm, ""},
            {{"ps", "--filter", "name=web-1"}, 0, vm + " +web-1 +python:1.0", ""},
            {{"run", "python", "--name", "web-1"}, 1, "", "web-1"},
            {{"set", "web-1", "--name", "web-2"}, 0, kId, ""},
            {{"show", "web-1"}, 1, "", "web-1"},
            {{"set", "web-2", "--no-name"}, 0, kId, ""},
            {{"kill", "ID"}, 0, kId, ""},
        });
}

TEST_F(Cli, EnvironmentOfARunReachesItsCommands) {
  check(*server, id,
        {
            {{"run", "--rm", "-e", "A=b", "python", "--", "sh", "-c", "echo $A"}, 0, "^b\n$", ""},
            {{"run", "--rm", "-t", "-e", "A=b", "python", "--", "sh", "-c", "echo $A"},
             0,
             "^b\r\n$",
             ""},
        });
}

TEST_F(Cli, AdministratorsListMicrovmsOfOthers) {
  check(*server, id,
        {
            {{"ps", "--tenant", "all"}, 0, "^TENANT +ID +NAME(.*\n)*.*" + id, ""},
            {{"ps", "-q", "--tenant", "all"}, 0, id, ""},
        });
}

TEST_F(Cli, VersionsThatAreNotNeededArePruned) {
  const Context context("FROM firebreak/debian:12\nENV V=1\n");
  ASSERT_EQ(server->cli({"image", "build", "pruned", context.path()}).out, "pruned:1.0\n");
  const auto same = server->cli({"image", "build", "pruned", context.path()});
  EXPECT_EQ(same.out, "pruned:1.0\n");
  EXPECT_THAT(same.err, HasSubstr("nothing has changed since pruned:1.0 was built"));
  ASSERT_EQ(server->cli({"image", "build", "--no-cache", "pruned", context.path()}).out,
            "pruned:2.0\n");
  check(*server, id,
        {
            {{"image", "prune", "pruned"}, 0, "^pruned:1.0\n$", ""},
            {{"image", "prune"}, 0, "", ""},
            {{"image", "prune", "nosuch"}, 1, "", "there is no image"},
            {{"image", "rm", "pruned"}, 0, "", ""},
        });
}

}  // namespace
}  // namespace firebreak::testing_support
