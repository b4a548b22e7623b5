// Contexts in real guests: state over suspend, clones of one snapshot that are different people,
// and what ends a run.
#include <csignal>

#include <gmock/gmock.h>

#include "vm/agent_case.h"

namespace firebreak::testing_support {
namespace {

using namespace std::chrono_literals;
using machine::ContextSpec;
using machine::RunDone;
using machine::RunStream;

class Contexts : public AgentCase {
 protected:
  // Little memory, so that one that eats it all comes to its end soon.
  static Task<Result<std::shared_ptr<Snapshot>>> snapshot() {
    return world().snapshot("small", {.vcpus = 1, .memory_mib = 256}, machine::TenantSpec{},
                            nullptr);
  }
  static void with_small(const Body& body) { with_clone(snapshot, body); }
};

struct Ran {
  std::string out;
  std::string value;  // text of the main result
  std::string error;  // its name
  RunDone done;
};

Task<Result<Ran>> read_run(RunStream& stream) {
  Ran ran;
  for (;;) {
    FB_CO_TRY_ASSIGN(std::optional<wire::Frame> frame, co_await stream.next(patience()));
    if (!frame) co_return fail(Code::internal, "a run ended without its end");
    if (frame->type == wire::FrameType::out) ran.out += frame->payload;
    if (frame->type == wire::FrameType::item) {
      FB_CO_TRY_ASSIGN(const json::object item, parse_json_object(frame->payload));
      if (item.at("main").as_bool() && item.at("type").as_string() == "text")
        ran.value = item.at("data").as_string();
    }
    if (frame->type == wire::FrameType::error) {
      FB_CO_TRY_ASSIGN(const json::object error, parse_json_object(frame->payload));
      ran.error = error.at("name").as_string();
    }
    if (frame->type == wire::FrameType::done) {
      FB_CO_TRY_ASSIGN(ran.done, machine::parse_done(frame->payload));
      co_return ran;
    }
  }
}

Task<Result<Ran>> run_code(Machine& machine, std::string id, std::string code,
                           std::uint64_t timeout_ms = 0) {
  FB_CO_TRY_ASSIGN(auto stream,
                   co_await machine.agent().run_context(id, code, timeout_ms, patience()));
  co_return co_await read_run(*stream);
}

TEST_F(Contexts, StateIsKeptOverSuspend) {
  with_small([](std::unique_ptr<Machine>& machine) -> Task<void> {
    CO_VALUE(auto made, co_await machine->agent().create_context(
                            {.language = "python", .id = "kept"}, patience()));
    EXPECT_EQ(made.state, "idle");
    CO_VALUE(auto set, co_await run_code(*machine, "kept", "import random\nx = [1]\nx"));
    EXPECT_EQ(set.value, "[1]");
    // A run under way goes on as well.
    CO_VALUE(auto stream, co_await machine->agent().run_context(
                              "kept",
                              "import time\nprint('going', flush=True)\nopen('/tmp/on','w')\n"
                              "while not __import__('os').path.exists('/tmp/go'): time.sleep(.05)\n"
                              "x.append(2); print('gone')\nx",
                              0, patience()));
    CO_OK(co_await shell(*machine, "until [ -e /tmp/on ]; do sleep 0.05; done"));
    CO_VALUE(auto started, co_await stream->next(patience()));
    CO_ASSERT(started.has_value());
    const machine::RunPosition position = stream->position();
    stream.reset();
    CO_VALUE(machine, co_await suspend_and_resume(std::move(machine), 0ms));
    CO_OK(co_await machine->wake(machine::fresh_identity(machine->id(), 2), in_seconds(60)));
    CO_OK(co_await shell(*machine, "touch /tmp/go"));
    CO_VALUE(auto again, co_await machine->agent().attach_run(position, patience()));
    CO_VALUE(const Ran ran, co_await read_run(*again));
    EXPECT_EQ(ran.out, "going\ngone\n");
    EXPECT_EQ(ran.value, "[1, 2]");
    EXPECT_EQ(ran.done.status, "ok");
    CO_VALUE(auto status, co_await machine->agent().context("kept", patience()));
    EXPECT_EQ(status.execution_count, 2U);
    EXPECT_EQ(status.restarts, 0U);
    CO_VALUE(const std::string none, co_await shell(*machine, "ls /tmp /root | grep -c kernel; :"));
    EXPECT_EQ(none, "0\n");
  });
}

TEST_F(Contexts, ClonesKeepVariablesAndDifferInRandomNumbers) {
  run([]() -> Task<void> {
    const auto prepare = [](Machine& machine) -> Task<Result<>> {
      for (const char* language : {"python", "bash"}) {
        FB_CO_TRY(co_await machine.agent().create_context({.language = language, .id = language},
                                                          patience()));
      }
      FB_CO_TRY(co_await run_code(machine, "python",
                                  "import random, ssl\nrandom.seed(7)\nname = 'kept'\n"
                                  "random.random()"));
      FB_CO_TRY(co_await run_code(machine, "bash", "RANDOM=7; name=kept"));
      // This one has run nothing.
      FB_CO_TRY(co_await machine.agent().create_context({.language = "bash", .id = "unused"},
                                                        patience()));
      // This one is in the middle of a run when it is frozen.
      FB_CO_TRY(co_await machine.agent().create_context({.language = "python", .id = "busy"},
                                                        patience()));
      FB_CO_TRY_ASSIGN(auto stream, co_await machine.agent().run_context(
                                        "busy",
                                        "import random, os, time\nrandom.seed(7)\nprint('seeded')\n"
                                        "while not os.path.exists('/tmp/go'): time.sleep(0.01)\n"
                                        "random.random()",
                                        0, patience()));
      for (bool seeded = false; !seeded;) {
        FB_CO_TRY_ASSIGN(auto frame, co_await stream->next(patience()));
        if (!frame) co_return fail(Code::internal, "the run ended early");
        seeded = frame->type == wire::FrameType::out;
      }
      co_return Result<>();
    };
    CO_VALUE(auto snapshot, co_await world().snapshot("contexts", {.vcpus = 1, .memory_mib = 256},
                                                      machine::TenantSpec{}, prepare));
    std::vector<std::string> numbers;
    for (int clone = 0; clone < 2; ++clone) {
      CO_VALUE(auto machine, co_await world().launch(snapshot));
      CO_VALUE(const Ran python,
               co_await run_code(*machine, "python", "print(name)\nrandom.random()"));
      EXPECT_EQ(python.out, "kept\n");
      EXPECT_EQ(python.done.execution_count, 2U);
      numbers.push_back("python " + python.value);
      CO_VALUE(const Ran bash,
               co_await run_code(*machine, "bash", "echo $name; echo $RANDOM$RANDOM$RANDOM"));
      EXPECT_THAT(bash.out, testing::StartsWith("kept\n"));
      numbers.push_back("bash " + bash.out);
      CO_VALUE(const Ran unused,
               co_await run_code(*machine, "unused", "echo $RANDOM$RANDOM$RANDOM"));
      numbers.push_back("unused " + unused.out);
      CO_OK(co_await shell(*machine, "touch /tmp/go"));
      CO_VALUE(auto stream,
               co_await machine->agent().attach_run({.context = "busy", .run = "1"}, patience()));
      CO_VALUE(const Ran busy, co_await read_run(*stream));
      EXPECT_EQ(busy.done.status, "ok");
      numbers.push_back("busy " + busy.value);
      CO_OK(co_await machine->terminate(in_seconds(10)));
    }
    for (std::size_t i = 0; i < 4; ++i) EXPECT_NE(numbers[i], numbers[i + 4]);
  });
}

TEST_F(Contexts, InterruptTimeoutRestartDeath) {
  with_small([](std::unique_ptr<Machine>& machine) -> Task<void> {
    auto& agent = machine->agent();
    CO_OK(co_await agent.create_context({.language = "python", .id = "c"}, patience()));
    CO_OK(co_await run_code(*machine, "c", "import os, time\nx = 1"));
    CO_VALUE(auto stream, co_await agent.run_context("c", "while True: pass", 0, patience()));
    auto second = co_await agent.run_context("c", "1", 0, patience());
    CO_ASSERT(!second);
    EXPECT_EQ(second.error().code, Code::conflict);
    CO_VALUE(const bool hit, co_await agent.interrupt_context("c", patience()));
    EXPECT_TRUE(hit);
    CO_VALUE(const Ran stopped, co_await read_run(*stream));
    EXPECT_EQ(stopped.done.status, "interrupted");
    EXPECT_EQ(stopped.error, "KeyboardInterrupt");
    CO_VALUE(const Ran slow, co_await run_code(*machine, "c", "time.sleep(600)", 500));
    EXPECT_EQ(slow.done.status, "timeout");
    CO_VALUE(const Ran still, co_await run_code(*machine, "c", "x"));
    EXPECT_EQ(still.value, "1");

    const std::string stubborn =
        "while True:\n  try: time.sleep(600)\n  except KeyboardInterrupt: pass";
    CO_VALUE(const Ran killed, co_await run_code(*machine, "c", stubborn, 500));
    EXPECT_EQ(killed.done.status, "timeout");
    CO_VALUE(const Ran lost, co_await run_code(*machine, "c", "x"));
    EXPECT_EQ(lost.error, "NameError");

    // What it started in the background goes with it.
    const std::string away =
        "import os, subprocess\nsubprocess.Popen(['setsid', 'sleep', '61616'])";
    CO_OK(co_await run_code(*machine, "c", away));
    CO_VALUE(const Ran died, co_await run_code(*machine, "c", "os.kill(os.getpid(), 9)"));
    EXPECT_EQ(died.done.status, "died");
    CO_ASSERT(died.done.exit.has_value());
    EXPECT_EQ(died.done.exit->signal, SIGKILL);
    EXPECT_FALSE(died.done.exit->oom);
    CO_OK(co_await shell(*machine, "while pgrep -f 'sleep 6161[6]'; do sleep 0.05; done"));
    CO_OK(co_await run_code(*machine, "c", "y = 2"));
    CO_VALUE(const auto fresh, co_await agent.restart_context("c", patience()));
    EXPECT_EQ(fresh.id, "c");
    CO_VALUE(const Ran gone, co_await run_code(*machine, "c", "y"));
    EXPECT_EQ(gone.error, "NameError");
    EXPECT_EQ(gone.done.execution_count, 1U);
    CO_VALUE(const auto list, co_await agent.contexts(patience()));
    EXPECT_EQ(list.size(), 1U);
    CO_OK(co_await agent.delete_context("c", patience()));
    auto none = co_await agent.context("c", patience());
    CO_ASSERT(!none);
    EXPECT_EQ(none.error().code, Code::not_found);
  });
}

TEST_F(Contexts, OutOfMemoryIsTold) {
  with_small([](std::unique_ptr<Machine>& machine) -> Task<void> {
    CO_OK(co_await machine->agent().create_context({.language = "python", .id = "c"}, patience()));
    const std::string eat = "a = []\nwhile True: a.append(bytearray(b'x') * (1 << 20))";
    CO_VALUE(const Ran full, co_await run_code(*machine, "c", eat));
    EXPECT_EQ(full.done.status, "died");
    CO_ASSERT(full.done.exit.has_value());
    EXPECT_TRUE(full.done.exit->oom);
    CO_VALUE(const Ran next, co_await run_code(*machine, "c", "1"));
    EXPECT_EQ(next.value, "1");
  });
}

TEST_F(Contexts, UserDirectoryAndMissingLanguage) {
  with_small([](std::unique_ptr<Machine>& machine) -> Task<void> {
    auto& agent = machine->agent();
    CO_OK(co_await agent.create_context(
        {.language = "python", .env = {{"A", "b"}}, .cwd = "/usr", .user = "nobody", .id = "n"},
        patience()));
    CO_VALUE(
        const Ran ran,
        co_await run_code(*machine, "n", "import os\n(os.getuid(), os.getcwd(), os.environ['A'])"));
    EXPECT_EQ(ran.value, "(65534, '/usr', 'b')");
    auto node = co_await agent.create_context({.language = "node"}, patience());
    CO_ASSERT(!node);
    EXPECT_EQ(node.error().code, Code::not_found);
    EXPECT_THAT(node.error().message, testing::HasSubstr("bash, python"));
    auto cobol = co_await agent.create_context({.language = "cobol"}, patience());
    CO_ASSERT(!cobol);
    EXPECT_EQ(cobol.error().code, Code::invalid);
  });
}

}  // namespace
}  // namespace firebreak::testing_support
