#include "guest/metadata_server.h"

#include <array>
#include <cerrno>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "guest/log.h"
#include "guest/metadata_session.h"

namespace firebreak::guest {
namespace {
constexpr std::size_t kMaxClients = 64;
constexpr std::chrono::seconds kIdle{30};
constexpr int kTurns = 16;
}  // namespace

// Reads only when everything was sent: a client that does not read holds a few answers at most.
class MetadataServer::Client final : private Watcher {
 public:
  Client(MetadataServer& server, std::uint64_t serial, UniqueFd socket)
      : server_(server), serial_(serial), socket_(std::move(socket)), session_(server.metadata_) {}
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  ~Client() override {
    reactor().cancel(alarm_);
    reactor().close(socket_, *this);
  }

  Result<> start() {
    restart_alarm();
    return reactor().watch(socket_.get(), EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, *this);
  }

 private:
  Reactor& reactor() { return *server_.reactor_; }

  void on_events(std::uint32_t) override {
    restart_alarm();
    go_on();
  }

  void go_on() {
    std::array<char, 4096> buffer;
    for (int turn = 0; turn < kTurns; ++turn) {
      if (!send_some()) return;
      if (!open_) return end();
      const ssize_t n = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return;
      if (n <= 0) return end();
      open_ = session_.receive({buffer.data(), static_cast<std::size_t>(n)}, Metadata::Clock::now(),
                               out_);
    }
    // Others first.
    reactor().after(std::chrono::milliseconds(1), [&server = server_, serial = serial_] {
      if (const auto at = server.clients_.find(serial); at != server.clients_.end())
        at->second->go_on();
    });
  }

  // False: wait until there is room, or it is gone.
  bool send_some() {
    while (!out_.empty()) {
      const ssize_t n = ::send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0 && errno == EAGAIN) return false;
      if (n < 0) {
        end();
        return false;
      }
      out_.erase(0, static_cast<std::size_t>(n));
    }
    return true;
  }

  void restart_alarm() {
    reactor().cancel(alarm_);
    alarm_ = reactor().after(kIdle, [this] { end(); });
  }

  // After the events at hand: this object may be in the middle of one.
  void end() {
    reactor().defer([&server = server_, serial = serial_] { server.clients_.erase(serial); });
  }

  MetadataServer& server_;
  std::uint64_t serial_;
  UniqueFd socket_;
  MetadataSession session_;
  std::string out_;
  bool open_ = true;
  Reactor::TimerId alarm_;
};

MetadataServer::MetadataServer(Metadata& metadata) : metadata_(metadata) {}

Result<std::unique_ptr<MetadataServer>> MetadataServer::create(Metadata& metadata) {
  std::unique_ptr<MetadataServer> server(new MetadataServer(metadata));
  FB_TRY_ASSIGN(server->reactor_, Reactor::create());
  return server;
}

MetadataServer::~MetadataServer() {
  clients_.clear();
  if (listener_) reactor_->close(listener_, *this);
}

void MetadataServer::stop() {
  reactor_->post([this] { reactor_->stop(); });
}

void MetadataServer::serve(UniqueFd listener) {
  auto shared = std::make_shared<UniqueFd>(std::move(listener));
  reactor_->post([this, shared] {
    listener_ = std::move(*shared);
    if (auto watched = reactor_->watch(listener_.get(), EPOLLIN, *this); !watched)
      log("metadata: " + watched.error().text());
  });
}

void MetadataServer::on_events(std::uint32_t) {
  for (;;) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (socket) {
      add(std::move(socket));
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return;
    }
  }
}

// Whoever holds connections open makes room for those who come.
void MetadataServer::add(UniqueFd socket) {
  if (clients_.size() >= kMaxClients) clients_.erase(clients_.begin());
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  const std::uint64_t serial = ++serial_;
  auto client = std::make_unique<Client>(*this, serial, std::move(socket));
  if (client->start()) clients_[serial] = std::move(client);
}

}  // namespace firebreak::guest
