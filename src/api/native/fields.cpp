#include "api/native/fields.h"

#include <algorithm>
#include <string>
#include <utility>

namespace firebreak::api {
namespace {

constexpr std::string_view kFlag = "1 or true";

Field strings(std::string_view name, std::string_view about, bool required = false) {
  return {name, "array", about, required, false, "string"};
}

// Names and values that the caller makes up.
Field texts(std::string_view name, std::string_view about) {
  return {name, "object", about, false, false, "string"};
}

Field object(std::string_view name, std::string_view about, std::vector<Field> members,
             bool required = false) {
  return {name, "object", about, required, false, {}, std::move(members)};
}

const std::vector<Field> kIdle{
    {"maxIdleSeconds", "integer", "at most 604800; then it is suspended", true},
    {"suspendedSeconds", "integer", "at most 604800; then it is ended; default 86400"},
    {"autoResume", "boolean", "a call wakes it; default true"},
    {"rule", "string", "work (default) or traffic: what keeps it awake"}};

const std::vector<Field> kHook{{"enabled", "boolean", "default false"},
                               {"timeout", "integer", "seconds; 0: the hook's default"}};
const std::vector<Field> kHooks{{"port", "integer", "where the application answers hooks"},
                                object("ready", "may the snapshot be taken", kHook),
                                object("validate", "is a first clone fit", kHook),
                                object("run", "after a launch", kHook),
                                object("resume", "after a resume", kHook),
                                object("suspend", "before a suspend", kHook),
                                object("terminate", "before the end", kHook)};

const std::vector<Field> kApp{strings("argv", "program and arguments", true),
                              texts("env", "environment, added to the image's"),
                              {"cwd", "string", "directory; default /"},
                              {"user", "string", "name, uid, or uid:gid; default root"},
                              {"pid1", "boolean", "it is PID 1 of its microVM; default true"}};

const std::vector<Field> kPreload{strings("python", "at most 64 names, such as matplotlib.pyplot"),
                                  strings("node", "at most 64 names, such as lodash")};

const std::vector<Field> kLimits{{"microvms", "integer", "live ones"},
                                 {"memoryMib", "integer", "of live microVMs together"},
                                 {"images", "integer", "how many"},
                                 {"versionsPerImage", "integer", "how many"},
                                 {"launchesPerSecond", "integer", "how many"}};

const std::vector<Field> kEgressRule{
    {"action", "string", "allow or deny", true},
    {"any", "boolean", "true: everything; this, cidr or domain"},
    {"cidr", "string", "addresses, as 10.0.0.0/8"},
    {"domain", "string", "a name, or *.NAME"},
    {"protocol", "string", "any, tcp, udp or icmp"},
    {"ports", "array", "numbers, and ranges as \"8000-8100\"", false, false, "integer|string"}};

Field patterns(std::string_view name, std::string_view about, bool required = false) {
  return {name, "string|array", about, required, false, "string"};
}
const std::vector<Field> kPrefix{patterns("s3:prefix", "what is listed begins with one of these")};
const std::vector<Field> kStatement{{"Sid", "string", "a name for people"},
                                    {"Effect", "string", "Allow or Deny", true},
                                    patterns("Action", "as s3:GetObject, lambda:* or *", true),
                                    patterns("Resource", "ARNs, with * and ?", true),
                                    object("Condition", "one of these",
                                           {object("StringLike", "with * and ?", kPrefix),
                                            object("StringEquals", "exactly", kPrefix)})};
const std::vector<Field> kRolePolicy{
    {"Version", "string", "2012-10-17"},
    {"Statement", "array|object", "at most 50", true, false, {}, kStatement}};

const std::vector<Field> kExecBody{
    strings("argv", "program and arguments; this or shell"),
    {"shell", "string", "a line for /bin/sh; this or argv"},
    texts("env", "environment, added to the microVM's and the image's"),
    {"cwd", "string", "directory; default: the image's"},
    {"user", "string", "name, uid, or uid:gid; default: the image's"},
    {"stdin", "string", "its whole input"},
    {"stdinBase64", "string", "its whole input, if it is not text"},
    {"timeoutMs", "integer", "then everything it started is killed"},
    {"stream", "boolean", "of /exec: lines of JSON as it goes"},
    object("pty", "runs in a terminal",
           {{"cols", "integer", "width in characters; default 80"},
            {"rows", "integer", "height; default 24"}}),
    {"openStdin", "boolean", "of /execs: its input stays open for .../stdin"}};

const Field kPath{"path", "string", "inside the guest's root", true};
const Field kFollow{"follow", "string", kFlag};

const std::vector<CallFields> kCalls{
    // ---- microVMs
    {"POST /v1/microvms",
     {{"wait", "string", "0: answer at once, as PENDING"}},
     {{"image", "string", "name, NAME:VERSION or id", true},
      {"version", "string", "like 1.0; default: the newest that is active"},
      {"idle", "object|null", "null: no idle policy", false, false, {}, kIdle},
      {"maxDurationSeconds", "integer", "1 to 31622400, running and suspended together"},
      {"payload", "string", "text for the run hook, at most 4096 bytes"},
      texts("tags", "at most 50"),
      {"clientToken", "string", "the same token and body give the same microVM for a day"},
      {"egress", "string", "name of an egress policy"},
      {"role", "string", "name of a role"},
      {"name", "string", "1 to 63 of a-z, 0-9, -, _ and .; unique among yours that live"},
      texts("env", "environment of its execs and terminals; at most 64 entries and 32 KiB")}},
    {"GET /v1/microvms",
     {{"image", "string", "name of an image"},
      {"state", "string", "PENDING, RUNNING, SUSPENDING, SUSPENDED, TERMINATING or TERMINATED"},
      {"tag", "string", "KEY=VALUE"},
      {"tenant", "string", "an account id, or all; administrators only"},
      {"pageSize", "integer", "1 to 1000"},
      {"pageToken", "string", "nextPageToken of the page before"}},
     {}},
    {"PATCH /v1/microvms/{id}",
     {},
     {{"idle", "object|null", "null: no idle policy", false, false, {}, kIdle},
      {"maxDurationSeconds", "integer|null", "null: no limit"},
      {"egress", "string", "name of an egress policy"},
      {"name", "string|null", "null: none"}}},
    {"POST /v1/microvms/{id}/fork", {}, {{"count", "integer", "1 to 64"}}},
    {"GET /v1/microvms/{id}/egress",
     {{"limit", "integer", "1 to 10000; default 100"},
      {"suggest", "string", "1: also the smallest policy that would have sufficed"}},
     {}},
    // ---- execs
    {"POST /v1/microvms/{id}/exec", {}, kExecBody},
    {"POST /v1/microvms/{id}/execs", {}, kExecBody},
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
     {{"signal", "integer", "number of a signal", true},
      {"group", "boolean", "to its whole process group; default true"}}},
    {"POST /v1/microvms/{id}/execs/{exec}/resize",
     {},
     {{"cols", "integer", "width in characters", true}, {"rows", "integer", "height", true}}},
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
     {{"port", "integer", "1 to 65535", true},
      {"halfClose", "string", "1: one direction may end before the other"}},
     {}},
    {"POST /v1/microvms/{id}/tokens",
     {},
     {{"ports", "integer|string",
       "8080, \"8080,9000-9010\" or \"*\"; default: what the image exposes first; not of a shell "
       "token"},
      {"expiresSeconds", "integer", "1 to 604800; default 3600"},
      {"kind", "string", "endpoint (default) or shell"}}},
    // ---- images
    {"GET /v1/images",
     {{"name", "string", "what a name contains"},
      {"pageToken", "string", "nextPageToken of the page before"}},
     {}},
    {"POST /v1/images",
     {},
     {{"name", "string", "letters, digits, - and _", true},
      {"memoryMib", "integer", "512, 1024, 2048, 4096 or 8192"},
      object("app", "runs when the snapshot is taken", kApp),
      object("hooks", "calls to the application at steps of its life", kHooks),
      texts("env", "defaults for everything that is started in it"),
      texts("tags", "names and values"),
      {"pythonContext", "boolean", "a warm context `default` is part of the snapshot"},
      object("preload", "modules that warm contexts of the snapshot have loaded", kPreload)}},
    {"POST /v1/images/{image}/builds",
     {{"file", "string", "default Dockerfile"},
      {"target", "string", "stage to build"},
      {"arg", "string", "NAME=VALUE", false, true},
      {"env", "string", "NAME=VALUE", false, true},
      {"memoryMib", "integer", "512, 1024, 2048, 4096 or 8192"},
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
     {{"name", "string", "its name", true}, object("limits", "those that differ", kLimits)}},
    {"PUT /v1/tenants/{tenant}/limits", {}, kLimits},
    {"PUT /v1/tenants/{tenant}/egress",
     {},
     {{"default", "string", "name of a policy"}, {"maximum", "string", "name of a policy"}}},
    {"GET /v1/keys", {{"tenant", "string", "of another tenant; administrators only"}}, {}},
    {"POST /v1/keys",
     {},
     {{"name", "string", "for people"},
      {"admin", "boolean", "administrators only"},
      {"tenant", "string", "for another tenant; administrators only"}}},
    {"DELETE /v1/keys/{key}", {{"tenant", "string", "of another tenant; administrators only"}}, {}},
    {"PUT /v1/egress-policies/{name}",
     {},
     {{"name", "string", "as in the path"},
      {"rules", "array", "what is allowed and denied", false, false, {}, kEgressRule},
      {"internet", "boolean", "what no rule names is allowed"},
      {"sniCheck", "boolean", "names in TLS must be those that were looked up"},
      {"maxBytes", "integer", "out and in together; 0: no limit"},
      {"maxConnections", "integer", "at once; 0: no limit"}}},
    {"PUT /v1/roles/{name}", {}, {object("policy", "an IAM policy document", kRolePolicy, true)}},
    // ---- history
    {"GET /v1/events",
     {{"after", "integer", "sequence number; default: from now on"},
      {"microvm", "string", "of this one only: id, name or beginning of an id"},
      {"follow", "string", "0: end with the last"}},
     {}},
    {"GET /v1/usage", {{"since", "integer", "Unix milliseconds"}}, {}},
    {"POST /v1/check", {{"repair", "string", "1: put it right"}}, {}},
};

std::string names_of(const std::vector<Field>& fields) {
  std::string names;
  for (const Field& field : fields) names += (names.empty() ? "" : ", ") + std::string(field.name);
  return names;
}

}  // namespace

const CallFields& fields_of(std::string_view method, std::string_view pattern) {
  static const CallFields kNothing{};
  const auto found = std::ranges::find_if(kCalls, [&](const CallFields& fields) {
    const std::string_view call = fields.call;
    return call.size() == method.size() + 1 + pattern.size() && call.starts_with(method) &&
           call.ends_with(pattern);
  });
  return found == kCalls.end() ? kNothing : *found;
}

Result<> check_query(const CallFields& fields, const net::Target& target) {
  for (const auto& [name, value] : target.query) {
    const auto field = std::ranges::find(fields.query, name, &Field::name);
    if (field == fields.query.end()) {
      return fail(Code::invalid,
                  "query value '" + name + "' is not known here; " +
                      (fields.query.empty() ? "there are none" : "use " + names_of(fields.query)));
    }
    const auto same = [&name](const auto& entry) { return entry.first == name; };
    if (!field->many && std::ranges::count_if(target.query, same) > 1)
      return fail(Code::invalid, "query value '" + name + "' is given more than once");
  }
  for (const Field& field : fields.query) {
    if (field.required && !target.has_query(field.name))
      return fail(Code::invalid, "the query value " + std::string(field.name) + " is missing");
  }
  return {};
}

}  // namespace firebreak::api
