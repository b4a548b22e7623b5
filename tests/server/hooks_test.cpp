// Lifecycle hooks: an application in the guest that answers as the run's payload tells it to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/server_process.h"

namespace firebreak::testing_support {
namespace {

using ::testing::HasSubstr;

// Answers hooks by what the payload says: {"run":500}, {"suspend":"slow"}, {"resume":503}. Keeps a
// list of what it was asked, at /seen.
constexpr const char* kApplication = R"PY(
import http.server, json, os, time
plan, seen = {}, []
class H(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def do_POST(self):
        global plan
        body = self.rfile.read(int(self.headers.get('content-length') or 0))
        name = self.path.rsplit('/', 1)[1]
        seen.append([self.path, self.headers.get('host'), self.headers.get('content-type'), body.decode()])
        if name == 'run':
            plan = json.loads(json.loads(body).get('runHookPayload') or '{}')
        how = plan.get(name, 200)
        if how == 'slow': time.sleep(30)
        if how == 'late': time.sleep(1.5); how = 200
        if how == 'close': self.close_connection = True; return
        self.send_response(how if isinstance(how, int) else 200)
        self.send_header('content-length', '0')
        self.end_headers()
        if plan.get('deaf'): self.server.shutdown(); self.server.server_close()
    def do_GET(self):
        if self.path == '/exit': os._exit(3)
        data = json.dumps(seen).encode()
        self.send_response(200); self.send_header('content-length', str(len(data))); self.end_headers()
        self.wfile.write(data)
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(('0.0.0.0', 9000), H).serve_forever()
while True: time.sleep(60)
)PY";

class Hooks : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server = std::make_unique<ServerProcess>();
    server->set_options({"--tick-ms=100", "--python-image=false", "--pool-most=1"});
    ASSERT_TRUE(server->start()) << server->log();
    const json::object timeout{{"enabled", true}, {"timeout", 4}};
    const Answer built =
        server->call("POST", "/v1/images",
                     json::object{{"name", "app"},
                                  {"memoryMib", 512},
                                  {"app", {{"argv", json::array{"python3", "-c", kApplication}}}},
                                  {"hooks",
                                   {{"port", 9000},
                                    {"ready", {{"enabled", true}, {"timeout", 60}}},
                                    {"run", timeout},
                                    {"resume", timeout},
                                    {"suspend", timeout},
                                    {"terminate", timeout}}}});
    ASSERT_EQ(built.status, 201) << built.text << server->log();
  }
  static void TearDownTestSuite() { server.reset(); }

  static Answer run(const std::string& plan) {
    return server->call("POST", "/v1/microvms", json::object{{"image", "app"}, {"payload", plan}});
  }
  static std::string path(const std::string& id, const std::string& rest = "") {
    return "/v1/microvms/" + id + rest;
  }
  static std::string reason_of_last() {
    const Answer list = server->call("GET", "/v1/microvms?pageSize=1");
    const json::object& item = list.object().at("items").as_array().at(0).as_object();
    EXPECT_EQ(item.at("state").as_string(), "TERMINATED");
    return std::string(item.at("stateReason").as_string());
  }

  static inline std::unique_ptr<ServerProcess> server;
};

TEST_F(Hooks, RunAndResumeAreCalledAsSpecified) {
  const Answer vm = run(R"({"note":"hello"})");
  ASSERT_EQ(vm.status, 201) << vm.text;
  const std::string id = vm.text_of("id");
  server->call("POST", path(id, "/suspend"));
  server->call("POST", path(id, "/resume"));
  const Answer asked = server->call(
      "POST", path(id, "/exec"),
      json::object{{"shell",
                    "python3 -c \"import urllib.request as "
                    "u;print(u.urlopen('http://127.0.0.1:9000/seen').read().decode())\""}});
  auto seen = parse_json(asked.text_of("stdout"));
  ASSERT_TRUE(seen) << asked.text;
  const json::array& list = seen->as_array();
  std::vector<std::string> paths;
  for (const json::value& one : list) paths.emplace_back(one.as_array().at(0).as_string());
  const std::string base = "/aws/lambda-microvms/runtime/v1/";
  EXPECT_THAT(paths, ::testing::ElementsAre(base + "ready", base + "run", base + "suspend",
                                            base + "resume"));
  EXPECT_EQ(list.at(1).as_array().at(1).as_string(), "localhost:9000");
  EXPECT_EQ(list.at(1).as_array().at(2).as_string(), "application/json");
  auto envelope = parse_json_object(std::string_view(list.at(1).as_array().at(3).as_string()));
  ASSERT_TRUE(envelope);
  EXPECT_EQ(envelope->at("microvmId").as_string(), id);
  EXPECT_EQ(envelope->at("runHookPayload").as_string(), R"({"note":"hello"})");
  EXPECT_EQ(list.at(2).as_array().at(3).as_string(), "");
  EXPECT_EQ(server->call("DELETE", path(id)).status, 200);
}

TEST_F(Hooks, AFailingRunNeverRuns) {
  const Answer failed = run(R"({"run":500})");
  EXPECT_EQ(failed.status, 502) << failed.text;
  EXPECT_EQ(reason_of_last(), "Run lifecycle hook returned HTTP status 500.");
}

TEST_F(Hooks, ARunThatTakesTooLongNeverRuns) {
  EXPECT_EQ(run(R"({"run":"slow"})").status, 502);
  EXPECT_EQ(reason_of_last(), "Run lifecycle hook invocation timed out after PT4S.");
}

TEST_F(Hooks, ARunWithinItsTimeRuns) {
  const Answer vm = run(R"({"run":"late"})");
  EXPECT_EQ(vm.text_of("state"), "RUNNING") << vm.text;
  server->call("DELETE", path(vm.text_of("id")));
}

TEST_F(Hooks, ARunThatClosesTheConnectionNeverRuns) {
  EXPECT_EQ(run(R"({"run":"close"})").status, 502);
  EXPECT_THAT(reason_of_last(), HasSubstr("Run lifecycle hook could not be called"));
}

TEST_F(Hooks, AnApplicationThatListensNoMoreCannotBeSuspended) {
  const Answer vm = run(R"({"deaf":true})");
  ASSERT_EQ(vm.text_of("state"), "RUNNING") << vm.text;
  const std::string id = vm.text_of("id");
  const std::string closed =
      "for i in $(seq 300); do python3 -c \"import socket; "
      "socket.create_connection(('127.0.0.1', 9000))\" 2>/dev/null || exit 0; sleep 0.2; done; "
      "exit 1";
  const Answer waited = server->call("POST", path(id, "/exec"), json::object{{"shell", closed}});
  ASSERT_EQ(waited.text_of("exitCode"), "0") << waited.text;
  EXPECT_EQ(server->call("POST", path(id, "/suspend")).status, 502);
  EXPECT_THAT(reason_of_last(), HasSubstr("Suspend lifecycle hook could not be called"));
}

TEST_F(Hooks, AFailingSuspendEndsIt) {
  const Answer vm = run(R"({"suspend":409})");
  EXPECT_EQ(server->call("POST", path(vm.text_of("id"), "/suspend")).status, 502);
  const Answer ended = server->wait_for(path(vm.text_of("id")), "state", "TERMINATED");
  EXPECT_EQ(ended.text_of("stateReason"), "Suspend lifecycle hook returned HTTP status 409.");
}

TEST_F(Hooks, AFailingResumeEndsIt) {
  const Answer vm = run(R"({"resume":500})");
  server->call("POST", path(vm.text_of("id"), "/suspend"));
  EXPECT_EQ(server->call("POST", path(vm.text_of("id"), "/resume")).status, 502);
  const Answer ended = server->wait_for(path(vm.text_of("id")), "state", "TERMINATED");
  EXPECT_EQ(ended.text_of("stateReason"), "Resume lifecycle hook returned HTTP status 500.");
}

TEST_F(Hooks, AFailingTerminateDoesNotHoldItUp) {
  const Answer vm = run(R"({"terminate":500})");
  EXPECT_EQ(server->call("DELETE", path(vm.text_of("id"))).text_of("state"), "TERMINATED");
}

TEST_F(Hooks, TheEndOfTheApplicationEndsTheMicrovm) {
  const Answer vm = run("{}");
  server->call(
      "POST", path(vm.text_of("id"), "/exec"),
      json::object{
          {"shell",
           "python3 -c \"import urllib.request as u;u.urlopen('http://127.0.0.1:9000/exit')\""}});
  const Answer ended =
      server->wait_for(path(vm.text_of("id")), "state", "TERMINATED", std::chrono::seconds(40));
  EXPECT_EQ(ended.text_of("stateReason"), "Container Stopped with Exit Code: 3");
}

TEST_F(Hooks, NothingIsLeft) {
  const Answer report = server->call("POST", "/v1/check");
  EXPECT_EQ(report.text_of("ok"), "true") << report.text;
}

}  // namespace
}  // namespace firebreak::testing_support
