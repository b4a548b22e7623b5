#include "bench/api_bench.h"

#include <cstdlib>
#include <thread>

#include "server/server_process.h"
#include "wire/crypto.h"
#include "wire/sigv4.h"

namespace firebreak::bench {
namespace {

using testing_support::Answer;
using testing_support::ServerProcess;

// What the engine itself spent on unparking, in all launches so far, in ms.
double unpark_ms(ServerProcess& server) {
  double sum = 0;
  for (const char* phase : {"wake", "record"}) {
    sum += server.metric(std::string("firebreak_phase_seconds_sum{operation=\"unpark\",phase=\"") +
                         phase + "\"}");
  }
  return sum * 1000;
}

constexpr int kClones = 2;

// Until all are there: the next one being made is not what is measured.
Result<> wait_for_clones(ServerProcess& server) {
  for (int i = 0; i < 600; ++i) {
    if (server.metric("firebreak_pool_size") >= kClones) return {};
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return fail(Code::timeout, "the pool stays empty", server.log());
}

Result<std::string> launch(ServerProcess& server, Samples& times,
                           const char* egress = "NO_EGRESS") {
  const Timer timer;
  const Answer made =
      server.call("POST", "/v1/microvms", json::object{{"image", "python"}, {"egress", egress}});
  if (made.status != 201) return fail(Code::internal, "launch: " + made.text);
  times.add(timer.ms());
  return made.text_of("id");
}

Result<> bench_pool(Report& report, ServerProcess& server, int count) {
  Samples launches;
  Samples engine;
  Samples added;
  Samples execs;
  for (int i = 0; i < count; ++i) {
    FB_TRY(wait_for_clones(server));
    const double before = unpark_ms(server);
    Samples one;
    FB_TRY_ASSIGN(const std::string id, launch(server, one));
    const double spent = unpark_ms(server) - before;
    launches.add(one.p50());
    engine.add(spent);
    added.add(one.p50() - spent);
    for (int j = 0; j < 4; ++j) {
      const Timer timer;
      const Answer done = server.call("POST", "/v1/microvms/" + id + "/exec",
                                      json::object{{"argv", json::array{"/bin/true"}}});
      if (done.text_of("exitCode") != "0") return fail(Code::internal, "exec: " + done.text);
      if (j > 0) execs.add(timer.ms());
    }
    server.call("DELETE", "/v1/microvms/" + id);
  }
  report.time("api_launch_pool", launches);
  report.time("api_launch_pool_engine", engine);
  report.time("api_launch_pool_added", added);
  report.time("api_exec", execs);
  return {};
}

// In pairs, so that a slow moment of the host meets both.
Result<> bench_network(Report& report, ServerProcess& server, int count) {
  Samples with;
  Samples without;
  Samples difference;
  for (int i = 0; i < count; ++i) {
    Samples pair[2];
    for (const bool network : {i % 2 == 0, i % 2 != 0}) {
      FB_TRY(wait_for_clones(server));
      FB_TRY_ASSIGN(const std::string id, launch(server, pair[network ? 1 : 0],
                                                 network ? "INTERNET_EGRESS" : "NO_EGRESS"));
      server.call("DELETE", "/v1/microvms/" + id);
    }
    without.add(pair[0].p50());
    with.add(pair[1].p50());
    difference.add(pair[1].p50() - pair[0].p50());
  }
  report.time("launch_without_network", without);
  report.time("launch_with_network", with);
  report.time("launch_network_added", difference);
  report.require("what a network adds to a launch, ms", difference.p50(), 3);
  return {};
}

// RunMicrovm until GetMicrovm says RUNNING, as a client of AWS waits.
Result<std::string> run_microvm(ServerProcess& server, Samples& times) {
  const json::array no_egress{
      "arn:aws:lambda:test-1:aws:network-connector:aws-network-connector:NO_EGRESS"};
  const Timer timer;
  Answer now = server.call_signed(
      "POST", "/2025-09-09/microvms",
      json::object{{"imageIdentifier", "python"}, {"egressNetworkConnectors", no_egress}});
  if (now.status != 200) return fail(Code::internal, "RunMicrovm: " + now.text);
  const std::string id = now.text_of("microvmId");
  while (now.text_of("state") == "PENDING")
    now = server.call_signed("GET", "/2025-09-09/microvms/" + id);
  if (now.text_of("state") != "RUNNING") return fail(Code::internal, "GetMicrovm: " + now.text);
  times.add(timer.ms());
  return id;
}

// Against the native launch of the same microVM, in pairs.
Result<> bench_lambda(Report& report, ServerProcess& server, int count) {
  Samples runs;
  Samples native;
  for (int i = 0; i < count; ++i) {
    for (const bool lambda : {i % 2 == 0, i % 2 != 0}) {
      FB_TRY(wait_for_clones(server));
      FB_TRY_ASSIGN(const std::string id,
                    lambda ? run_microvm(server, runs) : launch(server, native));
      server.call("DELETE", "/v1/microvms/" + id);
    }
  }
  report.time("lambda_run", runs);
  report.time("lambda_run_native", native);
  return {};
}

// On one core; the secret is there already.
void bench_signatures(Report& report) {
  const wire::Headers unsigned_headers{{"x-amz-date", "20260101T000000Z"},
                                       {"content-type", "application/json"}};
  wire::Headers headers = unsigned_headers;
  headers.push_back({"authorization",
                     "AWS4-HMAC-SHA256 Credential=AKIA/20260101/local-1/lambda/aws4_request, "
                     "SignedHeaders=content-type;host;x-amz-date, Signature=" +
                         std::string(64, '0')});
  const wire::SigV4Request request{"POST", "/2025-09-09/microvms", "127.0.0.1:7070", headers};
  const std::string hash = wire::sha256_hex("{}");
  constexpr int kCount = 20'000;
  int read = 0;
  const Timer timer;
  for (int i = 0; i < kCount; ++i) {
    const auto claim = wire::read_sigv4(request);
    if (claim && !wire::check_sigv4(request, *claim, "secret", hash, claim->signed_at)) ++read;
  }
  report.value("sigv4_verifications", read / timer.ms() * 1000, "per second");
}

Result<> bench_burst(Report& report, ServerProcess& server, int burst) {
  std::vector<std::thread> clients;
  std::vector<double> times(static_cast<std::size_t>(burst), -1);
  std::vector<std::string> ids(times.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    clients.emplace_back([&, i] {
      Samples one;
      if (auto id = launch(server, one)) {
        ids[i] = *id;
        times[i] = one.p50();
      }
    });
  }
  for (std::thread& client : clients) client.join();
  Samples samples;
  int failed = 0;
  for (double ms : times) {
    if (ms < 0)
      ++failed;
    else
      samples.add(ms);
  }
  const std::string name = "api_burst_" + std::to_string(burst);
  report.time(name, samples);
  report.value(name + "_p99", samples.percentile(0.99), "ms");
  report.value(name + "_failed", failed, "of " + std::to_string(burst));
  for (const std::string& id : ids) server.call("DELETE", "/v1/microvms/" + id);
  return {};
}

}  // namespace

Result<> bench_api(Report& report, bool quick) {
  const int count = quick ? 5 : 20;
  ServerProcess server;
  const std::string clones = std::to_string(kClones);
  server.set_options({"--pool-least=" + clones, "--pool-most=" + clones});
  if (!server.start() || !server.wait_python())
    return fail(Code::internal, "the server did not start", server.log());
  FB_TRY(bench_pool(report, server, count));
  FB_TRY(bench_network(report, server, quick ? count : 50));
  FB_TRY(bench_lambda(report, server, count));
  bench_signatures(report);
  server.stop();
  server.set_options({"--pool-least=0", "--pool-most=0"});
  if (!server.start()) return fail(Code::internal, "the server did not start", server.log());
  Samples restores;
  for (int i = 0; i < count; ++i) {
    FB_TRY_ASSIGN(const std::string id, launch(server, restores));
    server.call("DELETE", "/v1/microvms/" + id);
  }
  report.time("api_launch_restore", restores);
  if (!quick) FB_TRY(bench_burst(report, server, 100));
  return {};
}

}  // namespace firebreak::bench
