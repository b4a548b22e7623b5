#include "standalone_server.h"

#include <cerrno>
#include <csignal>
#include <filesystem>

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"
#include "commands.h"
#include "machine/process.h"

namespace firebreak::cli {
namespace {

constexpr auto kStarting = std::chrono::seconds(50);
constexpr auto kStopping = std::chrono::seconds(60);

// Beside a server of the same host: another parent of cgroups, other uids, any ports.
std::vector<std::string> words_of(const std::string& data_dir,
                                  const std::vector<std::string>& options) {
  std::vector<std::string> words{std::filesystem::read_symlink("/proc/self/exe").string(),
                                 "serve",
                                 "--data-dir",
                                 data_dir,
                                 "--listen",
                                 "127.0.0.1:0",
                                 "--endpoint-listen",
                                 "127.0.0.1:0",
                                 "--cgroup",
                                 "firebreak-standalone",
                                 "--uid-first",
                                 "710000"};
  words.insert(words.end(), options.begin(), options.end());
  return words;
}

// In the child: a session of its own, so that what ends us does not end it; its log is a file.
[[noreturn]] void become_server(std::vector<std::string> words, int out, int log) {
  ::setsid();
  const int none = ::open("/dev/null", O_RDONLY);
  ::dup2(none, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

// The server says on its standard output that it listens.
Result<> wait_listening(int out, const std::string& log_file) {
  const Deadline deadline = Deadline::in(kStarting);
  std::string said;
  while (!said.contains("listening on")) {
    pollfd waited{.fd = out, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&waited, 1, static_cast<int>(deadline.left().count()));
    char buffer[4096];
    const ssize_t count = ready > 0 ? ::read(out, buffer, sizeof(buffer)) : 0;
    if (count <= 0)
      return fail(ready > 0 ? Code::unavailable : Code::timeout,
                  ready > 0 ? "the server did not start" : "the server takes too long to start",
                  Repair{"see " + log_file});
    said.append(buffer, static_cast<std::size_t>(count));
  }
  return {};
}

Result<> start_server(const std::string& data_dir, const std::vector<std::string>& options) {
  const std::string log_file = data_dir + "/server.log";
  FB_TRY_ASSIGN(const UniqueFd log,
                sys::open(log_file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  FB_TRY_ASSIGN(auto ends, sys::pipe(O_CLOEXEC));
  std::vector<std::string> words = words_of(data_dir, options);
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno("fork");
  if (pid == 0) become_server(std::move(words), ends.second.get(), log.get());
  ends.second.reset();
  return wait_listening(ends.first.get(), log_file);
}

bool answers(const Connection& connection) {
  Client client(connection);
  return client
      .run([](Client& asked) -> net::Task<Result<>> {
        FB_CO_TRY(co_await asked.call("GET", "/healthz"));
        co_return Result<>();
      }(client))
      .has_value();
}

net::Task<Result<>> end_microvms(Client& client) {
  std::vector<std::string> ids;
  FB_CO_TRY(co_await each_item(client, "/v1/microvms", [&ids](const json::object& item) {
    if (text_of(item, "state") != "TERMINATED") ids.push_back(text_of(item, "id"));
  }));
  for (const std::string& id : ids) (void)co_await client.call("DELETE", microvm_path(id));
  co_return Result<>();
}

Result<pid_t> pid_of(const std::string& data_dir) {
  FB_TRY_ASSIGN(const std::string text, sys::read_file(data_dir + "/server.json"));
  FB_TRY_ASSIGN(const json::object about, parse_json_object(text));
  JsonReader reader(about);
  const std::uint64_t pid = reader.u64("pid");
  FB_TRY(reader.result());
  return static_cast<pid_t>(pid);
}

}  // namespace

Result<StandaloneServer> StandaloneServer::join(const std::string& data_dir,
                                                const std::vector<std::string>& options) {
  FB_TRY(sys::mkdirs(data_dir, 0700));
  FB_TRY_ASSIGN(UniqueFd lock,
                sys::open(data_dir + "/standalone.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const bool first = ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
  StandaloneServer server(data_dir, std::move(lock));
  if (first) {
    const auto known = server.connection();
    if (!known || !answers(*known)) FB_TRY(start_server(data_dir, options));
  }
  // Who is not the first waits here until the first has started it.
  if (::flock(server.lock_.get(), LOCK_SH) != 0) return fail_errno("flock");
  return server;
}

Result<Connection> StandaloneServer::connection() const {
  return find_local_server(data_dir_);
}

// An assistant that is closed kills its programs after some seconds. So a child with a session of
// its own ends the server; it keeps the lock until it is done.
Result<> StandaloneServer::leave() {
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0) return {};
  const pid_t pid = ::fork();
  if (pid < 0) return fail_errno("fork");
  if (pid == 0) {
    ::setsid();
    const auto stopped = stop();
    if (!stopped) print_error(stopped.error().message);
    ::_exit(stopped ? 0 : 1);
  }
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return {};
}

Result<> StandaloneServer::stop() {
  FB_TRY_ASSIGN(const Connection at, connection());
  Client client(at);
  (void)client.run(end_microvms(client));
  FB_TRY_ASSIGN(const pid_t pid, pid_of(data_dir_));
  FB_TRY_ASSIGN(const machine::ProcessId server, machine::identify(pid));
  if (::kill(pid, SIGTERM) != 0) return fail_errno("kill");
  const Deadline deadline = Deadline::in(kStopping);
  while (machine::is_alive(server) && !deadline.passed()) ::usleep(20'000);
  return {};
}

}  // namespace firebreak::cli
