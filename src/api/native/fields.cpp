#include "api/native/fields.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/request_fields.h"

namespace firebreak::api {
namespace {

constexpr std::string_view kFlag = "1 or true";
constexpr std::uint64_t kLongestLife = 366UL * 24 * 3600;
constexpr std::uint64_t kMostCells = 10'000;  // of a terminal, in each direction

Field strings(std::string_view name, std::string_view about, bool required = false) {
  return {name, "array", about, required, false, "string"};
}

// Names and values that the caller makes up.
Field texts(std::string_view name, std::string_view about) {
  return {name, "object", about, false, false, "string"};
}

Field object(std::string_view name, std::string_view about, Fields members, bool required = false) {
  return {name, "object", about, required, false, {}, std::move(members)};
}

const Fields kApp{strings("argv", "program and arguments", true),
                  texts("env", "environment, added to the image's"),
                  {"cwd", "string", "directory; default /"},
                  {"user", "string", "name, uid, or uid:gid; default root"},
                  {"pid1", "boolean", "it is PID 1 of its microVM; default true"}};

const Fields kTemplate{
    {"image", "string", "default python"},
    {"environment", "string", "default-public, internal-only, or the name of an egress policy"},
    strings("languages", "of python, bash, node; the first is the default"),
    {"callSeconds", "integer", "time limit of a call; default 60"},
    {"sessionSeconds", "integer", "life of a session; default and most 28800"},
    {"idleSeconds", "integer", "a session that nobody calls ends then; default 1800"},
    {"calls", "integer", "of one session; default 1000"},
    {"stdoutBytes", "integer", "shown to the caller; default 262144"},
    {"stderrBytes", "integer", "shown to the caller; default 32768"},
    {"cpuSeconds", "integer|null", "of one session; default: no limit"},
    {"role", "string", "its credentials; default: none"},
    texts("tags", "names and values")};

Fields template_with_name(bool required) {
  Fields all{{"name", "string", "unique within the tenant", required}};
  all.insert(all.end(), kTemplate.begin(), kTemplate.end());
  return all;
}

const Fields kCode{{"code", "string", "what is run", true},
                   {"language", "string", "default: the template's first"},
                   {"stream", "boolean", "lines of JSON as it goes"}};

Fields code_of_agent() {
  Fields all{{"agentId", "string", "who runs it"},
             {"turnId", "string", "calls of a turn share a session"},
             {"template", "string", "default: default"}};
  all.insert(all.end(), kCode.begin(), kCode.end());
  return all;
}

// What both kinds of execs take, and what one of them takes besides.
Fields exec_body(Field besides) {
  Fields fields{strings("argv", "program and arguments; this or shell"),
                {"shell", "string", "a line for /bin/sh; this or argv"},
                texts("env", "environment, added to the microVM's and the image's"),
                {"cwd", "string", "directory; default: the image's"},
                {"user", "string", "name, uid, or uid:gid; default: the image's"},
                {"stdin", "string", "its whole input"},
                {"stdinBase64", "string", "its whole input, if it is not text"},
                {"timeoutMs", "integer", "then everything it started is killed"},
                object("pty", "runs in a terminal",
                       {{"cols", "integer", "width in characters; default 80"},
                        {"rows", "integer", "height; default 24"}})};
  fields.push_back(std::move(besides));
  return fields;
}

const Field kMemory =
    within({"memoryMib", "integer", "512, 1024, 2048, 4096 or 8192; default 512"}, 0, 1U << 30);
const Field kPath{"path", "string", "inside the guest's root", true};
const Field kFollow{"follow", "string", kFlag};

const std::vector<CallFields> kCalls{
    // ---- microVMs
    {"POST /v1/microvms",
     {{"wait", "string", "0: answer at once, as PENDING"}},
     {{"image", "string", "name, NAME:VERSION or id", true},
      {"version", "string", "like 1.0; default: the newest that is active"},
      {"idle", "object|null", "null: no idle policy", false, false, {}, core::idle_fields()},
      within({"maxDurationSeconds", "integer", "running and suspended together"}, 1, kLongestLife),
      {"payload", "string", "text for the run hook, at most 4096 bytes"},
      texts("tags", "at most 50"),
      {"clientToken", "string", "the same token and body give the same microVM for a day"},
      {"egress", "string", "name of an egress policy"},
      {"role", "string", "name of a role"},
      {"name", "string", "1 to 63 of a-z, 0-9, -, _ and .; unique among yours that live"},
      texts("env", "environment of its execs and terminals; at most 64 entries and 32 KiB")}},
    {"GET /v1/microvms",
     {{"image", "string", "name of an image"},
      one_of({"state", "string", "those in it"},
             {"PENDING", "RUNNING", "SUSPENDING", "SUSPENDED", "TERMINATING", "TERMINATED"}),
      {"tag", "string", "KEY=VALUE"},
      {"tenant", "string", "an account id, or all; administrators only"},
      within({"pageSize", "integer", "how many at most"}, 1, 1000),
      {"pageToken", "string", "nextPageToken of the page before"}},
     {}},
    {"PATCH /v1/microvms/{id}",
     {},
     {{"idle", "object|null", "null: no idle policy", false, false, {}, core::idle_fields()},
      within({"maxDurationSeconds", "integer|null", "null: no limit"}, 1, kLongestLife),
      {"egress", "string", "name of an egress policy"},
      {"name", "string|null", "null: none"}}},
    {"POST /v1/microvms/{id}/fork",
     {},
     {within({"count", "integer", "how many; default 1"}, 1, 64)}},
    {"GET /v1/microvms/{id}/egress",
     {within({"limit", "integer", "how many; default 100"}, 1, 10'000),
      {"suggest", "string", "1: also the smallest policy that would have sufficed"}},
     {}},
    // ---- execs
    {"POST /v1/microvms/{id}/exec",
     {},
     exec_body({"stream", "boolean", "lines of JSON as it goes"})},
    {"POST /v1/microvms/{id}/execs",
     {},
     exec_body({"openStdin", "boolean", "its input stays open for .../stdin"})},
    {"GET /v1/microvms/{id}/execs/{exec}/output",
     {{"offset", "integer", "bytes of output to leave out"},
      {"follow", "string", "0: end with what is there"}},
     {}},
    {"POST /v1/microvms/{id}/execs/{exec}/stdin",
     {{"offset", "integer", "where in its input the body begins"},
      {"eof", "string", "1: its input ends with the body"}},
     {},
     true},
    {"POST /v1/microvms/{id}/execs/{exec}/signal",
     {},
     {within({"signal", "integer", "number of a signal; default 15"}, 1, 64),
      {"group", "boolean", "to its whole process group; default true"}}},
    {"POST /v1/microvms/{id}/execs/{exec}/resize",
     {},
     {within({"cols", "integer", "width in characters", true}, 1, kMostCells),
      within({"rows", "integer", "height", true}, 1, kMostCells)}},
    {"GET /v1/microvms/{id}/logs", {kFollow}, {}},
    // ---- files
    {"GET /v1/microvms/{id}/files",
     {kPath, {"offset", "integer", "first byte"}, {"length", "integer", "how many bytes at most"}},
     {}},
    {"PUT /v1/microvms/{id}/files",
     {kPath,
      {"mode", "string", "octal, as 0644"},
      {"append", "string", kFlag},
      {"offset", "integer", "write into the file that is there"},
      {"user", "string", "whose file it is"},
      {"parents", "string", "1: make directories that are missing"}},
     {},
     true},
    {"DELETE /v1/microvms/{id}/files", {kPath, {"recursive", "string", kFlag}}, {}},
    {"GET /v1/microvms/{id}/files/stat",
     {kPath, {"follow", "string", "1: of what a link points to"}},
     {}},
    {"GET /v1/microvms/{id}/files/list", {kPath}, {}},
    {"POST /v1/microvms/{id}/files/mkdir",
     {kPath, {"mode", "string", "octal, as 0755"}, {"parents", "string", kFlag}},
     {}},
    {"POST /v1/microvms/{id}/files/rename",
     {{"from", "string", "what is renamed", true}, {"to", "string", "its new path", true}},
     {}},
    {"GET /v1/microvms/{id}/tar", {kPath}, {}},
    {"PUT /v1/microvms/{id}/tar", {kPath}, {}, true},
    // ---- contexts
    {"POST /v1/microvms/{id}/contexts",
     {},
     {{"language", "string", "python, bash or node", true},
      {"cwd", "string", "directory"},
      texts("env", "environment, added to the image's"),
      {"user", "string", "name, uid, or uid:gid"},
      {"id", "string", "default: one is made up"}}},
    {"POST /v1/microvms/{id}/contexts/{context}/run",
     {},
     {{"code", "string", "what is run", true},
      {"timeoutMs", "integer", "then it is interrupted"},
      {"stream", "boolean", "lines of JSON as it goes"}}},
    {"POST /v1/microvms/{id}/contexts/{context}/interrupt",
     {},
     {{"run", "string", "only this run, as `started` names it; default: what runs"}}},
    // ---- terminals and tunnels
    {"GET /v1/microvms/{id}/pty",
     {{"cols", "integer", "width in characters; default 80"},
      {"rows", "integer", "height; default 24"},
      {"command", "string", "a line for /bin/sh; default: a login shell"},
      {"arg", "string", "program, then its arguments, in place of command", false, true},
      {"env", "string", "NAME=VALUE", false, true},
      {"user", "string", "name, uid, or uid:gid"},
      {"cwd", "string", "directory"},
      {"term", "string", "default xterm-256color"}},
     {}},
    {"GET /v1/microvms/{id}/tunnel",
     {within({"port", "integer", "where the application listens", true}, 1, 65'535),
      {"halfClose", "string", "1: one direction may end before the other"}},
     {}},
    {"POST /v1/microvms/{id}/tokens",
     {},
     {{"ports", "integer|string",
       "8080, \"8080,9000-9010\" or \"*\"; default: what the image exposes first; not of a shell "
       "token"},
      within({"expiresSeconds", "integer", "default 3600"}, 1, 604'800),
      one_of({"kind", "string", "default endpoint"}, {"endpoint", "shell"})}},
    // ---- images
    {"GET /v1/images",
     {{"name", "string", "what a name contains"},
      {"pageToken", "string", "nextPageToken of the page before"}},
     {}},
    {"POST /v1/images",
     {},
     {{"name", "string", "letters, digits, - and _", true},
      kMemory,
      object("app", "runs when the snapshot is taken", kApp),
      object("hooks", "calls to the application at steps of its life", core::hook_fields()),
      texts("env", "defaults for everything that is started in it"),
      texts("tags", "names and values"),
      {"pythonContext", "boolean", "a warm context `default` is part of the snapshot"},
      object("preload", "modules that warm contexts of the snapshot have loaded",
             core::preload_fields())}},
    {"POST /v1/images/{image}/builds",
     {{"file", "string", "default Dockerfile"},
      {"target", "string", "stage to build"},
      {"arg", "string", "NAME=VALUE", false, true},
      {"env", "string", "NAME=VALUE", false, true},
      kMemory,
      {"noCache", "string", kFlag},
      {"ready", "string", "PATH:PORT, such as /health:8080"},
      {"hooks", "string", "JSON, as hooks of POST /v1/images"},
      {"egress", "string", "policy of its microVMs"},
      {"buildEgress", "string", "policy of the build"},
      {"pythonContext", "string", kFlag},
      {"preload", "string", "LANGUAGE=MODULE,MODULE, such as python=pandas,numpy", false, true},
      {"pruneVersions", "string", "1: at the limit of versions the oldest unused one goes"}},
     {},
     true},
    {"GET /v1/images/{image}/versions/{version}/log", {kFollow}, {}},
    // ---- tenants, keys, policies, roles
    {"POST /v1/tenants",
     {},
     {{"name", "string", "its name", true},
      object("limits", "those that differ", core::limit_fields())}},
    {"PUT /v1/tenants/{tenant}/limits", {}, core::limit_fields()},
    {"PUT /v1/tenants/{tenant}/egress",
     {},
     {{"default", "string", "name of a policy"}, {"maximum", "string", "name of a policy"}}},
    {"GET /v1/keys", {{"tenant", "string", "of another tenant; administrators only"}}, {}},
    {"POST /v1/keys",
     {},
     {{"name", "string", "for people"},
      {"admin", "boolean", "the same as kind administrator"},
      {"kind", "string", "owner, agent, approver, auditor or administrator; default owner"},
      {"agentId", "string", "of an agent's key: the agent that it runs code for"},
      {"tenant", "string", "for another tenant; administrators only"}}},
    {"DELETE /v1/keys/{key}", {{"tenant", "string", "of another tenant; administrators only"}}, {}},
    {"PUT /v1/egress-policies/{name}", {}, core::egress_policy_fields()},
    {"PUT /v1/roles/{name}",
     {},
     {object("policy", "an IAM policy document", core::role_policy_fields(), true)}},
    {"PUT /v1/secrets/{name}", {}, {{"value", "string", "6 to 8192 bytes", true}}},
    // ---- sessions
    {"POST /v1/templates", {}, template_with_name(true)},
    {"PATCH /v1/templates/{template}", {}, template_with_name(false)},
    {"PATCH /v1/tenants/{tenant}/policy",
     {},
     {{"tier", "string", "standard or regulated"},
      {"enabled", "boolean", "agents may run code"},
      {"retentionDays", "integer", "1 to 180: of records and of what calls printed"},
      {"keepOutput", "boolean", "false: hashes and sizes only"}}},
    {"GET /v1/sessions", {{"all", "string", "1: also those that ended"}}, {}},
    {"POST /v1/sessions",
     {},
     {{"agentId", "string", "whose it is"},
      {"turnId", "string", "the turn it is for"},
      {"template", "string", "default: default"}}},
    {"POST /v1/sessions/{session}/execute", {}, kCode},
    {"POST /v1/sessions/{session}/exec",
     {},
     {strings("argv", "program and arguments; this or shell"),
      {"shell", "string", "a line for /bin/sh"},
      texts("env", "environment, added to the image's"),
      {"cwd", "string", "directory"},
      {"user", "string", "name, uid, or uid:gid"},
      {"stream", "boolean", "lines of JSON as it goes"}}},
    {"POST /v1/execute-code", {}, code_of_agent()},
    {"POST /v1/turns/{turn}/end", {}, {{"agentId", "string", "whose turn it is"}}},
    {"GET /v1/invocations",
     {{"agentId", "string", "of this agent"},
      {"session", "string", "of this session"},
      {"status", "string", "ok, error, timeout, oom, cap_exceeded or provisioning"},
      {"after", "string", "the last of the page before"},
      {"limit", "integer", "1 to 1000; default 100"}},
     {}},
    // ---- history
    {"GET /v1/events",
     {{"after", "integer", "sequence number; default: from now on"},
      {"microvm", "string", "of this one only: id, name or beginning of an id"},
      {"follow", "string", "0: end with the last"}},
     {}},
    {"GET /v1/usage", {{"since", "integer", "Unix milliseconds"}}, {}},
    {"POST /v1/check", {{"repair", "string", "1: put it right"}}, {}},
};

}  // namespace

const std::vector<CallFields>& all_calls() {
  return kCalls;
}

const CallFields& fields_of(std::string_view method, std::string_view pattern) {
  static const CallFields kNothing{};
  // Files of a session take what files of a microVM take.
  constexpr std::string_view kSession = "/v1/sessions/{session}";
  if (pattern.starts_with(kSession)) {
    const std::string_view rest = pattern.substr(kSession.size());
    if (rest.starts_with("/files") || rest == "/tar")
      return fields_of(method, "/v1/microvms/{id}" + std::string(rest));
  }
  const auto found = std::ranges::find_if(kCalls, [&](const CallFields& fields) {
    const std::string_view call = fields.call;
    return call.size() == method.size() + 1 + pattern.size() && call.starts_with(method) &&
           call.ends_with(pattern);
  });
  return found == kCalls.end() ? kNothing : *found;
}

}  // namespace firebreak::api
