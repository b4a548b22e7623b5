#include "guest/tunnel.h"

#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace firebreak::guest {
namespace {

constexpr int kReadsPerTurn = 4;
// Only the data thread has tunnels.
std::array<char, 32 * 1024UL> g_scratch;  // NOLINT

Result<UniqueFd> connect_loopback(const ListenerPlace& place) {
  sockaddr_storage address{};
  socklen_t size = 0;
  if (place.v6) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(place.port);
    v6.sin6_addr = in6addr_loopback;
    size = sizeof v6;
  } else {
    auto& v4 = reinterpret_cast<sockaddr_in&>(address);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(place.port);
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    size = sizeof v4;
  }
  UniqueFd fd(::socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno("socket");
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 && errno != EINPROGRESS)
    return fail_errno("connect");
  return fd;
}

class Tunnel final : public StreamHandler, private Watcher {
 public:
  Tunnel(Reactor& reactor, std::shared_ptr<Exchange> exchange)
      : reactor_(reactor), exchange_(std::move(exchange)) {}
  Tunnel(const Tunnel&) = delete;
  Tunnel& operator=(const Tunnel&) = delete;
  ~Tunnel() override { close(); }

  // When its turn has come.
  void start(AcceptLine& line, const ListenerPlace& place) {
    line_ = &line;
    place_ = place;
    line.enter(place, alive_, [this] { connect(); });
  }

  void on_data(std::string_view bytes) override {
    if (closed_) return exchange_->consume(bytes.size());
    to_server_.append(bytes);
    write_some();
  }
  void on_end() override {
    peer_done_ = true;
    write_some();
  }
  void on_writable() override {
    pending_.erase(0, exchange_->write(pending_));
    if (pending_.empty()) read_some();
  }
  void on_closed() override { close(); }

 private:
  void connect() {
    connecting_ = true;
    if (closed_) return settled();
    auto socket = connect_loopback(place_);
    if (socket) {
      socket_ = *std::move(socket);
      if (reactor_.watch(socket_.get(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, *this)) return;
    }
    refuse();
  }

  void settled() {
    if (std::exchange(connecting_, false)) line_->settled(place_);
  }

  void refuse() {
    close();
    exchange_->error(502, "refused", "nothing listens on that port");
  }

  void on_events(std::uint32_t events) override {
    if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) ending_ = true;
    if (!connected_ && !finish_connect(events)) return;
    if ((events & EPOLLOUT) != 0) write_some();
    if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) read_some();
  }

  bool finish_connect(std::uint32_t events) {
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
      refuse();
      return false;
    }
    if ((events & EPOLLOUT) == 0) return false;
    connected_ = true;
    settled();
    exchange_->begin(200, "application/octet-stream");
    return true;
  }

  void write_some() {
    while (connected_ && socket_ && !to_server_.empty()) {
      const ssize_t n = ::send(socket_.get(), to_server_.data(), to_server_.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      // A server that takes no more may still have sent something: that is read to its end.
      const std::size_t taken = n < 0 ? to_server_.size() : static_cast<std::size_t>(n);
      to_server_.erase(0, taken);
      exchange_->consume(taken);
      if (n < 0) return read_some();
    }
    // Once: every shutdown wakes the socket's watchers, and that leads here again.
    if (connected_ && socket_ && peer_done_ && !std::exchange(ended_, true))
      ::shutdown(socket_.get(), SHUT_WR);
  }

  void read_some() {
    for (int turn = 0; connected_ && socket_ && pending_.empty() && !server_done_; ++turn) {
      if (turn == kReadsPerTurn) return later();
      const ssize_t n = ::recv(socket_.get(), g_scratch.data(), g_scratch.size(), 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      if (n < 0) return fail_tunnel();  // a reset connection resets the stream
      if (n == 0) {
        server_done_ = true;
        return exchange_->finish();
      }
      const std::string_view got(g_scratch.data(), static_cast<std::size_t>(n));
      const std::size_t taken = exchange_->write(got);
      pending_.assign(got.substr(taken));
      // All that was there is read, and more is news; only an end that was told already is not.
      if (got.size() < g_scratch.size() && !ending_) return;
    }
  }

  void later() {
    reactor_.defer([this, alive = std::weak_ptr(alive_)] {
      if (!alive.expired()) read_some();
    });
  }

  void fail_tunnel() {
    close();
    exchange_->reset();
  }

  void close() {
    closed_ = true;
    settled();
    if (socket_) reactor_.close(socket_, *this);
  }

  Reactor& reactor_;
  UniqueFd socket_;
  std::shared_ptr<Exchange> exchange_;
  AcceptLine* line_ = nullptr;
  ListenerPlace place_;
  bool connecting_ = false;  // the line waits to hear how it ended
  bool closed_ = false;
  bool connected_ = false;
  bool peer_done_ = false;
  bool ended_ = false;  // the server was told that the peer is done
  bool server_done_ = false;
  bool ending_ = false;  // the server has ended or broken the connection; bytes may be before that
  std::string to_server_;  // bounded by the stream's window: consumed when sent
  std::string pending_;    // read from the server, not yet taken by the stream
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace

std::unique_ptr<StreamHandler> open_tunnel(Reactor& reactor, AcceptLine& line,
                                           const Request& request,
                                           const std::shared_ptr<Exchange>& exchange) {
  const auto place_of = [&]() -> Result<ListenerPlace> {
    FB_TRY_ASSIGN(const std::uint64_t port, request.number("port", 0));
    if (port == 0 || port > 0xffff) return fail(Code::invalid, "port must be 1 to 65535");
    const std::string_view host = request.has("host") ? request.param("host") : "127.0.0.1";
    if (host != "127.0.0.1" && host != "::1")
      return fail(Code::invalid, "host must be 127.0.0.1 or ::1");
    return ListenerPlace{.v6 = host == "::1", .port = static_cast<std::uint16_t>(port)};
  };
  const auto place = place_of();
  if (!place) {
    exchange->error(place.error());
    return nullptr;
  }
  auto tunnel = std::make_unique<Tunnel>(reactor, exchange);
  tunnel->start(line, *place);
  return tunnel;
}

}  // namespace firebreak::guest
