// What every route carries of guests, on a running server with real guests. GET /surfaces lists the
// routes; for each that says that it carries bytes of guests there is a way here to send marked
// bytes through it, which the outlet must have counted. A route that is listed and not tried fails.
#include <functional>
#include <map>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/text.h"
#include "net/websocket.h"
#include "server/build_fixture.h"
#include "server/server_process.h"

namespace firebreak::testing_support {
namespace {

using ::testing::HasSubstr;

constexpr const char* kMark = "marked-bytes-of-a-guest";
// The run hook answers with the status that the payload says; it is the guest's word in records.
constexpr const char* kStatus = "599";
constexpr const char* kApplication = R"PY(
import http.server, json
class H(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers.get('content-length') or 0))
        self.send_response(int(json.loads(body or b'{}').get('runHookPayload') or 200))
        self.send_header('content-length', '0')
        self.end_headers()
        print('marked-bytes-of-a-guest', flush=True)
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'marked-bytes-of-a-guest')
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(('0.0.0.0', 9000), H).serve_forever()
)PY";

class Outlet : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server = std::make_unique<ServerProcess>();
    server->set_options({"--tick-ms=100"});
    ASSERT_TRUE(server->start()) << server->log();
    const json::object hook{{"enabled", true}, {"timeout", 30}};
    const Answer built = server->call(
        "POST", "/v1/images",
        json::object{
            {"name", "app"},
            {"app", {{"argv", json::array{"python3", "-c", kApplication}}}},
            {"hooks",
             {{"port", 9000}, {"ready", {{"enabled", true}, {"timeout", 60}}}, {"run", hook}}}});
    ASSERT_EQ(built.status, 201) << built.text << server->log();
    const Answer made = server->call("POST", "/v1/microvms", json::object{{"image", "app"}});
    ASSERT_EQ(made.status, 201) << made.text;
    id = made.text_of("id");
    endpoint = made.text_of("endpoint");
    const Answer failed =
        server->call("POST", "/v1/microvms", json::object{{"image", "app"}, {"payload", kStatus}});
    ASSERT_EQ(failed.status, 502) << failed.text;
    const std::string text = failed.text_of("message");
    ended = text.substr(text.find("microvm-"), 44);
    const Context context("FROM python:3.11-slim\nRUN echo " + std::string(kMark) + " && exit 3\n");
    const auto build = server->cli({"image", "build", "broken", context.path()});
    EXPECT_THAT(build.err, HasSubstr("CONTAINER_BUILD_FAILED")) << build.out;
  }
  static void TearDownTestSuite() { server.reset(); }

  static std::string vm(const std::string& rest = "") { return "/v1/microvms/" + id + rest; }
  static std::string gone(const std::string& rest = "") { return "/v1/microvms/" + ended + rest; }

  // What has left through the outlet, of one origin or of all.
  static double counted(const std::string& origin) {
    return server->metric("firebreak_guest_bytes_total{origin=\"" + origin + "\"}");
  }
  static double counted() {
    double all = 0;
    for (const char* origin :
         {"exec", "terminal", "code", "file", "archive", "log", "build", "reason", "traffic"})
      all += counted(origin);
    return all;
  }

  static std::string ask(const std::string& method, const std::string& path,
                         std::optional<json::object> body = std::nullopt) {
    return server->call(method, path, std::move(body)).text;
  }
  static std::string lambda(const std::string& method, const std::string& path,
                            std::optional<json::object> body = std::nullopt) {
    return server->call_signed(method, "/2025-09-09/" + path, std::move(body)).text;
  }
  static std::string build_id() {
    return server->call("GET", "/v1/images/broken/versions/latest").text_of("build");
  }
  static std::string logs(const std::string& action, const std::string& stream = "") {
    json::object body{{"logGroupName", "/aws/lambda-microvms/app"}};
    if (!stream.empty()) body["logStreamName"] = stream;
    return server->call_signed("POST", "/", body, "logs", "Logs_20140328." + action).text;
  }
  static std::string stream_of_app() {
    const Answer found =
        server->call_signed("POST", "/", json::object{{"logGroupName", "/aws/lambda-microvms/app"}},
                            "logs", "Logs_20140328.DescribeLogStreams");
    for (const json::value& each : found.object().at("logStreams").as_array()) {
      const std::string name(each.at("logStreamName").as_string());
      if (name.contains(id)) return name;
    }
    return "";
  }

  // One request of the Model Context Protocol, without a session.
  static std::string mcp(const std::string& method, json::object params) {
    constexpr const char* kVersion = "2026-07-28";
    params["_meta"] = {{"io.modelcontextprotocol/protocolVersion", kVersion},
                       {"io.modelcontextprotocol/clientCapabilities", json::object{}}};
    wire::Headers headers{{"accept", "application/json, text/event-stream"},
                          {"mcp-protocol-version", kVersion},
                          {"mcp-method", method}};
    for (const char* name : {"name", "uri"})
      if (const json::value* value = params.if_contains(name))
        headers.push_back({"mcp-name", std::string(value->as_string())});
    const json::object body{
        {"jsonrpc", "2.0"}, {"id", 1}, {"method", method}, {"params", std::move(params)}};
    return server->call_as(server->api_key(), "POST", "/mcp", body, std::move(headers)).text;
  }
  static std::string tool(const std::string& name, json::object arguments) {
    arguments["sandbox_id"] = id;
    return mcp("tools/call", json::object{{"name", name}, {"arguments", std::move(arguments)}});
  }

  // What a shell through the endpoint shows.
  static std::string shell() {
    const std::string token =
        server->call("POST", vm("/tokens"), json::object{{"kind", "shell"}}).text_of("token");
    std::string heard;
    net::asio::io_context io(1);
    auto talk = [&]() -> net::Task<void> {
      const Deadline deadline = Deadline::in(std::chrono::seconds(120));
      auto stream = co_await net::connect_url(server->endpoint_url(), server->ca_file(), deadline);
      if (!stream) co_return;
      auto socket = co_await net::open_websocket(
          *std::move(stream), "x", endpoint.substr(endpoint.find('/')) + "/shell",
          {{"x-aws-proxy-port", "8022"}},
          {"lambda-microvms", "lambda-microvms.authentication." + token}, deadline);
      if (!socket) {
        heard = socket.error().text();
        co_return;
      }
      (void)co_await (*socket)->write(false, std::string("echo ") + kMark + "; exit\n", deadline);
      for (;;) {
        auto message = co_await (*socket)->read(deadline);
        if (!message || !*message) co_return;
        heard += (*message)->data;
      }
    };
    net::asio::co_spawn(io, talk(), [](const std::exception_ptr&) {});
    io.run();
    return heard;
  }

  static inline std::unique_ptr<ServerProcess> server;
  static inline std::string id;        // runs
  static inline std::string ended;     // did not start: its record quotes its application
  static inline std::string endpoint;  // of the one that runs
};

// How bytes of a guest get through a route, and what of them is in the answer.
struct Try {
  std::function<std::string()> go;
  std::string shows = kMark;
  // They passed when the log or the record was written, and the route shows them again: the origin
  // under which they were counted.
  std::string origin;
};

TEST_F(Outlet, EveryRouteThatCarriesBytesOfGuestsPassesIt) {
  const std::string mark = kMark;
  const std::string none = "/" + mark + "/none";
  const auto query = [](const std::string& text) { return percent_encode(text, "/"); };
  ask("PUT", vm("/files?path=/root/kept&parents=1"), json::object{{mark, 1}});
  const std::string exec =
      server->call("POST", vm("/execs"), json::object{{"shell", "echo " + mark + "; sleep 600"}})
          .text_of("exec");
  const std::string versions = "microvm-images/broken/versions";
  const json::object run{{"code", "print('" + mark + "')"}};
  const Try record{[&] { return ask("GET", gone()); }, kStatus, "reason"};
  const auto quotes = [&](const std::string& method, const std::string& rest) {
    return Try{[=] {
                 return ask(method, gone(rest),
                            method == "GET" ? std::nullopt : std::optional(json::object{}));
               },
               kStatus, "reason"};
  };
  const auto told = [&](const std::string& method, const std::string& rest,
                        std::optional<json::object> body = std::nullopt) {
    return Try{[=] { return ask(method, vm(rest), body); }};
  };
  // A call of an agent that fails with the mark: its record quotes it, too.
  const json::object fails{{"code", "print('" + mark + "'); raise Exception('" + mark + "')"}};
  json::object agents = fails;
  agents["agentId"] = "agent";
  const Answer called = server->call("POST", "/v1/execute-code", agents);
  const std::string invocation = "/v1/invocations/" + called.text_of("invocation_id");
  const std::string session =
      "/v1/sessions/" +
      server->call("POST", "/v1/sessions", json::object{{"agentId", "agent"}}).text_of("id");
  const auto within = [&](const std::string& method, const std::string& rest,
                          std::optional<json::object> body = std::nullopt) {
    return Try{[=] { return ask(method, session + rest, body); }};
  };
  ask("PUT", session + "/files?path=/root/kept&parents=1", json::object{{mark, 1}});
  const std::map<std::string, Try> tries{
      // ---- sessions
      {"POST /v1/execute-code", {[&] { return ask("POST", "/v1/execute-code", agents); }}},
      {"POST /v1/sessions/{session}/execute", within("POST", "/execute", fails)},
      {"POST /v1/sessions/{session}/exec",
       within("POST", "/exec", json::object{{"shell", "echo " + mark}})},
      {"GET /v1/invocations", {[&] { return ask("GET", "/v1/invocations"); }, kMark, "code"}},
      {"GET /v1/invocations/{invocation}", {[&] { return ask("GET", invocation); }, kMark, "code"}},
      {"GET /v1/invocations/{invocation}/output",
       {[&] { return ask("GET", invocation + "/output"); }, kMark, "code"}},
      {"GET /v1/sessions/{session}/files", within("GET", "/files?path=/root/kept")},
      {"PUT /v1/sessions/{session}/files", within("PUT", "/files?path=" + none)},
      {"DELETE /v1/sessions/{session}/files", within("DELETE", "/files?path=" + none)},
      {"GET /v1/sessions/{session}/files/stat", within("GET", "/files/stat?path=" + none)},
      {"GET /v1/sessions/{session}/files/list", within("GET", "/files/list?path=" + none)},
      {"POST /v1/sessions/{session}/files/mkdir", within("POST", "/files/mkdir?path=" + none)},
      {"POST /v1/sessions/{session}/files/rename",
       within("POST", "/files/rename?from=" + none + "&to=/x")},
      {"GET /v1/sessions/{session}/tar", within("GET", "/tar?path=/root/kept")},
      {"PUT /v1/sessions/{session}/tar", within("PUT", "/tar?path=" + none)},
      // ---- execs
      {"POST /v1/microvms/{id}/exec",
       told("POST", "/exec", json::object{{"shell", "echo " + mark}})},
      {"POST /v1/microvms/{id}/execs", told("POST", "/execs", json::object{{"argv", {mark}}})},
      {"GET /v1/microvms/{id}/execs", {[&] { return ask("GET", vm("/execs")); }, exec}},
      {"GET /v1/microvms/{id}/execs/{exec}", told("GET", "/execs/" + mark)},
      {"DELETE /v1/microvms/{id}/execs/{exec}", told("DELETE", "/execs/" + mark)},
      {"GET /v1/microvms/{id}/execs/{exec}/output",
       told("GET", "/execs/" + exec + "/output?follow=0")},
      {"POST /v1/microvms/{id}/execs/{exec}/stdin",
       told("POST", "/execs/" + mark + "/stdin?eof=1")},
      {"POST /v1/microvms/{id}/execs/{exec}/signal", told("POST", "/execs/" + mark + "/signal")},
      {"POST /v1/microvms/{id}/execs/{exec}/resize",
       told("POST", "/execs/" + mark + "/resize", json::object{{"cols", 80}, {"rows", 24}})},
      {"GET /v1/microvms/{id}/logs", {[&] { return ask("GET", vm("/logs")); }, kMark, "log"}},
      {"GET /v1/microvms/{id}/pty",
       {[&] { return server->through_tunnel(vm("/pty?command=" + query("echo " + mark)), ""); }}},
      {"GET /v1/microvms/{id}/tunnel",
       {[&] { return server->through_tunnel(vm("/tunnel?port=9000"), "GET / HTTP/1.0\r\n\r\n"); }}},
      // ---- files
      {"GET /v1/microvms/{id}/files", told("GET", "/files?path=/root/kept")},
      {"PUT /v1/microvms/{id}/files", told("PUT", "/files?path=" + none)},
      {"DELETE /v1/microvms/{id}/files", told("DELETE", "/files?path=" + none)},
      {"GET /v1/microvms/{id}/files/stat", told("GET", "/files/stat?path=" + none)},
      {"GET /v1/microvms/{id}/files/list", told("GET", "/files/list?path=" + none)},
      {"POST /v1/microvms/{id}/files/mkdir", told("POST", "/files/mkdir?path=" + none)},
      {"POST /v1/microvms/{id}/files/rename",
       told("POST", "/files/rename?from=" + none + "&to=/x")},
      {"GET /v1/microvms/{id}/tar", told("GET", "/tar?path=/root/kept")},
      {"PUT /v1/microvms/{id}/tar", told("PUT", "/tar?path=" + none)},
      // ---- contexts
      {"POST /v1/microvms/{id}/contexts",
       told("POST", "/contexts", json::object{{"language", mark}})},
      {"POST /v1/microvms/{id}/contexts/{context}/run", told("POST", "/contexts/c/run", run)},
      {"GET /v1/microvms/{id}/contexts", {[&] { return ask("GET", vm("/contexts")); }, "idle"}},
      {"GET /v1/microvms/{id}/contexts/{context}", told("GET", "/contexts/" + mark)},
      {"DELETE /v1/microvms/{id}/contexts/{context}", told("DELETE", "/contexts/" + mark)},
      {"POST /v1/microvms/{id}/contexts/{context}/interrupt",
       told("POST", "/contexts/" + mark + "/interrupt")},
      {"POST /v1/microvms/{id}/contexts/{context}/restart",
       told("POST", "/contexts/" + mark + "/restart")},
      // ---- records that quote a guest
      {"POST /v1/microvms",
       {[&] {
          return ask("POST", "/v1/microvms", json::object{{"image", "app"}, {"payload", kStatus}});
        },
        kStatus}},
      {"GET /v1/microvms", {[&] { return ask("GET", "/v1/microvms"); }, kStatus, "reason"}},
      {"GET /v1/microvms/{id}", record},
      {"PATCH /v1/microvms/{id}", quotes("PATCH", "")},
      {"DELETE /v1/microvms/{id}", quotes("DELETE", "")},
      {"POST /v1/microvms/{id}/suspend", quotes("POST", "/suspend")},
      {"POST /v1/microvms/{id}/resume", quotes("POST", "/resume")},
      {"POST /v1/microvms/{id}/fork", quotes("POST", "/fork")},
      {"GET /v1/events",
       {[&] { return ask("GET", "/v1/events?after=0&follow=0"); }, kStatus, "reason"}},
      {"POST /v1/images", {[&] {
         return ask("POST", "/v1/images",
                    json::object{{"name", "ends"},
                                 {"app", {{"argv", {"sh", "-c", "echo " + mark + "; exit 3"}}}}});
       }}},
      {"GET /v1/images/{image}",
       {[&] { return ask("GET", "/v1/images/broken"); }, kMark, "reason"}},
      {"GET /v1/images/{image}/versions/{version}",
       {[&] { return ask("GET", "/v1/images/broken/versions/latest"); }, kMark, "reason"}},
      {"GET /v1/images/{image}/versions/{version}/log",
       {[&] { return ask("GET", "/v1/images/broken/versions/latest/log"); }, kMark, "build"}},
      // ---- APIs of AWS
      {"lambda:GetMicrovm",
       {[&] { return lambda("GET", "microvms/" + ended); }, kStatus, "reason"}},
      {"lambda:SuspendMicrovm",
       {[&] { return lambda("POST", "microvms/" + ended + "/suspend"); }, kStatus, "reason"}},
      {"lambda:ResumeMicrovm",
       {[&] { return lambda("POST", "microvms/" + ended + "/resume"); }, kStatus, "reason"}},
      {"lambda:GetMicrovmImageVersion",
       {[&] { return lambda("GET", versions + "/1.0"); }, kMark, "reason"}},
      {"lambda:ListMicrovmImageVersions",
       {[&] { return lambda("GET", versions); }, kMark, "reason"}},
      {"lambda:ListMicrovmImageBuilds",
       {[&] { return lambda("GET", versions + "/1.0/builds"); }, kMark, "reason"}},
      {"lambda:GetMicrovmImageBuild",
       {[&] { return lambda("GET", versions + "/1.0/builds/" + build_id()); }, kMark, "reason"}},
      {"lambda:UpdateMicrovmImageVersion",
       {[&] { return lambda("PATCH", versions + "/1.0", json::object{{"status", "INACTIVE"}}); },
        kMark, "reason"}},
      {"logs:GetLogEvents", {[&] { return logs("GetLogEvents", stream_of_app()); }, kMark, "log"}},
      {"logs:FilterLogEvents", {[&] { return logs("FilterLogEvents"); }, kMark, "log"}},
      // ---- the Model Context Protocol
      {"mcp:tools/call execute_code",
       {[&] { return tool("execute_code", json::object{{"code", "print('" + mark + "')"}}); }}},
      {"mcp:tools/call run_command",
       {[&] { return tool("run_command", json::object{{"command", "echo " + mark}}); }}},
      {"mcp:tools/call process",
       {[&] { return tool("process", json::object{{"action", "list"}}); }, exec}},
      {"mcp:tools/call read_file",
       {[&] { return tool("read_file", json::object{{"path", "/root/kept"}}); }}},
      {"mcp:tools/call write_file", {[&] {
         return tool("write_file", json::object{{"path", "/proc/" + mark + "/x"}, {"text", "x"}});
       }}},
      {"mcp:tools/call list_files",
       {[&] { return tool("list_files", json::object{{"path", none}}); }}},
      {"mcp:resources/read", {[&] {
         return mcp("resources/read", json::object{{"uri", "sandbox://" + id + "/root/kept"}});
       }}},
      {"mcp:resources/list", {[&] {
         ask("PUT", vm("/files?path=/root/" + mark));
         return mcp("resources/list", {});
       }}},
  };
  server->call("POST", vm("/contexts"), json::object{{"language", "python"}, {"id", "c"}});
  const Answer surfaces = server->call("GET", "/surfaces");
  ASSERT_EQ(surfaces.status, 200) << surfaces.text;
  std::size_t tried = 0;
  for (const json::value& each : surfaces.body.as_array()) {
    const std::string call(each.at("call").as_string());
    if (each.at("carries") == "nothing") continue;
    const auto found = tries.find(call);
    if (found == tries.end()) {
      ADD_FAILURE() << call << " carries bytes of guests, and nothing here sends any through it";
      continue;
    }
    ++tried;
    const double before = counted();
    const std::string answer = found->second.go();
    EXPECT_THAT(answer, HasSubstr(found->second.shows)) << call;
    const std::string& origin = found->second.origin;
    const double passed = origin.empty() ? counted() - before : counted(origin);
    EXPECT_GE(passed, found->second.shows.size()) << call << "\n" << answer;
  }
  EXPECT_GT(tried, 40U);
}

TEST_F(Outlet, AShellThroughTheEndpointPassesIt) {
  const double before = counted("terminal");
  EXPECT_THAT(shell(), HasSubstr(kMark));
  EXPECT_GE(counted("terminal") - before, std::string_view(kMark).size());
}

}  // namespace
}  // namespace firebreak::testing_support
