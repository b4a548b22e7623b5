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

class Tunnel final : public StreamHandler, private Watcher {
 public:
  Tunnel(Reactor& reactor, UniqueFd socket, std::shared_ptr<Exchange> exchange)
      : reactor_(reactor), socket_(std::move(socket)), exchange_(std::move(exchange)) {}
  Tunnel(const Tunnel&) = delete;
  Tunnel& operator=(const Tunnel&) = delete;
  ~Tunnel() override { close(); }

  Result<> start() {
    return reactor_.watch(socket_.get(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, *this);
  }

  void on_data(std::string_view bytes) override {
    if (!socket_) return exchange_->consume(bytes.size());
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
      close();
      exchange_->error(502, "refused", "nothing listens on that port");
      return false;
    }
    if ((events & EPOLLOUT) == 0) return false;
    connected_ = true;
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
    if (socket_) reactor_.close(socket_, *this);
  }

  Reactor& reactor_;
  UniqueFd socket_;
  std::shared_ptr<Exchange> exchange_;
  bool connected_ = false;
  bool peer_done_ = false;
  bool ended_ = false;  // the server was told that the peer is done
  bool server_done_ = false;
  bool ending_ = false;  // the server has ended or broken the connection; bytes may be before that
  std::string to_server_;  // bounded by the stream's window: consumed when sent
  std::string pending_;    // read from the server, not yet taken by the stream
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

Result<UniqueFd> connect_loopback(std::string_view host, std::uint16_t port) {
  sockaddr_storage address{};
  socklen_t size = 0;
  if (host == "127.0.0.1") {
    auto& v4 = reinterpret_cast<sockaddr_in&>(address);
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    size = sizeof v4;
  } else if (host == "::1") {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    v6.sin6_addr = in6addr_loopback;
    size = sizeof v6;
  } else {
    return fail(Code::invalid, "host must be 127.0.0.1 or ::1");
  }
  UniqueFd fd(::socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno("socket");
  const int on = 1;
  ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 && errno != EINPROGRESS)
    return fail_errno("connect");
  return fd;
}

}  // namespace

std::unique_ptr<StreamHandler> open_tunnel(Reactor& reactor, const Request& request,
                                           const std::shared_ptr<Exchange>& exchange) {
  const auto open = [&]() -> Result<std::unique_ptr<StreamHandler>> {
    FB_TRY_ASSIGN(const std::uint64_t port, request.number("port", 0));
    if (port == 0 || port > 0xffff) return fail(Code::invalid, "port must be 1 to 65535");
    const std::string_view host = request.has("host") ? request.param("host") : "127.0.0.1";
    FB_TRY_ASSIGN(UniqueFd socket, connect_loopback(host, static_cast<std::uint16_t>(port)));
    auto tunnel = std::make_unique<Tunnel>(reactor, std::move(socket), exchange);
    FB_TRY(tunnel->start());
    return tunnel;
  };
  auto tunnel = open();
  if (tunnel) return *std::move(tunnel);
  if (tunnel.error().code == Code::unavailable || tunnel.error().code == Code::internal)
    exchange->error(502, "refused", tunnel.error().message);
  else
    exchange->error(tunnel.error());
  return nullptr;
}

}  // namespace firebreak::guest
