#include <algorithm>

#include "api/native/answers.h"
#include "core/caps.h"

namespace firebreak::api {
namespace {

constexpr std::string_view kMs = "Unix milliseconds";

Field must(std::string_view name, std::string_view type, std::string_view about) {
  return {name, type, about, true};
}
Field may(std::string_view name, std::string_view type, std::string_view about) {
  return {name, type, about};
}
// An array of these, or an object with such values.
Field list(std::string_view name, std::string_view of, std::string_view about) {
  return {name, "array", about, true, false, of};
}
Field texts(std::string_view name, std::string_view about) {
  return {name, "object", about, true, false, "string"};
}

std::vector<Field> items(std::string_view of) {
  return {list("items", of, "all of them")};
}
std::vector<Field> page(std::string_view of) {
  return {list("items", of, "one page of them"),
          may("nextPageToken", "string", "pageToken of the next page, when there is one")};
}

std::vector<Field> joined(std::vector<Field> fields, const std::vector<Field>& more) {
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

const std::vector<Field> kUsed{
    must("runningSeconds", "number", "time in which it ran"),
    must("cpuSeconds", "number", "CPU time"),
    must("cpuSecondsAboveBaseline", "number", "CPU time beyond the size's baseline"),
    must("memoryGbSeconds", "number", "memory while it ran"),
    must("suspendedGbHours", "number", "memory while it was suspended"),
    must("snapshotReadBytes", "integer", "read from snapshots"),
    must("snapshotWrittenBytes", "integer", "written to snapshots"),
    must("bytesIn", "integer", "network"),
    must("bytesOut", "integer", "network")};

const std::vector<Field> kVersion{
    must("version", "string", "like 1.0"),
    must("state", "string", "of its build"),
    must("active", "boolean", "whether microVMs can be run of it"),
    must("memoryMib", "integer", "its size"),
    must("engine", "string", "what runs its microVMs"),
    must("isolation", "string", "hardware, userspace-kernel or emulated"),
    must("createdAt", "integer", kMs),
    may("diskBytes", "integer", "what its files occupy"),
    may("memoryBytes", "integer", "what its memory file occupies"),
    may("stateReason", "string", "why it is in this state"),
    may("preload", "object", "modules that its warm contexts have loaded, by language")};

const std::vector<Field> kImage{must("id", "string", "its id"),
                                must("name", "string", "its name"),
                                must("state", "string", "of its newest build"),
                                must("system", "boolean", "whether it is the system's"),
                                texts("tags", "names and values"),
                                must("createdAt", "integer", kMs),
                                may("diskBytes", "integer", "of all versions"),
                                may("memoryBytes", "integer", "of all versions")};

const std::vector<Field> kEnding{
    may("exitCode", "integer", "its status, unless a signal ended it"),
    may("signal", "integer", "the signal that ended it"),
    must("timedOut", "boolean", "whether it was killed at its time limit"),
    must("outOfMemory", "boolean", "whether the guest's memory ran out")};

const std::vector<Field> kKey{
    must("accessKeyId", "string", "its public name"),
    must("name", "string", "for people"),
    must("admin", "boolean", "whether it is an administrator's"),
    must("kind", "string", "owner, agent, approver, auditor or administrator"),
    must("agentId", "string|null", "of an agent's key"),
    must("createdAt", "integer", kMs),
    must("revokedAt", "integer|null", kMs)};
const std::vector<Field> kIssuedKey =
    joined(kKey, {must("accountId", "string", "whose it is"),
                  must("apiKey", "string", "the secret; shown once"),
                  must("secretAccessKey", "string", "for SigV4; shown once")});

const std::vector<Field> kTenant{
    must("accountId", "string", "its id"), must("name", "string", "its name"),
    must("egress", "EgressSettings", "its egress policies"), must("limits", "Limits", "its limits"),
    must("createdAt", "integer", kMs)};

const std::vector<Field> kToken{must("id", "string", "by which it is revoked"),
                                must("kind", "string", "endpoint or shell"),
                                must("ports", "string", "as 8080,9000-9010 or *"),
                                may("port", "integer", "where requests without a port go"),
                                must("createdAt", "integer", kMs),
                                must("expiresAt", "integer", kMs),
                                may("revokedAt", "integer", kMs)};

const std::vector<Field> kCodeDone{
    must("status", "string", "ok, error, interrupted, timeout or died"),
    must("executionCount", "integer", "runs in this interpreter so far"),
    must("durationMs", "integer", "how long it took"),
    may("exit", "Ending", "how the interpreter ended, when it died")};

const std::vector<Field> kEgressPolicy{
    may("name", "string", "its name"),
    may("internet", "boolean", "what no rule names is allowed"),
    list("rules", "EgressRule", "what is allowed and denied"),
    may("sniCheck", "boolean", "names in TLS must be those that were looked up"),
    may("maxBytes", "integer", "out and in together"),
    may("maxConnections", "integer", "at once")};

std::vector<Schema> microvm_schemas() {
  return {
      {"IdlePolicy",
       {must("maxIdleSeconds", "integer", "then it is suspended"),
        must("suspendedSeconds", "integer", "then it is ended"),
        must("autoResume", "boolean", "a call wakes it"),
        must("rule", "string", "work or traffic: what keeps it awake")}},
      {"NextStep", {must("at", "integer", kMs), must("why", "string", "what happens then")}},
      {"Microvm",
       {must("id", "string", "microvm- and a UUID"),
        must("state", "string",
             "PENDING, RUNNING, SUSPENDING, SUSPENDED, TERMINATING or TERMINATED"),
        must("image", "string", "name of its image"),
        must("imageVersion", "string", "like 1.0"),
        must("memoryMib", "integer", "its size"),
        must("engine", "string", "what runs it"),
        must("isolation", "string", "hardware, userspace-kernel or emulated"),
        must("endpoint", "string", "where clients call it, without a scheme"),
        must("endpointId", "string", "the id in its endpoint"),
        must("egress", "string", "name of its egress policy"),
        must("startedAt", "integer", kMs),
        must("stateSince", "integer", kMs),
        must("suspendedAt", "integer|null", kMs),
        must("terminatedAt", "integer|null", kMs),
        must("idle", "IdlePolicy|null", "its idle policy"),
        must("maxDurationSeconds", "integer|null", "running and suspended together"),
        texts("tags", "names and values"),
        may("name", "string", "what its owner calls it"),
        may("stateReason", "string", "why it is in this state"),
        may("parent", "string", "the microVM it was forked from"),
        may("role", "string", "name of its role"),
        may("tenant", "string", "whose it is; for administrators"),
        may("awakeBecause", "string", "of GET, while it lives"),
        may("next", "NextStep", "of GET, while it lives")}},
      {"MicrovmPage", page("Microvm")},
      {"Microvms", items("Microvm")},
      {"Token", kToken},
      {"IssuedToken", joined(kToken, {must("token", "string", "the secret; shown once")})},
      {"Tokens", items("Token")},
      {"RevokedToken", {must("id", "string", "which one")}},
      {"EgressLog",
       {must("policy", "string", "name of its policy"), list("decisions", "object", "newest last"),
        may("allowed", "integer", "how often it was allowed something"),
        may("denied", "integer", "how often it was denied something"),
        may("lost", "integer", "decisions that were not kept"),
        may("unlisted", "boolean", "whether there were more destinations than are listed"),
        may("reached", "array", "destinations that it reached"),
        may("refused", "array", "destinations that it was refused"),
        may("denials", "array", "why, and how often"),
        may("suggestion", "EgressPolicy", "the smallest policy that would have sufficed"),
        may("bytesOut", "integer", "so far"), may("bytesIn", "integer", "so far"),
        may("deniedPackets", "integer", "so far")}}};
}

std::vector<Schema> guest_schemas() {
  return {
      {"Ending", kEnding},
      {"ExecResult", joined(kEnding, {may("stdout", "string", "if it is text"),
                                      may("stdoutBase64", "string", "if it is not"),
                                      may("stderr", "string", "if it is text"),
                                      may("stderrBase64", "string", "if it is not"),
                                      must("durationMs", "integer", "how long it took")})},
      {"OutputLine",
       {must("type", "string", "started, stdout, stderr, gap, exit or error"),
        may("exec", "string", "of started: its id"),
        may("data", "string", "of stdout and stderr: text"),
        may("dataBase64", "string", "of stdout and stderr: what is not text"),
        may("bytes", "integer", "of gap: how many were dropped"),
        may("exitCode", "integer", "of exit"), may("signal", "integer", "of exit"),
        may("timedOut", "boolean", "of exit"), may("outOfMemory", "boolean", "of exit"),
        may("code", "string", "of error"), may("message", "string", "of error"),
        may("repair", "string", "of error")}},
      {"StartedExec", {must("exec", "string", "its id")}},
      {"Exec",
       {must("id", "string", "its id"), must("pid", "integer", "in the guest"),
        must("running", "boolean", "whether it runs"), must("startedAt", "integer", kMs),
        must("outputBytes", "integer", "what it has printed"),
        must("stdinBytes", "integer", "what it was given"), may("exit", "Ending", "how it ended")}},
      {"Execs", {list("execs", "Exec", "all of them")}},
      {"StdinOffset", {must("offset", "integer", "where in its input the next bytes go")}},
      {"FileInfo",
       {must("name", "string", "without directories"),
        must("type", "string", "file, dir, symlink or another"),
        must("size", "integer", "in bytes"), must("mode", "integer", "permissions"),
        must("uid", "integer", "owner"), must("gid", "integer", "group"),
        must("mtimeNs", "integer", "Unix nanoseconds"),
        may("target", "string", "of a symbolic link")}},
      {"Context",
       {must("id", "string", "its id"), must("language", "string", "python, bash or node"),
        must("state", "string", "starting, idle, busy or dead"),
        must("executionCount", "integer", "runs so far"),
        must("restarts", "integer", "interpreters before this one"),
        may("run", "string", "what runs now")}},
      {"Contexts", {list("contexts", "Context", "all of them")}},
      {"CodeArtifact",
       {must("kind", "string",
             "text, html, markdown, latex, svg, png, jpeg, pdf, json, javascript or a MIME type"),
        must("data", "string", "base64 of what is not text"),
        must("main", "boolean", "whether it is the last expression's value"),
        must("index", "integer", "forms of one object have one index"),
        may("truncated", "boolean", "whether it was cut")}},
      {"CodeError",
       {must("name", "string", "of the exception"), must("message", "string", "what it says"),
        list("traceback", "string", "lines")}},
      {"CodeResult", joined({must("run", "string", "its name"),
                             may("state", "string", "what it found: fresh, kept or restarted"),
                             must("stdout", "string", "what was printed"),
                             must("stderr", "string", "what was printed"),
                             list("results", "CodeArtifact", "what it shows"),
                             may("error", "CodeError", "what the code raised")},
                            kCodeDone)},
      {"CodeLine",
       {must("type", "string", "started, stdout, stderr, gap, result, error, done or failure"),
        may("run", "string", "of started"),
        may("state", "string", "of started"),
        may("data", "string", "of stdout, stderr and result"),
        may("dataBase64", "string", "of stdout and stderr: what is not text"),
        may("bytes", "integer", "of gap"),
        may("kind", "string", "of result"),
        may("main", "boolean", "of result"),
        may("index", "integer", "of result"),
        may("truncated", "boolean", "of result"),
        may("name", "string", "of error"),
        may("message", "string", "of error and failure"),
        {"traceback", "array", "of error", false, false, "string"},
        may("status", "string", "of done"),
        may("executionCount", "integer", "of done"),
        may("durationMs", "integer", "of done"),
        may("exit", "Ending", "of done"),
        may("code", "string", "of failure"),
        may("repair", "string", "of failure")}},
      {"Interrupted", {must("interrupted", "boolean", "whether a run was")}}};
}

std::vector<Schema> image_schemas() {
  return {{"ImageVersion", kVersion},
          {"Image", kImage},
          {"ImagePage", page("Image")},
          {"ImageWithVersions", joined(kImage, {list("versions", "ImageVersion", "all of them")})},
          {"ImageVersionDetail",
           joined(kVersion,
                  {must("image", "string", "name of the image"),
                   may("build", "string", "id of its build"), may("finishedAt", "integer", kMs),
                   may("config", "object", "what the Dockerfile set"),
                   may("steps", "array", "of its build"),
                   may("guestCa", "object", "certificates that its build trusted")})},
          {"Build",
           {must("image", "string", "name of the image"),
            must("version", "string", "like 1.0"),
            may("build", "string", "its id"),
            must("state", "string", "of the version"),
            may("unchanged", "boolean", "whether nothing had to be built"),
            {"removed", "array", "versions that went at the limit", false, false, "string"}}},
          {"Pruned",
           {must("image", "string", "name of the image"), list("removed", "string", "versions"),
            must("diskBytes", "integer", "what that freed"),
            must("memoryBytes", "integer", "what that freed")}},
          {"BuildCache",
           {must("layers", "integer", "how many"), must("layerBytes", "integer", "of layers"),
            must("mountBytes", "integer", "of cache mounts")}},
          {"Base",
           {must("name", "string", "what FROM says"), must("version", "string", "Debian's"),
            must("digest", "string", "of what the disk holds"),
            must("diskBytes", "integer", "its size"), list("aliases", "string", "other names")}},
          {"Bases", items("Base")}};
}

std::vector<Field> limits_and_caps() {
  std::vector<Field> all{must("microvms", "integer", "live ones"),
                         must("memoryMib", "integer", "of live microVMs together"),
                         must("images", "integer", "how many"),
                         must("versionsPerImage", "integer", "how many"),
                         must("launchesPerSecond", "integer", "how many")};
  for (const core::CapRule& rule : core::cap_rules())
    all.push_back(may(rule.name, "integer|null", rule.about));
  return all;
}

const std::vector<Field> kCodeAnswer{
    must("ok", "boolean", "whether the code ended without an error"),
    must("stdout", "string", "what it printed, as far as it is shown"),
    must("stderr", "string", "what it printed, as far as it is shown"),
    must("exit_status", "string", "ok, error, timeout, oom, cap_exceeded or provisioning"),
    must("duration_ms", "integer", "of the whole call"),
    may("error", "string", "a class, if it is not ok"),
    may("error_message", "string", "words for the agent, if it is not ok"),
    may("dimension", "string", "the cap that refused it"),
    may("resets_at", "string", "when that cap counts from 0 again"),
    may("stdout_truncated", "boolean", "whether something was cut"),
    may("stderr_truncated", "boolean", "whether something was cut"),
    may("exit_code", "integer", "of a command"),
    must("session_id", "string|null", "where it ran"),
    must("invocation_id", "string", "its record")};

// The same members, none of which must be there: the last line of a stream has them.
std::vector<Field> code_answer_lines() {
  std::vector<Field> all{must("type", "string", "stdout, stderr, answer or failure"),
                         may("data", "string", "of stdout and stderr: text"),
                         may("dataBase64", "string", "of stdout and stderr: what is not text"),
                         may("code", "string", "of failure"),
                         may("message", "string", "of failure"),
                         may("repair", "string", "of failure")};
  for (Field field : kCodeAnswer) {
    field.required = false;
    all.push_back(field);
  }
  return all;
}

std::vector<Schema> session_schemas() {
  return {
      {"Template",
       {must("name", "string", "unique within the tenant"),
        must("image", "string", "what the microVM is a clone of"),
        must("environment", "string", "default-public, internal-only, or an egress policy"),
        list("languages", "string", "the first is the default"),
        must("callSeconds", "integer", "time limit of a call"),
        must("sessionSeconds", "integer", "life of a session"),
        must("idleSeconds", "integer", "a session that nobody calls ends then"),
        must("calls", "integer", "of one session"),
        must("stdoutBytes", "integer", "shown to the caller"),
        must("stderrBytes", "integer", "shown to the caller"),
        must("cpuSeconds", "integer|null", "of one session"),
        must("role", "string", "its credentials"), texts("tags", "names and values")}},
      {"Templates", items("Template")},
      {"SandboxPolicy",
       {must("tier", "string", "standard or regulated"),
        must("enabled", "boolean", "whether agents may run code"),
        must("retentionDays", "integer", "of records and output"),
        must("keepOutput", "boolean", "false: hashes and sizes only")}},
      {"CapUse",
       {must("agentId", "string|null", "whose, of a cap of agents"),
        must("count", "integer", "in the hour or day that runs now")}},
      {"Cap",
       {must("dimension", "string", "its name"), must("about", "string", "what it counts"),
        must("cap", "integer|null", "null: none"), list("used", "CapUse", "so far"),
        must("resetsAt", "string", "when it counts from 0 again")}},
      {"Caps", items("Cap")},
      {"Session",
       {must("id", "string", "its id"), must("agentId", "string", "whose it is"),
        must("turnId", "string|null", "the turn it is for"),
        must("template", "string", "what it began with"),
        must("environment", "string", "what its code reaches"),
        must("microvm", "string|null", "where it runs"), must("key", "string", "who began it"),
        must("state", "string", "STARTING, LIVE or ENDED"), must("calls", "integer", "so far"),
        must("createdAt", "integer", kMs), must("lastCallAt", "integer", kMs),
        must("endedAt", "integer|null", kMs), must("endReason", "string", "why it ended")}},
      {"Sessions", items("Session")},
      {"EndedTurn", {must("ended", "boolean", "whether a session was")}},
      {"CodeAnswer", kCodeAnswer},
      {"CodeAnswerLine", code_answer_lines()},
      {"Invocation",
       {must("invocation_id", "string", "its id"),
        must("tenant_id", "string", "whose"),
        must("agent_id", "string", "who ran it"),
        must("turn_id", "string", "in which turn"),
        must("session_id", "string", "where"),
        must("template", "string", "of the session"),
        must("language", "string", "of the code"),
        must("key_id", "string", "the caller's"),
        must("executed_code_hash", "string", "SHA-256"),
        must("code_bytes", "integer", "how long the code is"),
        must("exit_status", "string", "how it ended"),
        must("failure_reason", "string", "why it failed"),
        must("duration_ms", "integer", "of the whole call"),
        must("stdout_bytes", "integer", "before anything was cut"),
        must("stderr_bytes", "integer", "before anything was cut"),
        must("stdout_truncated", "boolean", "whether the answer was cut"),
        must("stderr_truncated", "boolean", "whether the answer was cut"),
        must("stdout_hash", "string", "SHA-256"),
        must("stderr_hash", "string", "SHA-256"),
        must("started_at", "string", "when"),
        must("expires_at", "string", "when it is removed")}},
      {"Invocations",
       {list("items", "Invocation", "newest first"),
        may("next", "string", "after of the next page, when there may be one")}},
      {"InvocationOutput",
       {must("invocation_id", "string", "whose"), must("session_id", "string", "where it ran"),
        may("stdout", "string", "if it is text"), may("stdoutBase64", "string", "if it is not"),
        may("stderr", "string", "if it is text"), may("stderrBase64", "string", "if it is not")}}};
}

std::vector<Schema> tenant_schemas() {
  return {
      {"EgressSettings",
       {must("default", "string", "name of a policy"),
        must("maximum", "string", "name of a policy")}},
      {"Limits", limits_and_caps()},
      {"Tenant", kTenant},
      {"Tenants", items("Tenant")},
      {"NewTenant", joined(kTenant, {must("key", "IssuedKey", "its first key")})},
      {"Key", kKey},
      {"Keys", items("Key")},
      {"IssuedKey", kIssuedKey},
      {"EgressRule",
       {must("action", "string", "allow or deny"),
        may("any", "boolean", "true: everything"),
        may("cidr", "string", "addresses, as 10.0.0.0/8"),
        may("domain", "string", "a name, or *.NAME"),
        may("protocol", "string", "any, tcp, udp or icmp"),
        {"ports", "array", "numbers, and ranges as \"8000-8100\"", false, false,
         "integer|string"}}},
      {"EgressPolicy", kEgressPolicy},
      {"EgressPolicies", items("EgressPolicy")},
      {"Role",
       {must("name", "string", "its name"), must("arn", "string", "its ARN"),
        must("id", "string", "its id"), must("policy", "object", "an IAM policy document"),
        may("createdAt", "integer", kMs)}},
      {"Roles", items("Role")},
      {"Secret", {must("name", "string", "its name"), must("setAt", "integer", kMs)}},
      {"Secrets", items("Secret")},
      {"SecretName", {must("name", "string", "its name")}},
      {"Event",
       {must("sequence", "integer", "its number"), must("at", "integer", kMs),
        must("microvm", "string", "whose"), must("from", "string", "state before"),
        must("to", "string", "state after"), may("reason", "string", "why")}},
      {"Used", kUsed},
      {"UsageItem", joined({must("microvm", "string", "whose")}, kUsed)},
      {"UsageDay", joined({must("day", "string", "like 2026-11-16"),
                           must("microvms", "integer", "that ended on it")},
                          kUsed)},
      {"Usage",
       {must("total", "Used", "of all"), list("items", "UsageItem", "of each microVM"),
        list("days", "UsageDay", "of microVMs that ended long ago"),
        must("more", "boolean", "whether there are more than these items")}},
      {"Leak",
       {must("kind", "string", "what kind of thing"), must("name", "string", "which"),
        must("what", "string", "what is wrong"),
        must("repaired", "boolean", "whether it was put right")}},
      {"CheckReport",
       {must("ok", "boolean", "whether nothing leaks"),
        must("microvms", "integer", "how many live"), list("leaks", "Leak", "what is left over"),
        list("unclear", "Leak", "what may be another server's")}}};
}

}  // namespace

std::span<const Schema> answer_schemas() {
  static const std::vector<Schema> kAll = [] {
    std::vector<Schema> all;
    for (std::vector<Schema> some :
         {microvm_schemas(), guest_schemas(), image_schemas(), tenant_schemas(), session_schemas()})
      std::ranges::move(some, std::back_inserter(all));
    return all;
  }();
  return kAll;
}

}  // namespace firebreak::api
