#include "vm/vm_test.h"

namespace firebreak::testing_support {

void VmTest::TearDown() {
  const Leftovers left = world().leftovers();
  EXPECT_TRUE(left.empty()) << left.text();
  // A failed test must not fail the ones after it, nor leave guests running.
  for (const std::string& id : left.machines)
    run([&id]() -> Task<void> { (void)co_await world().engine().discard(id, in_seconds(10)); });
}

Task<Result<std::string>> shell(Machine& machine, std::string command) {
  machine::ExecSpec spec;
  spec.shell = std::move(command);
  FB_CO_TRY_ASSIGN(auto result, co_await machine.agent().run(spec, in_seconds(120)));
  if (result.exit.exit_code != 0)
    co_return fail(Code::internal, "exit " + std::to_string(result.exit.exit_code.value_or(-1)) +
                                       ": " + result.err);
  co_return result.out;
}

Task<Result<std::unique_ptr<Machine>>> suspend_and_resume(std::unique_ptr<Machine> machine,
                                                          std::chrono::milliseconds host_pause) {
  const std::string id = machine->id();
  FB_CO_TRY(co_await machine->suspend(in_seconds(60)));
  machine.reset();
  if (host_pause.count() > 0) co_await pause(host_pause);
  co_return co_await world().engine().resume(id, in_seconds(60));
}

Task<void> pause(std::chrono::milliseconds time) {
  net::asio::steady_timer timer(world().io(), time);
  (void)co_await timer.async_wait(net::kNoThrow);
}

std::int64_t host_realtime_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

}  // namespace firebreak::testing_support
