// As little as a server can do, for benchmarks of the way to it: it runs in a guest, statically
// linked, and answers every request with six bytes, or /big with 64 MiB.
//   firebreak-guest-server PORT
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <string_view>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace {

constexpr std::size_t kBig = 64UL << 20;
constexpr std::string_view kSmallAnswer = "HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhello\n";

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return true;
}

bool send_big(int fd) {
  static const std::string piece(256UL << 10, 'b');
  if (!send_all(fd, "HTTP/1.1 200 OK\r\ncontent-length: " + std::to_string(kBig) + "\r\n\r\n"))
    return false;
  for (std::size_t sent = 0; sent < kBig; sent += piece.size())
    if (!send_all(fd, piece)) return false;
  return true;
}

// Answers every complete request of what was received; false: the connection is over.
bool serve(int fd, std::string& received) {
  char buffer[16384];
  const ssize_t size = ::recv(fd, buffer, sizeof buffer, 0);
  if (size <= 0) return false;
  received.append(buffer, static_cast<std::size_t>(size));
  for (auto end = received.find("\r\n\r\n"); end != std::string::npos;
       end = received.find("\r\n\r\n")) {
    const bool big = received.starts_with("GET /big ");
    received.erase(0, end + 4);
    if (!(big ? send_big(fd) : send_all(fd, kSmallAnswer))) return false;
  }
  return true;
}

int listen_on(std::uint16_t port) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(port);
  if (::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd, 512) != 0)
    return -1;
  return fd;
}

void watch(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const int listener = listen_on(static_cast<std::uint16_t>(std::atoi(argv[1])));
  if (listener < 0) return 1;
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  watch(epoll, listener);
  std::map<int, std::string> clients;
  for (;;) {
    epoll_event events[64];
    const int count = ::epoll_wait(epoll, events, 64, -1);
    for (int i = 0; i < count; ++i) {
      const int fd = events[i].data.fd;
      if (fd == listener) {
        const int client = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        if (client < 0) continue;
        const int on = 1;
        ::setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        clients[client];
        watch(epoll, client);
      } else if (!serve(fd, clients[fd])) {
        clients.erase(fd);
        ::close(fd);
      }
    }
  }
}
