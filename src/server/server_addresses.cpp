#include "server/server_addresses.h"

#include <unistd.h>

#include "net/tls_stream.h"

namespace firebreak::server {
namespace {

Result<> check_certificate(const std::string& certificate, const std::string& key,
                           const std::string& option) {
  if (certificate.empty() && key.empty()) return {};
  if (certificate.empty() || key.empty())
    return fail(Code::invalid,
                "--" + option + "-certificate and --" + option + "-key belong together",
                Repair{"give both or neither"});
  if (auto loaded = net::TlsServer::load({certificate, key}, {}); !loaded)
    return fail(loaded.error(), "--" + option + "-certificate");
  return {};
}

Result<net::BoundAddress> take(const std::string& address, const std::string& option) {
  auto bound = net::BoundAddress::bind(address);
  if (bound) return bound;
  return fail(bound.error().code, bound.error().message,
              Repair{"choose another address with --" + option +
                     " ADDRESS:PORT (port 0 picks a free one)"});
}

}  // namespace

Result<> check_can_serve(const ServerConfig& config) {
  if (::geteuid() != 0)
    return fail(Code::denied,
                "the server must run as root: it makes jails, cgroups and networks for microVMs",
                Repair{"start it as root, as with 'sudo firebreak serve'"});
  FB_TRY(check_certificate(config.tls_certificate, config.tls_key, "tls"));
  FB_TRY(check_certificate(config.endpoint_certificate, config.endpoint_key, "endpoint"));
  auto loopback = net::is_loopback(config.listen);
  if (!loopback) return fail(loopback.error(), "--listen");
  const bool secure = config.tls || !config.tls_certificate.empty();
  if (*loopback || secure || config.insecure_listen) return {};
  return fail(Code::invalid,
              "--listen " + config.listen +
                  " can be reached from other hosts, and without TLS everybody on the way can read "
                  "keys",
              Repair{"give --tls-certificate and --tls-key, or --tls for a certificate of a "
                     "local CA, or --insecure-listen if the network is trusted"});
}

Result<ServerAddresses> take_addresses(const ServerConfig& config) {
  FB_TRY_ASSIGN(net::BoundAddress api, take(config.listen, "listen"));
  FB_TRY_ASSIGN(net::BoundAddress endpoints, take(config.endpoint_listen, "endpoint-listen"));
  return ServerAddresses{std::move(api), std::move(endpoints)};
}

}  // namespace firebreak::server
