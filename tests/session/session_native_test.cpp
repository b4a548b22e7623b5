// The use cases on a real agent: what they give, that every byte of the guest passes the outlet,
// and that every act asks the gate first. ShoutingOutlet makes letters large, so that a byte that
// came past it is small.
#include <fstream>

#include <gmock/gmock.h>

#include "session/code.h"
#include "session/exec.h"
#include "session/files.h"
#include "session/native_guest.h"
#include "session/ports.h"
#include "session/terminal.h"

namespace firebreak::session {
namespace {

using control::Act;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

using Session = testing_support::NativeGuest;

std::string read_whole(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

net::Task<Result<std::string>> whole(Download download) {
  std::string all;
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string bytes,
                     co_await download.next(Deadline::in(std::chrono::seconds(30))));
    if (bytes.empty()) co_return all;
    all += bytes;
  }
}

Source source_of(std::string text) {
  return [left = std::move(text)]() mutable -> net::Task<Result<std::string>> {
    co_return std::exchange(left, {});
  };
}

TEST_F(Session, ARunCarriesOutputInOrderAndHowItEnded) {
  run([&]() -> net::Task<void> {
    const Guest held = guest();
    const auto result = co_await session::run(
        held, {.shell = "echo one; sleep 0.1; echo two >&2; sleep 0.1; cat; exit 3"}, "three",
        caller_);
    EXPECT_TRUE(result) << result.error().text();
    if (!result) co_return;
    EXPECT_EQ(result->out.bytes, "ONE\nTHREE");
    EXPECT_EQ(result->err.bytes, "TWO\n");
    EXPECT_EQ(result->out.total, 9U);
    EXPECT_FALSE(result->out.truncated());
    EXPECT_EQ(result->ending.exit_code, 3);
    EXPECT_FALSE(result->ending.signal || result->ending.timed_out || result->ending.out_of_memory);
    // The outlet kept the last byte of each stream until the end.
    std::string order;
    for (const RunResult::Span& span : result->order)
      order += (span.stream == Stream::out ? "o" : "e") + std::to_string(span.bytes) + " ";
    EXPECT_EQ(order, "o3 e3 o6 e1 ");
    EXPECT_GE(result->duration.count(), 200);
    EXPECT_GT(core::to_unix_ms(result->started), 1'700'000'000'000);
  });
  EXPECT_THAT(gate_.asked, ElementsAre(Act::exec));
  EXPECT_EQ(outlet_.bytes[Origin::exec], 13U);
  EXPECT_EQ(in_, 5U);
  EXPECT_EQ(out_, 13U);
}

TEST_F(Session, TimeoutsSignalsAndFailuresToStartAreToldApart) {
  run([&]() -> net::Task<void> {
    const Guest held = guest();
    const auto late = co_await session::run(
        held, {.shell = "sleep 30", .timeout = std::chrono::milliseconds(100)}, "", caller_);
    EXPECT_TRUE(late && late->ending.timed_out);
    const auto killed = co_await session::run(held, {.shell = "kill -9 $$"}, "", caller_);
    EXPECT_TRUE(killed && killed->ending.signal == 9 && !killed->ending.exit_code);
    const auto absent = co_await session::run(held, {.argv = {"/not/there"}}, "", caller_);
    EXPECT_FALSE(absent);
    if (absent) co_return;
    EXPECT_EQ(absent.error().reason, "no_such_program");
    EXPECT_THAT(absent.error().message, HasSubstr("/NOT/THERE"));
  });
}

// The agent's words may quote what the guest made up: small letters would have come past the
// outlet.
TEST_F(Session, WhatTheAgentSaysAboutAFailurePassesTheOutlet) {
  run([&]() -> net::Task<void> {
    const Guest held = guest();
    std::vector<Error> told;
    const auto note = [&told](const auto& answer) {
      EXPECT_FALSE(answer);
      if (!answer) told.push_back(answer.error());
    };
    note(co_await start(held, {.argv = {"/none/program"}}, "", soon()));
    note(co_await command_status(held, "none", soon()));
    note(co_await follow(held, "none", 0, soon()));
    note(co_await send_input(held, "none", 0, "x", false, soon()));
    note(co_await send_signal(held, "none", SIGTERM, true, soon()));
    note(co_await resize(held, "none", {}, soon()));
    note(co_await remove(held, "none", soon()));
    note(co_await create_context(held, {.language = "none"}, soon()));
    note(co_await run_code(held, {.context = "none", .text = "1"}, caller_, soon()));
    note(co_await find_context(held, "none", soon()));
    note(co_await interrupt(held, "none", std::nullopt, soon()));
    note(co_await interrupt(held, "none", "run", soon()));
    note(co_await restart_context(held, "none", soon()));
    note(co_await remove_context(held, "none", soon()));
    note(co_await read_file(held, "/none/file", 0, std::nullopt, soon()));
    note(co_await write_file(held, "/none/file", {}, source_of("x"), soon()));
    note(co_await stat_file(held, "/none/file", false, soon()));
    note(co_await make_directory(held, "/none/dir/dir", std::nullopt, false, soon()));
    note(co_await remove_file(held, "/none/file", false, soon()));
    note(co_await rename_file(held, "/none/file", "/none/other", soon()));
    note(co_await read_archive(held, "/none/dir", soon()));
    note(co_await write_archive(held, "/none/dir", source_of(""), soon()));
    for (const Error& error : told) {
      EXPECT_THAT(error.message, HasSubstr("NONE")) << error.message;
      EXPECT_THAT(error.message, Not(HasSubstr("none"))) << error.message;
    }
  });
  EXPECT_GT(outlet_.bytes[Origin::reason], 0U);
}

TEST_F(Session, OutputBeyondTheLimitEndsTheCommand) {
  run([&]() -> net::Task<void> {
    const Guest held = guest();
    const auto result = co_await session::run(
        held, {.shell = "head -c 100000 /dev/zero; echo $$ > " + dir_ + "/pid; sleep 60"}, "",
        caller_, 1000);
    EXPECT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::exhausted);
    const auto left = co_await list_commands(held, soon());
    EXPECT_TRUE(left && left->empty());
  });
}

TEST_F(Session, ACallerThatLeavesEndsItsCommandAndNoOther) {
  run([&]() -> net::Task<void> {
    const Guest held = guest();
    const auto other = co_await start(held, {.shell = "sleep 60"}, "", soon());
    EXPECT_TRUE(other);
    auto sink = [&](ExecEvent event) -> net::Task<Result<>> {
      if (std::holds_alternative<Chunk>(event)) caller_.leave();
      co_return Result<>();
    };
    const auto result = co_await stream(held, {.shell = "echo begun; sleep 60"}, "", caller_, sink);
    EXPECT_FALSE(result);
    const auto left = co_await list_commands(held, soon());
    EXPECT_TRUE(left);
    if (!left) co_return;
    EXPECT_EQ(left->size(), 1U);
    EXPECT_THAT(left->front().id, testing::StrCaseEq(*other));
    EXPECT_TRUE(left->front().running);
  });
}

TEST_F(Session, ACommandThatGoesOnCanBeFollowedFedSignalledAndRemoved) {
  run([&]() -> net::Task<void> {
    const Guest held = guest();
    const auto id = co_await start(
        held, {.shell = "read x; echo got $x; sleep 60", .open_stdin = true}, "", soon());
    EXPECT_TRUE(id);
    if (!id) co_return;
    EXPECT_TRUE(co_await send_input(held, *id, 0, "words\n", false, soon()));
    // Sent again from its beginning: what was taken is skipped.
    EXPECT_TRUE(co_await send_input(held, *id, 0, "words\n", false, soon()));
    auto events = co_await follow(held, *id, 0, soon());
    EXPECT_TRUE(events);
    std::string text;
    while (text.size() < 9) {
      const auto event = co_await events->next(soon());
      if (!event || !*event) break;
      if (const auto* chunk = std::get_if<Chunk>(&**event)) text += chunk->bytes;
    }
    EXPECT_EQ(text, "GOT WORDS");
    EXPECT_TRUE(co_await send_signal(held, *id, SIGTERM, true, soon()));
    std::optional<Ending> ending;
    while (!ending) {
      const auto event = co_await events->next(soon());
      if (!event || !*event) break;
      if (const auto* end = std::get_if<Ending>(&**event)) ending = *end;
    }
    EXPECT_TRUE(ending && ending->signal == SIGTERM);
    const auto status = co_await command_status(held, *id, soon());
    EXPECT_TRUE(status && !status->running && status->input_bytes == 6);
    EXPECT_TRUE(co_await remove(held, *id, soon()));
    EXPECT_FALSE(co_await command_status(held, *id, soon()));
  });
}

TEST_F(Session, CodeKeepsItsStateAndItsValuesPassTheOutlet) {
  run([&]() -> net::Task<void> {
    const Guest held = guest();
    const auto made = co_await create_context(held, {.language = "python"}, soon());
    EXPECT_TRUE(made) << made.error().text();
    if (!made) co_return;
    const auto first = co_await run_code(
        held, {.context = made->id, .text = "x = 'kept'\nprint('printed')\nx"}, caller_, soon());
    EXPECT_TRUE(first) << first.error().text();
    if (!first) co_return;
    EXPECT_EQ(first->done.status, "ok");
    EXPECT_EQ(first->output.out.bytes, "PRINTED\n");
    EXPECT_EQ(first->output.artifacts.size(), 1U);
    EXPECT_EQ(first->output.artifacts.front().data, "'KEPT'");
    EXPECT_TRUE(first->output.artifacts.front().main);
    const auto second = co_await run_code(
        held, {.context = made->id, .text = "raise ValueError(x)"}, caller_, soon());
    EXPECT_TRUE(second && second->error);
    if (!second || !second->error) co_return;
    EXPECT_EQ(second->started.state, "kept");
    EXPECT_EQ(second->error->name, "VALUEERROR");
    EXPECT_EQ(second->error->message, "KEPT");
    for (const std::string& line : second->error->traceback)
      EXPECT_THAT(line, Not(HasSubstr("kept")));
    EXPECT_TRUE(co_await remove_context(held, made->id, soon()));
  });
  EXPECT_THAT(gate_.asked, Contains(Act::code).Times(2));
  EXPECT_GT(outlet_.bytes[Origin::code], 20U);
}

TEST_F(Session, FilesAndArchivesGoBothWays) {
  run([&]() -> net::Task<void> {
    const Guest held = guest();
    const std::string file = dir_ + "/a/b.txt";
    EXPECT_TRUE(co_await write_file(held, file, {.parents = true}, source_of("inside"), soon()));
    EXPECT_EQ(read_whole(file), "inside");
    auto read = co_await read_file(held, file, 2, {}, soon());
    EXPECT_TRUE(read);
    if (read) EXPECT_EQ((co_await whole(*std::move(read))).value_or(""), "SIDE");
    std::vector<std::string> names;
    auto sink = [&](FileInfo info) -> net::Task<Result<>> {
      names.push_back(info.name);
      co_return Result<>();
    };
    EXPECT_TRUE(co_await list_directory(held, dir_ + "/a", sink, soon()));
    EXPECT_THAT(names, ElementsAre("B.TXT"));
    const auto info = co_await stat_file(held, file, true, soon());
    EXPECT_TRUE(info && info->size == 6 && info->type == "file");
    auto archive = co_await read_archive(held, dir_ + "/a", soon());
    EXPECT_TRUE(archive);
    if (archive)
      EXPECT_THAT((co_await whole(*std::move(archive))).value_or(""), HasSubstr("INSIDE"));
    EXPECT_TRUE(co_await rename_file(held, file, dir_ + "/c", soon()));
    EXPECT_TRUE(co_await remove_file(held, dir_ + "/a", true, soon()));
    EXPECT_FALSE(std::filesystem::exists(dir_ + "/a"));
  });
  EXPECT_THAT(gate_.asked, ElementsAre(Act::write_file, Act::write_file, Act::write_file));
  EXPECT_GT(outlet_.bytes[Origin::archive], 1000U);
}

TEST_F(Session, NothingBeginsWhenTheGateSaysNo) {
  run([&]() -> net::Task<void> {
    const Guest held = guest();
    const std::string mark = dir_ + "/mark";
    gate_.forbidden = Act::exec;
    const auto ran = co_await session::run(held, {.shell = "touch " + mark}, "", caller_);
    EXPECT_EQ(ran.error().code, Code::exhausted);
    EXPECT_FALSE(co_await start(held, {.shell = "touch " + mark}, "", soon()));
    EXPECT_FALSE(co_await Terminal::open(held, {.shell = "touch " + mark}, soon()));
    gate_.forbidden = Act::write_file;
    EXPECT_FALSE(co_await write_file(held, mark, {}, source_of("x"), soon()));
    EXPECT_FALSE(co_await write_archive(held, dir_, source_of("x"), soon()));
    EXPECT_FALSE(co_await make_directory(held, mark, {}, false, soon()));
    gate_.forbidden = Act::code;
    const auto made = co_await create_context(held, {.language = "bash"}, soon());
    EXPECT_TRUE(made);
    if (made) {
      const auto code =
          co_await run_code(held, {.context = made->id, .text = "touch " + mark}, caller_, soon());
      EXPECT_FALSE(code);
    }
    EXPECT_FALSE(std::filesystem::exists(mark));
  });
}

// Keys until the prompt has answered, then away.
class Typist final : public TerminalPeer {
 public:
  explicit Typist(std::string keys) : keys_(std::move(keys)) {}
  net::Task<std::optional<TerminalInput>> input() override {
    if (!keys_.empty()) co_return Keys{std::exchange(keys_, {})};
    net::Event never(co_await net::asio::this_coro::executor);
    (void)co_await never.wait(Deadline::in(std::chrono::minutes(1)));
    co_return std::nullopt;
  }
  net::Task<bool> show(std::string bytes) override {
    shown += bytes;
    co_return true;
  }
  net::Task<void> ended(std::optional<Ending> how) override {
    ending = how;
    co_return;
  }
  std::string shown;
  std::optional<Ending> ending;

 private:
  std::string keys_;
};

TEST_F(Session, ATerminalShowsWhatPassedTheOutlet) {
  Typist typist("echo see $((40+2)); exit 4\n");
  run([&]() -> net::Task<void> {
    const Guest held = guest();
    auto terminal = co_await Terminal::open(held, {.shell = "exec sh"}, soon());
    EXPECT_TRUE(terminal) << terminal.error().text();
    if (terminal) co_await terminal->serve(typist);
  });
  EXPECT_THAT(typist.shown, HasSubstr("SEE 42"));
  EXPECT_THAT(typist.shown, Not(HasSubstr("see")));
  EXPECT_TRUE(typist.ending && typist.ending->exit_code == 4);
  EXPECT_EQ(outlet_.bytes[Origin::terminal], typist.shown.size());
}

// A secret may lie across the edge of a range: the outlet sees what stands around it.
TEST_F(Session, ARangeOfAFileIsReadWithWhatStandsAroundIt) {
  std::ofstream(dir_ + "/file") << "abcdefghij";
  run([&]() -> net::Task<void> {
    const Guest held = guest();
    auto middle = co_await read_file(held, dir_ + "/file", 5, 2, soon());
    EXPECT_TRUE(middle);
    if (!middle) co_return;
    EXPECT_EQ((co_await whole(*std::move(middle))).value_or(""), "FG");
    EXPECT_EQ(outlet_.contexts, "cde");
    EXPECT_EQ(outlet_.bytes[Origin::file], 5U);  // and three behind it
    outlet_.contexts.clear();
    auto first = co_await read_file(held, dir_ + "/file", 1, std::nullopt, soon());
    EXPECT_EQ((co_await whole(*std::move(first))).value_or(""), "BCDEFGHIJ");
    EXPECT_EQ(outlet_.contexts, "a");
    auto none = co_await read_file(held, dir_ + "/file", 4, 0, soon());
    EXPECT_EQ((co_await whole(*std::move(none))).value_or("x"), "");
  });
}

TEST_F(Session, OutputFromItsMiddleIsReadWithWhatStandsBeforeIt) {
  run([&]() -> net::Task<void> {
    const Guest held = guest();
    const auto id = co_await start(held, {.shell = "printf 0123456789"}, "", soon());
    EXPECT_TRUE(id);
    if (!id) co_return;
    const auto text_from = [&](std::uint64_t offset) -> net::Task<std::string> {
      auto events = co_await follow(held, *id, offset, soon());
      EXPECT_TRUE(events) << events.error().text();
      std::string text;
      for (bool ended = !events; !ended;) {
        const auto event = co_await events->next(soon());
        if (!event || !*event) break;
        if (const auto* chunk = std::get_if<Chunk>(&**event)) text += chunk->bytes;
        ended = std::holds_alternative<Ending>(**event);
      }
      co_return text;
    };
    EXPECT_EQ(co_await text_from(0), "0123456789");
    EXPECT_EQ(outlet_.contexts, "");
    EXPECT_EQ(co_await text_from(6), "6789");
    EXPECT_EQ(outlet_.contexts, "345");
  });
}

}  // namespace
}  // namespace firebreak::session
