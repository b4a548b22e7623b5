#include "api/native/answers.h"

#include <algorithm>
#include <string>

namespace firebreak::api {
namespace {

const std::vector<Answer> kAnswers{
    {"POST /v1/microvms", "Microvm"},
    {"GET /v1/microvms", "MicrovmPage"},
    {"GET /v1/microvms/{id}", "Microvm"},
    {"PATCH /v1/microvms/{id}", "Microvm"},
    {"DELETE /v1/microvms/{id}", "Microvm"},
    {"POST /v1/microvms/{id}/suspend", "Microvm"},
    {"POST /v1/microvms/{id}/resume", "Microvm"},
    {"POST /v1/microvms/{id}/fork", "Microvms"},
    {"GET /v1/microvms/{id}/egress", "EgressLog"},
    {"POST /v1/microvms/{id}/tokens", "IssuedToken"},
    {"GET /v1/microvms/{id}/tokens", "Tokens"},
    {"DELETE /v1/microvms/{id}/tokens/{token}", "RevokedToken"},
    {"POST /v1/microvms/{id}/exec", "ExecResult", Form::json, "OutputLine"},
    {"POST /v1/microvms/{id}/execs", "StartedExec"},
    {"GET /v1/microvms/{id}/execs", "Execs"},
    {"GET /v1/microvms/{id}/execs/{exec}", "Exec"},
    {"GET /v1/microvms/{id}/execs/{exec}/output", "OutputLine", Form::lines},
    {"POST /v1/microvms/{id}/execs/{exec}/stdin", "StdinOffset"},
    {"GET /v1/microvms/{id}/logs", "OutputLine", Form::lines},
    {"GET /v1/microvms/{id}/files", {}, Form::bytes},
    {"GET /v1/microvms/{id}/files/stat", "FileInfo"},
    {"GET /v1/microvms/{id}/files/list", "FileInfo", Form::lines},
    {"GET /v1/microvms/{id}/tar", {}, Form::bytes},
    {"POST /v1/microvms/{id}/contexts", "Context"},
    {"GET /v1/microvms/{id}/contexts", "Contexts"},
    {"GET /v1/microvms/{id}/contexts/{context}", "Context"},
    {"POST /v1/microvms/{id}/contexts/{context}/run", "CodeResult", Form::json, "CodeLine"},
    {"POST /v1/microvms/{id}/contexts/{context}/interrupt", "Interrupted"},
    {"POST /v1/microvms/{id}/contexts/{context}/restart", "Context"},
    {"GET /v1/microvms/{id}/pty", {}, Form::websocket},
    {"GET /v1/microvms/{id}/tunnel", {}, Form::websocket},
    {"GET /v1/images", "ImagePage"},
    {"POST /v1/images", "ImageVersion"},
    {"GET /v1/images/{image}", "ImageWithVersions"},
    {"POST /v1/images/{image}/builds", "Build"},
    {"POST /v1/images/{image}/prune", "Pruned"},
    {"GET /v1/images/{image}/versions/{version}", "ImageVersionDetail"},
    {"GET /v1/images/{image}/versions/{version}/log", {}, Form::text},
    {"GET /v1/bases", "Bases"},
    {"GET /v1/build-cache", "BuildCache"},
    {"GET /v1/tenants", "Tenants"},
    {"POST /v1/tenants", "NewTenant"},
    {"PUT /v1/tenants/{tenant}/limits", "Tenant"},
    {"PUT /v1/tenants/{tenant}/egress", "EgressSettings"},
    {"GET /v1/tenant", "Tenant"},
    {"GET /v1/keys", "Keys"},
    {"POST /v1/keys", "IssuedKey"},
    {"GET /v1/egress-policies", "EgressPolicies"},
    {"GET /v1/egress-policies/{name}", "EgressPolicy"},
    {"PUT /v1/egress-policies/{name}", "EgressPolicy"},
    {"POST /v1/templates", "Template"},
    {"GET /v1/templates", "Templates"},
    {"GET /v1/templates/{template}", "Template"},
    {"PATCH /v1/templates/{template}", "Template"},
    {"GET /v1/policy", "SandboxPolicy"},
    {"PATCH /v1/tenants/{tenant}/policy", "SandboxPolicy"},
    {"GET /v1/caps", "Caps"},
    {"POST /v1/execute-code", "CodeAnswer", Form::json, "CodeAnswerLine"},
    {"POST /v1/turns/{turn}/end", "EndedTurn"},
    {"POST /v1/sessions", "Session"},
    {"GET /v1/sessions", "Sessions"},
    {"GET /v1/sessions/{session}", "Session"},
    {"DELETE /v1/sessions/{session}", "Session"},
    {"POST /v1/sessions/{session}/execute", "CodeAnswer", Form::json, "CodeAnswerLine"},
    {"POST /v1/sessions/{session}/exec", "CodeAnswer", Form::json, "CodeAnswerLine"},
    {"GET /v1/invocations", "Invocations"},
    {"GET /v1/invocations/{invocation}", "Invocation"},
    {"GET /v1/invocations/{invocation}/output", "InvocationOutput"},
    {"GET /v1/roles", "Roles"},
    {"GET /v1/roles/{name}", "Role"},
    {"PUT /v1/roles/{name}", "Role"},
    {"GET /v1/secrets", "Secrets"},
    {"PUT /v1/secrets/{name}", "SecretName"},
    {"GET /v1/events", "Event", Form::events},
    {"GET /v1/usage", "Usage"},
    {"POST /v1/check", "CheckReport"},
};

}  // namespace

const Answer& answer_of(std::string_view method, std::string_view pattern) {
  static const Answer kNothing{};
  // Files of a session are answered as files of a microVM are.
  constexpr std::string_view kSession = "/v1/sessions/{session}";
  if (pattern.starts_with(std::string(kSession) + "/files") ||
      pattern == std::string(kSession) + "/tar")
    return answer_of(method, "/v1/microvms/{id}" + std::string(pattern.substr(kSession.size())));
  const auto found = std::ranges::find_if(kAnswers, [&](const Answer& answer) {
    const std::string_view call = answer.call;
    return call.size() == method.size() + 1 + pattern.size() && call.starts_with(method) &&
           call.ends_with(pattern);
  });
  return found == kAnswers.end() ? kNothing : *found;
}

}  // namespace firebreak::api
