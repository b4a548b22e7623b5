// Tools about sandboxes themselves: create, list, pause, resume, fork, kill, and a port's URL.
#include "api/mcp/tool_support.h"

namespace firebreak::api::mcp {
namespace {

json::object sandbox_json(const ToolCall& call, const core::Microvm& microvm) {
  json::object object{{"sandbox_id", microvm.id.str()},
                      {"state", to_string(microvm.state)},
                      {"template", microvm.image_name},
                      {"default", session::DefaultSandboxes::is_default(call.owner, microvm)},
                      {"created_at", core::to_unix_ms(microvm.started)}};
  if (!microvm.name.empty()) object["name"] = microvm.name;
  if (microvm.max_duration)
    object["expires_at"] = core::to_unix_ms(microvm.started + *microvm.max_duration);
  return object;
}

ToolResult sandbox_result(const ToolCall& call, const core::Microvm& microvm) {
  ToolResult result;
  result.structured = sandbox_json(call, microvm);
  return result;
}

Result<control::LaunchRequest> launch_of(const ToolCall& call) {
  JsonReader reader(call.arguments);
  control::LaunchRequest request;
  request.image = reader.string_or("template", "");
  request.name = reader.string_or("name", "");
  if (reader.has("timeout_s"))
    request.max_duration = core::Seconds(bounded(reader, "timeout_s", 1, 1, 31622400));
  if (reader.has("network")) request.egress = reader.string("network");
  request.env = reader.string_map_or_empty("env");
  request.tags = reader.string_map_or_empty("metadata");
  FB_TRY(reader.result());
  return request;
}

}  // namespace

net::Task<Result<ToolResult>> sandbox_create(ToolCall& call) {
  FB_CO_TRY_ASSIGN(control::LaunchRequest request, launch_of(call));
  FB_CO_TRY_ASSIGN(
      const core::Microvm now,
      co_await call.parts.sandboxes.create(call.owner, std::move(request), Deadline::in(kSoon)));
  co_return sandbox_result(call, now);
}

net::Task<Result<ToolResult>> sandbox_list(ToolCall& call) {
  JsonReader reader(call.arguments);
  std::string cursor = reader.string_or("cursor", "");
  FB_CO_TRY(reader.result());
  FB_CO_TRY_ASSIGN(const auto listed,
                   co_await call.parts.sandboxes.list(call.owner, std::move(cursor)));
  json::array sandboxes;
  for (const core::Microvm& microvm : listed.sandboxes)
    sandboxes.push_back(sandbox_json(call, microvm));
  ToolResult result;
  result.structured["sandboxes"] = std::move(sandboxes);
  if (!listed.next.empty()) result.structured["next_cursor"] = listed.next;
  co_return result;
}

net::Task<Result<ToolResult>> sandbox_pause(ToolCall& call) {
  FB_CO_TRY_ASSIGN(const core::MicrovmId id, co_await existing_sandbox(call));
  FB_CO_TRY_ASSIGN(const core::Microvm now, co_await call.parts.supervisor.suspend(
                                                call.owner.tenant.id, id, Deadline::in(kSoon)));
  co_return sandbox_result(call, now);
}

net::Task<Result<ToolResult>> sandbox_resume(ToolCall& call) {
  FB_CO_TRY_ASSIGN(const core::MicrovmId id, co_await existing_sandbox(call));
  FB_CO_TRY_ASSIGN(const core::Microvm now, co_await call.parts.supervisor.resume(
                                                call.owner.tenant.id, id, Deadline::in(kSoon)));
  co_return sandbox_result(call, now);
}

net::Task<Result<ToolResult>> sandbox_fork(ToolCall& call) {
  JsonReader reader(call.arguments);
  const std::uint64_t count = bounded(reader, "count", 1, 1, 64);
  FB_CO_TRY(reader.result());
  FB_CO_TRY_ASSIGN(const core::MicrovmId id, co_await existing_sandbox(call));
  const Deadline deadline = Deadline::in(kSoon);
  control::Supervisor& supervisor = call.parts.supervisor;
  FB_CO_TRY_ASSIGN(
      const auto children,
      co_await supervisor.fork(call.owner.tenant, id, static_cast<std::uint32_t>(count), deadline));
  json::array sandboxes;
  for (const core::Microvm& child : children) {
    FB_CO_TRY_ASSIGN(const core::Microvm now,
                     co_await supervisor.wait_started(call.owner.tenant.id, child.id, deadline));
    sandboxes.push_back(sandbox_json(call, now));
  }
  ToolResult result;
  result.structured["sandboxes"] = std::move(sandboxes);
  co_return result;
}

net::Task<Result<ToolResult>> sandbox_kill(ToolCall& call) {
  FB_CO_TRY_ASSIGN(const core::MicrovmId id, co_await existing_sandbox(call));
  FB_CO_TRY_ASSIGN(const core::Microvm now, co_await call.parts.supervisor.terminate(
                                                call.owner.tenant.id, id, Deadline::in(kSoon)));
  co_return sandbox_result(call, now);
}

net::Task<Result<ToolResult>> expose_port(ToolCall& call) {
  JsonReader reader(call.arguments);
  const std::uint64_t port = reader.u64("port");
  if (port == 0 || port > 65535) reader.reject("port", "must be 1 to 65535");
  ingress::TokenRequest request;
  request.life =
      core::Seconds(bounded(reader, "expires_s", 3600, 1, ingress::kMaxTokenLife.count()));
  FB_CO_TRY(reader.result());
  FB_CO_TRY_ASSIGN(request.ports, core::parse_ports(std::to_string(port)));
  request.port = static_cast<std::uint16_t>(port);
  FB_CO_TRY_ASSIGN(const core::MicrovmId id, co_await sandbox_of(call));
  FB_CO_TRY_ASSIGN(const core::Microvm microvm,
                   co_await call.parts.supervisor.get(call.owner.tenant.id, id));
  FB_CO_TRY_ASSIGN(const ingress::IssuedToken issued,
                   co_await call.parts.tokens.issue(call.owner.tenant.id, id, std::move(request)));
  ToolResult result;
  result.structured = {{"sandbox_id", id.str()},
                       {"port", port},
                       {"url", "https://" + call.parts.endpoints.of(microvm.endpoint) + "/"},
                       {"headers", json::object{{"X-aws-proxy-auth", issued.token}}},
                       {"expires_at", core::to_unix_ms(issued.record.expires)}};
  co_return result;
}

}  // namespace firebreak::api::mcp
