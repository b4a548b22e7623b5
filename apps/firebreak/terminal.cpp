#include "terminal.h"

#include <csignal>
#include <cstdlib>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/sys.h"
#include "base/text.h"
#include "commands.h"

namespace firebreak::cli {
namespace {

using namespace boost::asio::experimental::awaitable_operators;

// Our terminal in raw mode; put back at the end, whatever the end is.
class RawTerminal {
 public:
  explicit RawTerminal(bool wanted) {
    if (!wanted || !stdin_is_terminal() || ::tcgetattr(STDIN_FILENO, &before_) != 0) return;
    termios raw = before_;
    ::cfmakeraw(&raw);
    active_ = ::tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
  }
  ~RawTerminal() {
    if (active_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;

 private:
  termios before_{};
  bool active_ = false;
};

winsize terminal_size() {
  winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO}) {
    if (::ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col != 0) return size;
  }
  return {24, 80, 0, 0};
}

net::Task<Result<>> send_keys(Client& client, net::WebSocket& socket, bool input) {
  if (input) {
    FB_CO_TRY_ASSIGN(UniqueFd copy, sys::dup(STDIN_FILENO));
    net::asio::posix::stream_descriptor keys(client.io(), copy.release());
    std::string buffer(4096, '\0');
    for (;;) {
      auto [ec, count] = co_await keys.async_read_some(net::asio::buffer(buffer), net::kNoThrow);
      if (ec || count == 0) break;
      FB_CO_TRY(
          co_await socket.write(false, std::string_view(buffer).substr(0, count), far_away()));
    }
    // Our terminal is gone: the program there is told so, and what it still prints is shown.
    FB_CO_TRY(co_await socket.write(false, "\x04", far_away()));
  }
  net::Event never(client.io().get_executor());
  (void)co_await never.wait(far_away());
  co_return Result<>();
}

net::Task<Result<>> send_sizes(Client& client, net::WebSocket& socket) {
  net::asio::signal_set changes(client.io(), SIGWINCH);
  for (;;) {
    auto [ec, number] = co_await changes.async_wait(net::kNoThrow);
    if (ec) co_return Result<>();
    const winsize size = terminal_size();
    const json::object message{{"type", "resize"}, {"cols", size.ws_col}, {"rows", size.ws_row}};
    FB_CO_TRY(co_await socket.write(true, json::serialize(message), far_away()));
  }
}

net::Task<Result<>> show_output(net::WebSocket& socket, int& status) {
  for (;;) {
    FB_CO_TRY_ASSIGN(auto message, co_await socket.read(far_away()));
    if (!message)
      co_return fail(Code::unavailable, "the connection ended: " + socket.close_reason());
    if (!message->text) {
      FB_CO_TRY(sys::write_all(STDOUT_FILENO, message->data));
      continue;
    }
    FB_CO_TRY_ASSIGN(const json::object line, parse_json_object(message->data));
    if (text_of(line, "type") != "exit") continue;
    if (const auto code = parse_u64(text_of(line, "exitCode"))) status = static_cast<int>(*code);
    if (const auto signal = parse_u64(text_of(line, "signal")))
      status = kSignalStatus + static_cast<int>(*signal);
    co_return Result<>();
  }
}

std::string path_of(const TerminalRequest& request) {
  const winsize size = terminal_size();
  std::string path = microvm_path(request.id, "/pty?cols=" + std::to_string(size.ws_col) +
                                                  "&rows=" + std::to_string(size.ws_row));
  const auto add = [&path](const char* name, const std::string& value) {
    path += std::string("&") + name + "=" + percent_encode(value, "");
  };
  const char* term = std::getenv("TERM");
  std::string kind = term == nullptr ? "" : term;
  for (const std::string& variable : request.env) {
    // The route has a value of its own for this one.
    if (variable.starts_with("TERM="))
      kind = variable.substr(5);
    else
      add("env", variable);
  }
  if (!kind.empty()) add("term", kind);
  for (const std::string& word : request.argv) add("arg", word);
  if (!request.command.empty()) add("command", request.command);
  if (!request.user.empty()) add("user", request.user);
  if (!request.cwd.empty()) add("cwd", request.cwd);
  return path;
}

}  // namespace

bool stdin_is_terminal() {
  return ::isatty(STDIN_FILENO) == 1;
}

net::Task<Result<>> run_terminal(Client& client, const TerminalRequest& request, int& status) {
  FB_CO_TRY_ASSIGN(auto socket, co_await client.websocket(path_of(request)));
  const RawTerminal raw(request.input);
  auto ended = co_await (show_output(*socket, status) ||
                         send_keys(client, *socket, request.input) || send_sizes(client, *socket));
  co_return std::visit([](auto& result) -> Result<> { return result; }, ended);
}

}  // namespace firebreak::cli
