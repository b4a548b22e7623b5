#include "net/bound_address.h"

#include <cerrno>
#include <cstring>

#include <boost/asio/ip/tcp.hpp>
#include <sys/socket.h>

#include "base/text.h"

namespace firebreak::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

Result<tcp::endpoint> parse_address(const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos)
    return fail(Code::invalid, "no port in address " + address, Repair{"write ADDRESS:PORT"});
  std::string host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const auto port = parse_u64(std::string_view(address).substr(colon + 1));
  error_code ec;
  const auto ip = asio::ip::make_address(host, ec);
  if (ec || !port || *port > 65535)
    return fail(Code::invalid, "not an address and port: " + address,
                Repair{"write it as 127.0.0.1:7070 or [::1]:7070"});
  return tcp::endpoint(ip, static_cast<std::uint16_t>(*port));
}

std::string to_text(const tcp::endpoint& endpoint) {
  const std::string ip = endpoint.address().to_string();
  return (endpoint.address().is_v6() ? "[" + ip + "]" : ip) + ":" + std::to_string(endpoint.port());
}

std::unexpected<Error> cannot_listen(const std::string& address, int error) {
  const std::string what = "cannot listen on " + address;
  const std::string why = std::strerror(error);
  if (error == EADDRINUSE)
    return fail(Code::conflict, what + ": another program listens there already", why);
  if (error == EADDRNOTAVAIL)
    return fail(Code::invalid, what + ": this host does not have that address", why);
  if (error == EACCES) return fail(Code::denied, what + ": this user may not use that port", why);
  return fail(Code::unavailable, what, why);
}

}  // namespace

Result<BoundAddress> BoundAddress::bind(const std::string& address) {
  FB_TRY_ASSIGN(tcp::endpoint endpoint, parse_address(address));
  const bool v6 = endpoint.address().is_v6();
  UniqueFd socket(::socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return cannot_listen(address, errno);
  const int on = 1;
  const auto set = [&socket, &on](int level, int option) {
    return ::setsockopt(socket.get(), level, option, &on, sizeof on) == 0;
  };
  // Connections of an earlier server that are still closing keep nobody from the port.
  bool done = set(SOL_SOCKET, SO_REUSEADDR) && (!v6 || set(IPPROTO_IPV6, IPV6_V6ONLY));
  // Two sockets that only bind can have one address; the second that listens cannot.
  done = done &&
         ::bind(socket.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) == 0 &&
         ::listen(socket.get(), SOMAXCONN) == 0;
  auto size = static_cast<socklen_t>(endpoint.capacity());
  done = done && ::getsockname(socket.get(), endpoint.data(), &size) == 0;
  if (!done) return cannot_listen(address, errno);
  return BoundAddress(std::move(socket), to_text(endpoint), v6);
}

Result<bool> is_loopback(const std::string& address) {
  FB_TRY_ASSIGN(const tcp::endpoint endpoint, parse_address(address));
  return endpoint.address().is_loopback();
}

}  // namespace firebreak::net
