#include "bench/egress_bench.h"

#include <sstream>
#include <thread>

#include "server/fake_internet.h"
#include "server/server_process.h"

namespace firebreak::bench {
namespace {

using testing_support::Answer;
using testing_support::FakeInternet;
using testing_support::ServerProcess;

constexpr int kRules = 1000;
// Prints the median of connections in milliseconds, then megabytes a second of a download.
constexpr const char* kMeasure = R"py(
import socket, statistics, time, urllib.request
times = []
for _ in range(40):
    began = time.monotonic()
    socket.create_connection(("203.0.113.10", 80), 10).close()
    times.append((time.monotonic() - began) * 1000)
began = time.monotonic()
size = len(urllib.request.urlopen("http://203.0.113.10/bytes/20000000", timeout=60).read())
print(statistics.median(times), size / 1e6 / (time.monotonic() - began))
)py";

json::object policy(int rules) {
  json::array list;
  for (int i = 0; i + 1 < rules; ++i) {
    const std::string host =
        "198.18." + std::to_string(i / 250) + "." + std::to_string(i % 250 + 1);
    list.push_back(json::object{{"action", "allow"}, {"cidr", host}});
  }
  list.push_back(json::object{{"action", "allow"}, {"cidr", "203.0.113.10"}});
  return {{"rules", std::move(list)}};
}

struct Case {
  std::string id;
  Samples connect;
  Samples speed;
};

Result<Case> launch(ServerProcess& server, const std::string& name, int rules) {
  const Answer set = server.call("PUT", "/v1/egress-policies/" + name, policy(rules));
  if (set.status / 100 != 2) return fail(Code::internal, "the policy is refused: " + set.text);
  const Answer made =
      server.call("POST", "/v1/microvms", json::object{{"image", "python"}, {"egress", name}});
  if (made.status != 201) return fail(Code::internal, "no microVM: " + made.text);
  return Case{.id = made.text_of("id"), .connect = {}, .speed = {}};
}

Result<> measure(ServerProcess& server, Case& one) {
  const Answer done = server.call("POST", "/v1/microvms/" + one.id + "/exec",
                                  json::object{{"argv", {"python3", "-c", kMeasure}}});
  std::istringstream words(done.text_of("stdout"));
  double connect = 0;
  double speed = 0;
  if (!(words >> connect >> speed)) return fail(Code::internal, "no figures: " + done.text);
  one.connect.add(connect);
  one.speed.add(speed);
  return {};
}

Result<> measure_all(Report& report, int count) {
  const auto internet = FakeInternet::enter();
  if (!internet) return fail(Code::internal, "the internet of namespaces cannot be made");
  ServerProcess server;
  server.set_options({FakeInternet::dns_option(), "--pool-least=0", "--pool-most=0"});
  if (!server.start() || !server.wait_python())
    return fail(Code::internal, "the server does not start", server.log());
  FB_TRY_ASSIGN(Case small, launch(server, "small", 1));
  FB_TRY_ASSIGN(Case large, launch(server, "large", kRules));
  // In turns, so that a slow moment of the host meets both.
  for (int i = 0; i < count; ++i) {
    FB_TRY(measure(server, i % 2 == 0 ? small : large));
    FB_TRY(measure(server, i % 2 == 0 ? large : small));
  }
  report.time("egress_connect_1_rule", small.connect);
  report.time("egress_connect_1000_rules", large.connect);
  report.value("egress_connect 1,000 rules / 1 rule", large.connect.p50() / small.connect.p50(),
               "x");
  report.value("egress_bytes_1_rule", small.speed.p50(), "MB/s through the tap");
  report.value("egress_bytes_1000_rules", large.speed.p50(), "MB/s through the tap");
  return {};
}

}  // namespace

// On a thread of its own: it lives in another network from then on.
Result<> bench_egress(Report& report, int count) {
  Result<> measured;
  std::thread([&] { measured = measure_all(report, count); }).join();
  return measured;
}

}  // namespace firebreak::bench
