#include "session/exec.h"

#include <algorithm>

#include "base/text.h"
#include "machine/agent_client.h"
#include "net/race.h"

namespace firebreak::session {
namespace {

constexpr auto kLongest = std::chrono::hours(24);
constexpr auto kSoon = std::chrono::minutes(5);
constexpr auto kEnding = std::chrono::seconds(10);
constexpr std::size_t kMostListed = 4096;

std::string path_of(const std::string& id) {
  return "/execs/" + percent_encode(id, "");
}

// What the microVM was run with is in the environment of everything that is started in it later;
// what the command itself says wins.
machine::ExecSpec spec_of(const Guest& guest, Command command, std::string id) {
  machine::ExecSpec spec;
  spec.argv = std::move(command.argv);
  spec.shell = std::move(command.shell);
  spec.env = std::move(command.env);
  const core::Environment& env = guest.microvm().env;
  spec.env.insert(env.begin(), env.end());
  spec.cwd = std::move(command.cwd);
  spec.user = std::move(command.user);
  spec.with_stdin = command.open_stdin;
  if (command.terminal) spec.pty = {command.terminal->cols, command.terminal->rows};
  spec.timeout_ms = static_cast<std::uint64_t>(command.timeout.count());
  spec.id = std::move(id);
  return spec;
}

Ending ending_of(const machine::ExecExit& exit) {
  return {.exit_code = exit.exit_code,
          .signal = exit.signal,
          .timed_out = exit.timed_out,
          .out_of_memory = exit.oom};
}

Result<CommandStatus> parse_status(const Guest& guest, const json::object& object) {
  JsonReader reader(object);
  CommandStatus status;
  status.id = guest.out_whole(Origin::exec, reader.string("id"));
  status.pid = reader.u64_or("pid", 0);
  status.running = reader.boolean_or("running", false);
  status.started_ms = reader.u64_or("started_ms", 0);
  status.output_bytes = reader.u64_or("offset", 0);
  status.input_bytes = reader.u64_or("stdin_offset", 0);
  if (const json::object* exit = reader.object("exit", false)) {
    FB_TRY_ASSIGN(const machine::ExecExit ended, machine::parse_exit(json::serialize(*exit)));
    status.ending = ending_of(ended);
  }
  if (auto ok = reader.result(); !ok)
    return fail(Code::guest, "bad status of a command", ok.error().message);
  return status;
}

net::Task<Result<>> feed(const Guest& guest, const std::string& id, std::string input,
                         Deadline deadline) {
  guest.took(input.size());
  auto fed = guest.told(co_await guest.agent().exec_stdin(id, 0, input, true, deadline));
  // A command may end, or close its input, before it has read everything.
  if (!fed && fed.error().code != Code::conflict && fed.error().code != Code::not_found)
    co_return fed;
  co_return Result<>();
}

// Input is fed while output is read: a command that answers as it reads would stop otherwise, once
// nobody takes its output.
net::Task<Result<>> feed_beside(const Guest& guest, const std::string& id, std::string input,
                                net::Task<Result<>> reading) {
  if (input.empty()) co_return co_await std::move(reading);
  const Deadline deadline = Deadline::in(kLongest);
  auto feeding = [&]() -> net::Task<Result<>> {
    FB_CO_TRY(co_await feed(guest, id, std::move(input), deadline));
    net::Event never(co_await net::asio::this_coro::executor);
    (void)co_await never.wait(deadline);
    co_return fail(Code::timeout, "the command took longer than a day");
  };
  auto either = co_await net::race(std::move(reading), feeding());
  co_return either.index() == 0 ? std::get<0>(either) : std::get<1>(either);
}

net::Task<Result<>> give_events(ExecEvents& events, const ExecSink& sink) {
  const Deadline deadline = Deadline::in(kLongest);
  for (bool ended = false; !ended;) {
    FB_CO_TRY_ASSIGN(auto event, co_await events.next(deadline));
    if (!event) co_return fail(Code::guest, "the command's output ended without an exit status");
    ended = std::holds_alternative<Ending>(*event);
    FB_CO_TRY(co_await sink(*std::move(event)));
  }
  co_return Result<>();
}

// Without input the output comes with the answer to the start: one round trip to the guest less.
net::Task<Result<std::unique_ptr<machine::ExecStream>>> begin(const Guest& guest,
                                                              const machine::ExecSpec& spec) {
  const Deadline deadline = Deadline::in(kSoon);
  if (!spec.with_stdin) co_return guest.told(co_await guest.agent().start_attached(spec, deadline));
  FB_CO_TRY(guest.told(co_await guest.agent().start_exec(spec, deadline)));
  co_return guest.told(co_await guest.agent().exec_output(spec.id, 0, deadline));
}

}  // namespace

// ---------------------------------------------------------------------------------------- events

ExecEvents::ExecEvents(const Guest& guest, std::unique_ptr<machine::ExecStream> stream,
                       Origin origin, std::uint64_t begin)
    : guest_(guest),
      stream_(std::move(stream)),
      out_(guest.open(origin)),
      err_(guest.open(origin)),
      begin_(begin) {}

std::optional<ExecEvent> ExecEvents::output(wire::Frame frame, Flow& flow, Stream stream) {
  const std::uint64_t from = stream_->offset() - frame.payload.size();
  if (from < begin_) {
    const std::size_t before = std::min<std::uint64_t>(begin_ - from, frame.payload.size());
    flow.context(frame.payload.substr(0, before));
    frame.payload.erase(0, before);
    if (frame.payload.empty()) return std::nullopt;
  }
  return Chunk{stream, guest_.out(flow, std::move(frame.payload))};
}

std::optional<ExecEvent> ExecEvents::gap(const wire::Frame& frame) {
  if (frame.payload.size() != 8 || stream_->offset() <= begin_) return std::nullopt;
  return Gap{std::min(get_u64(frame.payload.data()), stream_->offset() - begin_)};
}

net::Task<Result<std::optional<ExecEvent>>> ExecEvents::next(Deadline deadline) {
  for (;;) {
    if (!waiting_.empty()) {
      ExecEvent event = std::move(waiting_.front());
      waiting_.pop_front();
      co_return event;
    }
    FB_CO_TRY_ASSIGN(auto frame, co_await stream_->next(deadline));
    if (!frame) co_return std::optional<ExecEvent>();
    switch (frame->type) {
      case wire::FrameType::out:
        if (auto event = output(*std::move(frame), *out_, Stream::out)) co_return event;
        break;
      case wire::FrameType::err:
        if (auto event = output(*std::move(frame), *err_, Stream::err)) co_return event;
        break;
      case wire::FrameType::gap:
        if (auto event = gap(*frame)) co_return event;
        break;
      case wire::FrameType::exit: {
        FB_CO_TRY_ASSIGN(const machine::ExecExit exit, machine::parse_exit(frame->payload));
        for (Chunk& chunk : cut()) waiting_.emplace_back(std::move(chunk));
        waiting_.emplace_back(ending_of(exit));
        break;
      }
      default:
        break;
    }
  }
}

// --------------------------------------------------------------- commands that belong to a caller

net::Task<Result<>> stream(const Guest& guest, Command command, std::string input, Presence& caller,
                           ExecSink sink) {
  if (!input.empty()) command.open_stdin = true;
  // Named by us, so that it can be ended whenever the caller leaves.
  const machine::ExecSpec spec = spec_of(guest, std::move(command), "call-" + core::new_uuid());
  FB_CO_TRY(co_await guest.ask(control::Act::exec));
  auto body = [&]() -> net::Task<Result<>> {
    FB_CO_TRY_ASSIGN(auto output, co_await begin(guest, spec));
    FB_CO_TRY(co_await sink(Started{spec.id}));
    ExecEvents events(guest, std::move(output), Origin::exec);
    auto reading = give_events(events, sink);
    co_return co_await feed_beside(guest, spec.id, std::move(input), std::move(reading));
  };
  auto result = co_await while_present(caller, body());
  // What a command that came to its end has left in the background goes on.
  if (!result) (void)co_await remove(guest, spec.id, Deadline::in(kEnding));
  co_return result;
}

net::Task<Result<RunResult>> run(const Guest& guest, Command command, std::string input,
                                 Presence& caller, std::size_t limit) {
  RunResult result;
  result.started = core::SystemClock().now();
  const auto began = std::chrono::steady_clock::now();
  auto collect = [&](ExecEvent event) -> net::Task<Result<>> {
    if (auto* ending = std::get_if<Ending>(&event)) result.ending = *ending;
    if (auto* chunk = std::get_if<Chunk>(&event)) result.add(std::move(*chunk), limit);
    if (result.out.truncated() || result.err.truncated())
      co_return fail(Code::exhausted,
                     "the output is larger than " + std::to_string(limit >> 20) + " MiB",
                     Repair{"use \"stream\": true"});
    co_return Result<>();
  };
  FB_CO_TRY(co_await stream(guest, std::move(command), std::move(input), caller, collect));
  result.duration = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - began);
  co_return result;
}

// ------------------------------------------------------------------------- commands that go on

net::Task<Result<std::string>> start(const Guest& guest, Command command, std::string input,
                                     Deadline deadline, std::string name) {
  if (!input.empty()) command.open_stdin = true;
  FB_CO_TRY(co_await guest.ask(control::Act::exec));
  // Named by us: what the guest would call it could be anything.
  const std::string id = name.empty() ? "exec-" + core::new_uuid() : std::move(name);
  const machine::ExecSpec spec = spec_of(guest, std::move(command), id);
  FB_CO_TRY(guest.told(co_await guest.agent().start_exec(spec, deadline)));
  if (!input.empty()) {
    auto fed = co_await feed(guest, id, std::move(input), deadline);
    if (!fed) {
      (void)co_await remove(guest, id, Deadline::in(kEnding));
      co_return std::unexpected(fed.error());
    }
  }
  co_return id;
}

net::Task<Result<ExecEvents>> follow(const Guest& guest, std::string id, std::uint64_t offset,
                                     Deadline deadline, Origin origin) {
  const std::uint64_t context = std::min<std::uint64_t>(offset, guest.reach());
  FB_CO_TRY_ASSIGN(auto output,
                   guest.told(co_await guest.agent().exec_output(id, offset - context, deadline)));
  co_return ExecEvents(guest, std::move(output), origin, offset);
}

net::Task<Result<std::vector<CommandStatus>>> list_commands(const Guest& guest, Deadline deadline) {
  FB_CO_TRY_ASSIGN(const json::object answer,
                   guest.told(co_await guest.agent().data_call("GET", "/execs", {}, deadline)));
  JsonReader reader(answer);
  const json::array* list = reader.array("execs", true);
  if (list == nullptr || list->size() > kMostListed)
    co_return fail(Code::guest, "bad list of commands");
  std::vector<CommandStatus> all;
  for (const json::value& entry : *list) {
    if (!entry.is_object()) co_return fail(Code::guest, "bad list of commands");
    FB_CO_TRY_ASSIGN(CommandStatus status, parse_status(guest, entry.get_object()));
    all.push_back(std::move(status));
  }
  co_return all;
}

net::Task<Result<CommandStatus>> command_status(const Guest& guest, std::string id,
                                                Deadline deadline) {
  FB_CO_TRY_ASSIGN(const json::object answer,
                   guest.told(co_await guest.agent().data_call("GET", path_of(id), {}, deadline)));
  co_return parse_status(guest, answer);
}

net::Task<Result<>> send_input(const Guest& guest, std::string id, std::uint64_t offset,
                               std::string bytes, bool end, Deadline deadline) {
  guest.took(bytes.size());
  co_return guest.told(co_await guest.agent().exec_stdin(id, offset, bytes, end, deadline));
}

net::Task<Result<>> send_signal(const Guest& guest, std::string id, int signal, bool group,
                                Deadline deadline) {
  const json::object body{{"signal", signal}, {"group", group}};
  FB_CO_TRY(guest.told(
      co_await guest.agent().data_call("POST", path_of(id) + "/signal", body, deadline)));
  co_return Result<>();
}

net::Task<Result<>> resize(const Guest& guest, std::string id, TerminalSize size,
                           Deadline deadline) {
  const json::object body{{"cols", size.cols}, {"rows", size.rows}};
  FB_CO_TRY(guest.told(
      co_await guest.agent().data_call("POST", path_of(id) + "/resize", body, deadline)));
  co_return Result<>();
}

net::Task<Result<>> remove(const Guest& guest, std::string id, Deadline deadline) {
  FB_CO_TRY(guest.told(co_await guest.agent().data_call("DELETE", path_of(id), {}, deadline)));
  co_return Result<>();
}

}  // namespace firebreak::session
