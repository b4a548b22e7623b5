#include <algorithm>
#include <iterator>
#include <string_view>

#include "base/text.h"
#include "machine/agent_client.h"

namespace firebreak::machine {
namespace {

constexpr std::size_t kMaxParts = 40 << 20;  // the agent takes items of 32 MiB
constexpr std::size_t kMaxContexts = 1024;
constexpr std::string_view kRunStates[] = {"fresh", "kept", "restarted"};

std::string path_of(const std::string& id, const std::string& rest = "") {
  return "/contexts/" + percent_encode(id, "") + rest;
}

Result<ContextStatus> parse_status(const json::object& object) {
  JsonReader reader(object);
  ContextStatus status;
  status.id = reader.string("id");
  status.language = reader.string("language");
  status.state = reader.string("state");
  status.execution_count = reader.u64_or("execution_count", 0);
  status.restarts = reader.u64_or("restarts", 0);
  status.run = reader.string_or("run", "");
  if (auto ok = reader.result(); !ok)
    return fail(Code::guest, "bad status of a context", ok.error().message);
  return status;
}

}  // namespace

Result<RunDone> parse_done(std::string_view payload) {
  auto object = parse_json_object(payload);
  if (!object) return fail(Code::guest, "the end of a run is not a JSON object");
  JsonReader reader(*object);
  RunDone done;
  done.status = reader.string("status");
  done.execution_count = reader.u64_or("execution_count", 0);
  done.duration_ms = reader.u64_or("duration_ms", 0);
  if (const json::object* exit = reader.object("exit", false)) {
    FB_TRY_ASSIGN(done.exit, parse_exit(json::serialize(*exit)));
  }
  if (auto ok = reader.result(); !ok)
    return fail(Code::guest, "bad end of a run", ok.error().message);
  return done;
}

Result<bool> RunStream::take(wire::Frame& frame) {
  position_.offset += wire::kFrameHeader + frame.payload.size();
  switch (frame.type) {
    case wire::FrameType::part:
      if (position_.parts.size() + frame.payload.size() > kMaxParts)
        return fail(Code::guest, "an item of a run is too long");
      position_.parts += frame.payload;
      return false;
    case wire::FrameType::item:
    case wire::FrameType::error:
      if (!position_.parts.empty()) frame.payload.insert(0, std::exchange(position_.parts, {}));
      return true;
    case wire::FrameType::started: {
      const auto object = parse_json_object(frame.payload);
      if (!object) return fail(Code::guest, "the start of a run is not a JSON object");
      JsonReader reader(*object);
      position_.run = reader.string_or("run", "");
      state_ = reader.string_or("state", "");
      if (std::ranges::find(kRunStates, state_) == std::end(kRunStates)) state_.clear();
      return true;
    }
    default:
      return true;
  }
}

net::Task<Result<std::optional<wire::Frame>>> RunStream::next(Deadline deadline) {
  for (;;) {
    FB_CO_TRY_ASSIGN(std::optional<wire::Frame> frame, decoder_.next());
    if (frame) {
      FB_CO_TRY_ASSIGN(const bool whole, take(*frame));
      if (whole) co_return frame;
      continue;
    }
    FB_CO_TRY_ASSIGN(std::string bytes, co_await stream_->read(deadline));
    if (bytes.empty()) {
      if (!decoder_.empty()) co_return fail(Code::guest, "a run ended in the middle of a frame");
      co_return std::optional<wire::Frame>();
    }
    decoder_.feed(bytes);
  }
}

net::Task<Result<ContextStatus>> AgentClient::create_context(const ContextSpec& spec,
                                                             Deadline deadline) {
  json::object body{{"language", spec.language}};
  if (!spec.env.empty()) {
    json::object env;
    for (const auto& [name, value] : spec.env) env[name] = value;
    body["env"] = std::move(env);
  }
  if (!spec.cwd.empty()) body["cwd"] = spec.cwd;
  if (!spec.user.empty()) body["user"] = spec.user;
  if (!spec.id.empty()) body["id"] = spec.id;
  if (!spec.modules.empty())
    body["modules"] = json::array(spec.modules.begin(), spec.modules.end());
  FB_CO_TRY_ASSIGN(json::object answer, co_await data_call("POST", "/contexts", body, deadline));
  co_return parse_status(answer);
}

net::Task<Result<ContextStatus>> AgentClient::context(const std::string& id, Deadline deadline) {
  FB_CO_TRY_ASSIGN(json::object answer, co_await data_call("GET", path_of(id), {}, deadline));
  co_return parse_status(answer);
}

net::Task<Result<std::vector<ContextStatus>>> AgentClient::contexts(Deadline deadline) {
  FB_CO_TRY_ASSIGN(json::object answer, co_await data_call("GET", "/contexts", {}, deadline));
  JsonReader reader(answer);
  const json::array* list = reader.array("contexts", true);
  if (list == nullptr || list->size() > kMaxContexts)
    co_return fail(Code::guest, "bad list of contexts");
  std::vector<ContextStatus> all;
  for (const json::value& entry : *list) {
    if (!entry.is_object()) co_return fail(Code::guest, "bad list of contexts");
    FB_CO_TRY_ASSIGN(ContextStatus status, parse_status(entry.get_object()));
    all.push_back(std::move(status));
  }
  co_return all;
}

net::Task<Result<std::unique_ptr<RunStream>>> AgentClient::run_context(const std::string& id,
                                                                       std::string_view code,
                                                                       std::uint64_t timeout_ms,
                                                                       Deadline deadline) {
  json::object body{{"code", json::string_view(code.data(), code.size())}};
  if (timeout_ms != 0) body["timeout_ms"] = timeout_ms;
  const std::string text = json::serialize(body);
  RunPosition position{.context = id};
  FB_CO_TRY_ASSIGN(auto stream, data_stream("POST", path_of(id, "/run"), false));
  FB_CO_TRY(co_await stream->write(text, deadline));
  stream->finish();
  FB_CO_TRY(co_await expect_ok(*stream, deadline));
  co_return std::make_unique<RunStream>(std::move(stream), std::move(position));
}

net::Task<Result<std::unique_ptr<RunStream>>> AgentClient::attach_run(RunPosition position,
                                                                      Deadline deadline) {
  const std::string rest = "/runs/" + percent_encode(position.run, "") +
                           "/output?offset=" + std::to_string(position.offset);
  FB_CO_TRY_ASSIGN(auto stream, data_stream("GET", path_of(position.context, rest), true));
  FB_CO_TRY(co_await expect_ok(*stream, deadline));
  co_return std::make_unique<RunStream>(std::move(stream), std::move(position));
}

net::Task<Result<bool>> AgentClient::interrupt_context(const std::string& id, Deadline deadline) {
  FB_CO_TRY_ASSIGN(json::object answer,
                   co_await data_call("POST", path_of(id, "/interrupt"), {}, deadline));
  co_return JsonReader(answer).boolean_or("interrupted", false);
}

net::Task<Result<bool>> AgentClient::interrupt_run(const std::string& id, const std::string& run,
                                                   Deadline deadline) {
  const std::string path = path_of(id, "/runs/" + percent_encode(run, "") + "/interrupt");
  auto answer = co_await data_call("POST", path, {}, deadline);
  if (answer) co_return JsonReader(*answer).boolean_or("interrupted", false);
  if (answer.error().code != Code::not_found) co_return std::unexpected(answer.error());
  // Older agents cannot be told which run: theirs is asked for first, and may end in between.
  FB_CO_TRY_ASSIGN(const ContextStatus now, co_await context(id, deadline));
  if (now.state != "busy" || now.run != run) co_return false;
  co_return co_await interrupt_context(id, deadline);
}

net::Task<Result<ContextStatus>> AgentClient::restart_context(const std::string& id,
                                                              Deadline deadline) {
  FB_CO_TRY_ASSIGN(json::object answer,
                   co_await data_call("POST", path_of(id, "/restart"), {}, deadline));
  co_return parse_status(answer);
}

net::Task<Result<>> AgentClient::delete_context(const std::string& id, Deadline deadline) {
  FB_CO_TRY(co_await data_call("DELETE", path_of(id), {}, deadline));
  co_return Result<>();
}

}  // namespace firebreak::machine
