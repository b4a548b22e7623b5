#include "machine/agent_client.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "base/sys.h"
#include "base/text.h"

namespace firebreak::machine {
namespace {

Code code_of(std::string_view name) {
  for (Code code : {Code::invalid, Code::denied, Code::not_found, Code::conflict, Code::exhausted,
                    Code::unavailable})
    if (to_string(code) == name) return code;
  return name == "refused" ? Code::unavailable : Code::guest;
}

// The guest is hostile: it chooses among the words that the agent has, and makes up none.
std::string known_reason(const std::string& word) {
  constexpr std::array<std::string_view, 9> kAgentReasons{
      "context_busy",     "context_not_found", "disk_full",      "exec_not_found", "name_taken",
      "no_such_language", "no_such_program",   "not_executable", "read_only"};
  return std::ranges::find(kAgentReasons, word) == kAgentReasons.end() ? std::string() : word;
}

json::object to_json(const std::map<std::string, std::string>& map) {
  json::object out;
  for (const auto& [key, value] : map) out[key] = value;
  return out;
}

json::array to_json(const std::vector<std::string>& list) {
  json::array out;
  for (const std::string& item : list) out.emplace_back(item);
  return out;
}

json::object to_json(const ExecSpec& spec) {
  json::object out;
  if (!spec.argv.empty()) out["argv"] = to_json(spec.argv);
  if (!spec.shell.empty()) out["shell"] = spec.shell;
  if (!spec.env.empty()) out["env"] = to_json(spec.env);
  if (!spec.cwd.empty()) out["cwd"] = spec.cwd;
  if (!spec.user.empty()) out["user"] = spec.user;
  if (spec.with_stdin) out["stdin"] = true;
  if (spec.pty) out["pty"] = json::object{{"cols", spec.pty->cols}, {"rows", spec.pty->rows}};
  if (spec.timeout_ms != 0) out["timeout_ms"] = spec.timeout_ms;
  if (spec.drop_on_overflow) out["overflow"] = "drop";
  if (spec.ring_bytes != 0) out["ring_bytes"] = spec.ring_bytes;
  if (!spec.id.empty()) out["id"] = spec.id;
  return out;
}

// Reads a whole small body after the head; used for error bodies of streamed calls.
net::Task<Result<net::Reply>> with_body(net::ChannelStream& stream, net::Reply reply,
                                        Deadline deadline) {
  for (;;) {
    FB_CO_TRY_ASSIGN(std::string bytes, co_await stream.read(deadline));
    if (bytes.empty()) co_return reply;
    if (reply.body.size() + bytes.size() > 64 * 1024)
      co_return fail(Code::guest, "the agent's error is too long");
    reply.body += bytes;
  }
}

net::Task<Result<json::object>> call(net::Channel& channel, std::string method, std::string path,
                                     std::string body, Deadline deadline) {
  FB_CO_TRY_ASSIGN(net::Reply reply, co_await channel.call(std::move(method), std::move(path),
                                                           std::move(body), deadline));
  if (reply.status / 100 != 2) co_return std::unexpected(agent_error(reply));
  if (reply.body.empty()) co_return json::object();
  auto object = parse_json_object(reply.body);
  if (!object)
    co_return fail(Code::guest, "the agent's answer is not a JSON object", object.error().message);
  co_return *std::move(object);
}

std::int64_t realtime_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

json::object wake_body(const AgentClient::Wake& wake) {
  json::object body{{"realtime_ns", realtime_ns()},  {"entropy", sys::random_hex(32)},
                    {"hostname", wake.hostname},     {"machine_id", wake.machine_id},
                    {"generation", wake.generation}, {"thaw", wake.thaw}};
  if (wake.network) body["network"] = *wake.network;
  if (!wake.metadata.empty()) body["metadata"] = wake.metadata;
  return body;
}

}  // namespace

net::Task<Result<net::Reply>> expect_head(net::ChannelStream& stream, Deadline deadline) {
  FB_CO_TRY_ASSIGN(net::Reply head, co_await stream.head(deadline));
  if (head.status / 100 == 2) co_return head;
  FB_CO_TRY_ASSIGN(net::Reply whole, co_await with_body(stream, std::move(head), deadline));
  co_return std::unexpected(agent_error(whole));
}

net::Task<Result<>> expect_ok(net::ChannelStream& stream, Deadline deadline) {
  FB_CO_TRY(co_await expect_head(stream, deadline));
  co_return Result<>();
}

Error agent_error(const net::Reply& reply) {
  auto object = parse_json_object(reply.body);
  if (!object)
    return {Code::guest, "the agent answered with status " + std::to_string(reply.status), {}};
  JsonReader reader(*object);
  Error error{code_of(reader.string_or("code", "internal")),
              reader.string_or("message", "no message"),
              "agent status " + std::to_string(reply.status)};
  error.reason = known_reason(reader.string_or("reason", ""));
  error.repair = reader.string_or("repair", "");
  return error;
}

Result<ExecExit> parse_exit(std::string_view payload) {
  auto object = parse_json_object(payload);
  if (!object) return fail(Code::guest, "the exit frame is not a JSON object");
  JsonReader reader(*object);
  ExecExit exit;
  if (reader.has("exit_code")) exit.exit_code = static_cast<int>(reader.u64("exit_code"));
  if (reader.has("signal")) exit.signal = static_cast<int>(reader.u64("signal"));
  exit.timed_out = reader.boolean_or("timed_out", false);
  exit.oom = reader.boolean_or("oom", false);
  if (auto ok = reader.result(); !ok)
    return fail(Code::guest, "bad exit frame", ok.error().message);
  return exit;
}

net::Task<Result<std::optional<wire::Frame>>> ExecStream::next(Deadline deadline) {
  for (;;) {
    FB_CO_TRY_ASSIGN(std::optional<wire::Frame> frame, decoder_.next());
    if (frame) {
      if (frame->type == wire::FrameType::out || frame->type == wire::FrameType::err)
        offset_ += frame->payload.size();
      if (frame->type == wire::FrameType::gap && frame->payload.size() == 8)
        offset_ += get_u64(frame->payload.data());
      co_return frame;
    }
    FB_CO_TRY_ASSIGN(std::string bytes, co_await stream_->read(deadline));
    if (bytes.empty()) {
      if (!decoder_.empty())
        co_return fail(Code::guest, "the output ended in the middle of a frame");
      co_return std::optional<wire::Frame>();
    }
    decoder_.feed(bytes);
  }
}

net::Task<Result<json::object>> AgentClient::ctl_call(std::string method, std::string path,
                                                      const json::object& body, Deadline deadline) {
  std::string text = body.empty() ? std::string() : json::serialize(body);
  return call(*ctl_, std::move(method), std::move(path), std::move(text), deadline);
}

net::Task<Result<json::object>> AgentClient::data_call(std::string method, std::string path,
                                                       const json::object& body,
                                                       Deadline deadline) {
  std::string text = body.empty() ? std::string() : json::serialize(body);
  return call(*data_, std::move(method), std::move(path), std::move(text), deadline);
}

Result<std::unique_ptr<net::ChannelStream>> AgentClient::data_stream(std::string method,
                                                                     std::string path, bool end) {
  return data_->start(std::move(method), std::move(path), end);
}

void AgentClient::close() {
  ctl_->close();
  data_->close();
}

net::Task<Result<AgentHealth>> AgentClient::health(Deadline deadline) {
  FB_CO_TRY_ASSIGN(json::object answer, co_await ctl_call("GET", "/health", {}, deadline));
  JsonReader reader(answer);
  AgentHealth health;
  health.protocol = reader.u64("protocol");
  health.tenant = reader.string("tenant");
  health.generation = reader.u64_or("generation", 0);
  if (const json::object* app = reader.object("app", false)) {
    JsonReader app_reader(*app);
    health.app_running = app_reader.boolean_or("running", false);
  }
  if (auto ok = reader.result(); !ok)
    co_return fail(Code::guest, "bad health answer", ok.error().message);
  co_return health;
}

net::Task<Result<>> AgentClient::start_tenant(const TenantSpec& spec, const GuestRoot& root,
                                              Deadline deadline) {
  json::object body{{"root", {{"device", root.device}, {"fstype", root.fstype}}},
                    {"pid1", spec.app_is_pid1 ? "app" : "reaper"},
                    {"capabilities", spec.all_capabilities ? "all" : "default"},
                    {"user", spec.user},
                    {"cwd", spec.cwd},
                    {"hostname", spec.hostname},
                    {"env", to_json(spec.env)},
                    {"network", spec.network},
                    {"realtime_ns", realtime_ns()},
                    {"entropy", sys::random_hex(32)},
                    {"machine_id", sys::random_hex(16)}};
  if (spec.app) {
    body["app"] = json::object{{"argv", to_json(spec.app->argv)},
                               {"env", to_json(spec.app->env)},
                               {"cwd", spec.app->cwd},
                               {"user", spec.app->user}};
  }
  FB_CO_TRY(co_await ctl_call("POST", "/tenant", body, deadline));
  co_return Result<>();
}

net::Task<Result<>> AgentClient::wake(const Wake& wake, Deadline deadline) {
  FB_CO_TRY_ASSIGN(const json::object answer,
                   co_await ctl_call("POST", "/wake", wake_body(wake), deadline));
  // An agent of an older snapshot takes no notice of it. What it cannot say is only an error where
  // it matters.
  if (wake.metadata.contains("role") && !JsonReader(answer).boolean_or("metadata", false))
    co_return fail(Code::unavailable, "the image was made before microVMs had roles",
                   Repair{"build it again"});
  metadata_ = wake.metadata;
  co_return Result<>();
}

net::Task<Result<>> AgentClient::set_metadata(json::object metadata, Deadline deadline) {
  FB_CO_TRY(co_await ctl_call("POST", "/metadata", {{"metadata", metadata}}, deadline));
  metadata_ = std::move(metadata);
  co_return Result<>();
}

net::Task<Result<>> AgentClient::set_network(bool network, Deadline deadline) {
  FB_CO_TRY(co_await ctl_call("POST", "/network", {{"network", network}}, deadline));
  co_return Result<>();
}

net::Task<Result<>> AgentClient::set_egress_summary(std::string text, Deadline deadline) {
  FB_CO_TRY(co_await ctl_call("POST", "/egress", {{"summary", text}}, deadline));
  co_return Result<>();
}

net::Task<Result<>> AgentClient::rehearse(bool network, Deadline deadline) {
  // The body of a wake, so that it takes the same way; the agent uses only entropy and network.
  Wake wake{.hostname = "rehearsal", .machine_id = std::string(32, '0')};
  if (network) wake.network = true;
  FB_CO_TRY(co_await ctl_call("POST", "/rehearse", wake_body(wake), deadline));
  ExecSpec cat;
  cat.argv = {"cat"};
  FB_CO_TRY(co_await rehearse_exec(cat, "rehearsal\n", deadline));
  // Often: later runs take paths that the first ones warmed up, or that only some runs take. An
  // image without these programs is rehearsed as far as it goes.
  for (const char* spec :
       {R"({"shell":"echo rehearsal; echo rehearsal >&2"})", R"({"argv":["true"]})",
        R"({"argv":["/bin/true"]})", R"({"argv":["/bin/true"]})", R"({"argv":["/bin/true"]})"}) {
    auto done = co_await run_at("/execs?attach=1&rehearsal=1", spec, deadline, 4096);
    if (!done && done.error().code != Code::not_found) co_return std::unexpected(done.error());
  }
  FB_CO_TRY(co_await ctl_call("POST", "/rehearse", wake_body(wake), deadline));
  co_return Result<>();
}

net::Task<Result<>> AgentClient::rehearse_exec(const ExecSpec& spec, std::string_view input,
                                               Deadline deadline) {
  ExecSpec fed = spec;
  fed.with_stdin = true;
  auto started = co_await data_call("POST", "/execs?rehearsal=1", to_json(fed), deadline);
  if (!started && started.error().code == Code::not_found) co_return Result<>();
  if (!started) co_return std::unexpected(started.error());
  const std::string id = JsonReader(*started).string_or("id", "");
  // In the order of a session: its input stays open while its output is followed.
  FB_CO_TRY(co_await exec_stdin(id, 0, input, false, deadline));
  FB_CO_TRY_ASSIGN(auto output, co_await exec_output(id, 0, deadline));
  FB_CO_TRY(co_await exec_stdin(id, input.size(), {}, true, deadline));
  for (;;) {
    FB_CO_TRY_ASSIGN(auto frame, co_await output->next(deadline));
    if (!frame) co_return Result<>();
  }
}

net::Task<Result<std::uint64_t>> AgentClient::freeze(bool destroy_sockets, bool sync,
                                                     Deadline deadline) {
  const json::object body{{"destroy_sockets", destroy_sockets}, {"sync", sync}};
  FB_CO_TRY_ASSIGN(json::object answer, co_await ctl_call("POST", "/freeze", body, deadline));
  JsonReader reader(answer);
  co_return reader.u64_or("sockets_destroyed", 0);
}

net::Task<Result<>> AgentClient::thaw(Deadline deadline) {
  json::object body{{"realtime_ns", realtime_ns()}};
  if (!metadata_.empty()) body["metadata"] = metadata_;
  FB_CO_TRY(co_await ctl_call("POST", "/thaw", body, deadline));
  co_return Result<>();
}

net::Task<Result<ExecResult>> AgentClient::run(const ExecSpec& spec, Deadline deadline,
                                               std::size_t limit) {
  return run_at("/execs?attach=1", json::serialize(to_json(spec)), deadline, limit);
}

net::Task<Result<std::unique_ptr<ExecStream>>> AgentClient::start_attached(const ExecSpec& spec,
                                                                           Deadline deadline) {
  return attach_at("/execs?attach=1", json::serialize(to_json(spec)), deadline);
}

net::Task<Result<std::unique_ptr<ExecStream>>> AgentClient::attach_at(std::string path,
                                                                      std::string spec,
                                                                      Deadline deadline) {
  FB_CO_TRY_ASSIGN(auto stream, data_stream("POST", std::move(path), false));
  FB_CO_TRY(co_await stream->write(spec, deadline));
  stream->finish();
  FB_CO_TRY(co_await expect_ok(*stream, deadline));
  co_return std::make_unique<ExecStream>(std::move(stream), 0);
}

net::Task<Result<ExecResult>> AgentClient::run_at(std::string path, std::string spec,
                                                  Deadline deadline, std::size_t limit) {
  FB_CO_TRY_ASSIGN(const auto output,
                   co_await attach_at(std::move(path), std::move(spec), deadline));
  ExecResult result;
  bool exited = false;
  for (;;) {
    FB_CO_TRY_ASSIGN(std::optional<wire::Frame> frame, co_await output->next(deadline));
    if (!frame) break;
    switch (frame->type) {
      case wire::FrameType::started:
        if (auto object = parse_json_object(frame->payload))
          result.id = JsonReader(*object).string_or("id", "");
        break;
      case wire::FrameType::out:
        result.out += frame->payload;
        break;
      case wire::FrameType::err:
        result.err += frame->payload;
        break;
      case wire::FrameType::exit: {
        FB_CO_TRY_ASSIGN(result.exit, parse_exit(frame->payload));
        exited = true;
        break;
      }
      case wire::FrameType::gap:
      case wire::FrameType::item:
      case wire::FrameType::error:
      case wire::FrameType::done:
      case wire::FrameType::part:
        break;
    }
    if (result.out.size() > limit || result.err.size() > limit)
      co_return fail(Code::exhausted, "the command's output is larger than the limit");
  }
  if (!exited) co_return fail(Code::guest, "the command's output ended without an exit status");
  co_return result;
}

net::Task<Result<std::string>> AgentClient::start_exec(const ExecSpec& spec, Deadline deadline) {
  FB_CO_TRY_ASSIGN(json::object answer,
                   co_await data_call("POST", "/execs", to_json(spec), deadline));
  JsonReader reader(answer);
  std::string id = reader.string("id");
  if (auto ok = reader.result(); !ok)
    co_return fail(Code::guest, "bad exec answer", ok.error().message);
  co_return id;
}

net::Task<Result<std::unique_ptr<ExecStream>>> AgentClient::exec_output(const std::string& id,
                                                                        std::uint64_t offset,
                                                                        Deadline deadline) {
  const std::string path =
      "/execs/" + percent_encode(id, "") + "/output?offset=" + std::to_string(offset);
  FB_CO_TRY_ASSIGN(auto stream, data_stream("GET", path, true));
  FB_CO_TRY(co_await expect_ok(*stream, deadline));
  co_return std::make_unique<ExecStream>(std::move(stream), offset);
}

net::Task<Result<>> AgentClient::exec_stdin(const std::string& id, std::uint64_t offset,
                                            std::string_view bytes, bool eof, Deadline deadline) {
  const std::string path = "/execs/" + percent_encode(id, "") +
                           "/stdin?offset=" + std::to_string(offset) + (eof ? "&eof=1" : "");
  FB_CO_TRY_ASSIGN(auto stream, data_stream("POST", path, false));
  // The agent may answer, that stdin is closed, before it has taken everything.
  if (co_await stream->write(bytes, deadline)) stream->finish();
  FB_CO_TRY(co_await expect_ok(*stream, deadline));
  co_return Result<>();
}

net::Task<Result<>> AgentClient::signal_exec(const std::string& id, int signal, Deadline deadline) {
  const json::object body{{"signal", signal}};
  FB_CO_TRY(
      co_await data_call("POST", "/execs/" + percent_encode(id, "") + "/signal", body, deadline));
  co_return Result<>();
}

net::Task<Result<std::string>> AgentClient::read_file(const std::string& path, Deadline deadline,
                                                      std::size_t limit) {
  FB_CO_TRY_ASSIGN(auto stream, data_stream("GET", "/files?path=" + percent_encode(path), true));
  FB_CO_TRY(co_await expect_ok(*stream, deadline));
  std::string content;
  for (;;) {
    FB_CO_TRY_ASSIGN(std::string bytes, co_await stream->read(deadline));
    if (bytes.empty()) co_return content;
    if (content.size() + bytes.size() > limit)
      co_return fail(Code::exhausted, path + " is larger than the limit");
    content += bytes;
  }
}

net::Task<Result<>> AgentClient::write_file(const std::string& path, std::string_view content,
                                            Deadline deadline) {
  FB_CO_TRY_ASSIGN(auto stream, data_stream("PUT", "/files?path=" + percent_encode(path), false));
  FB_CO_TRY(co_await stream->write(content, deadline));
  stream->finish();
  FB_CO_TRY(co_await expect_ok(*stream, deadline));
  co_return Result<>();
}

}  // namespace firebreak::machine
