#include "bench/endpoint_bench.h"

#include <cstdlib>
#include <thread>

#include "bench/load.h"
#include "net/http_client.h"
#include "net/websocket.h"
#include "server/server_process.h"
#include "support/run_task.h"

namespace firebreak::bench {
namespace {

using testing_support::Answer;
using testing_support::ServerProcess;

// An application as people write them. In a guest that has just come back all of it is translated
// anew, its interpreter as well.
constexpr const char* kPythonApp = R"(
import select, socket
server = socket.create_server(("127.0.0.1", 8080), backlog=64)
poll, clients = select.epoll(), {}
poll.register(server.fileno(), select.EPOLLIN)
while True:
    for fd, _ in poll.poll():
        if fd == server.fileno():
            client = server.accept()[0]
            clients[client.fileno()] = client
            poll.register(client.fileno(), select.EPOLLIN)
        elif clients[fd].recv(65536):
            clients[fd].sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhello\n")
        else:
            clients.pop(fd).close()
)";

constexpr int kConnections = 16;
constexpr double kBigMib = 64;  // of the guest server's /big

Deadline soon() {
  return Deadline::in(std::chrono::seconds(120));
}

struct Guest {
  ServerProcess& server;
  std::string id;
  std::string target;
  std::string token;
};

// What all resumes so far took the server, from asked to RUNNING, in ms.
double resume_ms(ServerProcess& server) {
  const std::string text = server.call("GET", "/metrics").text;
  const std::string name = "firebreak_resume_seconds_sum ";
  const auto at = text.find(name);
  return at == std::string::npos ? 0 : std::atof(text.c_str() + at + name.size()) * 1000;
}

net::HttpCall request(const Guest& guest) {
  net::HttpCall call{.method = "GET", .target = guest.target, .host = "guest"};
  call.headers.push_back({"x-aws-proxy-auth", guest.token});
  return call;
}

net::Task<Result<double>> ask(const Guest& guest, net::ByteStream& stream) {
  const Timer timer;
  FB_CO_TRY_ASSIGN(const net::HttpReply reply,
                   co_await net::http_call(stream, request(guest), soon()));
  if (reply.status != 200)
    co_return fail(Code::internal, "the endpoint answered " + std::to_string(reply.status));
  co_return timer.ms();
}

net::Task<Result<>> through_endpoint(const Guest& guest, Samples& samples, int count) {
  FB_CO_TRY_ASSIGN(auto stream, co_await net::connect_url(guest.server.endpoint_url(),
                                                          guest.server.ca_file(), soon()));
  for (int i = -5; i < count; ++i) {
    FB_CO_TRY_ASSIGN(const double ms, co_await ask(guest, *stream));
    if (i >= 0) samples.add(ms);
  }
  co_return Result<>();
}

// The same request by hand, over the tunnel the native API gives.
net::Task<Result<>> through_tunnel(const Guest& guest, Samples& samples, int count) {
  FB_CO_TRY_ASSIGN(auto stream, co_await net::connect_url(guest.server.url(), "", soon()));
  FB_CO_TRY_ASSIGN(auto socket,
                   co_await net::open_websocket(
                       std::move(stream), "guest", "/v1/microvms/" + guest.id + "/tunnel?port=8080",
                       {{"authorization", "Bearer " + guest.server.api_key()}}, {}, soon()));
  for (int i = -5; i < count; ++i) {
    const Timer timer;
    FB_CO_TRY(co_await socket->write(false, "GET / HTTP/1.1\r\nhost: guest\r\n\r\n", soon()));
    std::string answer;
    while (!answer.ends_with("hello\n")) {
      FB_CO_TRY_ASSIGN(auto message, co_await socket->read(soon()));
      if (!message) co_return fail(Code::internal, "the tunnel closed");
      answer += message->data;
    }
    if (i >= 0) samples.add(timer.ms());
  }
  co_return Result<>();
}

Result<> wait_app(const Guest& guest) {
  Result<> answered;
  for (int i = 0; i < 300; ++i) {
    Samples ignored;
    answered = testing_support::run_task(through_endpoint(guest, ignored, 1));
    if (answered) return answered;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return answered;
}

// A microVM whose application listens on port 8080; `program`: a file it is given first.
Result<Guest> start_guest(ServerProcess& server, const std::string& program, json::array argv) {
  const Answer made = server.call("POST", "/v1/microvms", json::object{{"image", "python"}});
  const std::string id = made.text_of("id");
  const std::string endpoint = made.text_of("endpoint");
  if (id.empty()) return fail(Code::internal, "no microVM: " + made.text);
  if (!program.empty()) {
    const auto copied = server.cli({"cp", program, id + ":/tmp/server"});
    if (copied.status != 0) return fail(Code::internal, "copying the server: " + copied.err);
  }
  server.call("POST", "/v1/microvms/" + id + "/execs", json::object{{"argv", std::move(argv)}});
  const Answer token =
      server.call("POST", "/v1/microvms/" + id + "/tokens", json::object{{"ports", 8080}});
  Guest guest{server, id, endpoint.substr(endpoint.find('/')) + "/", token.text_of("token")};
  FB_TRY(wait_app(guest));
  return guest;
}

struct Wakes {
  Samples all;    // from the request to its answer
  Samples alone;  // of that, the resume
  Samples rest;   // what the first request costs once the microVM runs
};

Result<Wakes> wake_often(const Guest& guest, int count) {
  const auto wake = [](const Guest& asleep) -> net::Task<Result<>> {
    FB_CO_TRY_ASSIGN(auto stream, co_await net::connect_url(asleep.server.endpoint_url(),
                                                            asleep.server.ca_file(), soon()));
    FB_CO_TRY(co_await ask(asleep, *stream));
    co_return Result<>();
  };
  Wakes wakes;
  for (int i = 0; i < count; ++i) {
    guest.server.call("POST", "/v1/microvms/" + guest.id + "/suspend");
    const double before = resume_ms(guest.server);
    const Timer timer;
    FB_TRY(testing_support::run_task(wake(guest)));
    const double all = timer.ms();
    const double resumed = resume_ms(guest.server) - before;
    wakes.all.add(all);
    wakes.alone.add(resumed);
    wakes.rest.add(all - resumed);
  }
  return wakes;
}

// What comes through to a guest: beside the figures of the proxy in front of a host's backend.
Result<> bench_guest_load(Report& report, const Guest& guest, int requests) {
  const std::string call =
      "-H 'x-aws-proxy-auth: " + guest.token + "' " + guest.server.endpoint_url() + guest.target;
  FB_TRY_ASSIGN(const double rate, load(0, "--h1 -n " + std::to_string(requests) + " -c " +
                                               std::to_string(kConnections) + " " + call));
  FB_TRY_ASSIGN(const double bytes, load(0, "--h1 -n 2 -c 1 " + call + "big"));
  report.value("guest_requests", rate, "requests/s into a guest, over TLS");
  report.value("guest_bytes", bytes * kBigMib, "MiB/s out of a guest, over TLS");
  return {};
}

}  // namespace

Result<> bench_endpoint(Report& report, int count) {
  ServerProcess server;
  server.set_options({"--pool-least=1"});
  if (!server.start() || !server.wait_python())
    return fail(Code::internal, "the server did not start", server.log());
  FB_TRY_ASSIGN(const Guest guest,
                start_guest(server, FIREBREAK_GUEST_SERVER, {"/tmp/server", "8080"}));
  Samples direct;
  Samples through;
  FB_TRY(testing_support::run_task(through_tunnel(guest, direct, 20 * count)));
  FB_TRY(testing_support::run_task(through_endpoint(guest, through, 20 * count)));
  report.time("endpoint_rtt_tunnel", direct);
  report.time("endpoint_rtt", through);
  FB_TRY(bench_guest_load(report, guest, 200 * count));

  FB_TRY_ASSIGN(const Wakes wakes, wake_often(guest, count));
  report.time("auto_resume", wakes.all);
  report.time("auto_resume_alone", wakes.alone);
  report.time("auto_resume_first_answer", wakes.rest);
  server.call("DELETE", "/v1/microvms/" + guest.id);
  FB_TRY_ASSIGN(const Guest python, start_guest(server, "", {"python3", "-c", kPythonApp}));
  FB_TRY_ASSIGN(const Wakes python_wakes, wake_often(python, count));
  report.time("auto_resume_python", python_wakes.all);
  report.time("auto_resume_python_alone", python_wakes.alone);
  report.time("auto_resume_python_first_answer", python_wakes.rest);
  report.value("auto_resume_python / the resume alone",
               python_wakes.all.p50() / python_wakes.alone.p50(), "x");
  report.require("auto_resume / the resume alone", wakes.all.p50() / wakes.alone.p50(), 1.3);
  return {};
}

}  // namespace firebreak::bench
