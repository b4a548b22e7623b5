#include "server/server_process.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <thread>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "egress/networks.h"
#include "machine/cgroup.h"
#include "machine/process.h"
#include "machine/qemu/base_holder.h"
#include "net/http_client.h"
#include "net/websocket.h"
#include "support/environment.h"
#include "support/prepared.h"
#include "wire/crypto.h"
#include "wire/sigv4.h"

extern char** environ;  // NOLINT

namespace firebreak::testing_support {
namespace {

Deadline in_seconds(int seconds) {
  return Deadline::in(std::chrono::seconds(seconds));
}

net::Task<Result<net::HttpReply>> exchange(std::string url, net::HttpCall call) {
  FB_CO_TRY_ASSIGN(auto stream, co_await net::connect_url(url, "", in_seconds(10)));
  co_return co_await net::http_call(*stream, call, in_seconds(300), 64UL << 20);
}

pid_t spawn(std::vector<std::string> words, const std::vector<std::string>& env, int in, int out,
            int err) {
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, err, STDERR_FILENO);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::vector<char*> envp;
  // What is set for the tests, or for a server of the caller's own, is not for this one.
  for (char** at = environ; *at != nullptr; ++at) {
    if (!std::string_view(*at).starts_with("FIREBREAK_")) envp.push_back(*at);
  }
  for (const std::string& entry : env) envp.push_back(const_cast<char*>(entry.c_str()));
  envp.push_back(nullptr);
  pid_t pid = -1;
  const int failed = ::posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), envp.data());
  ::posix_spawn_file_actions_destroy(&actions);
  return failed == 0 ? pid : -1;
}

// The exit status, or -1 when a signal ended it or had to.
int wait_or_kill(pid_t pid, std::chrono::seconds most) {
  const auto until = std::chrono::steady_clock::now() + most;
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > until) ::kill(pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

std::string Answer::text_of(std::string_view name) const {
  if (!body.is_object()) return "";
  const json::value* value = body.as_object().if_contains(name);
  if (value == nullptr || value->is_null()) return "";
  return value->is_string() ? std::string(value->as_string()) : json::serialize(*value);
}

ServerProcess::ServerProcess()
    : data_dir_(std::filesystem::temp_directory_path() / ("firebreak-test-" + sys::random_hex(4))),
      cgroup_(std::make_shared<std::string>("firebreak-test-" + std::to_string(::getpid()) + "-" +
                                            sys::random_hex(2))) {
  (void)sys::mkdirs(data_dir_, 0700);
}

ServerProcess::~ServerProcess() {
  end_everything();
  (void)machine::CgroupRoot(*cgroup_).remove();
  if (auto networks = egress::found_networks(data_dir_)) {
    for (const std::string& id : *networks) (void)egress::remove_network(data_dir_, id);
  }
  (void)egress::remove_host_side(data_dir_);
  (void)sys::remove_tree(data_dir_);
}

void ServerProcess::end_everything() {
  kill_hard();
  const machine::CgroupRoot root(*cgroup_);
  if (auto groups = root.list()) {
    for (const std::string& name : *groups) {
      if (cgroup_.use_count() > 1 && !sys::exists(data_dir_ + "/machines/" + name)) continue;
      if (auto group = root.open(name)) (void)group->destroy(in_seconds(10));
    }
  }
  // Holders of snapshots live outside the groups.
  if (const auto snapshots = sys::list_dir(data_dir_ + "/snapshots")) {
    for (const std::string& name : *snapshots)
      machine::stop_holder(data_dir_ + "/snapshots/" + name, in_seconds(10));
  }
}

std::string ServerProcess::program() {
  return environment_or_die("FIREBREAK_BUILD_DIR") + "/firebreak";
}

bool ServerProcess::speaks_of(std::string_view option) const {
  return std::ranges::any_of(options_,
                             [option](const std::string& one) { return one.starts_with(option); });
}

bool ServerProcess::wants_prepared_data() const {
  return !from_nothing_ && guest_dir_.empty() && guest_ca_ == "none" &&
         !speaks_of("--python-image");
}

bool ServerProcess::copy_prepared_data(const std::string& directory) {
  const Prepared prepared("data");
  if (prepared.copy_to(directory)) return true;
  ServerProcess maker;
  maker.start_from_nothing();
  if (!maker.start() || !maker.wait_python()) {
    std::cerr << "the image python was not made: " << maker.log() << "\n";
    return false;
  }
  maker.stop();
  maker.end_everything();
  const auto kept = prepared.keep(maker.data_dir());
  const auto copied = kept ? prepared.copy_to(directory) : kept;
  if (!copied) std::cerr << copied.error().text() << "\n";
  return copied.has_value();
}

bool ServerProcess::start() {
  if (wants_prepared_data() && !copy_prepared_data(data_dir_)) return false;
  from_nothing_ = true;
  const std::string guest =
      guest_dir_.empty() ? environment_or_die("FIREBREAK_GUEST_DIR") : guest_dir_;
  const auto uid = 710000 + (::getpid() % 4096) * 256;
  std::vector<std::string> words{
      program(),  "serve",        "--data-dir",  data_dir_,           "--listen",
      listen_,    "--guest-dir",  guest,         "--endpoint-listen", "127.0.0.1:0",
      "--cgroup", *cgroup_,       "--uid-first", std::to_string(uid), "--uid-count",
      "256",      "--log-format", log_format_,   "--guest-ca",        guest_ca_};
  if (!speaks_of("--pool-")) words.insert(words.end(), {"--pool-least=0", "--pool-most=0"});
  words.insert(words.end(), options_.begin(), options_.end());
  auto pipe = sys::pipe();
  auto log = sys::open(data_dir_ + "/server.log", O_WRONLY | O_CREAT | O_APPEND, 0600);
  auto null = sys::open("/dev/null", O_RDONLY);
  std::vector<std::string> env;
  if (!fault_.empty()) env.push_back("FIREBREAK_FAULT=" + fault_);
  if (!pause_.empty()) env.push_back("FIREBREAK_PAUSE=" + pause_);
  fault_.clear();
  pause_.clear();
  pid_ = spawn(words, env, null->get(), pipe->second.get(), log->get());
  pipe->second.reset();
  std::string text;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(120);
  while (text.find('\n') == std::string::npos && std::chrono::steady_clock::now() < until) {
    pollfd wait{.fd = pipe->first.get(), .events = POLLIN, .revents = 0};
    if (::poll(&wait, 1, 1000) <= 0) continue;
    char buffer[256];
    const ssize_t count = ::read(pipe->first.get(), buffer, sizeof buffer);
    if (count <= 0) break;
    text.append(buffer, static_cast<std::size_t>(count));
  }
  constexpr std::string_view kPrefix = "listening on ";
  if (!text.starts_with(kPrefix)) {
    if (wait_end(std::chrono::seconds(5))) return false;
    kill_hard();
    return false;
  }
  url_ = text.substr(kPrefix.size(), text.find_first_of(" \n", kPrefix.size()) - kPrefix.size());
  const auto space = text.find(' ', kPrefix.size());
  endpoint_url_ = text.substr(space + 1, text.find('\n') - space - 1);
  return true;
}

int ServerProcess::stop() {
  if (pid_ <= 0) return -1;
  ::kill(pid_, SIGTERM);
  const int status = wait_or_kill(pid_, std::chrono::seconds(120));
  pid_ = -1;
  return status;
}

void ServerProcess::kill_hard() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

bool ServerProcess::wait_end(std::chrono::seconds most) {
  const auto until = std::chrono::steady_clock::now() + most;
  while (pid_ > 0) {
    if (::waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = -1;
      return true;
    }
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

bool ServerProcess::wait_paused(std::chrono::seconds most) {
  const auto until = std::chrono::steady_clock::now() + most;
  while (std::chrono::steady_clock::now() < until) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG | WUNTRACED) == pid_) return WIFSTOPPED(status);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

void ServerProcess::go_on() {
  ::kill(pid_, SIGCONT);
}

pid_t ServerProcess::machine_pid(const std::string& id) const {
  const auto text = sys::read_file(data_dir_ + "/machines/" + id + "/machine.json");
  const auto record = text ? parse_json_object(*text) : fail(Code::not_found, "no machine");
  const json::value* pid = record ? record->if_contains("pid") : nullptr;
  return pid != nullptr && pid->to_number<pid_t>() > 1 ? pid->to_number<pid_t>() : 0;
}

bool ServerProcess::kill_machine(const std::string& id) const {
  const auto identity = machine::identify(machine_pid(id));
  const auto process = identity ? machine::adopt(*identity) : fail(Code::not_found, "no process");
  if (!process || !process->kill()) return false;
  pollfd ended{.fd = process->pidfd(), .events = POLLIN, .revents = 0};
  return ::poll(&ended, 1, 10'000) == 1;
}

std::string ServerProcess::api_key() const {
  auto text = sys::read_file(data_dir_ + "/credentials.json");
  if (!text) return "";
  auto object = parse_json_object(*text);
  return object ? std::string(object->at("apiKey").as_string()) : "";
}

std::string ServerProcess::log() const {
  auto text = sys::read_file(data_dir_ + "/server.log", 64UL << 20);
  return text ? *text : "";
}

Answer ServerProcess::call(const std::string& method, const std::string& path,
                           std::optional<json::object> body) {
  return call_as(api_key(), method, path, std::move(body));
}

double ServerProcess::metric(const std::string& series) {
  const std::string text = "\n" + call_as("", "GET", "/metrics").text;
  const auto at = text.find("\n" + series + " ");
  return at == std::string::npos ? 0 : std::atof(text.c_str() + at + series.size() + 2);
}

Answer ServerProcess::call_as(const std::string& api_key, const std::string& method,
                              const std::string& path, std::optional<json::object> body,
                              wire::Headers more) {
  net::HttpCall call{.method = method,
                     .target = path,
                     .host = url_.substr(7),
                     .headers = std::move(more),
                     .body = {}};
  call.headers.push_back({"authorization", "Bearer " + api_key});
  if (body) {
    call.headers.push_back({"content-type", "application/json"});
    call.body = json::serialize(*body);
  }
  return send(call);
}

Answer ServerProcess::call_signed(const std::string& method, const std::string& path,
                                  std::optional<json::object> body, const std::string& service,
                                  const std::string& action) {
  net::HttpCall call{
      .method = method, .target = path, .host = url_.substr(7), .headers = {}, .body = {}};
  if (!action.empty()) call.headers.push_back({"x-amz-target", action});
  if (body) call.body = json::serialize(*body);
  const json::value keys =
      json::parse(sys::read_file(data_dir_ + "/credentials.json").value_or("{}"));
  const wire::SigV4Key key{.access_key_id = std::string(keys.at("accessKeyId").as_string()),
                           .secret = std::string(keys.at("secretAccessKey").as_string()),
                           .session_token = {}};
  const wire::SigV4Request request{call.method, call.target, call.host, call.headers};
  const wire::Headers added = wire::sign_sigv4(request, key, "test-1", service,
                                               wire::sha256_hex(call.body), std::time(nullptr));
  call.headers.insert(call.headers.end(), added.begin(), added.end());
  return send(call);
}

Answer ServerProcess::send(const net::HttpCall& call) {
  net::asio::io_context io(1);
  Result<net::HttpReply> reply = fail(Code::internal, "not run");
  net::asio::co_spawn(io, exchange(url_, call),
                      [&](std::exception_ptr error, Result<net::HttpReply> result) {
                        if (!error) reply = std::move(result);
                      });
  io.run();
  Answer answer;
  if (!reply) {
    answer.text = reply.error().text();
    return answer;
  }
  answer.status = reply->status;
  answer.text = reply->body;
  if (auto value = parse_json(reply->body)) answer.body = *std::move(value);
  return answer;
}

void ServerProcess::call_and_leave(const std::string& path, const json::object& body,
                                   std::chrono::milliseconds after) {
  const std::string text = json::serialize(body);
  const std::string request =
      "POST " + path + " HTTP/1.1\r\nhost: " + url_.substr(7) + "\r\nauthorization: Bearer " +
      api_key() + "\r\ncontent-length: " + std::to_string(text.size()) + "\r\n\r\n" + text;
  net::asio::io_context io(1);
  auto leave = [&]() -> net::Task<void> {
    auto stream = co_await net::connect_url(url_, "", in_seconds(10));
    if (!stream || !co_await (*stream)->write(request, in_seconds(10))) co_return;
    (void)co_await (*stream)->read(Deadline::in(after));
    (*stream)->close();
  };
  net::asio::co_spawn(io, leave(), [](std::exception_ptr) {});
  io.run();
}

std::string ServerProcess::listen_as(const std::string& api_key, const std::string& path,
                                     std::chrono::milliseconds most, const std::string& until) {
  const std::string request = "GET " + path + " HTTP/1.1\r\nhost: " + url_.substr(7) +
                              "\r\nauthorization: Bearer " + api_key + "\r\n\r\n";
  std::string heard;
  net::asio::io_context io(1);
  auto listen = [&]() -> net::Task<void> {
    auto stream = co_await net::connect_url(url_, "", in_seconds(10));
    if (!stream || !co_await (*stream)->write(request, in_seconds(10))) co_return;
    const Deadline deadline = Deadline::in(most);
    while (!heard.contains(until)) {
      auto bytes = co_await (*stream)->read(deadline);
      if (!bytes || bytes->empty()) break;
      heard += *bytes;
    }
    (*stream)->close();
  };
  net::asio::co_spawn(io, listen(), [](std::exception_ptr) {});
  io.run();
  return heard;
}

std::string ServerProcess::through_tunnel(const std::string& path, const std::string& bytes) {
  std::string heard;
  net::asio::io_context io(1);
  auto talk = [&]() -> net::Task<void> {
    auto stream = co_await net::connect_url(url_, "", in_seconds(10));
    if (!stream) co_return;
    const wire::Headers headers{{"authorization", "Bearer " + api_key()}};
    auto socket = co_await net::open_websocket(*std::move(stream), url_.substr(7), path, headers,
                                               {}, in_seconds(60));
    if (!socket || !co_await (*socket)->write(false, bytes, in_seconds(10))) co_return;
    for (;;) {
      auto message = co_await (*socket)->read(in_seconds(60));
      if (!message || !*message) co_return;
      heard += (*message)->data;
    }
  };
  net::asio::co_spawn(io, talk(), [](std::exception_ptr) {});
  io.run();
  return heard;
}

Answer ServerProcess::wait_for(const std::string& path, std::string_view member,
                               const std::string& value, std::chrono::seconds most) {
  const auto until = std::chrono::steady_clock::now() + most;
  for (;;) {
    Answer answer = call("GET", path);
    if (answer.text_of(member) == value || std::chrono::steady_clock::now() > until) return answer;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

bool ServerProcess::wait_python() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(180);
  while (std::chrono::steady_clock::now() < until) {
    const Answer answer = call("GET", "/v1/images/python");
    const std::string state = answer.text_of("state");
    if (state == "CREATED" || state == "UPDATED") return true;
    if (state == "CREATE_FAILED") return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return false;
}

ServerProcess::Output ServerProcess::cli(const std::vector<std::string>& words,
                                         const std::string& input) {
  std::vector<std::string> argv{program(), "--data-dir", data_dir_};
  argv.insert(argv.end(), words.begin(), words.end());
  return run(argv, input);
}

ServerProcess::Output ServerProcess::run(const std::vector<std::string>& argv,
                                         const std::string& input) {
  const std::string base = data_dir_ + "/cli-" + sys::random_hex(4);
  (void)sys::swap_file(base + ".in", input);
  auto in = sys::open(base + ".in", O_RDONLY);
  auto out = sys::open(base + ".out", O_RDWR | O_CREAT | O_TRUNC, 0600);
  auto err = sys::open(base + ".err", O_RDWR | O_CREAT | O_TRUNC, 0600);
  const pid_t pid = spawn(argv, {}, in->get(), out->get(), err->get());
  Output output;
  output.status = wait_or_kill(pid, std::chrono::seconds(120));
  output.out = sys::read_file(base + ".out", 64UL << 20).value_or("");
  output.err = sys::read_file(base + ".err", 64UL << 20).value_or("");
  for (const char* end : {".in", ".out", ".err"}) ::unlink((base + end).c_str());
  return output;
}

}  // namespace firebreak::testing_support
