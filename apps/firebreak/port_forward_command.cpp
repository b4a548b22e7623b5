// port-forward: a port of this host leads to a port in a microVM, through the server.
#include <memory>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>

#include "base/text.h"
#include "commands.h"
#include "exec_stream.h"
#include "net/task_group.h"
#include "net/tcp_stream.h"

namespace firebreak::cli {
namespace {

using namespace boost::asio::experimental::awaitable_operators;
using net::asio::ip::tcp;

// Says that a side sends no more; the other may go on.
constexpr std::string_view kEnd = R"({"type":"end"})";

struct ForwardOptions {
  std::string id;
  std::string ports;
  std::uint16_t local = 0;  // from these
  std::uint16_t remote = 0;
};

std::optional<std::uint16_t> port_of(std::string_view text, std::uint64_t least) {
  const auto number = parse_u64(text);
  if (!number || *number < least || *number > 65535) return std::nullopt;
  return static_cast<std::uint16_t>(*number);
}

Result<> read_ports(ForwardOptions& options) {
  const std::string_view text = options.ports;
  const auto colon = text.find(':');
  const auto remote = port_of(colon == std::string_view::npos ? text : text.substr(colon + 1), 1);
  const auto local = colon == std::string_view::npos ? remote : port_of(text.substr(0, colon), 0);
  if (!local || !remote)
    return fail(Code::invalid,
                "'" + options.ports + "' is not [LOCAL:]PORT with ports of 1 to 65535",
                Repair{"write 8080, or "
                       "9000:8080 (0 as LOCAL picks a free one)"});
  options.local = *local;
  options.remote = *remote;
  return {};
}

net::Task<Result<>> to_guest(net::ByteStream& local, net::WebSocket& socket) {
  for (;;) {
    FB_CO_TRY_ASSIGN(const std::string bytes, co_await local.read(far_away()));
    if (bytes.empty()) break;
    FB_CO_TRY(co_await socket.write(false, bytes, far_away()));
  }
  co_return co_await socket.write(true, kEnd, far_away());
}

net::Task<Result<>> from_guest(net::ByteStream& local, net::WebSocket& socket) {
  for (;;) {
    FB_CO_TRY_ASSIGN(const auto message, co_await socket.read(far_away()));
    if (!message) break;
    if (!message->text) {
      FB_CO_TRY(co_await local.write(message->data, far_away()));
      continue;
    }
    if (message->data != kEnd) continue;
    FB_CO_TRY(co_await local.finish(far_away()));
    // Now the server waits for our end, and then closes.
  }
  (void)co_await local.finish(far_away());
  co_return Result<>();
}

net::Task<void> serve_connection(Client& client, std::string path, tcp::socket accepted) {
  const auto local = net::make_tcp_stream(std::move(accepted));
  auto socket = co_await client.websocket(path);
  if (!socket) {
    print_error(socket.error().message);
    local->close();
    co_return;
  }
  auto sending = [](net::ByteStream& stream, net::WebSocket& there) -> net::Task<Result<>> {
    auto sent = co_await to_guest(stream, there);
    // What comes back decides when it is over, unless our side broke.
    if (!sent) co_return sent;
    net::Event never(co_await net::asio::this_coro::executor);
    (void)co_await never.wait(far_away());
    co_return Result<>();
  };
  co_await (from_guest(*local, **socket) || sending(*local, **socket));
  local->close();
}

net::Task<Result<>> accept_all(Client& client, tcp::acceptor& acceptor, net::TaskGroup& connections,
                               std::string path) {
  for (;;) {
    auto [ec, accepted] = co_await acceptor.async_accept(net::kNoThrow);
    if (ec) co_return fail(Code::unavailable, "no more connections are taken: " + ec.message());
    connections.spawn("connection", serve_connection(client, path, std::move(accepted)));
  }
}

net::Task<Result<>> forward(Client& client, const ForwardOptions& options) {
  // Who mistypes a name is told now, not at the first connection.
  FB_CO_TRY(co_await client.call("GET", microvm_path(options.id)));
  tcp::acceptor acceptor(client.io());
  const tcp::endpoint where(net::asio::ip::address_v4::loopback(), options.local);
  boost::system::error_code ec;
  acceptor.open(where.protocol(), ec);
  if (!ec) acceptor.set_option(tcp::acceptor::reuse_address(true), ec);
  if (!ec) acceptor.bind(where, ec);
  if (!ec) acceptor.listen(net::asio::socket_base::max_listen_connections, ec);
  if (ec) {
    co_return fail(
        Code::unavailable,
        "cannot listen on 127.0.0.1:" + std::to_string(options.local) + ": " + ec.message(),
        Repair{"choose another port, as 0:" + std::to_string(options.remote) +
               " for any that is free"});
  }
  print_line("127.0.0.1:" + std::to_string(acceptor.local_endpoint().port()) + " leads to port " +
             std::to_string(options.remote) + " of " + options.id + "; Ctrl-C ends it");
  net::TaskGroup connections(client.io().get_executor());
  const std::string path =
      microvm_path(options.id, "/tunnel?halfClose=1&port=" + std::to_string(options.remote));
  auto accepting = accept_all(client, acceptor, connections, path);
  // Ctrl-C is its end, not its failure.
  int signalled = 0;
  auto ended = co_await unless_signalled(client, std::move(accepting), signalled);
  (void)co_await connections.close(Deadline::in(std::chrono::seconds(5)));
  co_return ended;
}

}  // namespace

void add_port_forward_command(Command& root, Common& common) {
  auto options = std::make_shared<ForwardOptions>();
  Command& command = root.add("port-forward", "Let a port of this host lead into a microVM");
  command.group(kInsideGroup).also({"forward", "tunnel"});
  command.about(
      "Listens on 127.0.0.1 until Ctrl-C. Each connection goes to 127.0.0.1:PORT in the guest, "
      "and\n"
      "wakes a microVM that sleeps.");
  add_microvm_word(command, options->id);
  command
      .word("[LOCAL:]PORT", options->ports,
            "Port in the guest, and the one here if it is another; 0 picks a free one")
      .required("write 'firebreak port-forward ID 8080'");
  command.usage("ID [LOCAL:]PORT");
  command.example("firebreak port-forward ID 8080", "then: curl http://127.0.0.1:8080/");
  command.example("firebreak port-forward ID 15432:5432", "");
  command.check([options] { return read_ports(*options); });
  run_with_client(command, common,
                  [options](Client& client, int&) { return forward(client, *options); });
}

}  // namespace firebreak::cli
