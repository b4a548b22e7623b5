// Work that is waited for only so long, on a real agent: nothing of its output is lost or told
// twice, and a caller that leaves ends it.
#include <fstream>

#include <gmock/gmock.h>

#include "session/background.h"
#include "session/native_guest.h"

namespace firebreak::session {
namespace {

using Background = testing_support::NativeGuest;

Patience for_ms(int ms) {
  return {.until = Deadline::in(std::chrono::milliseconds(ms)), .seen = {}};
}
Patience long_enough() {
  return for_ms(30'000);
}

TEST_F(Background, ACommandGoesOnAndIsReadLater) {
  run([&]() -> net::Task<void> {
    const Guest held = guest();
    Command command;
    command.shell =
        "echo first; while [ ! -e " + dir_ + "/go ]; do sleep 0.05; done; echo second; exit 3";
    const auto cut = co_await run_patiently(held, std::move(command), "", caller_, for_ms(400));
    EXPECT_TRUE(cut) << cut.error().text();
    if (!cut) co_return;
    EXPECT_TRUE(cut->running);
    std::ofstream(dir_ + "/go") << "";
    const auto rest = co_await read_command(held, cut->id, cut->cursor, caller_, long_enough());
    EXPECT_TRUE(rest) << rest.error().text();
    if (!rest) co_return;
    EXPECT_FALSE(rest->running);
    EXPECT_EQ(cut->output.out.bytes + rest->output.out.bytes, "FIRST\nSECOND\n");
    EXPECT_EQ(rest->output.ending.exit_code, 3);
  });
}

TEST_F(Background, OutputIsToldAsItComesAndKeptUpToALimit) {
  run([&]() -> net::Task<void> {
    const Guest held = guest();
    Command command;
    command.shell = "head -c 1000 /dev/zero | tr '\\0' x";
    std::size_t told = 0;
    Patience patience = long_enough();
    patience.most = 100;
    patience.seen = [&](const Chunk& chunk) -> net::Task<Result<>> {
      told += chunk.bytes.size();
      co_return Result<>();
    };
    const auto view = co_await run_patiently(held, std::move(command), "", caller_, patience);
    EXPECT_TRUE(view) << view.error().text();
    if (!view) co_return;
    EXPECT_EQ(told, 1000U);
    EXPECT_EQ(view->output.out.bytes.size(), 100U);
    EXPECT_TRUE(view->output.out.truncated());
  });
}

TEST_F(Background, ACallerThatLeavesEndsTheCommand) {
  run([&]() -> net::Task<void> {
    const Guest held = guest();
    Command command;
    command.shell = "echo begun; sleep 1000";
    Patience patience = long_enough();
    patience.seen = [&](const Chunk&) -> net::Task<Result<>> {
      caller_.leave();
      co_return Result<>();
    };
    const auto view = co_await run_patiently(held, std::move(command), "", caller_, patience);
    EXPECT_FALSE(view);
    const auto left = co_await list_commands(held, soon());
    EXPECT_TRUE(left);
    if (!left) co_return;
    for (const CommandStatus& status : *left) EXPECT_FALSE(status.running);
  });
}

TEST_F(Background, CodeGoesOnAndIsReadLater) {
  run([&]() -> net::Task<void> {
    const Guest held = guest();
    const NewContext context{.language = "python", .id = "c"};
    const Snippet code{
        .text = "import os, time\nprint('first', flush=True)\nwhile not os.path.exists('" + dir_ +
                "/go'): time.sleep(0.05)\nprint('second')\n6 * 7"};
    const auto cut = co_await run_code_patiently(held, context, code, caller_, for_ms(1500));
    EXPECT_TRUE(cut) << cut.error().text();
    if (!cut) co_return;
    EXPECT_TRUE(cut->running);
    const auto busy =
        co_await run_code_patiently(held, context, {.text = "1"}, caller_, long_enough());
    EXPECT_FALSE(busy);
    if (!busy) EXPECT_EQ(busy.error().code, Code::conflict);
    std::ofstream(dir_ + "/go") << "";
    const auto rest =
        co_await read_code(held, "c", cut->result.started.run, cut->cursor, caller_, long_enough());
    EXPECT_TRUE(rest) << rest.error().text();
    if (!rest) co_return;
    EXPECT_EQ(cut->result.output.out.bytes + rest->result.output.out.bytes, "FIRST\nSECOND\n");
    EXPECT_EQ(rest->result.done.status, "ok");
    EXPECT_EQ(rest->result.output.artifacts.size(), 1U);
  });
}

TEST_F(Background, AfterACallerLeftTheInterpreterIsFree) {
#if __has_feature(address_sanitizer)
  GTEST_SKIP() << "an interrupt that comes with the first output can be lost on a slow agent";
#endif
  run([&]() -> net::Task<void> {
    const Guest held = guest();
    const NewContext context{.language = "python", .id = "c"};
    // An interrupt of the first run of a slow interpreter can be lost.
    EXPECT_TRUE(co_await run_code_patiently(held, context, {.text = "1"}, caller_, long_enough()));
    Patience patience = long_enough();
    patience.seen = [&](const Chunk&) -> net::Task<Result<>> {
      caller_.leave();
      co_return Result<>();
    };
    const auto left = co_await run_code_patiently(
        held, context, {.text = "print(1, flush=True)\nwhile True: pass"}, caller_, patience);
    EXPECT_FALSE(left);
    const auto next =
        co_await run_code_patiently(held, context, {.text = "2"}, caller_, long_enough());
    EXPECT_TRUE(next) << next.error().text();
  });
}

TEST_F(Background, AContextOfAnotherLanguageIsRefused) {
  run([&]() -> net::Task<void> {
    const Guest held = guest();
    const auto made = co_await create_context(held, {.language = "bash", .id = "shell"}, soon());
    EXPECT_TRUE(made);
    const auto refused = co_await run_code_patiently(held, {.language = "python", .id = "shell"},
                                                     {.text = "1"}, caller_, long_enough());
    EXPECT_FALSE(refused);
    if (!refused) EXPECT_THAT(refused.error().message, testing::HasSubstr("runs bash"));
  });
}

}  // namespace
}  // namespace firebreak::session
