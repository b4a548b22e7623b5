// Endpoints of real microVMs: tokens, waking, idling, what a suspend does to open requests.
#include <iostream>
#include <set>
#include <thread>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "machine/tool.h"
#include "net/http_client.h"
#include "net/websocket.h"
#include "server/server_process.h"

namespace firebreak::testing_support {
namespace {

using ::testing::HasSubstr;

// Counts requests, so that lost memory shows; /slow begins an answer and does not end it; /ws is a
// WebSocket that says hi and then waits.
constexpr const char* kApp = R"(
import base64, hashlib, http.server, socketserver, time
class App(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    count = 0
    def do_GET(self):
        App.count += 1
        if self.path == "/slow":
            self.send_response(200)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"5\r\nbegun\r\n")
            self.wfile.flush()
            time.sleep(600)
            return
        if self.path == "/ws":
            key = self.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            self.send_response(101)
            self.send_header("upgrade", "websocket")
            self.send_header("connection", "upgrade")
            accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
            self.send_header("sec-websocket-accept", accept)
            self.end_headers()
            self.wfile.write(b"\x81\x02hi")
            self.wfile.flush()
            self.close_connection = True
            while self.connection.recv(4096): pass
            return
        body = ("count %d path %s host %s" % (App.count, self.path, self.headers["host"])).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *a): pass
class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 256
Server(("127.0.0.1", 8080), App).serve_forever()
)";

struct Got {
  int status = 0;
  std::string body;
};

class Endpoint : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    server = std::make_unique<ServerProcess>();
    server->set_options({"--tick-ms=100"});
    ASSERT_TRUE(server->start()) << server->log();
    ASSERT_TRUE(server->wait_python()) << server->log();
  }
  static void TearDownTestSuite() { server.reset(); }

  static std::string path(const std::string& id, const std::string& rest = "") {
    return "/v1/microvms/" + id + rest;
  }
  static Answer run(json::object extra = {}) {
    extra["image"] = "python";
    Answer made = server->call("POST", "/v1/microvms", extra);
    EXPECT_EQ(made.status, 201) << made.text;
    return made;
  }
  static std::string token_of(const std::string& id, json::object body) {
    const Answer made = server->call("POST", path(id, "/tokens"), body);
    EXPECT_EQ(made.status, 201) << made.text;
    return made.text_of("token");
  }
  // Path of the endpoint, as an URL behind the authority.
  static std::string place(const Answer& microvm, const std::string& rest = "/") {
    const std::string endpoint = microvm.text_of("endpoint");
    return endpoint.substr(endpoint.find('/')) + rest;
  }

  static net::Task<Result<net::HttpReply>> ask(std::string target, wire::Headers headers) {
    const Deadline deadline = Deadline::in(std::chrono::seconds(180));
    FB_CO_TRY_ASSIGN(auto stream, co_await net::connect_url(server->endpoint_url(),
                                                            server->ca_file(), deadline));
    net::HttpCall call{.method = "GET",
                       .target = std::move(target),
                       .host = server->endpoint_url().substr(8),
                       .headers = std::move(headers),
                       .body = {}};
    co_return co_await net::http_call(*stream, call, deadline);
  }
  // So many at once.
  static std::vector<Got> get_many(const std::string& target, const std::string& token,
                                   std::size_t count) {
    net::asio::io_context io(1);
    std::vector<Got> all(count);
    for (Got& got : all) {
      net::asio::co_spawn(io, ask(target, {{"x-aws-proxy-auth", token}}),
                          [&got](const std::exception_ptr&, Result<net::HttpReply> reply) {
                            got = reply ? Got{reply->status, reply->body}
                                        : Got{0, reply.error().text()};
                          });
    }
    io.run();
    return all;
  }
  static Got get(const std::string& target, const std::string& token) {
    return get_many(target, token, 1).front();
  }

  // A microVM whose application answers; and a token for it.
  struct Served {
    std::string id;
    std::string place;  // of the endpoint
    std::string token;
  };
  static Served serve(json::object extra = {}) {
    const Answer made = run(std::move(extra));
    Served served{made.text_of("id"), place(made, ""), ""};
    const Answer started = server->call("POST", path(served.id, "/execs"),
                                        json::object{{"argv", json::array{"python3", "-c", kApp}}});
    EXPECT_EQ(started.status, 201) << started.text;
    served.token = token_of(served.id, {{"ports", 8080}});
    for (int i = 0; i < 300 && get(served.place + "/up", served.token).status != 200; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return served;
  }
  // Of all microVMs, so far.
  static int resumes() {
    return static_cast<int>(server->metric("firebreak_resume_seconds_count"));
  }

  static inline std::unique_ptr<ServerProcess> server;
};

TEST_F(Endpoint, LetsInWhoHasATokenForTheMicrovmAndPort) {
  const Served a = serve();
  const Answer other = run();
  const Got got = get(a.place + "/x?y", a.token);
  EXPECT_EQ(got.status, 200) << got.body;
  EXPECT_THAT(got.body, HasSubstr("path /x?y host " + server->endpoint_url().substr(8)));
  EXPECT_EQ(get("/any/path", a.token).status, 200);  // the token names the microVM
  EXPECT_EQ(get(a.place + "/", "").body, "Request missing authentication");
  const std::string narrow = token_of(a.id, {{"ports", "1-8079,8081-65535"}});
  EXPECT_EQ(get(a.place + "/", narrow).body, "Access to port denied");
  // A token for one port leads there without a header.
  const std::string elsewhere = token_of(a.id, {{"ports", 9001}});
  EXPECT_EQ(get(a.place + "/", elsewhere).status, 502);
  server->call("POST", path(a.id, "/execs"),
               json::object{{"argv", json::array{"python3", "-m", "http.server", "9001"}}});
  Got led;
  for (int i = 0; i < 300 && led.status != 200; ++i) {
    led = get(a.place + "/etc/", elsewhere);
    if (led.status != 200) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_THAT(led.body, HasSubstr("Directory listing for /etc/"));
  const std::string foreign = token_of(other.text_of("id"), {{"ports", "*"}});
  EXPECT_EQ(get(a.place + "/", foreign).status, 403);
  EXPECT_EQ(get(place(other), a.token).status, 403);
  const Got nobody = get(place(other), foreign);
  EXPECT_EQ(nobody.status, 502);
  EXPECT_EQ(nobody.body, "");
  server->call("DELETE", path(other.text_of("id")));
  server->call("DELETE", path(a.id));
}

// A hundred requests at once over HTTP/2: so many succeeded, and it took so many seconds.
struct Burst {
  int succeeded = 0;
  double seconds = 0;
};
Burst burst(const std::string& url, const std::string& token) {
  const auto said = machine::run_tool(
      {"/usr/bin/h2load", "-n100", "-c1", "-m100", "-Hx-aws-proxy-auth: " + token, url},
      Deadline::in(std::chrono::seconds(300)));
  EXPECT_TRUE(said) << said.error().text();
  Burst found;
  if (!said) return found;
  if (const auto at = said->find("finished in "); at != std::string::npos) {
    const std::string time = said->substr(at + 12, said->find(',', at) - at - 12);
    found.seconds = std::stod(time) * (time.ends_with("ms") ? 0.001 : 1);
  }
  if (const auto at = said->find("status codes: "); at != std::string::npos)
    found.succeeded = std::stoi(said->substr(at + 14));
  return found;
}

TEST_F(Endpoint, AShortListenQueueLosesNothing) {
  const Served vm = serve();
  const auto listen_with = [&](int port, const char* queue) {
    std::string app = kApp;
    app.replace(app.find("8080"), 4, std::to_string(port));
    app.replace(app.find("256"), 3, queue);
    const Answer started = server->call("POST", path(vm.id, "/execs"),
                                        json::object{{"argv", json::array{"python3", "-c", app}}});
    EXPECT_EQ(started.status, 201) << started.text;
    const std::string token = token_of(vm.id, {{"ports", port}});
    for (int i = 0; i < 300 && get(vm.place + "/up", token).status != 200; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return token;
  };
  const std::string url = server->endpoint_url() + vm.place + "/";
  const std::string tokens[] = {listen_with(9001, "512"), listen_with(9002, "5")};
  double fastest[] = {1e9, 1e9};
  for (int turn = 0; turn < 3; ++turn) {
    for (std::size_t i = 0; i < 2; ++i) {
      const Burst got = burst(url, tokens[i]);
      EXPECT_EQ(got.succeeded, 100) << i;
      fastest[i] = std::min(fastest[i], got.seconds);
    }
  }
  std::cout << "a long queue: " << fastest[0] << " s, a short one: " << fastest[1] << " s\n";
  EXPECT_LT(fastest[1], 3 * fastest[0]);
  // Also right after a resume.
  EXPECT_EQ(server->call("POST", path(vm.id, "/suspend")).status, 200);
  EXPECT_EQ(burst(url, tokens[1]).succeeded, 100);
}

TEST_F(Endpoint, AHundredRequestsToASleepingMicrovmCauseOneResume) {
  const Served vm = serve();
  ASSERT_EQ(server->call("POST", path(vm.id, "/suspend")).text_of("state"), "SUSPENDED");
  const int before = resumes();
  const std::vector<Got> all = get_many(vm.place + "/", vm.token, 100);
  std::set<std::string> counts;
  for (const Got& got : all) {
    EXPECT_EQ(got.status, 200) << got.body;
    counts.insert(got.body);
  }
  EXPECT_EQ(resumes(), before + 1);
  EXPECT_EQ(counts.size(), 100U);  // each its own, by one application that kept its memory
  server->call("DELETE", path(vm.id));
}

TEST_F(Endpoint, WithoutAutoResumeItStaysAsleep) {
  const Served vm = serve({{"idle", {{"maxIdleSeconds", 3600}, {"autoResume", false}}}});
  server->call("POST", path(vm.id, "/suspend"));
  const Got got = get(vm.place + "/", vm.token);
  EXPECT_EQ(got.status, 502);
  EXPECT_EQ(got.body, "");
  EXPECT_EQ(server->call("GET", path(vm.id)).text_of("state"), "SUSPENDED");
  server->call("POST", path(vm.id, "/resume"));
  EXPECT_EQ(get(vm.place + "/", vm.token).status, 200);
  server->call("DELETE", path(vm.id));
}

TEST_F(Endpoint, TrafficKeepsItAwakeAndSilenceDoesNot) {
  const Served vm =
      serve({{"idle", {{"maxIdleSeconds", 4}, {"rule", "traffic"}, {"suspendedSeconds", 600}}}});
  const int before = resumes();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(8);
  while (std::chrono::steady_clock::now() < until) {
    EXPECT_EQ(get(vm.place + "/", vm.token).status, 200);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  EXPECT_EQ(resumes(), before);
  EXPECT_EQ(server->wait_for(path(vm.id), "state", "SUSPENDED").text_of("state"), "SUSPENDED");
  EXPECT_EQ(get(vm.place + "/", vm.token).status, 200);
  EXPECT_EQ(resumes(), before + 1);
  server->call("DELETE", path(vm.id));
}

TEST_F(Endpoint, ASuspendCutsWhatIsOpen) {
  const Served vm = serve();
  net::asio::io_context io(1);
  bool begun = false;
  bool cut = false;
  auto follow = [&]() -> net::Task<void> {
    const Deadline deadline = Deadline::in(std::chrono::seconds(120));
    auto stream = co_await net::connect_url(server->endpoint_url(), server->ca_file(), deadline);
    if (!stream) co_return;
    net::HttpCall call{.method = "GET", .target = vm.place + "/slow", .host = "x"};
    call.headers.push_back({"x-aws-proxy-auth", vm.token});
    auto client =
        co_await net::HttpClientStream::start(*std::move(stream), std::move(call), false, deadline);
    if (!client) co_return;
    auto first = co_await (*client)->read(deadline);
    begun = first && *first == "begun";
    std::thread suspend([&] { server->call("POST", path(vm.id, "/suspend")); });
    auto rest = co_await (*client)->read(deadline);
    cut = !rest;
    suspend.join();
  };
  net::asio::co_spawn(io, follow(), [](const std::exception_ptr&) {});
  io.run();
  EXPECT_TRUE(begun);
  EXPECT_TRUE(cut);
  EXPECT_EQ(get(vm.place + "/", vm.token).status, 200);
  server->call("DELETE", path(vm.id));
}

TEST_F(Endpoint, WebSocketsEndWithASuspendAndComeBackAfterIt) {
  constexpr int kSockets = 200;
  const Served vm = serve();
  const Deadline deadline = Deadline::in(std::chrono::seconds(400));
  int greeted = 0;
  int ended = 0;
  auto follow = [&]() -> net::Task<void> {
    auto stream = co_await net::connect_url(server->endpoint_url(), server->ca_file(), deadline);
    if (!stream) co_return;
    auto socket = co_await net::open_websocket(
        *std::move(stream), "x", vm.place + "/ws", {},
        {"lambda-microvms", "lambda-microvms.authentication." + vm.token}, deadline);
    if (!socket) {
      ADD_FAILURE() << socket.error().text();
      co_return;
    }
    auto message = co_await (*socket)->read(deadline);
    if (message && *message && (*message)->data == "hi") ++greeted;
    auto rest = co_await (*socket)->read(deadline);
    if ((!rest && rest.error().code != Code::timeout) || (rest && !*rest)) ++ended;
  };
  for (int round = 0; round < 2; ++round) {
    greeted = ended = 0;
    net::asio::io_context io(1);
    for (int i = 0; i < kSockets; ++i)
      net::asio::co_spawn(io, follow(), [](const std::exception_ptr&) {});
    while (greeted < kSockets && !deadline.passed()) io.run_one_for(std::chrono::seconds(1));
    std::thread suspend([&] { server->call("POST", path(vm.id, "/suspend")); });
    io.run();
    suspend.join();
    EXPECT_EQ(greeted, kSockets);
    EXPECT_EQ(ended, kSockets);
  }
  server->call("DELETE", path(vm.id));
}

TEST_F(Endpoint, TokensAreListedRevokedAndEndWithTheirMicrovm) {
  const Served vm = serve();
  const Answer issued = server->call("POST", path(vm.id, "/tokens"),
                                     json::object{{"ports", "8080"}, {"expiresSeconds", 60}});
  const std::string token = issued.text_of("token");
  EXPECT_EQ(get(vm.place + "/", token).status, 200);
  const Answer list = server->call("GET", path(vm.id, "/tokens"));
  EXPECT_EQ(list.object().at("items").as_array().size(), 2U) << list.text;
  EXPECT_EQ(list.text.find(token), std::string::npos);
  EXPECT_EQ(server->call("DELETE", path(vm.id, "/tokens/" + issued.text_of("id"))).status, 200);
  EXPECT_EQ(get(vm.place + "/", token).status, 403);
  EXPECT_EQ(get(vm.place + "/", vm.token).status, 200);
  EXPECT_EQ(server->call("DELETE", path(vm.id, "/tokens/none")).status, 404);

  // Another tenant's microVM does not exist.
  const Answer tenant = server->call("POST", "/v1/tenants", json::object{{"name", "other"}});
  const std::string key(tenant.object().at("key").at("apiKey").as_string());
  EXPECT_EQ(
      server->call_as(key, "POST", path(vm.id, "/tokens"), json::object{{"ports", 80}}).status,
      404);
  EXPECT_EQ(server->call_as(key, "GET", path(vm.id, "/tokens")).status, 404);
  EXPECT_EQ(server->call_as(key, "DELETE", path(vm.id, "/tokens/" + issued.text_of("id"))).status,
            404);

  // Both outlive the server.
  ASSERT_EQ(server->stop(), 0);
  ASSERT_TRUE(server->start()) << server->log();
  EXPECT_EQ(get(vm.place + "/", vm.token).status, 200);
  EXPECT_EQ(get(vm.place + "/", token).status, 403);
  server->call("DELETE", path(vm.id));
  EXPECT_EQ(get(vm.place + "/", vm.token).status, 403);
  EXPECT_EQ(server->call("POST", path(vm.id, "/tokens"), json::object{{"ports", 80}}).status, 409);
}

TEST_F(Endpoint, BadTokenRequestsAreRefused) {
  const Answer made = run();
  const std::string id = made.text_of("id");
  for (const json::object& body :
       {json::object{}, json::object{{"ports", 0}}, json::object{{"ports", "a"}},
        json::object{{"ports", json::array{80}}}, json::object{{"ports", 80}, {"expires", 5}},
        json::object{{"ports", 80}, {"expiresSeconds", 0}},
        json::object{{"ports", 80}, {"expiresSeconds", 604801}},
        json::object{{"ports", 80}, {"kind", "root"}},
        json::object{{"ports", 80}, {"kind", "shell"}}})
    EXPECT_EQ(server->call("POST", path(id, "/tokens"), body).status, 400) << json::serialize(body);
  server->call("DELETE", path(id));
}

// Each asks for a shell and is gone before it is there. Those that reset may overtake their own
// request, which then never was; the others are always heard.
constexpr const char* kLeave = R"(
import socket, ssl, struct, sys
host, port = sys.argv[1].split("://")[1].split(":")
context = ssl.create_default_context(cafile=sys.argv[2])
context.check_hostname = False
for i in range(6):
    s = context.wrap_socket(socket.create_connection((host, int(port))))
    s.sendall(("GET %s HTTP/1.1\r\nhost: %s\r\nx-aws-proxy-auth: %s\r\nx-aws-proxy-port: 8022\r\n"
               "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
               "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
               % (sys.argv[3], host, sys.argv[4])).encode())
    if i % 2:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    s.close()
)";

TEST_F(Endpoint, AShellThatNobodyWaitsForIsNotLeftRunning) {
  const Answer made = run();
  const std::string id = made.text_of("id");
  const std::string token = token_of(id, json::object{{"kind", "shell"}});
  const auto served = [] {
    double count = 0;
    for (const char* result : {"passed", "502"})
      count += server->metric("firebreak_endpoint_requests_total{result=\"" + std::string(result) +
                              "\"}");
    return count;
  };
  const double before = served();
  const auto left = server->run({"/usr/bin/python3", "-c", kLeave, server->endpoint_url(),
                                 server->ca_file(), place(made, "/shell"), token});
  ASSERT_EQ(left.status, 0) << left.err;
  const auto none_runs = [&id] {
    return server->call("GET", path(id, "/execs")).text_of("execs") == "[]";
  };
  for (int i = 0; i < 300 && (served() < before + 3 || !none_runs()); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_GE(served(), before + 3);
  EXPECT_TRUE(none_runs());
  server->call("DELETE", path(id));
}

TEST_F(Endpoint, TheCommandLineIssuesTokens) {
  const Served vm = serve();
  const auto made = server->cli({"token", vm.id, "--port", "8080", "--expires", "60"});
  ASSERT_EQ(made.status, 0) << made.err;
  const std::string token = made.out.substr(0, made.out.find('\n'));
  EXPECT_EQ(get(vm.place + "/", token).status, 200);
  const auto list = server->cli({"token", vm.id, "--list", "--json"});
  const auto items = parse_json(list.out);
  ASSERT_TRUE(items) << list.out;
  for (const json::value& item : items->as_array())
    server->cli({"token", vm.id, "--revoke", std::string(item.at("id").as_string())});
  EXPECT_EQ(get(vm.place + "/", token).status, 403);
  EXPECT_EQ(server->cli({"token", vm.id}).status, 2);
  server->call("DELETE", path(vm.id));
}

}  // namespace
}  // namespace firebreak::testing_support
