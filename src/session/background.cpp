#include "session/background.h"

namespace firebreak::session {
namespace {

constexpr auto kEnding = std::chrono::seconds(10);
constexpr auto kStarting = std::chrono::minutes(2);

// Events until the last one, or until the time is over; true: the last one came.
template <class Events, class Take>
net::Task<Result<bool>> take_events(Events& events, Deadline until, Take take) {
  for (;;) {
    auto event = co_await events.next(until);
    if (!event && until.passed() && event.error().code == Code::timeout) co_return false;
    FB_CO_TRY(event);
    FB_CO_TRY_ASSIGN(const bool last, co_await take(*std::move(event)));
    if (last) co_return true;
  }
}

void add_rest(std::vector<Chunk> chunks, RunResult& output, const Patience& patience) {
  for (Chunk& chunk : chunks) output.add(std::move(chunk), patience.most);
}

// --------------------------------------------------------------------------------------- commands

net::Task<Result<>> watch(ExecEvents& events, CommandView& view, const Patience& patience) {
  const auto began = std::chrono::steady_clock::now();
  auto take = [&](std::optional<ExecEvent> event) -> net::Task<Result<bool>> {
    if (!event) co_return fail(Code::guest, "the command's output ended without an exit status");
    if (auto* chunk = std::get_if<Chunk>(&*event)) {
      if (patience.seen) FB_CO_TRY(co_await patience.seen(*chunk));
      view.output.add(std::move(*chunk), patience.most);
    }
    if (const auto* gap = std::get_if<Gap>(&*event)) view.lost += gap->bytes;
    const auto* ending = std::get_if<Ending>(&*event);
    if (ending != nullptr) view.output.ending = *ending;
    view.cursor = events.offset();
    co_return ending != nullptr;
  };
  FB_CO_TRY_ASSIGN(const bool ended, co_await take_events(events, patience.until, take));
  view.running = !ended;
  if (!ended) add_rest(events.cut(), view.output, patience);
  view.output.duration = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - began);
  co_return Result<>();
}

// ------------------------------------------------------------------------------------------- code

// Keeps what an event brings; true: it was the last.
bool keep(CodeView& view, CodeEvent event, const Patience& patience, std::size_t& artifacts) {
  CodeResult& result = view.result;
  if (auto* chunk = std::get_if<Chunk>(&event)) result.output.add(std::move(*chunk), patience.most);
  if (const auto* gap = std::get_if<Gap>(&event)) view.lost += gap->bytes;
  if (auto* error = std::get_if<CodeError>(&event)) result.error = std::move(*error);
  if (auto* artifact = std::get_if<Artifact>(&event)) {
    artifacts += artifact->data.size();
    if (artifacts > patience.most_artifacts)
      view.left_out = true;
    else
      result.output.artifacts.push_back(std::move(*artifact));
  }
  auto* done = std::get_if<CodeDone>(&event);
  if (done == nullptr) return false;
  result.done = std::move(*done);
  result.output.duration = result.done.duration;
  if (result.done.ending) result.output.ending = *result.done.ending;
  return true;
}

net::Task<Result<>> watch(CodeEvents& events, CodeView& view, const Patience& patience) {
  std::size_t artifacts = 0;
  auto take = [&](CodeEvent event) -> net::Task<Result<bool>> {
    const auto* chunk = std::get_if<Chunk>(&event);
    if (chunk != nullptr && patience.seen) FB_CO_TRY(co_await patience.seen(*chunk));
    const bool last = keep(view, std::move(event), patience, artifacts);
    view.cursor = events.offset();
    co_return last;
  };
  FB_CO_TRY_ASSIGN(const bool ended, co_await take_events(events, patience.until, take));
  view.running = !ended;
  if (!ended) add_rest(events.cut(), view.result.output, patience);
  co_return Result<>();
}

// Several callers may want the same new context at once: the first makes it.
net::Task<Result<>> require_context(const Guest& guest, NewContext context, Deadline deadline) {
  auto found = co_await find_context(guest, context.id, deadline);
  if (found && !context.language.empty() && found->language != context.language)
    co_return fail(
        Code::conflict,
        "the context " + context.id + " runs " + found->language + ", not " + context.language,
        Repair{"choose another context for " + context.language});
  if (found) co_return Result<>();
  if (found.error().code != Code::not_found) co_return std::unexpected(found.error());
  auto made = co_await create_context(guest, std::move(context), deadline);
  if (!made && made.error().code != Code::conflict) co_return std::unexpected(made.error());
  co_return Result<>();
}

// Interrupts the run and waits for its end, so that the context is free for who comes next.
net::Task<void> end_run(const Guest& guest, const CodeView& view) {
  const Deadline deadline = Deadline::in(kEnding);
  const std::string run = view.result.started.run;
  (void)co_await interrupt(guest, view.context, run, deadline);
  auto events = co_await follow_code(guest, view.context, run, view.cursor, deadline);
  if (!events) co_return;
  (void)co_await take_events(*events, deadline, [](CodeEvent event) -> net::Task<Result<bool>> {
    co_return std::holds_alternative<CodeDone>(event);
  });
}

}  // namespace

net::Task<Result<CommandView>> run_patiently(const Guest& guest, Command command, std::string input,
                                             Presence& caller, Patience patience) {
  CommandView view;
  view.id = "call-" + core::new_uuid();
  view.output.started = core::SystemClock().now();
  auto body = [&]() -> net::Task<Result<>> {
    FB_CO_TRY(co_await start(guest, std::move(command), std::move(input), Deadline::in(kStarting),
                             view.id));
    FB_CO_TRY_ASSIGN(ExecEvents events,
                     co_await follow(guest, view.id, 0, Deadline::in(kStarting)));
    co_return co_await watch(events, view, patience);
  };
  auto result = co_await while_present(caller, body());
  if (!result) {
    (void)co_await remove(guest, view.id, Deadline::in(kEnding));
    co_return std::unexpected(result.error());
  }
  co_return view;
}

net::Task<Result<CommandView>> read_command(const Guest& guest, std::string id,
                                            std::uint64_t cursor, Presence& caller,
                                            Patience patience) {
  CommandView view;
  view.id = id;
  view.cursor = cursor;
  FB_CO_TRY_ASSIGN(ExecEvents events,
                   co_await follow(guest, std::move(id), cursor, Deadline::in(kStarting)));
  FB_CO_TRY(co_await while_present(caller, watch(events, view, patience)));
  co_return view;
}

net::Task<Result<CodeView>> run_code_patiently(const Guest& guest, NewContext context, Snippet code,
                                               Presence& caller, Patience patience) {
  CodeView view;
  view.context = context.id;
  code.context = context.id;
  view.result.output.started = core::SystemClock().now();
  const Deadline start = Deadline::in(kStarting);
  FB_CO_TRY(co_await require_context(guest, std::move(context), start));
  FB_CO_TRY_ASSIGN(CodeEvents events, co_await begin_code(guest, std::move(code), start));
  view.result.started = events.started();
  auto result = co_await while_present(caller, watch(events, view, patience));
  if (!result) {
    co_await end_run(guest, view);
    co_return std::unexpected(result.error());
  }
  co_return view;
}

net::Task<Result<CodeView>> read_code(const Guest& guest, std::string context, std::string run,
                                      std::uint64_t cursor, Presence& caller, Patience patience) {
  CodeView view;
  view.context = context;
  view.cursor = cursor;
  FB_CO_TRY_ASSIGN(CodeEvents events, co_await follow_code(guest, std::move(context), run, cursor,
                                                           Deadline::in(kStarting)));
  view.result.started.run = std::move(run);
  FB_CO_TRY(co_await while_present(caller, watch(events, view, patience)));
  co_return view;
}

}  // namespace firebreak::session
