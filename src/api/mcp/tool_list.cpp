// What a model reads about the tools: names, descriptions, schemas (JSON Schema 2020-12, the
// protocol's own dialect) and hints.
#include "api/mcp/tool.h"

namespace firebreak::api::mcp {
namespace {

enum Hint : std::uint8_t { none = 0, read_only = 1, destructive = 2, idempotent = 4, open = 8 };

struct Row {
  const char* name;
  const char* title;
  const char* description;
  const char* input;   // properties; sandbox_id is added
  const char* needed;  // names of required ones
  const char* output;  // properties
  const char* given;   // names of those that are always there
  int hints;
  Carries carries;
  ToolHandler handler;
};

constexpr const char* kSandboxId =
    R"({"type":"string","description":"Id or name of a sandbox, from sandbox_create or sandbox_list. Leave it out to use your own default sandbox, which is made when it is first needed and keeps its files and variables between calls."})";

constexpr const char* kCodeInput =
    R"({"code":{"type":"string","description":"The code. Variables and imports of earlier calls are there. The value of the last expression comes back as a result, figures of matplotlib as images."},
"language":{"type":"string","enum":["python","bash","node"],"default":"python","description":"node only where the sandbox's template has it."},
"context_id":{"type":"string","description":"Name of the interpreter to use; one that does not exist is started. Interpreters share files, not variables. By default one for each language."},
"timeout_s":{"type":"integer","minimum":1,"maximum":86400,"description":"Interrupt the code after so many seconds."},
"wait_s":{"type":"integer","minimum":1,"maximum":3600,"default":45,"description":"Wait so long for the end. Code that runs longer goes on: the answer has status 'running' and a process_id for the tool 'process'. Many clients give up a call after 60 seconds."}})";
constexpr const char* kCodeOutput =
    R"({"sandbox_id":{"type":"string"},"context_id":{"type":"string"},
"status":{"type":"string","enum":["ok","error","interrupted","timeout","died","running"]},
"stdout":{"type":"string"},"stderr":{"type":"string"},
"result":{"type":"string","description":"Value of the last expression, as text."},
"results":{"type":"array","description":"Everything the code showed; images are image blocks.","items":{"type":"object","properties":{"kind":{"type":"string"},"text":{"type":"string"}},"required":["kind"]}},
"error":{"type":"object","properties":{"name":{"type":"string"},"message":{"type":"string"},"traceback":{"type":"string"}},"required":["name","message"]},
"state":{"type":"string","description":"What the code found: 'fresh', 'kept', or 'restarted' when the variables of earlier calls were lost."},
"duration_ms":{"type":"integer"},"truncated":{"type":"boolean","description":"Some output was left out."},
"process_id":{"type":"string","description":"Of code that still runs: for the tool 'process'."},"cursor":{"type":"integer"}})";

constexpr const char* kCommandInput =
    R"({"command":{"type":"string","description":"A command line for the shell (/bin/sh)."},
"cwd":{"type":"string","description":"Directory to run it in."},
"env":{"type":"object","additionalProperties":{"type":"string"},"description":"Environment variables."},
"stdin":{"type":"string","description":"Text for its standard input."},
"user":{"type":"string","description":"Name or uid in the sandbox; root by default."},
"timeout_s":{"type":"integer","minimum":1,"maximum":86400,"description":"Kill it after so many seconds."},
"wait_s":{"type":"integer","minimum":0,"maximum":3600,"default":45,"description":"Wait so long for the end. A command that runs longer goes on: the answer has running=true and a process_id for the tool 'process'. Many clients give up a call after 60 seconds."},
"background":{"type":"boolean","default":false,"description":"Answer at once and leave it running, as for a server. Its standard input stays open for the tool 'process'."}})";
constexpr const char* kProcessOutput =
    R"({"sandbox_id":{"type":"string"},"process_id":{"type":"string"},"running":{"type":"boolean"},
"status":{"type":"string","description":"Of code: how it ended."},
"exit_code":{"type":"integer"},"signal":{"type":"integer"},"timed_out":{"type":"boolean"},"out_of_memory":{"type":"boolean"},
"stdout":{"type":"string"},"stderr":{"type":"string"},"duration_ms":{"type":"integer"},
"cursor":{"type":"integer","description":"Give it to 'process' to read what comes next."},
"truncated":{"type":"boolean","description":"Some output was left out."},
"processes":{"type":"array","items":{"type":"object","properties":{"process_id":{"type":"string"},"running":{"type":"boolean"},"exit_code":{"type":"integer"},"output_bytes":{"type":"integer"}},"required":["process_id","running"]}}})";
constexpr const char* kProcessInput =
    R"({"action":{"type":"string","enum":["list","read","write","kill"],"description":"list: all processes. read: output after 'cursor'. write: send 'input' to standard input. kill: end it and all it started."},
"process_id":{"type":"string","description":"From run_command or execute_code; needed for all but list."},
"cursor":{"type":"integer","minimum":0,"default":0,"description":"Read what comes after it; 0 is the beginning."},
"wait_s":{"type":"integer","minimum":0,"maximum":3600,"default":5,"description":"For read: wait so long for the end of the process; the answer has what was printed meanwhile."},
"input":{"type":"string","description":"Text for write."},
"end_input":{"type":"boolean","default":false,"description":"For write: close standard input after it."}})";

constexpr const char* kReadInput =
    R"({"path":{"type":"string","description":"Absolute path; a relative one is taken from /, where code and commands run."},
"offset":{"type":"integer","minimum":0,"default":0},
"length":{"type":"integer","minimum":1,"maximum":4194304,"description":"At most so many bytes; 262144 by default, 4194304 for images."}})";
constexpr const char* kReadOutput =
    R"({"sandbox_id":{"type":"string"},"path":{"type":"string"},"size":{"type":"integer","description":"Of the whole file."},
"mime_type":{"type":"string"},"encoding":{"type":"string","enum":["utf-8","base64"]},
"text":{"type":"string","description":"Content of a text file."},
"truncated":{"type":"boolean"},"next_offset":{"type":"integer","description":"Where to read on."}})";
constexpr const char* kWriteInput =
    R"({"path":{"type":"string","description":"Directories on the way are made."},
"text":{"type":"string","description":"The content, as text; or"},
"blob":{"type":"string","contentEncoding":"base64","description":"the content, as base64."},
"append":{"type":"boolean","default":false},
"mode":{"type":"string","pattern":"^[0-7]{3,4}$","description":"Permissions, as 755."}})";
constexpr const char* kWriteOutput =
    R"({"sandbox_id":{"type":"string"},"path":{"type":"string"},"written":{"type":"integer"},"uri":{"type":"string"}})";
constexpr const char* kListInput = R"({"path":{"type":"string","default":"/"}})";
constexpr const char* kListOutput =
    R"({"sandbox_id":{"type":"string"},"path":{"type":"string"},"truncated":{"type":"boolean"},
"entries":{"type":"array","items":{"type":"object","properties":{"name":{"type":"string"},"type":{"type":"string"},"size":{"type":"integer"},"modified_ms":{"type":"integer"},"target":{"type":"string"}},"required":["name","type","size"]}}})";

constexpr const char* kPortInput =
    R"({"port":{"type":"integer","minimum":1,"maximum":65535,"description":"That a server in the sandbox listens on, loopback is enough."},
"expires_s":{"type":"integer","minimum":1,"maximum":604800,"default":3600}})";
constexpr const char* kPortOutput =
    R"({"sandbox_id":{"type":"string"},"port":{"type":"integer"},"url":{"type":"string"},
"headers":{"type":"object","additionalProperties":{"type":"string"},"description":"To send with every request."},
"expires_at":{"type":"integer","description":"Unix time in milliseconds."}})";

constexpr const char* kCreateInput =
    R"({"template":{"type":"string","default":"python","description":"Name of an image."},
"name":{"type":"string","description":"A name to call it by, lower-case letters, digits, '-', '_' and '.'."},
"timeout_s":{"type":"integer","minimum":1,"maximum":31622400,"description":"It ends after so many seconds."},
"network":{"type":"string","description":"Name of an egress policy; the tenant's default when left out."},
"env":{"type":"object","additionalProperties":{"type":"string"},"description":"Environment of everything that is started in it."},
"metadata":{"type":"object","additionalProperties":{"type":"string"},"description":"Tags."}})";
constexpr const char* kSandboxOutput =
    R"({"sandbox_id":{"type":"string"},"name":{"type":"string"},"state":{"type":"string"},"template":{"type":"string"},
"default":{"type":"boolean","description":"It is your default sandbox."},
"created_at":{"type":"integer"},"expires_at":{"type":"integer","description":"Unix time in milliseconds."}})";
constexpr const char* kSandboxesOutput =
    R"({"sandboxes":{"type":"array","items":{"type":"object","properties":{"sandbox_id":{"type":"string"},"name":{"type":"string"},"state":{"type":"string"},"template":{"type":"string"},"default":{"type":"boolean"},"created_at":{"type":"integer"},"expires_at":{"type":"integer"}},"required":["sandbox_id","state"]}},
"next_cursor":{"type":"string"}})";

const Row kRows[] = {
    {"execute_code", "Execute code",
     "Run code in a sandbox and get what it printed, the value of its last expression, images and "
     "errors. State is kept between calls, as in a notebook. Needs no set-up.",
     kCodeInput, R"(["code"])", kCodeOutput, R"(["sandbox_id","status","stdout","stderr"])",
     destructive | open, Carries::guest_bytes, execute_code},
    {"run_command", "Run a command",
     "Run a shell command in a sandbox and get its output and exit code. For servers and other "
     "long work use background=true and the tool 'process'.",
     kCommandInput, R"(["command"])", kProcessOutput, R"(["sandbox_id","process_id","running"])",
     destructive | open, Carries::guest_bytes, run_command},
    {"process", "Look after a process",
     "List processes of a sandbox, read the output of one that runs in the background, write to "
     "its standard input, or kill it.",
     kProcessInput, R"(["action"])", kProcessOutput, R"(["sandbox_id"])", destructive,
     Carries::guest_bytes, process},
    {"read_file", "Read a file",
     "Read a file of a sandbox. Text comes back as text, images as images, other files as base64.",
     kReadInput, R"(["path"])", kReadOutput,
     R"(["sandbox_id","path","size","mime_type","encoding"])", read_only | idempotent,
     Carries::guest_bytes, read_file},
    {"write_file", "Write a file", "Write a file of a sandbox, from text or base64.", kWriteInput,
     R"(["path"])", kWriteOutput, R"(["sandbox_id","path","written"])", destructive | idempotent,
     Carries::guest_bytes, write_file},
    {"list_files", "List files", "List a directory of a sandbox.", kListInput, "[]", kListOutput,
     R"(["sandbox_id","path","entries"])", read_only | idempotent, Carries::guest_bytes,
     list_files},
    {"expose_port", "Expose a port",
     "Get a URL, with the header that it needs, for a server that listens in a sandbox.",
     kPortInput, R"(["port"])", kPortOutput, R"(["sandbox_id","port","url","headers"])", open,
     Carries::nothing, expose_port},
    {"sandbox_create", "Create a sandbox",
     "Start one more sandbox: an isolated machine with its own files, processes and memory. The "
     "other tools work without it, in a default sandbox.",
     kCreateInput, "[]", kSandboxOutput, R"(["sandbox_id","state"])", none, Carries::nothing,
     sandbox_create},
    {"sandbox_list", "List sandboxes", "List the sandboxes that you can use.",
     R"({"cursor":{"type":"string","description":"next_cursor of the answer before."}})", "[]",
     kSandboxesOutput, R"(["sandboxes"])", read_only | idempotent, Carries::nothing, sandbox_list},
    {"sandbox_pause", "Pause a sandbox",
     "Suspend a sandbox with its memory. The next call that uses it, or sandbox_resume, brings it "
     "back as it was.",
     "{}", "[]", kSandboxOutput, R"(["sandbox_id","state"])", idempotent, Carries::nothing,
     sandbox_pause},
    {"sandbox_resume", "Resume a sandbox", "Bring a paused sandbox back as it was.", "{}", "[]",
     kSandboxOutput, R"(["sandbox_id","state"])", idempotent, Carries::nothing, sandbox_resume},
    {"sandbox_fork", "Fork a sandbox",
     "Make running copies of a sandbox, with the same files, processes and variables, to try "
     "several ways from one point.",
     R"({"count":{"type":"integer","minimum":1,"maximum":64,"default":1}})", "[]", kSandboxesOutput,
     R"(["sandboxes"])", none, Carries::nothing, sandbox_fork},
    {"sandbox_kill", "End a sandbox",
     "End a sandbox; its files and memory are gone. After the default sandbox was ended the next "
     "call starts with a fresh one.",
     "{}", "[]", kSandboxOutput, R"(["sandbox_id","state"])", destructive | idempotent,
     Carries::nothing, sandbox_kill},
};

json::object object_schema(json::value properties, json::value required) {
  return {{"type", "object"},
          {"properties", std::move(properties)},
          {"required", std::move(required)},
          {"additionalProperties", false}};
}

// The table is ours: what is in it can be parsed.
Tool tool_of(const Row& row) {
  json::object input = json::parse(row.input).as_object();
  const bool names_sandbox = row.handler != sandbox_create && row.handler != sandbox_list;
  if (names_sandbox) input["sandbox_id"] = json::parse(kSandboxId);
  Tool tool{.name = row.name,
            .description = {},
            .arguments = {},
            .carries = row.carries,
            .handler = row.handler};
  for (const auto& member : input) tool.arguments.emplace_back(member.key());
  tool.description = {
      {"name", row.name},
      {"title", row.title},
      {"description", row.description},
      {"inputSchema", object_schema(std::move(input), json::parse(row.needed))},
      {"outputSchema", object_schema(json::parse(row.output), json::parse(row.given))},
      {"annotations", json::object{{"title", row.title},
                                   {"readOnlyHint", (row.hints & read_only) != 0},
                                   {"destructiveHint", (row.hints & destructive) != 0},
                                   {"idempotentHint", (row.hints & idempotent) != 0},
                                   {"openWorldHint", (row.hints & open) != 0}}}};
  return tool;
}

}  // namespace

const std::vector<Tool>& tools() {
  static const std::vector<Tool> all = [] {
    std::vector<Tool> made;
    for (const Row& row : kRows) made.push_back(tool_of(row));
    return made;
  }();
  return all;
}

}  // namespace firebreak::api::mcp
