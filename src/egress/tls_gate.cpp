#include "egress/tls_gate.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <linux/netfilter_ipv4.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "egress/decision.h"
#include "egress/serving.h"
#include "net/task_group.h"
#include "wire/client_hello.h"

namespace firebreak::egress {

using boost::system::error_code;
using core::EgressLayer;
using core::EgressWord;
using net::Task;
using net::asio::ip::tcp;
using wire::ClientHelloReader;
using wire::ServerAnswerReader;

namespace {

constexpr std::size_t kCopy = 16UL * 1024;
// The guest is near; a server may be far, and needs a window. Both are the host's memory.
constexpr int kGuestBuffer = 128 * 1024;
constexpr int kServerBuffer = 512 * 1024;
// In seconds: a peer that is silent is asked whether it is there.
constexpr int kAskAfter = 60;
constexpr int kAskEvery = 30;
constexpr int kAskTimes = 4;
constexpr int kIp6OriginalDestination = 80;  // IP6T_SO_ORIGINAL_DST

EgressWord word_of(wire::HelloFault fault) {
  return fault == wire::HelloFault::no_name ? EgressWord::no_server_name : EgressWord::not_tls;
}

core::IpAddress address_of(const net::asio::ip::address& address) {
  core::IpAddress out;
  out.v6 = address.is_v6();
  if (address.is_v6()) {
    std::ranges::copy(address.to_v6().to_bytes(), out.bytes.begin());
  } else {
    std::ranges::copy(address.to_v4().to_bytes(), out.bytes.begin());
  }
  return out;
}

tcp::endpoint endpoint_of(const core::IpAddress& address, std::uint16_t port) {
  if (address.v6) {
    net::asio::ip::address_v6::bytes_type bytes{};
    std::copy_n(address.bytes.begin(), bytes.size(), bytes.begin());
    return {net::asio::ip::address_v6(bytes), port};
  }
  net::asio::ip::address_v4::bytes_type bytes{};
  std::copy_n(address.bytes.begin(), bytes.size(), bytes.begin());
  return {net::asio::ip::address_v4(bytes), port};
}

// A peer that is gone without a word is noticed by TCP.
void prepare(tcp::socket& socket, int buffer) {
  error_code ignored;
  socket.non_blocking(true, ignored);
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(tcp::socket::keep_alive(true), ignored);
  socket.set_option(tcp::socket::receive_buffer_size(buffer), ignored);
  socket.set_option(tcp::socket::send_buffer_size(buffer), ignored);
  const int fd = socket.native_handle();
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kAskAfter, sizeof kAskAfter);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kAskEvery, sizeof kAskEvery);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &kAskTimes, sizeof kAskTimes);
}

void reset(tcp::socket& socket) {
  error_code ignored;
  socket.set_option(tcp::socket::linger(true, 0), ignored);
  socket.close(ignored);
}

// A guest's connection, and ours in its stead.
struct Connection {
  explicit Connection(tcp::socket from)
      : guest(std::move(from)), server(guest.get_executor()), timer(guest.get_executor()) {}
  ~Connection() { end(); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void end() {
    if (std::exchange(ended, true)) return;
    reset(guest);
    reset(server);
    timer.cancel();
  }

  tcp::socket guest;
  tcp::socket server;
  net::asio::steady_timer timer;
  PacketHead head;
  std::string name;  // once it is judged, and allowed
  std::size_t hello_size = 0;
  std::string held;  // what came from the guest and has not been passed on
  Deadline::Clock::time_point last_activity = Deadline::Clock::now();
  bool ended = false;
};
using ConnectionPtr = std::shared_ptr<Connection>;

// It is reset when the time has passed, unless another is set before.
void limit(const ConnectionPtr& connection, std::chrono::milliseconds within) {
  connection->timer.expires_after(within);
  connection->timer.async_wait([weak = std::weak_ptr(connection)](error_code ec) {
    const auto held = weak.lock();
    if (!ec && held) held->end();
  });
}

void limit_idle(const ConnectionPtr& connection, std::chrono::milliseconds idle) {
  connection->timer.expires_at(connection->last_activity + idle);
  connection->timer.async_wait([weak = std::weak_ptr(connection), idle](error_code ec) {
    const auto held = weak.lock();
    if (ec || !held) return;
    if (held->last_activity + idle > Deadline::Clock::now()) {
      limit_idle(held, idle);
    } else {
      held->end();
    }
  });
}

// Empty: nothing more comes.
Task<std::string> read(tcp::socket& from) {
  std::array<char, 4096> buffer{};
  auto [ec, size] = co_await from.async_read_some(net::asio::buffer(buffer), net::kNoThrow);
  co_return ec ? std::string() : std::string(buffer.data(), size);
}

Task<bool> write(tcp::socket& to, const std::string& bytes) {
  auto [ec, size] = co_await net::asio::async_write(to, net::asio::buffer(bytes), net::kNoThrow);
  co_return !ec;
}

// Until the sender has ended its half, which is then ended for the receiver as well. What is not
// taken is not read.
Task<void> copy(Connection& connection, tcp::socket& from, tcp::socket& to) {
  std::string buffer(kCopy, '\0');
  for (;;) {
    auto [ec, size] = co_await from.async_read_some(net::asio::buffer(buffer), net::kNoThrow);
    connection.last_activity = Deadline::Clock::now();
    if (ec == net::asio::error::eof) {
      to.shutdown(tcp::socket::shutdown_send, ec);
      if (!ec) co_return;
    }
    if (!ec)
      std::tie(ec, size) = co_await net::asio::async_write(
          to, net::asio::buffer(buffer.data(), size), net::kNoThrow);
    if (!ec) continue;
    connection.end();
    co_return;
  }
}

}  // namespace

ServerNameVerdict judge_server_name(const core::EgressStack& stack, const core::IpAddress& to,
                                    std::string_view name, bool given) {
  const std::string asked = "TLS asks for " + std::string(name);
  const auto word = static_cast<std::uint32_t>(EgressWord::server_name);
  const auto unmatched = static_cast<std::uint32_t>(EgressWord::unmatched);
  const core::NameDecision decision = core::decide_name(stack, name);
  if (!decision.allowed) {
    core::EgressLabel label = decision.label;
    if (label.code == unmatched) label.code = word;
    return {false, label, asked + ": " + decision.reason};
  }
  if (!given) {
    return {false, core::label(EgressLayer::policy, EgressWord::server_name),
            asked + ", for which this address was not given"};
  }
  core::EgressPins pins;
  for (const core::EgressPin& pin : core::pins_for(decision, {to}, core::Time::max()))
    pins.add(pin);
  core::PacketVerdict verdict =
      core::decide_packet(stack, pins, {to, core::kTcp, core::kCheckedPort}, core::Time{});
  if (verdict.allowed) return {true, verdict.label, {}};
  if (verdict.label.code == unmatched) verdict.label.code = word;
  return {false, verdict.label, asked + ", which no rule opens on this port"};
}

Result<TlsDestination> original_destination(int fd) {
  sockaddr_in6 v6{};
  socklen_t size = sizeof v6;
  if (::getsockopt(fd, IPPROTO_IPV6, kIp6OriginalDestination, &v6, &size) == 0) {
    TlsDestination out;
    out.address.v6 = true;
    std::memcpy(out.address.bytes.data(), &v6.sin6_addr, sizeof v6.sin6_addr);
    out.port = ntohs(v6.sin6_port);
    return out;
  }
  sockaddr_in v4{};
  size = sizeof v4;
  if (::getsockopt(fd, IPPROTO_IP, SO_ORIGINAL_DST, &v4, &size) != 0)
    return fail_errno("asking where a connection was going");
  TlsDestination out;
  std::memcpy(out.address.bytes.data(), &v4.sin_addr, sizeof v4.sin_addr);
  out.port = ntohs(v4.sin_port);
  return out;
}

// What the tasks share; lives on in them when the gate is gone.
class TlsGate::Service : public std::enable_shared_from_this<Service> {
 public:
  Service(const net::asio::any_io_executor& executor, TlsGateHooks hooks,
          const TlsGateLimits& limits)
      : executor_(executor),
        hooks_(std::move(hooks)),
        limits_(limits),
        rate_(limits.connections_per_second),
        tasks_(executor, hooks_.exceptions) {}

  Result<> listen(UniqueFd fd);
  void start();
  void cancel();
  Task<void> close(Deadline deadline);
  void policy_changed();
  std::size_t connections() const { return connections_.size(); }

 private:
  using AcceptorPtr = std::shared_ptr<tcp::acceptor>;

  static Task<void> accept(std::shared_ptr<Service> self, AcceptorPtr acceptor);
  static Task<void> serve(std::shared_ptr<Service> self, ConnectionPtr connection);
  bool identify(Connection& connection);
  Task<bool> read_hello(ConnectionPtr connection, ClientHelloReader& reader);
  Task<bool> pass_on(ConnectionPtr connection, std::size_t size);
  Task<bool> admit(ConnectionPtr connection);
  Task<bool> connect(ConnectionPtr connection);
  Task<bool> settle(ConnectionPtr connection);
  Task<bool> ask_again(ConnectionPtr connection);
  void deny(Connection& connection, const std::string& name, core::EgressLabel label,
            std::string reason);
  void deny(Connection& connection, EgressWord word, std::string reason);

  net::asio::any_io_executor executor_;
  TlsGateHooks hooks_;
  TlsGateLimits limits_;
  core::TokenBucket rate_;
  std::set<ConnectionPtr> connections_;
  bool closed_ = false;
  std::vector<AcceptorPtr> acceptors_;
  net::TaskGroup tasks_;
};

// --------------------------------------------------------------------------------------- sockets

Result<> TlsGate::Service::listen(UniqueFd fd) {
  auto acceptor = std::make_shared<tcp::acceptor>(executor_);
  FB_TRY(take_over<tcp>(*acceptor, std::move(fd)));
  acceptors_.push_back(std::move(acceptor));
  return {};
}

void TlsGate::Service::start() {
  for (const AcceptorPtr& acceptor : acceptors_)
    tasks_.spawn("tls_gate", accept(shared_from_this(), acceptor));
}

void TlsGate::Service::cancel() {
  closed_ = true;
  error_code ignored;
  for (const AcceptorPtr& acceptor : acceptors_) acceptor->close(ignored);
  for (const ConnectionPtr& connection : connections_) connection->end();
  tasks_.cancel();
}

Task<void> TlsGate::Service::close(Deadline deadline) {
  const auto self = shared_from_this();
  cancel();
  (void)co_await tasks_.close(deadline);
}

void TlsGate::Service::policy_changed() {
  for (const ConnectionPtr& connection : std::set(connections_)) {
    if (connection->ended || connection->name.empty()) continue;
    ServerNameVerdict verdict = hooks_.judge(connection->head.destination, connection->name);
    if (!verdict.allowed)
      deny(*connection, connection->name, verdict.label, std::move(verdict.reason));
  }
}

Task<void> TlsGate::Service::accept(std::shared_ptr<Service> self, AcceptorPtr acceptor) {
  while (!self->closed_) {
    co_await take_turn(self->rate_);
    auto [ec, socket] = co_await acceptor->async_accept(net::kNoThrow);
    if (self->closed_) break;
    if (ec) {
      co_await pause_after_failure();
      continue;
    }
    auto connection = std::make_shared<Connection>(std::move(socket));
    self->tasks_.spawn("tls_gate", serve(self, std::move(connection)));
  }
}

// ----------------------------------------------------------------------------------- connections

Task<void> TlsGate::Service::serve(std::shared_ptr<Service> self, ConnectionPtr connection) {
  using namespace net::asio::experimental::awaitable_operators;
  if (self->closed_ || !self->identify(*connection)) co_return;
  if (self->connections_.size() >= self->limits_.connections) {
    self->deny(*connection, EgressWord::connection_cap,
               "too many connections at a time whose server name is checked; close some");
    co_return;
  }
  struct Listed {
    Listed(Service& service, ConnectionPtr one) : owner(service), entry(std::move(one)) {
      owner.connections_.insert(entry);
    }
    ~Listed() { owner.connections_.erase(entry); }
    Listed(const Listed&) = delete;
    Listed& operator=(const Listed&) = delete;
    Service& owner;
    ConnectionPtr entry;
  };
  const Listed listed(*self, connection);
  prepare(connection->guest, kGuestBuffer);
  if (!co_await self->admit(connection)) co_return;
  if (!co_await self->connect(connection)) co_return;
  if (!co_await self->settle(connection)) co_return;
  limit_idle(connection, self->limits_.idle);
  Connection& both = *connection;
  co_await (copy(both, both.guest, both.server) && copy(both, both.server, both.guest));
  if (both.ended) co_return;
  // Both halves have ended in order: no reset, which would take back what is under way.
  both.ended = true;
  both.timer.cancel();
}

bool TlsGate::Service::identify(Connection& connection) {
  error_code ec;
  const tcp::endpoint from = connection.guest.remote_endpoint(ec);
  if (ec) return false;
  const auto to = hooks_.destination(connection.guest.native_handle());
  if (!to) return false;
  connection.head = {.source = address_of(from.address()),
                     .destination = to->address,
                     .protocol = core::kTcp,
                     .source_port = from.port(),
                     .port = to->port};
  return true;
}

// What the reader has been fed is held. false: the guest has ended, or was ended.
Task<bool> TlsGate::Service::read_hello(ConnectionPtr connection, ClientHelloReader& reader) {
  (void)reader.feed(connection->held);
  while (reader.state() == ClientHelloReader::State::more) {
    const std::string more = co_await read(connection->guest);
    if (more.empty()) co_return false;
    connection->held += more;
    (void)reader.feed(more);
  }
  co_return true;
}

Task<bool> TlsGate::Service::pass_on(ConnectionPtr connection, std::size_t size) {
  const std::string bytes = connection->held.substr(0, size);
  connection->held.erase(0, size);
  co_return co_await write(connection->server, bytes) && !connection->ended;
}

// Nothing leaves before the name is known and allowed.
Task<bool> TlsGate::Service::admit(ConnectionPtr connection) {
  limit(connection, limits_.hello_within);
  ClientHelloReader reader;
  const bool complete = co_await read_hello(connection, reader);
  if (closed_) co_return false;
  if (!complete) {
    deny(*connection, EgressWord::not_tls, "no ClientHello came");
    co_return false;
  }
  if (reader.state() == ClientHelloReader::State::refused) {
    deny(*connection, word_of(reader.fault()), std::string(wire::to_string(reader.fault())));
    co_return false;
  }
  const std::string& name = reader.server_name();
  ServerNameVerdict verdict = hooks_.judge(connection->head.destination, name);
  if (!verdict.allowed) {
    deny(*connection, name, verdict.label, std::move(verdict.reason));
    co_return false;
  }
  connection->name = name;
  connection->hello_size = reader.size();
  hooks_.decided({.head = connection->head,
                  .name = name,
                  .allowed = true,
                  .label = verdict.label,
                  .reason = {}});
  co_return true;
}

Task<bool> TlsGate::Service::connect(ConnectionPtr connection) {
  limit(connection, limits_.connect_within);
  const PacketHead& head = connection->head;
  auto fd = co_await hooks_.socket(head.destination.v6);
  if (!fd || connection->ended) co_return false;
  if (!take_over<tcp>(connection->server, *std::move(fd))) co_return false;
  prepare(connection->server, kServerBuffer);
  auto [ec] = co_await connection->server.async_connect(endpoint_of(head.destination, head.port),
                                                        net::kNoThrow);
  co_return !ec && !connection->ended;
}

// A server may want another ClientHello, and believe the name in that one. Until it has answered,
// it is told nothing but the first.
Task<bool> TlsGate::Service::settle(ConnectionPtr connection) {
  limit(connection, limits_.answer_within);
  if (!co_await pass_on(connection, connection->hello_size)) co_return false;
  ServerAnswerReader answer;
  while (answer.state() == ServerAnswerReader::State::more) {
    const std::string more = co_await read(connection->server);
    if (connection->ended) co_return false;
    if (more.empty()) break;  // its end, which copying will find again
    (void)answer.feed(more);
    if (!co_await write(connection->guest, more)) co_return false;
  }
  if (answer.state() == ServerAnswerReader::State::retry && !co_await ask_again(connection))
    co_return false;
  co_return co_await pass_on(connection, connection->held.size());
}

Task<bool> TlsGate::Service::ask_again(ConnectionPtr connection) {
  ClientHelloReader reader(ClientHelloReader::Which::second);
  if (!co_await read_hello(connection, reader) || connection->ended) co_return false;
  if (reader.state() == ClientHelloReader::State::refused) {
    deny(*connection, word_of(reader.fault()),
         "of the second: " + std::string(wire::to_string(reader.fault())));
    co_return false;
  }
  const std::string& name = reader.server_name();
  if (core::normal_name(name).value_or("") == core::normal_name(connection->name)) co_return true;
  deny(*connection, name, core::label(EgressLayer::policy, EgressWord::server_name),
       "TLS asks for " + name + " after it had asked for " + connection->name);
  co_return false;
}

void TlsGate::Service::deny(Connection& connection, EgressWord word, std::string reason) {
  deny(connection, {}, core::label(EgressLayer::policy, word), std::move(reason));
}

void TlsGate::Service::deny(Connection& connection, const std::string& name,
                            core::EgressLabel label, std::string reason) {
  connection.end();
  hooks_.decided({.head = connection.head,
                  .name = name,
                  .allowed = false,
                  .label = label,
                  .reason = std::move(reason)});
}

// ------------------------------------------------------------------------------------------ gate

Result<std::unique_ptr<TlsGate>> TlsGate::start(net::asio::any_io_executor executor,
                                                std::vector<UniqueFd> listeners, TlsGateHooks hooks,
                                                TlsGateLimits limits) {
  auto service = std::make_shared<Service>(executor, std::move(hooks), limits);
  for (UniqueFd& fd : listeners) FB_TRY(service->listen(std::move(fd)));
  service->start();
  return std::unique_ptr<TlsGate>(new TlsGate(std::move(service)));
}

TlsGate::TlsGate(std::shared_ptr<Service> service) : service_(std::move(service)) {}

TlsGate::~TlsGate() {
  service_->cancel();
}

void TlsGate::policy_changed() {
  service_->policy_changed();
}

std::size_t TlsGate::connections() const {
  return service_->connections();
}

Task<void> TlsGate::close(Deadline deadline) {
  const auto service = service_;
  co_await service->close(deadline);
}

}  // namespace firebreak::egress
