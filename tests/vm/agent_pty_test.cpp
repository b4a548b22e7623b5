// Terminals in a real guest: what a program sees of one, and what a user can do at it.
#include <csignal>

#include <gmock/gmock.h>

#include "vm/agent_case.h"

namespace firebreak::testing_support {
namespace {

using testing::HasSubstr;

class AgentPty : public AgentCase {};

ExecSpec at_terminal(ExecSpec spec, std::uint32_t cols = 80, std::uint32_t rows = 24) {
  spec.pty = ExecSpec::Pty{cols, rows};
  return spec;
}

// Reads the output beside the calls that make it, and counts what was typed.
class Terminal {
 public:
  Terminal(Machine& machine, std::string id, std::unique_ptr<ExecStream> stream)
      : machine_(&machine), id_(std::move(id)), stream_(std::move(stream)) {}

  static Task<Result<Terminal>> open(Machine& machine, ExecSpec spec) {
    FB_CO_TRY_ASSIGN(std::string id, co_await machine.agent().start_exec(spec, patience()));
    FB_CO_TRY_ASSIGN(auto stream, co_await machine.agent().exec_output(id, 0, patience()));
    co_return Terminal(machine, std::move(id), std::move(stream));
  }

  Task<Result<>> type(std::string keys) {
    FB_CO_TRY(co_await machine_->agent().exec_stdin(id_, typed_, keys, false, patience()));
    typed_ += keys.size();
    co_return Result<>();
  }
  // Waits for what follows everything that was waited for before.
  Task<Result<>> expect(std::string mark) {
    FB_CO_TRY(co_await read_until(*stream_, fresh_, mark));
    fresh_.erase(0, fresh_.find(mark) + mark.size());
    co_return Result<>();
  }
  Task<Result<>> resize(std::uint32_t cols, std::uint32_t rows) {
    FB_CO_TRY(co_await machine_->agent().data_call("POST", "/execs/" + id_ + "/resize",
                                                   {{"cols", cols}, {"rows", rows}}, patience()));
    co_return Result<>();
  }
  Task<Result<Output>> rest() { return read_all(*stream_); }
  // The same terminal after its reader was cut off.
  Task<Result<>> reopen(Machine& machine) {
    const std::uint64_t offset = stream_->offset();
    stream_.reset();
    machine_ = &machine;
    FB_CO_TRY_ASSIGN(stream_, co_await machine.agent().exec_output(id_, offset, patience()));
    co_return Result<>();
  }
  void cut() { machine_->agent().data().close(); }

 private:
  Machine* machine_;
  std::string id_;
  std::unique_ptr<ExecStream> stream_;
  std::uint64_t typed_ = 0;
  std::string fresh_;
};

TEST_F(AgentPty, AProgramSeesATerminalOfTheRightSize) {
  with_clone([](std::unique_ptr<Machine>& machine) -> Task<void> {
    ExecSpec spec = at_terminal(
        shell_spec("tty; stty size; echo $TERM; [ -t 0 ] && [ -t 1 ] && [ -t 2 ] && echo all;"
                   "echo to-tty > /dev/tty; echo err >&2; id -u; stat -c %u $(tty)"),
        97, 31);
    CO_VALUE(auto root, co_await machine->agent().run(spec, patience()));
    EXPECT_EQ(root.out,
              "/dev/pts/0\r\n31 97\r\nxterm-256color\r\nall\r\nto-tty\r\nerr\r\n0\r\n0\r\n");
    EXPECT_EQ(root.err, "");
    EXPECT_EQ(root.exit.exit_code, 0);
    spec.user = "nobody";
    CO_VALUE(auto nobody, co_await machine->agent().run(spec, patience()));
    EXPECT_THAT(nobody.out, HasSubstr("all\r\nto-tty\r\nerr\r\n65534\r\n65534\r\n"));
    CO_VALUE(auto many, co_await machine->agent().run(
                            at_terminal(shell_spec("stty -onlcr; seq 1 50000")), patience()));
    EXPECT_TRUE(many.out == numbers(50'000));
  });
}

TEST_F(AgentPty, AResizeReachesTheProgram) {
  with_clone([](std::unique_ptr<Machine>& machine) -> Task<void> {
    const std::string program =
        "import os, signal\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "  signal.sigwait([signal.SIGWINCH])\n"
        "  size = os.get_terminal_size()\n"
        "  print('now', size.columns, size.lines, flush=True)\n";
    CO_VALUE(Terminal terminal,
             co_await Terminal::open(*machine, at_terminal(argv_spec({"python3", "-c", program}))));
    CO_OK(co_await terminal.expect("ready"));
    CO_OK(co_await terminal.resize(132, 43));
    CO_OK(co_await terminal.expect("now 132 43"));
    CO_OK(co_await terminal.resize(20, 5));
    CO_OK(co_await terminal.expect("now 20 5"));
    CO_VALUE(const std::string id,
             co_await machine->agent().start_exec(argv_spec({"sleep", "900"}), patience()));
    CO_VALUE(auto none, co_await request(*machine, "POST", "/execs/" + id + "/resize",
                                         R"({"cols":1,"rows":1})"));
    EXPECT_EQ(code_of(none), Code::conflict);
  });
}

TEST_F(AgentPty, ControlKeysWork) {
  with_clone([](std::unique_ptr<Machine>& machine) -> Task<void> {
    CO_VALUE(Terminal terminal,
             co_await Terminal::open(*machine, at_terminal(argv_spec({"bash", "--norc", "-i"}))));
    CO_OK(co_await terminal.type("PS1='>'; echo up$((1 + 1))\n"));
    CO_OK(co_await terminal.expect("up2\r\n"));
    CO_OK(co_await terminal.type("sleep 61616\n"));
    CO_OK(co_await shell(*machine,
                         "until ps -o stat=,args= -C sleep | grep -q '^S+.*61616'; do sleep 0.05;"
                         " done"));
    CO_OK(co_await terminal.type("\x03"));
    CO_OK(co_await terminal.expect("^C"));
    CO_OK(co_await terminal.type("echo status=$?\n"));
    CO_OK(co_await terminal.expect("status=130\r\n"));
    CO_OK(co_await terminal.type("sleep 61617\n"));
    CO_OK(co_await shell(*machine,
                         "until ps -o stat=,args= -C sleep | grep -q '^S+.*61617'; do sleep 0.05;"
                         " done"));
    CO_OK(co_await terminal.type("\x1a"));
    CO_OK(co_await terminal.expect("Stopped"));
    CO_OK(co_await terminal.type("kill %1; exit 5\n"));
    CO_VALUE(const Output output, co_await terminal.rest());
    EXPECT_EQ(output.exit->exit_code, 5);
  });
}

TEST_F(AgentPty, InterruptAndEndOfInputWithoutAShell) {
  with_clone([](std::unique_ptr<Machine>& machine) -> Task<void> {
    CO_VALUE(Terminal sleeper,
             co_await Terminal::open(*machine, at_terminal(argv_spec({"sleep", "900"}))));
    CO_OK(co_await sleeper.type("\x03"));
    CO_VALUE(const Output interrupted, co_await sleeper.rest());
    EXPECT_EQ(interrupted.exit->signal, SIGINT);

    const ExecSpec spec = at_terminal(shell_spec("cat; echo over"));
    CO_VALUE(const std::string id, co_await machine->agent().start_exec(spec, patience()));
    CO_OK(co_await machine->agent().exec_stdin(id, 0, "line\n", true, patience()));
    CO_VALUE(const Output ended, co_await output_of(*machine, id));
    EXPECT_EQ(ended.out, "line\r\nline\r\nover\r\n");
    EXPECT_EQ(ended.exit->exit_code, 0);
  });
}

TEST_F(AgentPty, DeletingHangsUp) {
  with_clone([](std::unique_ptr<Machine>& machine) -> Task<void> {
    ExecSpec spec = at_terminal(shell_spec("echo up; sleep 51515 & sleep 51515"));
    spec.id = "t";
    CO_VALUE(Terminal terminal, co_await Terminal::open(*machine, spec));
    CO_OK(co_await terminal.expect("up\r\n"));
    CO_OK(co_await machine->agent().data_call("DELETE", "/execs/t", {}, patience()));
    CO_VALUE(const Output output, co_await terminal.rest());
    EXPECT_EQ(output.exit->signal, SIGKILL);
    CO_OK(co_await shell(*machine, "while pgrep -f 'sleep 5151[5]'; do sleep 0.05; done"));
  });
}

class AgentPtyReattach : public AgentPty {
 protected:
  void TearDown() override {
    engine_.reset();
    AgentPty::TearDown();
  }
  std::unique_ptr<machine::QemuEngine> engine_;  // outlives the machine that it found
};

TEST_F(AgentPtyReattach, ASessionGoesOnAfterACutAndAfterASuspend) {
  with_clone([this](std::unique_ptr<Machine>& machine) -> Task<void> {
    const std::string vm = machine->id();
    const ExecSpec spec = at_terminal(argv_spec({"bash", "--norc", "-i"}), 100, 40);
    CO_VALUE(Terminal terminal, co_await Terminal::open(*machine, spec));
    CO_OK(co_await terminal.type("PS1='>'; kept=value; echo one$((1 + 1))\n"));
    CO_OK(co_await terminal.expect("one2\r\n"));
    terminal.cut();
    machine.reset();
    engine_ = world().another_engine();
    CO_VALUE(machine, co_await engine_->attach(vm, patience()));
    CO_OK(co_await terminal.reopen(*machine));
    CO_OK(co_await terminal.type("echo $kept$((2 + 2))\n"));
    CO_OK(co_await terminal.expect("value4\r\n"));

    CO_OK(co_await machine->suspend(in_seconds(60)));
    machine.reset();
    CO_VALUE(machine, co_await engine_->resume(vm, in_seconds(60)));
    CO_OK(co_await machine->wake(machine::fresh_identity(vm, 2), in_seconds(60)));
    CO_OK(co_await terminal.reopen(*machine));
    CO_OK(co_await terminal.type("stty size; echo $kept$((3 + 3))\n"));
    CO_OK(co_await terminal.expect("40 100\r\nvalue6\r\n"));
    CO_OK(co_await terminal.type("exit 4\n"));
    CO_VALUE(const Output output, co_await terminal.rest());
    EXPECT_EQ(output.exit->exit_code, 4);
  });
}

}  // namespace
}  // namespace firebreak::testing_support
