// A tool as models see it and as calls run it. The table of tools is built once; a ToolCall lives
// as long as its call. One executor.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/facade.h"
#include "base/json.h"
#include "control/supervisor.h"
#include "ingress/endpoint_address.h"
#include "ingress/endpoint_tokens.h"
#include "session/code_turns.h"
#include "session/default_sandbox.h"
#include "session/guest.h"
#include "session/output.h"
#include "session/presence.h"

namespace firebreak::api::mcp {

// What calls use; all of it outlives them.
struct Parts {
  control::Supervisor& supervisor;
  session::Guests& guests;
  session::DefaultSandboxes& sandboxes;
  session::CodeTurns& turns;
  ingress::EndpointTokens& tokens;
  const ingress::EndpointAddress& endpoints;
};

// Tells the client that a call goes on.
class Progress {
 public:
  virtual ~Progress() = default;
  // A client that did not ask for progress is told nothing.
  virtual net::Task<Result<>> say(std::string text) = 0;
};

struct ToolCall {
  Parts& parts;
  session::SandboxOwner owner;
  json::object arguments;
  session::Presence& caller;
  Progress& progress;
  Carries carries;  // what its tool says
};

struct ToolResult {
  json::object structured;
  json::array blocks;  // beside the text of `structured`: pictures, files
  bool failed = false;
};

// An error becomes a result that tells the model what to do.
using ToolHandler = net::Task<Result<ToolResult>> (*)(ToolCall& call);

struct Tool {
  std::string name;
  json::object description;  // as tools/list shows it
  std::vector<std::string> arguments;
  Carries carries = Carries::nothing;
  ToolHandler handler = nullptr;
};

// In the order in which they are listed.
const std::vector<Tool>& tools();

net::Task<Result<ToolResult>> execute_code(ToolCall& call);
net::Task<Result<ToolResult>> run_command(ToolCall& call);
net::Task<Result<ToolResult>> process(ToolCall& call);
net::Task<Result<ToolResult>> read_file(ToolCall& call);
net::Task<Result<ToolResult>> write_file(ToolCall& call);
net::Task<Result<ToolResult>> list_files(ToolCall& call);
net::Task<Result<ToolResult>> expose_port(ToolCall& call);
net::Task<Result<ToolResult>> sandbox_create(ToolCall& call);
net::Task<Result<ToolResult>> sandbox_list(ToolCall& call);
net::Task<Result<ToolResult>> sandbox_pause(ToolCall& call);
net::Task<Result<ToolResult>> sandbox_resume(ToolCall& call);
net::Task<Result<ToolResult>> sandbox_fork(ToolCall& call);
net::Task<Result<ToolResult>> sandbox_kill(ToolCall& call);

}  // namespace firebreak::api::mcp
