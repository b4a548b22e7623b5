// mcp: the Model Context Protocol on standard input and output.
#include <csignal>
#include <memory>

#include "commands.h"
#include "mcp_bridge.h"
#include "standalone_server.h"

namespace firebreak::cli {
namespace {

constexpr const char* kAbout =
    R"(For assistants that start their tools as programs: one message a line, on standard input and output,
until standard input ends. It talks to a running server as all commands do.

With --standalone it needs none: it starts a server on a data directory of its own and stops it, with its
microVMs, when the last assistant that uses it has gone. Where 'firebreak serve' can run, one line in the
assistant's configuration is the whole set-up.)";

constexpr const char* kOwnDirectory = "/var/lib/firebreak-standalone";

struct McpOptions {
  bool standalone = false;
  std::string guest_dir;
};

net::Task<Result<>> serve_bridge(Client& client, int&) {
  McpBridge bridge(client);
  co_return co_await bridge.serve();
}

int run_on(Connection connection) {
  Client client(std::move(connection));
  int status = 0;
  const Result<> outcome = client.run(serve_bridge(client, status));
  if (outcome) return status;
  print_error(outcome.error().message);
  return 1;
}

Result<int> run_standalone(const ServerChoice& choice, const McpOptions& options) {
  const std::string directory = choice.data_dir_given ? choice.data_dir : kOwnDirectory;
  std::vector<std::string> words;
  if (!options.guest_dir.empty()) words = {"--guest-dir", options.guest_dir};
  FB_TRY_ASSIGN(StandaloneServer server, StandaloneServer::join(directory, words));
  FB_TRY_ASSIGN(Connection connection, server.connection());
  const int status = run_on(std::move(connection));
  FB_TRY(server.leave());
  return status;
}

int run_mcp(const Common& common, const McpOptions& options) {
  ::signal(SIGPIPE, SIG_IGN);
  if (!options.standalone) return with_client(common, serve_bridge);
  const auto status = run_standalone(common.server, options);
  if (status) return *status;
  print_error(status.error().message);
  return 1;
}

}  // namespace

void add_mcp_command(Command& root, Common& common) {
  auto options = std::make_shared<McpOptions>();
  Command& mcp =
      root.add("mcp", "Give an assistant sandboxes, over MCP").group(kServerGroup).about(kAbout);
  mcp.flag("--standalone", options->standalone,
           "Start a server of its own, and stop it at the end");
  mcp.option("--guest-dir", options->guest_dir, "DIR", "Of that server; see 'firebreak serve'")
      .kind(ValueKind::directory)
      .fallback("'guest' beside the program");
  mcp.example("firebreak mcp", "in an assistant's configuration, as the command of a server");
  mcp.example("firebreak mcp --standalone", "without a server");
  mcp.run([options, &common] { return run_mcp(common, *options); });
}

}  // namespace firebreak::cli
