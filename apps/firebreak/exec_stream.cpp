#include "exec_stream.h"

#include <csignal>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"
#include "commands.h"
#include "terminal.h"
#include "wire/crypto.h"

namespace firebreak::cli {
namespace {

using namespace boost::asio::experimental::awaitable_operators;

std::string bytes_of(const json::object& line) {
  if (const json::value* data = line.if_contains("data"); data != nullptr && data->is_string())
    return std::string(data->as_string());
  return wire::from_base64(text_of(line, "dataBase64")).value_or("");
}

json::object exec_body(const ExecRequest& request) {
  json::array argv;
  for (const std::string& word : request.command) argv.emplace_back(word);
  json::object body{{"argv", std::move(argv)}};
  if (!request.env.empty()) body["env"] = object_of_pairs(request.env);
  if (!request.cwd.empty()) body["cwd"] = request.cwd;
  if (!request.user.empty()) body["user"] = request.user;
  if (request.timeout) body["timeoutMs"] = static_cast<std::uint64_t>(*request.timeout * 1000);
  return body;
}

// epoll takes no files and no /dev/null; reading those does not block for long.
bool can_wait_for(int fd) {
  struct stat st{};
  if (::fstat(fd, &st) != 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)) return false;
  return !S_ISCHR(st.st_mode) || ::isatty(fd) == 1;
}

// Our stdin to the exec's, until either ends.
net::Task<Result<>> send_stdin(Client& client, std::string path) {
  FB_CO_TRY_ASSIGN(UniqueFd copy, sys::dup(STDIN_FILENO));
  FB_CO_TRY_ASSIGN(auto stream, co_await client.start("POST", path + "/stdin?eof=1", true));
  const bool waits = can_wait_for(STDIN_FILENO);
  std::string buffer(64UL * 1024, '\0');
  net::asio::posix::stream_descriptor input(client.io());
  if (waits) input.assign(copy.release());
  for (;;) {
    if (waits) {
      auto [ec] =
          co_await input.async_wait(net::asio::posix::stream_descriptor::wait_read, net::kNoThrow);
      if (ec) break;
    }
    const ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count <= 0) break;
    // It may answer, that nobody reads this any more, before it has taken everything.
    if (!co_await stream->write(std::string_view(buffer).substr(0, static_cast<std::size_t>(count)),
                                far_away()))
      co_return co_await Client::check(*stream);
  }
  FB_CO_TRY(co_await stream->finish(far_away()));
  co_return co_await Client::check(*stream);
}

net::Task<Result<>> exec_with_stdin(Client& client, const std::string& id, json::object body,
                                    int& status) {
  body["openStdin"] = true;
  FB_CO_TRY_ASSIGN(const json::object made,
                   co_await client.call("POST", microvm_path(id, "/execs"), body));
  const std::string path = microvm_path(id, "/execs/" + percent_encode(text_of(made, "exec"), ""));
  auto input = [](Client& client, std::string path) -> net::Task<Result<>> {
    auto sent = co_await send_stdin(client, path);
    // The end of our input is not the end of the command, nor is it if it reads no more of it.
    net::Event never(client.io().get_executor());
    if (sent || sent.error().code == Code::not_found || sent.error().code == Code::conflict)
      (void)co_await never.wait(far_away());
    co_return sent;
  };
  auto both = [&]() -> net::Task<Result<>> {
    auto output = client.lines("GET", path + "/output", std::nullopt,
                               [&status](json::object line) { return show_line(line, status); });
    auto either = co_await (std::move(output) || input(client, path));
    co_return either.index() == 0 ? std::get<0>(either) : std::get<1>(either);
  };
  // It would go on without us: nobody else knows its name.
  auto ended = co_await unless_signalled(client, both(), status);
  (void)co_await client.call("DELETE", path);
  co_return ended;
}

net::Task<Result<>> start(Client& client, const ExecRequest& request, int& status) {
  if (request.terminal) {
    const TerminalRequest terminal{.id = request.id,
                                   .argv = request.command,
                                   .command = {},
                                   .env = request.env,
                                   .cwd = request.cwd,
                                   .user = request.user,
                                   .input = request.interactive};
    co_return co_await run_terminal(client, terminal, status);
  }
  json::object body = exec_body(request);
  if (request.interactive)
    co_return co_await exec_with_stdin(client, request.id, std::move(body), status);
  body["stream"] = true;
  co_return co_await client.lines("POST", microvm_path(request.id, "/exec"), body,
                                  [&status](json::object line) { return show_line(line, status); });
}

// A program that could not be started ends as a shell would tell it.
int status_of(const Error& error) {
  if (error.reason == "no_such_program") return kNoProgramStatus;
  if (error.reason == "not_executable") return kNotExecutableStatus;
  return 1;
}

}  // namespace

Result<> pass_on(int fd, std::string_view bytes) {
  return sys::write_all(fd, bytes);
}

Result<> show_line(const json::object& line, int& status, const Write& write) {
  const std::string type = text_of(line, "type");
  if (type == "stdout" || type == "stderr")
    return write(type == "stdout" ? STDOUT_FILENO : STDERR_FILENO, bytes_of(line));
  if (type == "gap") print_error(text_of(line, "bytes") + " bytes of output were dropped");
  if (type == "exit") {
    if (const auto code = parse_u64(text_of(line, "exitCode"))) status = static_cast<int>(*code);
    if (const auto signal = parse_u64(text_of(line, "signal")))
      status = kSignalStatus + static_cast<int>(*signal);
    if (text_of(line, "timedOut") == "true") {
      print_error("the command was ended at its time limit");
      status = kTimeoutStatus;
    }
    if (text_of(line, "outOfMemory") == "true") print_error("the guest ran out of memory");
  }
  if (type == "error" || type == "failure") return fail(Code::guest, text_of(line, "message"));
  return {};
}

net::Task<Result<>> unless_signalled(Client& client, net::Task<Result<>> task, int& status) {
  net::asio::signal_set signals(client.io(), SIGINT, SIGTERM, SIGHUP);
  auto wait = [&signals, &status]() -> net::Task<Result<>> {
    const auto [ec, signal] = co_await signals.async_wait(net::kNoThrow);
    if (!ec) status = kSignalStatus + signal;
    co_return Result<>();
  };
  auto either = co_await (std::move(task) || wait());
  co_return either.index() == 0 ? std::get<0>(either) : std::get<1>(either);
}

net::Task<Result<>> run_exec(Client& client, const ExecRequest& request, int& status) {
  auto ended = co_await start(client, request, status);
  if (!ended) status = status_of(ended.error());
  co_return ended;
}

}  // namespace firebreak::cli
