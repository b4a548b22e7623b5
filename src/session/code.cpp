#include "session/code.h"

#include "base/text.h"
#include "machine/agent_client.h"

namespace firebreak::session {
namespace {

constexpr auto kLongest = std::chrono::hours(24);
constexpr auto kEnding = std::chrono::seconds(10);
constexpr std::size_t kMostLines = 10'000;

// A language that the host knows is the host's own word, which callers compare. Any other text is
// the guest's.
bool is_known_language(std::string_view language) {
  return language == "python" || language == "bash" || language == "node";
}

Context context_of(const Guest& guest, machine::ContextStatus status) {
  const auto text = [&guest](std::string value) {
    return guest.out_whole(Origin::code, std::move(value));
  };
  const bool known = is_known_language(status.language);
  return {.id = text(std::move(status.id)),
          .language = known ? std::move(status.language) : text(std::move(status.language)),
          .state = text(std::move(status.state)),
          .execution_count = status.execution_count,
          .restarts = status.restarts,
          .last_run = text(std::move(status.run))};
}

// By the name that the caller knows it by.
Context named(Context context, std::string id) {
  context.id = std::move(id);
  return context;
}

std::size_t size_of(const CodeEvent& event) {
  if (const auto* chunk = std::get_if<Chunk>(&event)) return chunk->bytes.size();
  if (const auto* artifact = std::get_if<Artifact>(&event)) return artifact->data.size();
  return 0;
}

}  // namespace

// The values of a run come from a hostile guest: read member by member, and each text through the
// outlet.
class CodeValues {
 public:
  explicit CodeValues(const Guest& guest) : guest_(guest) {}

  Result<CodeEvent> artifact(std::string_view payload) {
    FB_TRY_ASSIGN(const json::object object, parse_json_object(payload));
    JsonReader reader(object);
    Artifact artifact;
    artifact.kind = text(reader.string("type"));
    artifact.main = reader.boolean_or("main", false);
    artifact.index = reader.u64_or("index", 0);
    artifact.truncated = reader.boolean_or("truncated", false);
    if (const json::value* data = object.if_contains("data")) {
      artifact.data =
          text(data->is_string() ? std::string(data->as_string()) : json::serialize(*data));
    }
    if (auto ok = reader.result(); !ok)
      return fail(Code::guest, "bad result of a run", ok.error().message);
    return artifact;
  }

  Result<CodeEvent> error(std::string_view payload) {
    FB_TRY_ASSIGN(const json::object object, parse_json_object(payload));
    JsonReader reader(object);
    CodeError error;
    error.name = text(reader.string_or("name", ""));
    error.message = text(reader.string_or("message", ""));
    if (const json::array* lines = reader.array("traceback", false)) {
      for (const json::value& line : *lines) {
        if (line.is_string() && error.traceback.size() < kMostLines)
          error.traceback.push_back(text(std::string(line.as_string())));
      }
    }
    if (auto ok = reader.result(); !ok)
      return fail(Code::guest, "bad error of a run", ok.error().message);
    return error;
  }

  static Result<CodeEvent> done(std::string_view payload) {
    FB_TRY_ASSIGN(const machine::RunDone done, machine::parse_done(payload));
    CodeDone event{.status = done.status,
                   .execution_count = done.execution_count,
                   .duration = std::chrono::milliseconds(done.duration_ms),
                   .ending = {}};
    if (done.exit)
      event.ending = Ending{.exit_code = done.exit->exit_code,
                            .signal = done.exit->signal,
                            .timed_out = done.exit->timed_out,
                            .out_of_memory = done.exit->oom};
    return event;
  }

 private:
  std::string text(std::string value) const {
    return guest_.out_whole(Origin::code, std::move(value));
  }

  const Guest& guest_;
};

CodeEvents::CodeEvents(const Guest& guest, std::unique_ptr<machine::RunStream> stream)
    : guest_(guest),
      stream_(std::move(stream)),
      values_(std::make_unique<CodeValues>(guest)),
      out_(guest.open(Origin::code)),
      err_(guest.open(Origin::code)),
      offset_(stream_->position().offset) {}
CodeEvents::CodeEvents(CodeEvents&&) noexcept = default;
CodeEvents::~CodeEvents() = default;

CodeStarted CodeEvents::started() const {
  return {stream_->position().run, stream_->state()};
}

net::Task<Result<CodeEvent>> CodeEvents::next(Deadline deadline) {
  auto event = co_await read(deadline);
  if (event) offset_ = stream_->position().offset;
  co_return event;
}

net::Task<Result<CodeEvent>> CodeEvents::read(Deadline deadline) {
  for (;;) {
    if (!waiting_.empty()) {
      CodeEvent event = std::move(waiting_.front());
      waiting_.pop_front();
      co_return event;
    }
    FB_CO_TRY_ASSIGN(auto frame, co_await stream_->next(deadline));
    if (!frame) co_return fail(Code::guest, "the context's output ended too early");
    switch (frame->type) {
      case wire::FrameType::out:
        co_return CodeEvent(Chunk{Stream::out, guest_.out(*out_, std::move(frame->payload))});
      case wire::FrameType::err:
        co_return CodeEvent(Chunk{Stream::err, guest_.out(*err_, std::move(frame->payload))});
      case wire::FrameType::gap:
        if (frame->payload.size() == 8) co_return CodeEvent(Gap{get_u64(frame->payload.data())});
        break;
      case wire::FrameType::item:
        co_return values_->artifact(frame->payload);
      case wire::FrameType::error:
        co_return values_->error(frame->payload);
      case wire::FrameType::done: {
        FB_CO_TRY_ASSIGN(CodeEvent done, CodeValues::done(frame->payload));
        for (Chunk& chunk : cut()) waiting_.emplace_back(std::move(chunk));
        waiting_.push_back(std::move(done));
        break;
      }
      default:
        break;
    }
  }
}

net::Task<Result<CodeEvents>> begin_code(const Guest& guest, Snippet code, Deadline start) {
  FB_CO_TRY(co_await guest.ask(control::Act::code));
  guest.took(code.text.size());
  const auto timeout = static_cast<std::uint64_t>(code.timeout.count());
  // Not given up half-way, and no error of it interrupts: what runs may be somebody else's.
  FB_CO_TRY_ASSIGN(auto stream, guest.told(co_await guest.agent().run_context(
                                    code.context, code.text, timeout, start)));
  // The first frame comes with the answer and names the run.
  FB_CO_TRY(co_await stream->next(start));
  co_return CodeEvents(guest, std::move(stream));
}

net::Task<Result<CodeEvents>> follow_code(const Guest& guest, std::string context, std::string run,
                                          std::uint64_t offset, Deadline deadline) {
  machine::RunPosition position{
      .context = std::move(context), .run = std::move(run), .offset = offset, .parts = {}};
  FB_CO_TRY_ASSIGN(auto stream, co_await guest.agent().attach_run(std::move(position), deadline));
  co_return CodeEvents(guest, std::move(stream));
}

net::Task<Result<>> stream_code(const Guest& guest, Snippet code, Presence& caller, CodeSink sink,
                                Deadline start) {
  const std::string context = code.context;
  FB_CO_TRY_ASSIGN(CodeEvents events, co_await begin_code(guest, std::move(code), start));
  const CodeStarted started = events.started();
  bool done = false;
  auto reading = [&]() -> net::Task<Result<>> {
    const Deadline deadline = Deadline::in(kLongest);
    while (!done) {
      FB_CO_TRY_ASSIGN(CodeEvent event, co_await events.next(deadline));
      done = std::holds_alternative<CodeDone>(event);
      FB_CO_TRY(co_await sink(std::move(event)));
    }
    co_return Result<>();
  };
  auto result = co_await sink(started);
  if (result) result = co_await while_present(caller, reading());
  // Nothing runs on for nobody.
  if (!result && !done)
    (void)co_await guest.agent().interrupt_run(context, started.run, Deadline::in(kEnding));
  co_return result;
}

net::Task<Result<CodeResult>> run_code(const Guest& guest, Snippet code, Presence& caller,
                                       Deadline start, std::size_t limit) {
  CodeResult result;
  result.output.started = core::SystemClock().now();
  std::size_t total = 0;
  auto collect = [&](CodeEvent event) -> net::Task<Result<>> {
    total += size_of(event);
    if (total > limit)
      co_return fail(Code::exhausted,
                     "the output is larger than " + std::to_string(limit >> 20) + " MiB",
                     Repair{"use \"stream\": true"});
    if (auto* started = std::get_if<CodeStarted>(&event)) result.started = std::move(*started);
    if (auto* chunk = std::get_if<Chunk>(&event)) result.output.add(std::move(*chunk), limit);
    if (auto* artifact = std::get_if<Artifact>(&event))
      result.output.artifacts.push_back(std::move(*artifact));
    if (auto* error = std::get_if<CodeError>(&event)) result.error = std::move(*error);
    if (auto* done = std::get_if<CodeDone>(&event)) result.done = std::move(*done);
    co_return Result<>();
  };
  FB_CO_TRY(co_await stream_code(guest, std::move(code), caller, collect, start));
  result.output.duration = result.done.duration;
  if (result.done.ending) result.output.ending = *result.done.ending;
  co_return result;
}

net::Task<Result<Context>> create_context(const Guest& guest, NewContext context,
                                          Deadline deadline) {
  // Named by us: what the guest would call it could be anything.
  if (context.id.empty()) context.id = "context-" + core::new_uuid();
  const machine::ContextSpec spec{.language = std::move(context.language),
                                  .env = std::move(context.env),
                                  .cwd = std::move(context.cwd),
                                  .user = std::move(context.user),
                                  .id = context.id};
  FB_CO_TRY_ASSIGN(auto made, guest.told(co_await guest.agent().create_context(spec, deadline)));
  co_return named(context_of(guest, std::move(made)), std::move(context.id));
}

net::Task<Result<std::vector<Context>>> list_contexts(const Guest& guest, Deadline deadline) {
  FB_CO_TRY_ASSIGN(auto found, guest.told(co_await guest.agent().contexts(deadline)));
  std::vector<Context> all;
  all.reserve(found.size());
  for (machine::ContextStatus& status : found) all.push_back(context_of(guest, std::move(status)));
  co_return all;
}

net::Task<Result<Context>> find_context(const Guest& guest, std::string id, Deadline deadline) {
  FB_CO_TRY_ASSIGN(auto found, guest.told(co_await guest.agent().context(id, deadline)));
  co_return named(context_of(guest, std::move(found)), std::move(id));
}

net::Task<Result<bool>> interrupt(const Guest& guest, std::string context,
                                  std::optional<std::string> run, Deadline deadline) {
  if (run) co_return guest.told(co_await guest.agent().interrupt_run(context, *run, deadline));
  co_return guest.told(co_await guest.agent().interrupt_context(context, deadline));
}

net::Task<Result<Context>> restart_context(const Guest& guest, std::string id, Deadline deadline) {
  FB_CO_TRY_ASSIGN(auto status, guest.told(co_await guest.agent().restart_context(id, deadline)));
  co_return named(context_of(guest, std::move(status)), std::move(id));
}

net::Task<Result<>> remove_context(const Guest& guest, std::string id, Deadline deadline) {
  co_return guest.told(co_await guest.agent().delete_context(id, deadline));
}

}  // namespace firebreak::session
