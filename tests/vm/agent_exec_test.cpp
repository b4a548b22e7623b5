// Execs in a real guest: what a program gets, what comes back, how it ends.
#include <csignal>

#include <gmock/gmock.h>

#include "vm/agent_case.h"

namespace firebreak::testing_support {
namespace {

using testing::UnorderedElementsAre;

class AgentExec : public AgentCase {
 protected:
  static Task<Result<std::shared_ptr<Snapshot>>> snapshot() {
    machine::TenantSpec tenant;
    tenant.env = {{"TENANT", "t"}, {"BOTH", "tenant"}};
    return world().snapshot("exec", {.vcpus = 1, .memory_mib = 256}, std::move(tenant), nullptr);
  }
  static void run(const std::function<Task<void>(Machine& machine)>& body) {
    with_clone(snapshot,
               [&](std::unique_ptr<Machine>& machine) -> Task<void> { co_await body(*machine); });
  }
};

std::vector<std::string> lines(std::string_view text) {
  std::vector<std::string> all;
  while (!text.empty()) {
    const auto end = text.find('\n');
    all.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return all;
}

// Returns when no process has the pattern in its command line. The pattern must not match itself.
Task<Result<>> gone(Machine& machine, std::string pattern) {
  FB_CO_TRY(co_await shell(machine, "while pgrep -f '" + pattern + "'; do sleep 0.02; done"));
  co_return Result<>();
}

TEST_F(AgentExec, ArgumentsAreTakenAsGivenAndAShellExpands) {
  run([](Machine& machine) -> Task<void> {
    const std::vector<std::string> argv{"printf", "%s|", "a b", "$HOME", "", "\xC3\xA9 '\"\n"};
    CO_VALUE(auto plain, co_await machine.agent().run(argv_spec(argv), patience()));
    EXPECT_EQ(plain.out, "a b|$HOME||\xC3\xA9 '\"\n|");
    EXPECT_EQ(plain.exit.exit_code, 0);
    CO_VALUE(const std::string out, co_await shell(machine, "echo $((1 + 2)) $HOME | tr 3 x"));
    EXPECT_EQ(out, "x /root\n");
  });
}

TEST_F(AgentExec, EnvironmentOfExecTenantAndDefault) {
  run([](Machine& machine) -> Task<void> {
    const std::string path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    ExecSpec spec = argv_spec({"env"});
    CO_VALUE(auto bare, co_await machine.agent().run(spec, patience()));
    EXPECT_THAT(lines(bare.out),
                UnorderedElementsAre("TENANT=t", "BOTH=tenant", "HOME=/root", path));
    spec.env = {{"BOTH", "exec"}, {"GIVEN", "a=b c"}, {"HOME", "/tmp"}, {"EMPTY", ""}};
    CO_VALUE(auto given, co_await machine.agent().run(spec, patience()));
    EXPECT_THAT(lines(given.out), UnorderedElementsAre("TENANT=t", "BOTH=exec", "GIVEN=a=b c",
                                                       "HOME=/tmp", "EMPTY=", path));
  });
}

TEST_F(AgentExec, DirectoryAndUser) {
  run([](Machine& machine) -> Task<void> {
    ExecSpec spec =
        shell_spec("pwd; id -u; id -g; id -G; echo $HOME; touch /root/x 2>/dev/null; echo $?");
    spec.cwd = "/usr/lib";
    CO_VALUE(auto root, co_await machine.agent().run(spec, patience()));
    EXPECT_EQ(root.out, "/usr/lib\n0\n0\n0\n/root\n0\n");
    spec.user = "nobody";
    CO_VALUE(auto name, co_await machine.agent().run(spec, patience()));
    EXPECT_EQ(name.out, "/usr/lib\n65534\n65534\n65534\n/nonexistent\n1\n");
    spec.user = "33";
    CO_VALUE(auto number, co_await machine.agent().run(spec, patience()));
    EXPECT_EQ(number.out, "/usr/lib\n33\n33\n33\n/var/www\n1\n");
    spec.user = "4242:60";
    CO_VALUE(auto unknown, co_await machine.agent().run(spec, patience()));
    EXPECT_THAT(unknown.out, testing::StartsWith("/usr/lib\n4242\n60\n60\n"));
    spec.user = "daemon:games";
    CO_VALUE(auto group, co_await machine.agent().run(spec, patience()));
    EXPECT_THAT(group.out, testing::StartsWith("/usr/lib\n1\n60\n"));
    spec.user = "no-such-user";
    auto wrong = co_await machine.agent().run(spec, patience());
    CO_ASSERT(!wrong);
    EXPECT_EQ(wrong.error().code, Code::invalid);
  });
}

TEST_F(AgentExec, StdinByOffsetUntilItsEnd) {
  run([](Machine& machine) -> Task<void> {
    auto& agent = machine.agent();
    ExecSpec spec = argv_spec({"cat"});
    spec.with_stdin = true;
    CO_VALUE(const std::string id, co_await agent.start_exec(spec, patience()));
    CO_OK(co_await agent.exec_stdin(id, 0, "hello ", false, patience()));
    // A write that was cut is repeated: what arrived already is skipped.
    CO_OK(co_await agent.exec_stdin(id, 3, "lo world", false, patience()));
    auto hole = co_await agent.exec_stdin(id, 100, "x", false, patience());
    CO_ASSERT(!hole);
    EXPECT_EQ(hole.error().code, Code::conflict);
    CO_VALUE(auto status, co_await agent.data_call("GET", "/execs/" + id, {}, patience()));
    EXPECT_EQ(status.at("stdin_offset").as_int64(), 11);
    const std::string big = random_text(3 << 20, 1);
    Result<Output> output = Output{};
    std::vector<std::function<Task<void>()>> both;
    both.emplace_back([&]() -> Task<void> { output = co_await output_of(machine, id); });
    both.emplace_back(
        [&]() -> Task<void> { CO_OK(co_await agent.exec_stdin(id, 11, big, true, patience())); });
    co_await all_of(std::move(both));
    CO_OK(output);
    EXPECT_TRUE(output->out == "hello world" + big);
    EXPECT_EQ(output->exit->exit_code, 0);
    auto late = co_await agent.exec_stdin(id, 0, big + "more than it ever got", false, patience());
    CO_ASSERT(!late);
    EXPECT_EQ(late.error().code, Code::conflict);
    CO_VALUE(const std::string none, co_await shell(machine, "cat; readlink /proc/self/fd/0"));
    EXPECT_EQ(none, "/dev/null\n");
  });
}

TEST_F(AgentExec, StreamsAreSeparateAndInOrder) {
  run([](Machine& machine) -> Task<void> {
    const ExecSpec spec = argv_spec({"python3", "-c",
                                     "import sys\n"
                                     "for i in range(50):\n"
                                     "  print('out', i, flush=True)\n"
                                     "  print('err', i, file=sys.stderr, flush=True)\n"});
    CO_VALUE(const std::string id, co_await machine.agent().start_exec(spec, patience()));
    CO_VALUE(const Output output, co_await output_of(machine, id));
    std::string out, err, order;
    for (int i = 0; i < 50; ++i) {
      out += "out " + std::to_string(i) + "\n";
      err += "err " + std::to_string(i) + "\n";
      order += "oe";
    }
    EXPECT_EQ(output.out, out);
    EXPECT_EQ(output.err, err);
    EXPECT_EQ(output.order, order);
  });
}

TEST_F(AgentExec, EveryByteArrivesAlsoTheChannelsOwnMarks) {
  run([](Machine& machine) -> Task<void> {
    const std::string program =
        "import sys\n"
        "mark = bytes.fromhex('f54642524bf80d9c')\n"
        "sys.stdout.buffer.write(bytes(range(256)) * 400 + mark * 1000 + mark[:7] * 1000)\n";
    CO_VALUE(const std::string out, co_await python(machine, program));
    const std::string mark = "\xF5\x46\x42\x52\x4B\xF8\x0D\x9C";
    std::string expected;
    for (int i = 0; i < 256 * 400; ++i) expected.push_back(static_cast<char>(i));
    for (int i = 0; i < 1000; ++i) expected += mark;
    for (int i = 0; i < 1000; ++i) expected += mark.substr(0, 7);
    EXPECT_EQ(sha256(out), sha256(expected));
  });
}

TEST_F(AgentExec, ASlowReaderStopsTheProgramAndNobodyElse) {
  run([](Machine& machine) -> Task<void> {
    auto& agent = machine.agent();
    const ExecSpec spec = shell_spec("seq 1 2700000; echo end >&2");
    CO_VALUE(const std::string id, co_await agent.start_exec(spec, patience()));
    CO_VALUE(auto stream, co_await agent.exec_output(id, 0, patience()));
    std::int64_t before = -1;
    std::int64_t produced = 0;
    while (before != produced || produced < (1 << 20)) {
      before = produced;
      CO_OK(co_await shell(machine, "sleep 0.1"));
      CO_VALUE(auto status, co_await agent.data_call("GET", "/execs/" + id, {}, patience()));
      CO_ASSERT(status.at("running").as_bool());
      produced = status.at("offset").as_int64();
    }
    EXPECT_LT(produced, 4 << 20);
    CO_VALUE(const std::string other, co_await shell(machine, "echo quick"));
    EXPECT_EQ(other, "quick\n");
    CO_OK(co_await agent.health(in_seconds(10)));
    CO_VALUE(auto status, co_await agent.data_call("GET", "/execs/" + id, {}, patience()));
    EXPECT_EQ(status.at("offset").as_int64(), produced);
    CO_VALUE(const Output output, co_await read_all(*stream));
    const std::string expected = numbers(2'700'000);
    EXPECT_EQ(output.out.size(), expected.size());
    EXPECT_TRUE(output.out == expected);
    EXPECT_EQ(output.err, "end\n");
    EXPECT_EQ(output.exit->exit_code, 0);
  });
}

TEST_F(AgentExec, SignalsAndExitCodes) {
  run([](Machine& machine) -> Task<void> {
    auto& agent = machine.agent();
    CO_VALUE(const std::string id,
             co_await agent.start_exec(argv_spec({"sleep", "900"}), patience()));
    CO_OK(co_await agent.signal_exec(id, SIGTERM, patience()));
    CO_VALUE(const Output killed, co_await output_of(machine, id));
    EXPECT_EQ(killed.exit->signal, SIGTERM);
    EXPECT_EQ(killed.exit->exit_code, std::nullopt);
    EXPECT_FALSE(killed.exit->timed_out);
    auto late = co_await agent.signal_exec(id, SIGTERM, patience());
    CO_ASSERT(!late);
    EXPECT_EQ(late.error().code, Code::conflict);

    const ExecSpec spec =
        shell_spec("trap 'exit 9' USR1; echo ready; while :; do sleep 0.05; done");
    CO_VALUE(const std::string trapping, co_await agent.start_exec(spec, patience()));
    CO_VALUE(auto stream, co_await agent.exec_output(trapping, 0, patience()));
    std::string seen;
    CO_OK(co_await read_until(*stream, seen, "ready\n"));
    CO_OK(co_await agent.data_call("POST", "/execs/" + trapping + "/signal",
                                   {{"signal", SIGUSR1}, {"group", false}}, patience()));
    CO_VALUE(const Output caught, co_await read_all(*stream));
    EXPECT_EQ(caught.exit->exit_code, 9);
    for (const int code : {0, 7, 255}) {
      const ExecSpec exits = shell_spec("exit " + std::to_string(code));
      CO_VALUE(auto result, co_await agent.run(exits, patience()));
      EXPECT_EQ(result.exit.exit_code, code);
      EXPECT_EQ(result.exit.signal, std::nullopt);
    }
  });
}

TEST_F(AgentExec, ATimeoutKillsTheWholeTree) {
  run([](Machine& machine) -> Task<void> {
    ExecSpec spec = shell_spec(
        "setsid sh -c 'echo away > /tmp/away; exec sleep 71717' & sleep 71717 &"
        "until [ -s /tmp/away ]; do sleep 0.01; done; echo up; wait");
    spec.timeout_ms = 3000;
    CO_VALUE(auto result, co_await machine.agent().run(spec, patience()));
    EXPECT_EQ(result.out, "up\n");
    EXPECT_TRUE(result.exit.timed_out);
    EXPECT_EQ(result.exit.signal, SIGKILL);
    EXPECT_FALSE(result.exit.oom);
    CO_OK(co_await gone(machine, "sleep 7171[7]"));
  });
}

TEST_F(AgentExec, WhatCannotBeStartedIsToldApart) {
  run([](Machine& machine) -> Task<void> {
    const auto code = [&](ExecSpec spec) -> Task<std::optional<Code>> {
      auto result = co_await machine.agent().run(spec, patience());
      if (result) co_return std::nullopt;
      co_return result.error().code;
    };
    EXPECT_EQ(co_await code(argv_spec({"no-such-program"})), Code::not_found);
    EXPECT_EQ(co_await code(argv_spec({"/no/such/program"})), Code::not_found);
    EXPECT_EQ(co_await code(argv_spec({"/etc/passwd"})), Code::denied);
    ExecSpec spec = argv_spec({"true"});
    spec.cwd = "/no/such";
    EXPECT_EQ(co_await code(spec), Code::invalid);
    spec.cwd = "/etc/passwd";
    EXPECT_EQ(co_await code(spec), Code::invalid);
    EXPECT_EQ(co_await code(ExecSpec{}), Code::invalid);
    spec.cwd = "";
    spec.id = "mine";
    EXPECT_EQ(co_await code(spec), std::nullopt);
    EXPECT_EQ(co_await code(spec), Code::conflict);
    spec.id = "app";
    EXPECT_EQ(co_await code(spec), Code::invalid);
    CO_VALUE(auto reply, co_await request(machine, "GET", "/execs/none/output?offset=0"));
    EXPECT_EQ(code_of(reply), Code::not_found);
  });
}

TEST_F(AgentExec, OutOfMemoryIsToldApartFromKilled) {
  run([](Machine& machine) -> Task<void> {
    const std::string eat = "a = []\nwhile True: a.append(bytearray(b'x') * (1 << 20))\n";
    CO_VALUE(auto eater,
             co_await machine.agent().run(argv_spec({"python3", "-c", eat}), patience()));
    EXPECT_EQ(eater.exit.signal, SIGKILL);
    EXPECT_TRUE(eater.exit.oom);
    const ExecSpec below = shell_spec("python3 -c '" + std::string("a = []\nwhile True: ") +
                                      "a.append(bytearray(1) * (1 << 20))'; echo $?");
    CO_VALUE(auto child, co_await machine.agent().run(below, patience()));
    EXPECT_TRUE(child.exit.oom) << "a process that it started was killed for memory";
    EXPECT_EQ(child.out, "137\n");
    CO_VALUE(auto killed, co_await machine.agent().run(shell_spec("kill -9 $$"), patience()));
    EXPECT_EQ(killed.exit.signal, SIGKILL);
    EXPECT_FALSE(killed.exit.oom);
    CO_OK(co_await machine.agent().health(in_seconds(10)));
  });
}

TEST_F(AgentExec, ThirtyAtOnce) {
  run([](Machine& machine) -> Task<void> {
    std::vector<std::function<Task<void>()>> tasks;
    for (int i = 0; i < 30; ++i) {
      tasks.emplace_back([&machine, i]() -> Task<void> {
        const std::string n = std::to_string(i);
        // All wait for the last one, so all run at the same time.
        const ExecSpec spec =
            shell_spec("touch /tmp/here-" + n +
                       "; until [ $(ls /tmp | grep -c here-) = 30 ]; do sleep 0.2;"
                       " done; echo " +
                       n + "; exit " + n);
        CO_VALUE(auto result, co_await machine.agent().run(spec, patience()));
        EXPECT_EQ(result.out, n + "\n");
        EXPECT_EQ(result.exit.exit_code, i);
      });
    }
    co_await all_of(std::move(tasks));
  });
}

TEST_F(AgentExec, ADaemonThatHoldsTheOutputDoesNotHoldTheCall) {
  run([](Machine& machine) -> Task<void> {
    const ExecSpec spec = shell_spec("setsid sleep 81818 & echo done");
    CO_VALUE(auto result, co_await machine.agent().run(spec, patience()));
    EXPECT_EQ(result.out, "done\n");
    EXPECT_EQ(result.exit.exit_code, 0);
    CO_VALUE(const std::string alive, co_await shell(machine, "pgrep -fc 'sleep 8181[8]'"));
    EXPECT_EQ(alive, "1\n");
    CO_OK(co_await request(machine, "DELETE", "/execs/" + result.id));
    CO_OK(co_await gone(machine, "sleep 8181[8]"));
  });
}

TEST_F(AgentExec, DeleteKillsEverythingAndForgets) {
  run([](Machine& machine) -> Task<void> {
    auto& agent = machine.agent();
    const ExecSpec spec = shell_spec("setsid sleep 91919 & sleep 91919 & echo up; wait");
    CO_VALUE(const std::string id, co_await agent.start_exec(spec, patience()));
    CO_VALUE(auto stream, co_await agent.exec_output(id, 0, patience()));
    std::string seen;
    CO_OK(co_await read_until(*stream, seen, "up\n"));
    CO_OK(co_await agent.data_call("DELETE", "/execs/" + id, {}, patience()));
    CO_VALUE(const Output rest, co_await read_all(*stream));
    EXPECT_EQ(rest.exit->signal, SIGKILL);
    CO_VALUE(auto reply, co_await request(machine, "GET", "/execs/" + id));
    EXPECT_EQ(code_of(reply), Code::not_found);
    CO_OK(co_await gone(machine, "sleep 9191[9]"));
  });
}

TEST_F(AgentExec, DroppedOutputIsAGap) {
  run([](Machine& machine) -> Task<void> {
    ExecSpec spec = shell_spec("seq 1 400000; echo end > /tmp/end");
    spec.drop_on_overflow = true;
    spec.ring_bytes = 64 * 1024;
    CO_VALUE(const std::string id, co_await machine.agent().start_exec(spec, patience()));
    CO_OK(co_await shell(machine, "until [ -s /tmp/end ]; do sleep 0.05; done"));
    CO_VALUE(const Output output, co_await output_of(machine, id));
    const std::string all = numbers(400'000);
    EXPECT_EQ(output.order, "go");
    EXPECT_EQ(output.gap + output.out.size(), all.size());
    EXPECT_LE(output.out.size(), 64U * 1024);
    EXPECT_TRUE(all.ends_with(output.out));
    EXPECT_FALSE(output.out.empty());
    EXPECT_EQ(output.exit->exit_code, 0);
  });
}

TEST_F(AgentExec, ListAndStatus) {
  run([](Machine& machine) -> Task<void> {
    auto& agent = machine.agent();
    CO_VALUE(auto done, co_await agent.run(shell_spec("echo 12345; exit 3"), patience()));
    ExecSpec spec = shell_spec("echo $$; exec sleep 900");
    spec.id = "named.one";
    CO_VALUE(const std::string id, co_await agent.start_exec(spec, patience()));
    EXPECT_EQ(id, "named.one");
    CO_VALUE(auto stream, co_await agent.exec_output(id, 0, patience()));
    std::string pid;
    CO_OK(co_await read_until(*stream, pid, "\n"));

    CO_VALUE(auto list, co_await agent.data_call("GET", "/execs", {}, patience()));
    std::vector<std::string> ids;
    for (const auto& item : list.at("execs").as_array())
      ids.emplace_back(item.as_object().at("id").as_string());
    EXPECT_THAT(ids, UnorderedElementsAre(done.id, id));
    CO_VALUE(auto ended, co_await agent.data_call("GET", "/execs/" + done.id, {}, patience()));
    EXPECT_FALSE(ended.at("running").as_bool());
    EXPECT_EQ(ended.at("offset").as_int64(), 6);
    EXPECT_EQ(ended.at("exit").as_object().at("exit_code").as_int64(), 3);
    CO_VALUE(auto status, co_await agent.data_call("GET", "/execs/" + id, {}, patience()));
    EXPECT_TRUE(status.at("running").as_bool());
    EXPECT_FALSE(status.contains("exit"));
    EXPECT_EQ(std::to_string(status.at("pid").as_int64()) + "\n", pid);
    EXPECT_GT(status.at("started_ms").as_int64(), 1'700'000'000'000) << "the woken clock";

    // A second reader replaces the first, which is told.
    CO_VALUE(auto second, co_await agent.exec_output(id, 0, patience()));
    auto first = co_await stream->next(patience());
    EXPECT_FALSE(first);
    CO_OK(co_await agent.signal_exec(id, SIGKILL, patience()));
    CO_VALUE(const Output output, co_await read_all(*second));
    EXPECT_EQ(output.out, pid);
    CO_VALUE(auto beyond, co_await request(machine, "GET", "/execs/" + id + "/output?offset=99"));
    EXPECT_EQ(code_of(beyond), Code::invalid);
  });
}

}  // namespace
}  // namespace firebreak::testing_support
