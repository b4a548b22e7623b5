// An exec outlives its readers: a cut channel, a restarted daemon, suspend and resume. Nothing of
// its output is lost and nothing comes twice.
#include <csignal>

#include <gmock/gmock.h>

#include "base/text.h"
#include "vm/agent_case.h"

namespace firebreak::testing_support {
namespace {

class AgentReattach : public AgentCase {
 protected:
  void TearDown() override {
    engines_.clear();
    AgentCase::TearDown();
  }
  std::vector<std::unique_ptr<machine::QemuEngine>> engines_;  // outlive the machines they found
};

// Reads at least `bytes` more.
Task<Result<>> read_some(ExecStream& stream, std::string& seen, std::size_t bytes) {
  const std::size_t enough = seen.size() + bytes;
  while (seen.size() < enough) {
    FB_CO_TRY_ASSIGN(auto frame, co_await stream.next(patience()));
    if (!frame || frame->type != wire::FrameType::out)
      co_return fail(Code::internal, "something else than output came");
    seen += frame->payload;
  }
  co_return Result<>();
}

TEST_F(AgentReattach, ByAnotherDaemonInTheMiddleOfMuchOutput) {
  with_clone([this](std::unique_ptr<Machine>& machine) -> Task<void> {
    const std::string vm = machine->id();
    const ExecSpec spec = shell_spec("seq 1 900000");
    CO_VALUE(const std::string id, co_await machine->agent().start_exec(spec, patience()));
    std::string seen;
    for (const std::size_t bytes : {1000, 70'000, 600'000, 1'500'000}) {
      {
        CO_VALUE(auto stream, co_await machine->agent().exec_output(id, seen.size(), patience()));
        CO_OK(co_await read_some(*stream, seen, bytes));
        EXPECT_EQ(stream->offset(), seen.size());
        machine->agent().data().close();
        auto cut = co_await stream->next(patience());
        while (cut && *cut) cut = co_await stream->next(patience());
        EXPECT_FALSE(cut);
      }
      machine.reset();
      engines_.push_back(world().another_engine());
      CO_VALUE(machine, co_await engines_.back()->attach(vm, patience()));
    }
    CO_VALUE(auto stream, co_await machine->agent().exec_output(id, seen.size(), patience()));
    CO_VALUE(const Output rest, co_await read_all(*stream));
    seen += rest.out;
    EXPECT_EQ(rest.gap, 0U);
    EXPECT_EQ(rest.exit->exit_code, 0);
    const std::string expected = numbers(900'000);
    EXPECT_EQ(seen.size(), expected.size());
    EXPECT_TRUE(seen == expected);
  });
}

TEST_F(AgentReattach, AcrossSuspendAndResume) {
  with_clone([](std::unique_ptr<Machine>& machine) -> Task<void> {
    const std::string vm = machine->id();
    const ExecSpec spec = shell_spec(
        "i=0; until [ -e /tmp/stop ]; do i=$((i + 1)); echo $i; [ $((i % 500)) != 0 ] || sleep "
        "0.05;"
        " done; echo $i >&2; cat /dev/shm/kept >&2");
    CO_OK(co_await shell(*machine, "echo kept > /dev/shm/kept"));
    CO_VALUE(const std::string id, co_await machine->agent().start_exec(spec, patience()));
    std::string seen;
    for (std::uint64_t generation = 2; generation < 4; ++generation) {
      CO_VALUE(auto stream, co_await machine->agent().exec_output(id, seen.size(), patience()));
      CO_OK(co_await read_some(*stream, seen, 6000));
      CO_OK(co_await machine->suspend(in_seconds(60)));
      stream.reset();
      machine.reset();
      CO_VALUE(machine, co_await world().engine().resume(vm, in_seconds(60)));
      CO_OK(co_await machine->wake(machine::fresh_identity(vm, generation), in_seconds(60)));
    }
    CO_VALUE(auto stream, co_await machine->agent().exec_output(id, seen.size(), patience()));
    CO_OK(co_await read_some(*stream, seen, 6000));
    CO_OK(co_await shell(*machine, "touch /tmp/stop"));
    CO_VALUE(const Output rest, co_await read_all(*stream));
    seen += rest.out;
    EXPECT_EQ(rest.gap, 0U);
    EXPECT_EQ(rest.exit->exit_code, 0);
    const auto last = parse_u64(std::string_view(rest.err).substr(0, rest.err.find('\n')));
    CO_ASSERT(last.has_value());
    EXPECT_EQ(rest.err, std::to_string(*last) + "\nkept\n");
    EXPECT_TRUE(seen == numbers(static_cast<int>(*last)));
  });
}

}  // namespace
}  // namespace firebreak::testing_support
