#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "bench/endpoint_bench.h"
#include "bench/load.h"

namespace firebreak::bench {
namespace {

constexpr int kFewConnections = 16;
constexpr int kConnections = 64;
constexpr int kRounds = 9;
constexpr int kBigMib = 256;

Result<std::uint16_t> free_port() {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return fail_errno("bind");
  return ntohs(address.sin_port);
}

// A program with its stdin and stdout on pipes; ended with its stdin, or killed.
class Child {
 public:
  static Result<std::unique_ptr<Child>> start(std::vector<std::string> words) {
    FB_TRY_ASSIGN(auto in, sys::pipe());
    FB_TRY_ASSIGN(auto out, sys::pipe());
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in.first.get(), 0);
    posix_spawn_file_actions_adddup2(&actions, out.second.get(), 1);
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    auto child = std::make_unique<Child>();
    const int err = ::posix_spawnp(&child->pid_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (err != 0) return fail_errno("starting " + words[0], err);
    child->in_ = std::move(in.second);
    child->out_ = std::move(out.first);
    return child;
  }
  Child() = default;
  ~Child() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGTERM);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  Result<std::string> ask(const std::string& line) {
    if (!line.empty()) FB_TRY(sys::write_all(in_.get(), line + "\n"));
    std::string answer;
    char c = 0;
    while (::read(out_.get(), &c, 1) == 1 && c != '\n') answer += c;
    if (answer.empty()) return fail(Code::internal, "a program ended early");
    return answer;
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  UniqueFd in_;
  UniqueFd out_;
};

// All that stands between client and backend has one core, whoever's it is: nginx, or our proxy and
// the agent. Client and backend have another each where there are so many, else they share one.
enum class Part { client, between, backend };

unsigned core_of(Part part) {
  if (part == Part::between) return 1;
  return part == Part::backend && std::thread::hardware_concurrency() > 2 ? 2 : 0;
}

// With all threads it has by now.
Result<> pin(pid_t pid, Part part) {
  if (std::thread::hardware_concurrency() < 2) return {};
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core_of(part), &set);
  FB_TRY_ASSIGN(const auto threads, sys::list_dir("/proc/" + std::to_string(pid) + "/task"));
  for (const std::string& thread : threads)
    if (::sched_setaffinity(std::atoi(thread.c_str()), sizeof set, &set) != 0)
      return fail_errno("sched_setaffinity");
  return {};
}

// The only worker of an nginx.
Result<pid_t> worker_of(pid_t master) {
  const std::string path =
      "/proc/" + std::to_string(master) + "/task/" + std::to_string(master) + "/children";
  for (int i = 0; i < 100; ++i) {
    auto text = sys::read_file(path);
    if (text && std::atoi(text->c_str()) > 0) return std::atoi(text->c_str());
    ::usleep(20'000);
  }
  return fail(Code::timeout, "nginx has no worker");
}

Result<std::unique_ptr<Child>> start_nginx(const std::string& dir, const std::string& name,
                                           const std::string& http) {
  const std::string file = dir + "/" + name + ".conf";
  const std::string text = "daemon off; worker_processes 1; pid " + dir + "/" + name +
                           ".pid; error_log " + dir + "/" + name +
                           ".log; events { worker_connections 1024; } http { access_log off; "
                           "keepalive_requests 100000000; sendfile on; " +
                           http + " }";
  FB_TRY(sys::swap_file(file, text));
  return Child::start({"nginx", "-c", file, "-p", dir});
}

double cpu_ms(pid_t pid) {
  const auto text = sys::read_file("/proc/" + std::to_string(pid) + "/stat");
  unsigned long user = 0;
  unsigned long system = 0;
  if (text)
    std::sscanf(text->c_str() + text->rfind(')') + 2,
                "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system);
  return static_cast<double>(user + system) * 1000 / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

// One request after the other on one connection.
Result<Samples> round_trips(std::uint16_t port, const std::string& request, int count) {
  const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return fail_errno("connect");
  Samples samples;
  for (int i = 0; i < count; ++i) {
    const Timer timer;
    FB_TRY(sys::write_all(fd.get(), request));
    std::string answer;
    char buffer[4096];
    while (!answer.ends_with("hello\n")) {
      const ssize_t size = ::read(fd.get(), buffer, sizeof buffer);
      if (size <= 0) return fail(Code::internal, "the proxy closed: " + answer);
      answer.append(buffer, static_cast<std::size_t>(size));
    }
    if (i >= count / 10) samples.add(timer.ms());
  }
  return samples;
}

struct Proxies {
  std::string dir;
  std::unique_ptr<Child> backend;
  std::unique_ptr<Child> nginx;
  std::unique_ptr<Child> ours;
  std::unique_ptr<Child> ours_tls;
  std::uint16_t backend_port = 0;
  std::uint16_t nginx_port = 0;
  std::uint16_t our_port = 0;
  std::string our_tls;
  std::string headers;  // h2load's
  std::string headers_tls;
  std::string request;  // by hand
  pid_t nginx_worker = 0;
  pid_t agent = 0;  // of ours

  ~Proxies() {
    backend.reset();
    nginx.reset();
    ours.reset();
    ours_tls.reset();
    (void)sys::remove_tree(dir);
  }
};

Result<std::unique_ptr<Child>> start_ours(const Proxies& all, bool tls, std::string& url,
                                          std::string& token, pid_t& agent) {
  const char* build = std::getenv("FIREBREAK_BUILD_DIR");
  std::vector<std::string> words{std::string(build != nullptr ? build : ".") +
                                 "/firebreak-endpoint-fixture"};
  if (!tls) words.emplace_back("--plain");
  FB_TRY_ASSIGN(auto child, Child::start(words));
  FB_TRY_ASSIGN(const std::string line, child->ask(""));
  FB_TRY_ASSIGN(const json::object about, parse_json_object(line));
  url = std::string(about.at("url").as_string());
  FB_TRY(pin(child->pid(), Part::between));
  agent = static_cast<pid_t>(about.at("agentPid").as_int64());
  FB_TRY(pin(agent, Part::between));
  FB_TRY_ASSIGN(token,
                child->ask("token " + std::to_string(all.backend_port) + " 86400 endpoint OWN b"));
  return child;
}

std::string load_headers(const std::string& token, std::uint16_t port) {
  return " -H 'x-aws-proxy-auth: " + token + "' -H 'x-aws-proxy-port: " + std::to_string(port) +
         "' ";
}

Result<> start_all(Proxies& all) {
  all.dir = std::filesystem::temp_directory_path() / ("fb-proxy-bench-" + sys::random_hex(4));
  FB_TRY(sys::mkdirs(all.dir, 0755));
  FB_TRY_ASSIGN(all.backend_port, free_port());
  FB_TRY_ASSIGN(all.nginx_port, free_port());
  FB_TRY(sys::swap_file(all.dir + "/big", std::string(kBigMib << 20, 'b'), 0644));
  const std::string backend = "127.0.0.1:" + std::to_string(all.backend_port);
  FB_TRY_ASSIGN(
      all.backend,
      start_nginx(all.dir, "backend",
                  "server { listen " + backend +
                      "; location / { return 200 \"hello\\n\"; } location = /big { root " +
                      all.dir + "; } }"));
  FB_TRY_ASSIGN(
      all.nginx,
      start_nginx(all.dir, "nginx",
                  "upstream b { server " + backend +
                      "; keepalive 64; keepalive_requests 100000000; } server { listen 127.0.0.1:" +
                      std::to_string(all.nginx_port) +
                      "; location / { proxy_pass http://b; proxy_http_version 1.1; "
                      "proxy_set_header Connection \"\"; proxy_set_header x-aws-proxy-auth \"\"; "
                      "proxy_set_header x-aws-proxy-port \"\"; proxy_max_temp_file_size 0; } }"));
  FB_TRY_ASSIGN(const pid_t backend_worker, worker_of(all.backend->pid()));
  FB_TRY_ASSIGN(all.nginx_worker, worker_of(all.nginx->pid()));
  FB_TRY(pin(backend_worker, Part::backend));
  FB_TRY(pin(all.nginx_worker, Part::between));
  std::string url;
  std::string token;
  FB_TRY_ASSIGN(all.ours, start_ours(all, false, url, token, all.agent));
  all.our_port = static_cast<std::uint16_t>(std::atoi(url.c_str() + url.rfind(':') + 1));
  all.headers = load_headers(token, all.backend_port);
  all.request = "GET / HTTP/1.1\r\nhost: x\r\nx-aws-proxy-auth: " + token +
                "\r\nx-aws-proxy-port: " + std::to_string(all.backend_port) + "\r\n\r\n";
  pid_t tls_agent = 0;
  FB_TRY_ASSIGN(all.ours_tls, start_ours(all, true, all.our_tls, token, tls_agent));
  all.headers_tls = load_headers(token, all.backend_port);
  return {};
}

Result<> bench_requests(Report& report, const Proxies& all, int connections,
                        const std::string& suffix, int requests) {
  // The same bytes to both, and neither passes the token on.
  const std::string shape = "--h1 -n " + std::to_string(requests) + " -c " +
                            std::to_string(connections) + " " + all.headers + "http://127.0.0.1:";
  const std::string nginx = shape + std::to_string(all.nginx_port) + "/";
  const std::string ours = shape + std::to_string(all.our_port) + "/";
  Samples nginx_rate;
  Samples our_rate;
  Samples ratio;  // of neighbours: what the host does meanwhile changes by the minute
  double nginx_cpu = 0;
  double our_cpu = 0;
  double agent_cpu = 0;
  // In turns: whatever else the host does falls on both.
  for (int round = 0; round < kRounds; ++round) {
    const double nginx_before = cpu_ms(all.nginx_worker);
    FB_TRY_ASSIGN(const double theirs, load(core_of(Part::client), nginx));
    nginx_cpu += cpu_ms(all.nginx_worker) - nginx_before;
    nginx_rate.add(theirs);
    const double our_before = cpu_ms(all.ours->pid());
    const double agent_before = cpu_ms(all.agent);
    FB_TRY_ASSIGN(const double mine, load(core_of(Part::client), ours));
    our_cpu += cpu_ms(all.ours->pid()) - our_before;
    agent_cpu += cpu_ms(all.agent) - agent_before;
    our_rate.add(mine);
    ratio.add(theirs / mine);
  }
  const double all_requests = static_cast<double>(kRounds) * requests;
  report.value("proxy_requests_nginx" + suffix, nginx_rate.p50(), "requests/s");
  report.value("proxy_requests" + suffix, our_rate.p50(), "requests/s");
  report.value("proxy_requests_ratio" + suffix, ratio.p50(), "x, nginx / proxy");
  report.value("proxy_cpu_nginx" + suffix, nginx_cpu * 1000 / all_requests, "us of CPU a request");
  report.value("proxy_cpu" + suffix, our_cpu * 1000 / all_requests, "us of CPU a request");
  report.value("proxy_cpu_agent" + suffix, agent_cpu * 1000 / all_requests,
               "us of CPU a request, in the guest");
  return {};
}

Result<> bench_bytes(Report& report, const Proxies& all) {
  const auto rate = [](double requests_per_second) { return requests_per_second * kBigMib; };
  FB_TRY_ASSIGN(const double nginx,
                load(core_of(Part::client),
                     "--h1 -n 4 -c 1 http://127.0.0.1:" + std::to_string(all.nginx_port) + "/big"));
  FB_TRY_ASSIGN(const double ours,
                load(core_of(Part::client), "--h1 -n 4 -c 1 " + all.headers + "http://127.0.0.1:" +
                                                std::to_string(all.our_port) + "/big"));
  report.value("proxy_bytes_nginx", rate(nginx), "MiB/s");
  report.value("proxy_bytes", rate(ours), "MiB/s");
  return {};
}

}  // namespace

Result<> bench_proxy(Report& report, int requests) {
  Proxies all;
  FB_TRY(start_all(all));
  FB_TRY(bench_requests(report, all, kFewConnections, "_few", requests));
  FB_TRY(bench_requests(report, all, kConnections, "", requests));
  const std::string plain = "GET / HTTP/1.1\r\nhost: x\r\n\r\n";
  FB_TRY_ASSIGN(const Samples direct, round_trips(all.backend_port, plain, 2000));
  FB_TRY_ASSIGN(const Samples nginx, round_trips(all.nginx_port, all.request, 2000));
  FB_TRY_ASSIGN(const Samples ours, round_trips(all.our_port, all.request, 2000));
  report.time("proxy_rtt_direct", direct);
  report.time("proxy_rtt_nginx", nginx);
  report.time("proxy_rtt", ours);
  FB_TRY(bench_bytes(report, all));
  FB_TRY_ASSIGN(const double streams,
                load(core_of(Part::client), "-n " + std::to_string(requests) + " -c 1 -m 100 " +
                                                all.headers_tls + all.our_tls + "/"));
  report.value("proxy_h2_100_streams", streams, "requests/s over one TLS connection");
  // Few requests are under way then, spread over four programs on two cores: each of them sleeps
  // and is woken more often than with nginx, where there are three.
  report.value("requests/s over 16 connections: nginx / proxy",
               report.get("proxy_requests_ratio_few"), "x");
  report.require("requests/s: nginx / proxy", report.get("proxy_requests_ratio"), 1 / 0.7);
  report.require("what the proxy adds to a round trip, ms",
                 report.p50("proxy_rtt") - report.p50("proxy_rtt_direct"), 0.3);
  return {};
}

}  // namespace firebreak::bench
