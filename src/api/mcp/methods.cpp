#include "api/mcp/methods.h"

#include <algorithm>
#include <array>

#include "api/mcp/resources.h"
#include "api/mcp/tool_support.h"
#include "wire/mcp_envelope.h"

namespace firebreak::api::mcp {
namespace {

using wire::mcp::ErrorCode;
using wire::mcp::Message;
using wire::mcp::RpcError;

constexpr const char* kInstructions =
    "Firebreak runs code in isolated sandboxes. Call execute_code with Python to compute, to work "
    "with data and to draw; run_command for shell commands. Without sandbox_id all tools work in "
    "one default sandbox, which keeps files and variables between calls. Long work: let it go on "
    "in the background and read it with the tool process.";

// How long a client may keep a list of what never changes while the server runs.
constexpr int kKeep = 3'600'000;

json::object capabilities() {
  return {{"tools", json::object{}}, {"resources", json::object{}}};
}

std::unexpected<RpcError> refuse(ErrorCode code, std::string message, json::object data = {}) {
  return std::unexpected(RpcError{code, std::move(message), std::move(data)});
}

// Modern results say that they are complete, who made them and how long they hold.
struct Keeping {
  int ttl_ms;
  const char* scope;
};
json::object finished(const Asker& asker, json::object result, std::optional<Keeping> keeping) {
  if (asker.era == Era::legacy) return result;
  result["resultType"] = "complete";
  result["_meta"] = json::object{{wire::mcp::kServerInfoKey, server_info()}};
  if (keeping) {
    result["ttlMs"] = keeping->ttl_ms;
    result["cacheScope"] = keeping->scope;
  }
  return result;
}

// ------------------------------------------------------------------------------------------ tools

json::object call_result(const Result<ToolResult>& result) {
  if (!result)
    return {{"content", json::array{text_block(result.error().message)}}, {"isError", true}};
  json::array content{text_block(json::serialize(result->structured))};
  for (const json::value& block : result->blocks) content.push_back(block);
  return {{"content", std::move(content)},
          {"structuredContent", result->structured},
          {"isError", result->failed}};
}

Result<> check_arguments(const Tool& tool, const json::object& arguments) {
  for (const auto& member : arguments) {
    if (std::ranges::find(tool.arguments, std::string_view(member.key())) != tool.arguments.end())
      continue;
    std::string known;
    for (const std::string& name : tool.arguments) known += (known.empty() ? "" : ", ") + name;
    return fail(Code::invalid, tool.name + " has no argument '" + std::string(member.key()) +
                                   "'; it takes " + known);
  }
  return {};
}

net::Task<Result<ToolResult>> call_tool(Parts& parts, const Asker& asker, const Tool& tool,
                                        json::object arguments) {
  FB_CO_TRY(check_arguments(tool, arguments));
  ToolCall call{.parts = parts,
                .owner = asker.owner,
                .arguments = std::move(arguments),
                .caller = asker.caller,
                .progress = asker.progress,
                .carries = tool.carries};
  co_return co_await tool.handler(call);
}

net::Task<MethodResult> tools_list(Parts&, const Asker& asker, const Message&) {
  json::array all;
  for (const Tool& tool : tools()) all.emplace_back(tool.description);
  co_return finished(asker, {{"tools", std::move(all)}}, Keeping{kKeep, "public"});
}

net::Task<MethodResult> tools_call(Parts& parts, const Asker& asker, const Message& request) {
  const json::value* name = request.params.if_contains("name");
  if (name == nullptr || !name->is_string())
    co_return refuse(ErrorCode::invalid_params, "name must be the name of a tool");
  const std::string wanted(name->get_string());
  const auto tool = std::ranges::find(tools(), wanted, &Tool::name);
  if (tool == tools().end())
    co_return refuse(ErrorCode::invalid_params, "there is no tool '" + wanted + "'");
  const json::value* arguments = request.params.if_contains("arguments");
  if (arguments != nullptr && !arguments->is_object())
    co_return refuse(ErrorCode::invalid_params, "arguments must be an object");
  const auto result = co_await call_tool(
      parts, asker, *tool, arguments == nullptr ? json::object{} : arguments->get_object());
  if (!result && (result.error().code == Code::internal || result.error().code == Code::corrupt))
    parts.supervisor.services().log.error("mcp",
                                          {{"tool", wanted}, {"error", result.error().text()}});
  co_return finished(asker, call_result(result), std::nullopt);
}

// -------------------------------------------------------------------------------------- resources

net::Task<MethodResult> resources_list(Parts& parts, const Asker& asker, const Message&) {
  auto listed = co_await list_resources(parts, asker.owner);
  if (!listed) co_return refuse(ErrorCode::internal_error, listed.error().message);
  co_return finished(asker, {{"resources", *std::move(listed)}}, Keeping{0, "private"});
}

net::Task<MethodResult> resources_templates(Parts&, const Asker& asker, const Message&) {
  co_return finished(asker, {{"resourceTemplates", resource_templates()}},
                     Keeping{kKeep, "public"});
}

net::Task<MethodResult> resources_read(Parts& parts, const Asker& asker, const Message& request) {
  const json::value* uri = request.params.if_contains("uri");
  if (uri == nullptr || !uri->is_string())
    co_return refuse(ErrorCode::invalid_params, "uri must be the URI of a resource");
  auto read = co_await read_resource(parts, asker.owner, std::string(uri->get_string()));
  if (!read) {
    const bool missing = read.error().code == Code::not_found;
    const ErrorCode code = missing && asker.era == Era::legacy ? ErrorCode::resource_not_found
                                                               : ErrorCode::invalid_params;
    co_return refuse(code, read.error().message, {{"uri", *uri}});
  }
  co_return finished(asker, {{"contents", *std::move(read)}}, Keeping{0, "private"});
}

// ---------------------------------------------------------------------------------------- general

net::Task<MethodResult> ping(Parts&, const Asker&, const Message&) {
  co_return json::object{};
}

net::Task<MethodResult> discover(Parts&, const Asker& asker, const Message&) {
  co_return finished(asker,
                     {{"supportedVersions", json::array{json::value(wire::mcp::kModernVersion)}},
                      {"capabilities", capabilities()},
                      {"instructions", kInstructions}},
                     Keeping{kKeep, "public"});
}

struct Method {
  std::string_view name;
  bool legacy;
  bool modern;
  net::Task<MethodResult> (*run)(Parts&, const Asker&, const Message&);
};
constexpr std::array<Method, 7> kMethods{{
    {"ping", true, false, ping},
    {"server/discover", false, true, discover},
    {"tools/list", true, true, tools_list},
    {"tools/call", true, true, tools_call},
    {"resources/list", true, true, resources_list},
    {"resources/templates/list", true, true, resources_templates},
    {"resources/read", true, true, resources_read},
}};

}  // namespace

json::object server_info() {
  return {{"name", "firebreak"}, {"title", "Firebreak"}, {"version", FIREBREAK_VERSION}};
}

std::string negotiated(const json::object& params) {
  const json::value* asked = params.if_contains("protocolVersion");
  if (asked != nullptr && asked->is_string() && wire::mcp::is_legacy_version(asked->get_string()))
    return std::string(asked->get_string());
  return std::string(wire::mcp::kLegacyVersions.front());
}

json::object initialized(const std::string& version) {
  return {{"protocolVersion", version},
          {"capabilities", capabilities()},
          {"serverInfo", server_info()},
          {"instructions", kInstructions}};
}

net::Task<MethodResult> run_method(Parts& parts, const Asker& asker, const Message& request) {
  const auto method = std::ranges::find(kMethods, request.method, &Method::name);
  if (method == kMethods.end() || !(asker.era == Era::legacy ? method->legacy : method->modern))
    co_return refuse(ErrorCode::method_not_found, "there is no method '" + request.method + "'");
  co_return co_await method->run(parts, asker, request);
}

}  // namespace firebreak::api::mcp
