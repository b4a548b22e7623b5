// The command line against a real server, and its terminal through a pseudo-terminal.
#include <algorithm>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "server/cli_fixture.h"

namespace firebreak::testing_support {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

TEST_F(Cli, ExecGivesOutputAndStatus) {
  const auto done = server->cli({"exec", id, "--", "sh", "-c", "echo out; echo err >&2; exit 7"});
  EXPECT_EQ(done.status, 7);
  EXPECT_EQ(done.out, "out\n");
  EXPECT_EQ(done.err, "err\n");
  EXPECT_EQ(server->cli({"exec", id, "--", "sh", "-c", "kill -9 $$"}).status, 137);
  EXPECT_EQ(server->cli({"exec", "--timeout", "0.3", id, "--", "sleep", "60"}).status, 124);
  EXPECT_EQ(
      server->cli({"exec", "-e", "A=b c", "-w", "/tmp", id, "--", "sh", "-c", "echo $A; pwd"}).out,
      "b c\n/tmp\n");
}

TEST_F(Cli, WhatACommandLeavesInTheBackgroundGoesOn) {
  const auto left =
      server->cli({"exec", id, "--", "sh", "-c", "sleep 600 >/dev/null 2>&1 & echo $!"});
  EXPECT_EQ(left.status, 0) << left.err;
  EXPECT_EQ(server->cli({"exec", id, "--", "kill", "-9", trimmed(left.out)}).status, 0);
}

TEST_F(Cli, ExecPassesStdinOn) {
  std::string input;
  for (int i = 0; i < 200000; ++i) input += "line " + std::to_string(i) + "\n";
  const auto done = server->cli({"exec", "-i", id, "--", "md5sum"}, input);
  EXPECT_EQ(done.status, 0) << done.err;
  EXPECT_EQ(server->cli({"exec", "-i", id, "--", "wc", "-c"}, input).out,
            std::to_string(input.size()) + "\n");
  const auto some = server->cli({"exec", "-i", id, "--", "head", "-c", "6"}, input);
  EXPECT_EQ(some.status, 0) << some.err;
  EXPECT_EQ(some.out, "line 0");
}

TEST_F(Cli, CodeKeepsStateAndShowsErrors) {
  EXPECT_EQ(server->cli({"code", id, "-c", "a = 20"}).status, 0);
  EXPECT_EQ(server->cli({"code", id, "-c", "print('p'); a + 1"}).out, "p\n21\n");
  EXPECT_EQ(server->cli({"code", id}, "a * 2").out, "40\n");
  const auto error = server->cli({"code", id, "-c", "raise ValueError('bad')"});
  EXPECT_EQ(error.status, 1);
  EXPECT_THAT(error.err, HasSubstr("ValueError: bad"));
}

TEST_F(Cli, CodeSaysThatTheVariablesAreGone) {
  const auto kept = server->cli({"code", id, "--context", "default", "-c", "c = 1"});
  EXPECT_EQ(kept.status, 0);
  EXPECT_EQ(kept.err, "");
  EXPECT_EQ(server->cli({"code", id, "-c", "import os; os._exit(3)"}).status, 1);
  const auto next = server->cli({"code", id, "-c", "'c' in globals()"});
  EXPECT_EQ(next.out, "False\n");
  EXPECT_EQ(next.err, "firebreak: the interpreter was restarted; its variables are gone\n");
  EXPECT_EQ(server->cli({"code", id, "-c", "1"}).err, "");
}

TEST_F(Cli, CtrlCInterruptsTheCodeAndItsLastWordsArrive) {
  const std::string printed = server->data_dir() + "/interrupted";
  const std::string code = "import time\nb = 7\nprint('begun')\ntime.sleep(3600)";
  const std::string command = ServerProcess::program() + " --data-dir " + server->data_dir() +
                              " code " + id + " -c \"$CODE\" >" + printed + " & ";
  const auto done =
      server->run({"/bin/bash", "-c",
                   "set -m; CODE=\"" + code + "\"; " + command + "until grep -q begun " + printed +
                       "; do sleep 0.1; done; kill -INT $!; wait $!"});
  EXPECT_EQ(done.status, 130) << done.err;
  EXPECT_THAT(done.err, HasSubstr("KeyboardInterrupt"));
  EXPECT_EQ(server->cli({"code", id, "-c", "b"}).out, "7\n");
}

TEST_F(Cli, CopiesBothWays) {
  const std::string here = server->data_dir() + "/cp";
  fs::create_directories(here + "/dir/sub");
  std::ofstream(here + "/file") << std::string("with\0zero", 9);
  std::ofstream(here + "/dir/sub/x") << "deep";
  EXPECT_EQ(server->cli({"cp", here + "/file", id + ":/tmp/"}).status, 0);
  EXPECT_EQ(server->cli({"cp", id + ":/tmp/file", here + "/back"}).status, 0);
  std::ifstream back(here + "/back");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(back), {}), std::string("with\0zero", 9));
  EXPECT_EQ(server->cli({"cp", here + "/dir", id + ":/opt/new"}).status, 0);
  EXPECT_EQ(server->cli({"exec", id, "--", "cat", "/opt/new/sub/x"}).out, "deep");
  EXPECT_EQ(server->cli({"cp", id + ":/opt/new", here + "/out"}).status, 0);
  EXPECT_TRUE(fs::exists(here + "/out/sub/x"));
  const auto missing = server->cli({"cp", id + ":/nope", here + "/x"});
  EXPECT_EQ(missing.status, 1);
  EXPECT_THAT(missing.err, HasSubstr("/nope"));
  EXPECT_EQ(server->cli({"cp", "a", "b"}).status, 2);
}

TEST_F(Cli, AGuestCannotMakeACopyLeaveItsTarget) {
  const std::string here = server->data_dir() + "/planted";
  const std::string victim = here + "/victim";
  const std::string to = here + "/to";
  fs::create_directories(victim);
  fs::create_directories(to);
  std::ofstream(victim + "/key") << "mine";
  const auto in_guest = [](const std::string& script) {
    const auto done = server->cli({"exec", id, "--", "sh", "-ec", script});
    EXPECT_EQ(done.status, 0) << done.err;
  };
  const auto text_in = [](const std::string& path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  in_guest("mkdir /srv/p; cd /srv/p; echo one >f; ln -s f near; mkfifo pipe; ln -s " + victim +
           " out; ln -s " + victim + "/key f.part; ln -s ../victim up");
  const auto first = server->cli({"cp", id + ":/srv/p/.", to});
  EXPECT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(first.err, HasSubstr("3 links that lead out of the target"));
  EXPECT_THAT(first.err, HasSubstr("1 pipes and devices"));
  EXPECT_FALSE(fs::is_symlink(to + "/out"));
  EXPECT_TRUE(fs::is_symlink(to + "/near"));
  EXPECT_FALSE(fs::exists(to + "/pipe"));
  // The guest has changed what it shows, and here lies what an older client left.
  in_guest("cd /srv/p; rm out; mkdir out; echo evil >out/key; echo two >f");
  for (const auto& [name, target] : {std::pair("out", ""), {"f.part", "/key"}, {"f", "/key"}}) {
    fs::remove(to + "/" + name);
    fs::create_symlink(victim + target, to + "/" + name);
  }
  EXPECT_EQ(server->cli({"cp", id + ":/srv/p/f", to}).status, 0);
  EXPECT_EQ(text_in(to + "/f"), "two\n");
  EXPECT_EQ(server->cli({"cp", id + ":/srv/p/out", to}).status, 0);
  EXPECT_EQ(text_in(to + "/out/key"), "evil\n");
  EXPECT_EQ(server->cli({"cp", id + ":/srv/p/.", to}).status, 0);
  EXPECT_EQ(text_in(victim + "/key"), "mine");
  EXPECT_EQ(std::distance(fs::directory_iterator(victim), {}), 1);
}

TEST_F(Cli, ListsAndJson) {
  EXPECT_THAT(server->cli({"ps"}).out, HasSubstr(id));
  auto list = parse_json(server->cli({"ps", "--json"}).out);
  ASSERT_TRUE(list);
  EXPECT_TRUE(list->is_array());
  EXPECT_THAT(server->cli({"image", "ls"}).out, HasSubstr("python"));
  EXPECT_THAT(server->cli({"image", "cache"}).out,
              ::testing::AllOf(::testing::StartsWith("KEPT"), HasSubstr("\nlayers ")));
  EXPECT_TRUE(json::parse(server->cli({"image", "cache", "--json"}).out)
                  .as_object()
                  .contains("layerBytes"));
  EXPECT_EQ(server->cli({"check"}).out, "0 leaks\n");
  EXPECT_THAT(server->cli({"usage"}).out, HasSubstr("total"));
}

TEST_F(Cli, ErrorsSayWhatToDo) {
  const auto unknown = server->cli({"exec", "microvm-none", "--", "true"});
  EXPECT_EQ(unknown.status, 1);
  EXPECT_THAT(unknown.err, HasSubstr("there is no microVM"));
  EXPECT_THAT(server->cli({"run", "nope"}).err, HasSubstr("firebreak image ls"));
  EXPECT_EQ(server->cli({"frobnicate"}).status, 2);
}

TEST_F(Cli, EventsAndLogsAreFollowed) {
  const std::string vm = trimmed(server->cli({"run", "python"}).out);
  Terminal events({ServerProcess::program(), "--data-dir", server->data_dir(), "events"});
  // It tells from when it is connected on, which is not to be seen.
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(server->cli({"suspend", vm}).status, 0);
    EXPECT_EQ(server->cli({"resume", vm}).status, 0);
  }
  EXPECT_TRUE(events.expect(R"("to":"SUSPENDED")")) << events.seen();
  EXPECT_EQ(server->cli({"logs", vm}).status, 0);
  Terminal logs({ServerProcess::program(), "--data-dir", server->data_dir(), "logs", "-f", vm});
  EXPECT_EQ(server->cli({"kill", vm}).status, 0);
  EXPECT_TRUE(events.expect(R"("to":"TERMINATED")")) << events.seen();
  EXPECT_EQ(logs.wait(), 0);  // it ends with the microVM
}

TEST_F(Cli, TenantsKeysAndLimitsAreManaged) {
  auto tenant = parse_json_object(server->cli({"tenant", "add", "cli-tenant"}).out);
  ASSERT_TRUE(tenant);
  const std::string account(tenant->at("accountId").as_string());
  EXPECT_THAT(server->cli({"tenant", "ls"}).out, HasSubstr(account));
  const auto limits = server->cli({"quota", "set", account, "microvms=7"});
  EXPECT_EQ(limits.status, 0) << limits.err;
  EXPECT_THAT(limits.out, HasSubstr("\"microvms\":7"));
  // Those that are not named stay.
  EXPECT_THAT(server->cli({"quota", "set", account, "images=3"}).out, HasSubstr("\"microvms\":7"));
  EXPECT_EQ(server->cli({"quota", "set", account, "microvms"}).status, 2);
  EXPECT_THAT(server->cli({"quota", "show"}).out, HasSubstr("launchesPerSecond"));
  auto key = parse_json_object(server->cli({"key", "add", "second", "--tenant", account}).out);
  ASSERT_TRUE(key);
  const std::string id(key->at("accessKeyId").as_string());
  EXPECT_EQ(server->cli({"key", "ls"}).out.find(id), std::string::npos);
  EXPECT_THAT(server->cli({"key", "ls", "--tenant", account}).out, HasSubstr("second"));
  EXPECT_EQ(server->cli({"key", "rm", id}).status, 1);
  EXPECT_EQ(server->cli({"key", "rm", id, "--tenant", account}).status, 0);
  EXPECT_EQ(server->call_as(std::string(key->at("apiKey").as_string()), "GET", "/v1/tenant").status,
            401);
  EXPECT_EQ(server->cli({"tenant", "rm", account}).status, 0);
  EXPECT_EQ(server->cli({"tenant", "ls"}).out.find(account), std::string::npos);
}

TEST_F(Cli, ShowTellsWhatAMicrovmIsAndMemoryIsTheImages) {
  const auto shown = server->cli({"show", id});
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(shown.out, HasSubstr("RUNNING"));
  EXPECT_THAT(shown.out, HasSubstr(id));
  const auto other = server->cli({"run", "python", "--memory", "4096"});
  EXPECT_EQ(other.status, 1);
  EXPECT_THAT(other.err, HasSubstr("fixed when an image is built"));
  const std::string fits = trimmed(server->cli({"run", "python", "--memory", "512"}).out);
  EXPECT_THAT(fits, ::testing::StartsWith("microvm-"));
  EXPECT_EQ(server->cli({"kill", fits}).status, 0);
}

TEST_F(Cli, TheConfigurationFileIsRead) {
  const std::string file = server->data_dir() + "/firebreak.toml";
  std::ofstream(file) << "log-level = \"shout\"\n";
  const auto bad_value = server->cli({"serve", "--config", file});
  EXPECT_EQ(bad_value.status, 2);
  EXPECT_THAT(bad_value.err, HasSubstr("shout"));
  std::ofstream(file) << "lisen = \"127.0.0.1:1\"\n";
  const auto bad_key = server->cli({"serve", "--config", file});
  EXPECT_EQ(bad_key.status, 2);
  EXPECT_THAT(bad_key.err, HasSubstr("lisen"));
  // The same directory is served already, which is found out only after the file was read.
  std::ofstream(file) << "data-dir = \"" << server->data_dir() << "\"\n";
  const auto second = server->cli({"serve", "--config", file});
  EXPECT_EQ(second.status, 1);
}

TEST_F(Cli, RolesAreSetShownUsedAndRemoved) {
  const std::string policy =
      R"({"Statement":{"Effect":"Allow","Action":"s3:Get*","Resource":"*"}})";
  const auto set = server->cli({"role", "set", "reader", "-"}, policy);
  EXPECT_EQ(set.status, 0) << set.err;
  EXPECT_THAT(server->cli({"role", "ls"}).out, HasSubstr(":role/reader"));
  EXPECT_THAT(server->cli({"role", "show", "reader"}).out, HasSubstr("s3:Get*"));
  const std::string with_role = trimmed(server->cli({"run", "python", "--role", "reader"}).out);
  EXPECT_EQ(server->call("GET", "/v1/microvms/" + with_role).text_of("role"), "reader");
  EXPECT_EQ(server->cli({"kill", with_role}).status, 0);
  EXPECT_EQ(server->cli({"role", "rm", "reader"}).status, 0);
  const auto none = server->cli({"run", "python", "--role", "reader"});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, HasSubstr("firebreak role ls"));
  EXPECT_EQ(server->cli({"role", "set", "reader", "-"}, "{}").status, 1);
}

TEST_F(Cli, TheTextLogHoldsNoSecrets) {
  const std::string vm =
      trimmed(server->cli({"run", "python", "--payload", "secret-of-the-payload"}).out);
  server->cli({"exec", "-i", "-e", "T=secret-of-the-environment", vm, "--", "sh", "-c",
               "cat; echo secret-of-the-command >&2; exit 1"},
              "secret-of-the-input");
  server->cli({"code", vm, "-c", "raise ValueError('secret-of-the-code')"});
  auto key = parse_json_object(server->cli({"key", "add", "logged"}).out);
  ASSERT_TRUE(key);
  server->cli({"kill", vm});
  const std::string log = server->log();
  EXPECT_THAT(log, HasSubstr(vm));
  EXPECT_EQ(log.find("secret-of-the"), std::string::npos);
  for (const char* name : {"apiKey", "secretAccessKey"})
    EXPECT_EQ(log.find(std::string(key->at(name).as_string())), std::string::npos) << name;
  EXPECT_EQ(log.find(server->api_key()), std::string::npos);
}

TEST_F(Cli, SuspendForkKill) {
  const std::string vm = trimmed(server->cli({"run", "python"}).out);
  EXPECT_EQ(server->cli({"suspend", vm}).status, 0);
  EXPECT_EQ(server->cli({"exec", vm, "--", "true"}).status, 0);
  const auto forks = server->cli({"fork", vm, "-n", "2"});
  EXPECT_EQ(std::count(forks.out.begin(), forks.out.end(), '\n'), 2) << forks.err;
  for (std::size_t at = 0, end; (end = forks.out.find('\n', at)) != std::string::npos; at = end + 1)
    EXPECT_EQ(server->cli({"kill", forks.out.substr(at, end - at)}).status, 0);
  EXPECT_EQ(server->cli({"kill", vm}).status, 0);
}

TEST_F(Cli, TheShellIsARealTerminal) {
  Terminal terminal({ServerProcess::program(), "--data-dir", server->data_dir(), "shell", id});
  terminal.type("PS1='%% '; stty size\n");
  EXPECT_TRUE(terminal.expect("30 100")) << terminal.seen();
  terminal.resize(70, 20);
  terminal.type("sleep 1; stty size\n");
  EXPECT_TRUE(terminal.expect("20 70")) << terminal.seen();
  // Job control: Ctrl-C ends the command, not the shell; Ctrl-Z stops it.
  // The shell must have started it before a key can end it.
  terminal.type("sh -c 'echo beg''un; exec sleep 600'\n");
  EXPECT_TRUE(terminal.expect("begun"));
  terminal.type("\x03");
  EXPECT_TRUE(terminal.expect("^C"));
  EXPECT_TRUE(terminal.expect("%% "));
  terminal.type("echo after-$((1+1))\n");
  EXPECT_TRUE(terminal.expect("after-2")) << terminal.seen();
  terminal.type("sh -c 'echo beg''un; exec sleep 600'\n");
  EXPECT_TRUE(terminal.expect("begun"));
  terminal.type("\x1a");
  EXPECT_TRUE(terminal.expect("Stopped")) << terminal.seen();
  // A shell that still has stopped jobs does not exit at once.
  terminal.type("kill %1; wait %1; printf '\\033[31mred\\033[0m\\n'\n");
  EXPECT_TRUE(terminal.expect("\x1b[31mred\x1b[0m")) << terminal.seen();
  terminal.type("exit 5\n");
  EXPECT_EQ(terminal.wait(), 5);
}

}  // namespace
}  // namespace firebreak::testing_support
